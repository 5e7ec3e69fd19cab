"""`rrise publish` and `rrise rebuild`."""

from pathlib import Path
from typing import Annotated

import typer


def publish(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Evaluated run folders of one dataset, one per seed.", show_default=False),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the results.", show_default=False)],
) -> None:
    """Publish compact results: evidence per input, and metrics, tables and figures made from it."""
    from rrise.runs.publishing import publish as do

    for line in do(runs, out):
        typer.echo(line)


def rebuild(
    results: Annotated[
        Path,
        typer.Argument(
            help="A folder made by rrise publish, or a folder of such folders.", show_default=False
        ),
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="Write to another folder.", show_default=False)] = None,
) -> None:
    """Regenerate metrics, tables and figures of published results from the evidence alone."""
    from rrise.runs.published_results import rebuild as do

    do(results, out, on_made=typer.echo)
