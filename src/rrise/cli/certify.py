"""`rrise certify`."""

import json
import os
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rrise.cli.interrupts import to_be_continued
from rrise.cli.options import check_backend, check_needed
from rrise.errors import SettingError

if TYPE_CHECKING:
    import torch

    from rrise.certifiers.certificates import Certificates
    from rrise.certifiers.certifier import Certifier


def certify(
    certifier: Annotated[
        Path, typer.Argument(help="A certifier folder, or an exported one.", show_default=False)
    ],
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="PNG, JPEG or .npy files, or folders of them; with --out also .npz, Parquet and URLs.",
            show_default=False,
        ),
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
    out: Annotated[
        str | None,
        typer.Option(help="Certify any number of inputs into this folder or URL.", show_default=False),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="The Parquet column or .npz array.", show_default="the only one that fits"),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Inputs to a forward pass.", show_default="256")
    ] = None,
    shard: Annotated[int | None, typer.Option(help="Inputs to a part.", show_default="16,384")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Give bad inputs a row with the reason.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="Such as cuda.", show_default="cpu")] = None,
    backend: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="A Ray cluster.", show_default="a local one")] = None,
    workers: Annotated[int | None, typer.Option(help="Ray workers.", show_default="all that fit")] = None,
    gpus_per_worker: Annotated[float, typer.Option(help="GPUs of a Ray worker.")] = 0,
) -> None:
    """Certify images or arrays: one forward pass each, or more with --votes or --radius.

    With --out, millions of inputs go to Parquet files; the same command resumes.
    """
    from rrise.deployment.loading import load_deployed, with_base
    from rrise.models.folder import load_base

    check_needed("--base", base is not None, {"--votes": votes, "--radius": radius, "--weights": weights})
    if base is not None and votes is None and radius is None:
        raise SettingError("--base has no effect without --votes or --radius: pass one of them")
    bulk = {"column": column, "batch-size": batch_size, "shard": shard, "skip-bad": skip_bad or None}
    elsewhere = {"backend": None if backend == "local" else backend, "device": device}
    named = {f"--{name}": value for name, value in {**bulk, **elsewhere}.items()}
    check_needed("--out", out is not None, named)
    check_backend(backend, address=address, workers=workers, gpus_per_worker=gpus_per_worker)

    def load() -> "Certifier":
        loaded: Certifier = load_deployed(certifier, attack_radius=attack_radius)
        if base is None:
            return loaded
        return with_base(loaded, load_base(base, weights), votes=votes, radius=radius)

    if out is None:
        _show(load(), inputs, as_json=as_json)
        return
    from rrise.votes.cluster import Cluster

    cluster = Cluster(address, workers, gpus_per_worker) if backend == "ray" else None
    if cluster is not None and (base is not None or attack_radius is not None):
        raise SettingError(
            "Ray workers certify with the folder as it is: leave out --backend ray, or "
            f"{'--base' if base is not None else '--attack-radius'}"
        )
    settings = {name.replace("-", "_"): value for name, value in bulk.items() if value is not None}
    with to_be_continued():
        subject = certifier if cluster is not None else load()
        _certify_dataset(subject, inputs, out, as_json=as_json, device=device, cluster=cluster, **settings)


def _show(certifier: "Certifier", places: list[str], *, as_json: bool) -> None:
    """Certify a few files, and print their certificates."""
    if far := next((place for place in places if "://" in place), None):
        raise SettingError(f"certificates of a URL such as {far} go to a folder: pass --out")
    records = _certify_files(certifier, [Path(place) for place in places])
    if as_json:
        guarantee = certifier.guarantee.to_json()
        typer.echo(
            json.dumps({"guarantee": guarantee, "certificates": records}, indent=2, ensure_ascii=False)
        )
    else:
        _print_table(records, certifier)


def _certify_dataset(
    certifier: "Certifier | Path", places: list[str], out: str, *, as_json: bool, **settings: Any
) -> None:
    """Certify into a folder with a bar, and print the outcome in numbers."""
    from rrise.deployment.bulk.run import certify_dataset
    from rrise.progress import OnProgress, progress_bar

    with ExitStack() as stack:
        shown: list[OnProgress] = []

        def start(inputs: int) -> None:
            bar = progress_bar(Console(stderr=True), "certificates", inputs, "inputs")
            shown.append(stack.enter_context(bar))

        def advance(inputs: int) -> None:
            shown[0](inputs)

        done = certify_dataset(certifier, places, out, on_start=start, on_progress=advance, **settings)
    if as_json:
        facts = {field.name: getattr(done, field.name) for field in fields(done)}
        typer.echo(json.dumps({**facts, "guarantee": done.guarantee.to_json()}, indent=2, ensure_ascii=False))
        return
    kept = f" ({done.kept:,} of them from before)" if done.kept else ""
    bad = f", {done.errors:,} bad inputs" if done.errors else ""
    console = Console()
    console.print(
        f"{done.inputs:,} inputs: {done.issued:,} issued, {done.abstained:,} abstained{bad}; "
        f"{done.parts:,} parts{kept} in {done.out}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    console.print(str(done.guarantee), style="dim", highlight=False, markup=False)


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
