"""`rrise certify`."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rrise.cli.options import check_needed
from rrise.errors import SettingError

if TYPE_CHECKING:
    import torch

    from rrise.certifiers.certificates import Certificates
    from rrise.certifiers.certifier import Certifier


def certify(
    certifier: Annotated[
        Path, typer.Argument(help="A certifier folder, or an exported one.", show_default=False)
    ],
    files: Annotated[
        list[Path], typer.Argument(help="PNG, JPEG or .npy files, or folders of them.", show_default=False)
    ],
    *,
    votes: Annotated[
        int | None, typer.Option(help="Votes of the base to add to each input.", show_default=False)
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(help="A wanted radius: below it, Monte Carlo certifies.", show_default=False),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="The base classifier, for votes: a folder.", show_default=False)
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Its weights, if BASE is an architecture.", show_default=False)
    ] = None,
    attack_radius: Annotated[
        float | None,
        typer.Option(help="How far somebody may have moved an input.", show_default="as calibrated"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Certify images or arrays: one forward pass each, or more with --votes or --radius."""
    from rrise.deployment.loading import load_deployed, with_base
    from rrise.models.folder import load_base

    check_needed("--base", base is not None, {"--votes": votes, "--radius": radius, "--weights": weights})
    if base is not None and votes is None and radius is None:
        raise SettingError("--base has no effect without --votes or --radius: pass one of them")
    loaded: Certifier = load_deployed(certifier, attack_radius=attack_radius)
    if base is not None:
        loaded = with_base(loaded, load_base(base, weights), votes=votes, radius=radius)
    records = _certify_files(loaded, files)
    if as_json:
        guarantee = loaded.guarantee.to_json()
        typer.echo(
            json.dumps({"guarantee": guarantee, "certificates": records}, indent=2, ensure_ascii=False)
        )
    else:
        _print_table(records, loaded)


def _certify_files(certifier: "Certifier", paths: list[Path]) -> list[dict[str, Any]]:
    import torch

    from rrise.data.files import find_files, read_inputs

    sources: list[dict[str, Any]] = []
    batches = []
    for path in find_files(paths):
        batch = read_inputs(path, certifier.input_shape, certifier.smoothing.input_range)
        sources += [{"file": str(path), "index": index} for index in range(len(batch))]
        batches.append(batch)
    records = _certificates(certifier, torch.cat(batches)).records(certifier.class_names)
    return [{**source, **record} for source, record in zip(sources, records, strict=True)]


def _certificates(certifier: "Certifier", inputs: "torch.Tensor") -> "Certificates":
    """Certify inputs; show a bar while the base classifier votes."""
    from rrise.certifiers.cascade import Cascade
    from rrise.certifiers.with_votes import SurrogateWithVotes
    from rrise.progress import progress_bar

    if not isinstance(certifier, (Cascade, SurrogateWithVotes)):
        return certifier.certify(inputs)
    most = len(inputs) * certifier.most_passes
    with progress_bar(Console(stderr=True), "votes (at most)", most, "passes") as advance:
        return certifier.certify(inputs, on_progress=advance)


def _print_table(records: list[dict[str, Any]], certifier: "Certifier") -> None:
    from rrise.statistics import format_down

    console = Console()
    folder = os.path.commonpath([Path(record["file"]).absolute().parent for record in records])
    table = Table(title=Text(f"inputs in {folder}"), title_justify="left")
    several_methods = any("method" in record for record in records)
    for name in ("file", "class", "radius", "lower bound", "verdict", *(["by"] if several_methods else [])):
        right = name in ("radius", "lower bound")
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    several = {record["file"] for record in records if record["index"] > 0}
    for record in records:
        file = os.path.relpath(Path(record["file"]).absolute(), folder)
        file = f"{file}[{record['index']}]" if record["file"] in several else file
        table.add_row(
            Text(file),
            Text(record["class_name"]),
            format_down(record["radius"]),
            format_down(record["lower_bound"]),
            "certified" if record["issued"] else "abstained",
            *([record["method"]] if several_methods else []),
        )
    console.print(table)
    console.print(str(certifier.guarantee), style="dim", highlight=False, markup=False)
