"""`rrise vote`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rrise.cli.interrupts import to_be_continued
from rrise.cli.options import check_backend, options_of
from rrise.errors import SettingError
from rrise.runs.vote_recipe import VoteRecipe


@options_of(VoteRecipe, "given", without=("options",))
def vote(
    recipe: Annotated[
        Path | None, typer.Argument(help="A TOML file with a table named votes.", show_default=False)
    ] = None,
    *,
    given: dict[str, Any],
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE to build the base with.", show_default=False)
    ] = None,
    backend: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="A Ray cluster.", show_default="a local one")] = None,
    workers: Annotated[int | None, typer.Option(help="Ray workers.", show_default="all that fit")] = None,
    gpus_per_worker: Annotated[float, typer.Option(help="GPUs of a Ray worker.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the estimated cost and exit.")] = False,
    log: Annotated[str, typer.Option(help="bar, or json: one line per stored shard.")] = "bar",
) -> None:
    """Collect noise votes of the base classifier in a store. The same command resumes."""
    console = Console(stderr=log == "json")
    check_backend(backend, address=address, workers=workers, gpus_per_worker=gpus_per_worker)
    if log not in ("bar", "json"):
        raise SettingError(f"expected a log out of bar, json; got {log!r}")
    with to_be_continued():
        from rrise.runs.vote import collect, estimate_cost
        from rrise.votes.cluster import Cluster

        built_with = {"options": _options(option)} if option else {}
        wanted = VoteRecipe.read(recipe, **given, **built_with)
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


def _options(pairs: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE; a value becomes a number or a boolean if it looks like one."""
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
        ("still to do", f"{left:,}"),
        ("measured here", f"{estimate.passes_per_second:,.0f} passes/s"),
        ("expected time", str(timedelta(seconds=round(seconds)))),
        ("expected size", f"{estimate.bytes_on_disk / 1e6:,.1f} MB"),
        ("batch", f"{execution.batch_size:,}, {'compiled' if execution.compiled else 'eager'}"),
    ):
        table.add_row(name, value)
    console.print(table)
