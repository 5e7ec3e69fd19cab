"""`rrise publish` and `rrise rebuild`."""

from pathlib import Path
from typing import Annotated

import typer


def publish(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Evaluated run folders of one dataset, a seed each.", show_default=False),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Where the results go.", show_default=False)],
) -> None:
    """Keep what was found, small: evidence per input, with metrics, tables and figures made from it."""
    from rrise.runs.publishing import publish as do

    for line in do(runs, out):
        typer.echo(line)


def rebuild(
    results: Annotated[
        Path, typer.Argument(help="A folder that rrise publish made, or one of several.", show_default=False)
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="Another folder to write to.", show_default=False)] = None,
) -> None:
    """Make metrics, tables and figures of published results again, from the evidence alone."""
    from rrise.runs.published_results import rebuild as do

    do(results, out, on_made=typer.echo)
