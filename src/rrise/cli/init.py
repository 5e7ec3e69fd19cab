"""`rrise init`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rrise.errors import FolderError


def init(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA] [MODEL]",
            help="DATA: a folder of images in train/CLASS and test/CLASS, or a .npz file. MODEL: "
            "package.module:Model.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[Path | None, typer.Option(help="The recipe to write.", show_default="NAME.toml")] = None,
) -> None:
    """Write a starter recipe for your own data and model, which `rrise run` takes."""
    from rrise.files import write_text
    from rrise.runs.starter import Starter

    starter = Starter.read(sources or [])
    file = out or Path(f"{starter.name}.toml")
    if file.exists():
        raise FolderError(f"{file} exists: choose another name with --out")
    text = starter.to_toml()
    write_text(file, text)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        console.print(line.removeprefix("# "), style="dim")
    console.print(f"{file}: read it, then: rrise run {file} --profile quick")
