"""`rrise compare`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Evaluated run folders.", show_default=False)],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the tables and figures.")] = Path("comparison"),
    paper: Annotated[bool, typer.Option("--paper", help="Put the paper's numbers beside ours.")] = False,
) -> None:
    """Compare runs in tables and figures: mean and standard deviation over seeds, a row per dataset."""
    from rrise.evaluation.report.across_runs import compare_runs

    console = Console()
    for line in compare_runs(runs, out, paper=paper):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
