"""`rrise vote`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rrise.cli.interrupts import to_be_continued
from rrise.cli.run import DataRoot
from rrise.errors import SettingError


def vote(
    recipe: Annotated[
        Path | None, typer.Argument(help="A TOML file with a table named votes.", show_default=False)
    ] = None,
    *,
    base: Annotated[
        str | None,
        typer.Option(
            help="A model folder, an architecture, timm:NAME, or package.module:name", show_default=False
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Its weights: a safetensors file, or random.", show_default=False)
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE to build the base with.", show_default=False)
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="A dataset, FILE.npy, npz:FILE (x_SPLIT) or a folder of images.", show_default=False
        ),
    ] = None,
    data_root: DataRoot = None,
    sigma: Annotated[float | None, typer.Option(help="Noise level.", show_default=False)] = None,
    n: Annotated[int | None, typer.Option("--n", help="Votes per input.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the noise.", show_default="0")] = None,
    split: Annotated[str | None, typer.Option(help="Name of the inputs.", show_default="inputs")] = None,
    out: Annotated[
        str | None, typer.Option(help="Where to: a folder or an fsspec URL.", show_default="votes")
    ] = None,
    input_range: Annotated[
        str | None,
        typer.Option(help="LOW,HIGH that noisy inputs are clipped to, or none.", show_default="0,1"),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="float32, tf32, bfloat16 or float16: part of the base's identity.", show_default=False
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.", show_default="cuda if there")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Noisy inputs to a pass.", show_default="found")
    ] = None,
    compiled: Annotated[
        bool | None,
        typer.Option("--compile/--no-compile", help="Use torch.compile.", show_default="if it pays"),
    ] = None,
    freezing: Annotated[
        bool | None,
        typer.Option("--freeze/--no-freeze", help="Compile the weights in.", show_default="on a CPU"),
    ] = None,
    backend: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="A Ray cluster.", show_default="a local one")] = None,
    workers: Annotated[int | None, typer.Option(help="Ray workers.", show_default="all that fit")] = None,
    gpus_per_worker: Annotated[float, typer.Option(help="GPUs of a Ray worker.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would cost, and stop.")] = False,
    log: Annotated[str, typer.Option(help="bar, or json for a line per stored shard.")] = "bar",
) -> None:
    """Collect noise votes of the base classifier into a store; called again, it goes on where it was."""
    console = Console(stderr=log == "json")
    _check(backend, log, address=address, workers=workers, gpus_per_worker=gpus_per_worker)
    with to_be_continued():
        from rrise.runs.vote import VoteRecipe, collect, estimate_cost
        from rrise.votes.ray_backend import Cluster

        wanted = VoteRecipe.read(
            recipe,
            base=base,
            weights=weights,
            options=_options(option or []),
            data=data,
            data_root=data_root,
            sigma=sigma,
            n=n,
            seed=seed,
            split=split,
            out=out,
            input_range=input_range,
            precision=precision,
            device=device,
            batch_size=batch_size,
            compiled=compiled,
            freezing=freezing,
        )
        if dry_run:
            _print_estimate(console, *estimate_cost(wanted))
            return
        cluster = Cluster(address, workers, gpus_per_worker) if backend == "ray" else None
        votes = collect(wanted, console, cluster=cluster, log=typer.echo if log == "json" else None)
        if log != "json":
            console.print(
                f"{len(votes):,} inputs, {wanted.n:,} votes each: rrise.read_votes({wanted.out!r})",
                highlight=False,
                markup=False,
            )


def _check(backend: str, log: str, **of_ray: Any) -> None:
    if backend not in ("local", "ray"):
        raise SettingError(f"expected a back end out of local, ray; got {backend!r}")
    if log not in ("bar", "json"):
        raise SettingError(f"expected a log out of bar, json; got {log!r}")
    given = [name.replace("_", "-") for name, value in of_ray.items() if value]
    if backend == "local" and given:
        raise SettingError(f"--{given[0]} is for --backend ray")


def _options(pairs: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE; values are numbers, true or false where they look like it."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise SettingError(f"expected --option NAME=VALUE, got {pair!r}")
        options[name] = _value(value)
    return options


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _print_estimate(console: Console, estimate: Any, store: Any) -> None:
    from datetime import timedelta

    table = Table(show_header=False)
    left = store.passes_missing()
    seconds = left / estimate.passes_per_second
    execution = estimate.execution
    for name, value in (
        ("inputs", f"{len(store.inputs):,} in {store.inputs.shards:,} shards"),
        ("forward passes", f"{estimate.passes:,}"),
        ("of these still to do", f"{left:,}"),
        ("measured here", f"{estimate.passes_per_second:,.0f} passes/s"),
        ("expected time", str(timedelta(seconds=round(seconds)))),
        ("expected size", f"{estimate.bytes_on_disk / 1e6:,.1f} MB"),
        ("batch", f"{execution.batch_size:,}, {'compiled' if execution.compiled else 'eager'}"),
    ):
        table.add_row(name, value)
    console.print(table)
