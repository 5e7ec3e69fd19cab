"""`rrise demo`."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rrise.evaluation.results import Evaluation


def demo(
    *,
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Smaller: seconds instead of minutes.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of going on.")] = False,
    strategy: Annotated[str, typer.Option(help="Weights the surrogate trains: head or all.")] = "head",
    score: Annotated[str, typer.Option(help="Calibration score: probit or additive.")] = "probit",
    failure: Annotated[float, typer.Option(help="Bound on the probability of a wrong certificate.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of splits, training and votes.")] = 100,
) -> None:
    """Run the whole pipeline on handwritten digits and write a report: two minutes on two cores.

    Interrupted, it goes on where it was; finished, it only shows the results again.
    """
    from rrise.runs.settings import DemoSettings

    changes = {"strategy": strategy, "score": score, "failure": failure, "seed": seed}
    settings = DemoSettings.quick(**changes) if quick else DemoSettings(**changes)  # type: ignore[arg-type]
    console = Console()
    try:
        console.print("loading torch ...", style="dim")
        from rrise.runs.demo import run_demo

        _print_results(console, run_demo(out, settings, console, fresh=fresh), out)
    except KeyboardInterrupt:
        typer.echo("interrupted: the same command goes on from here", err=True)
        raise typer.Exit(130) from None


def _print_results(console: Console, evaluation: "Evaluation", out: Path) -> None:
    from rrise.evaluation.report import comparison_rows, cost_rows

    table = Table(
        title=f"{len(evaluation.labels)} test images, total failure {evaluation.surrogate.guarantee.failure}"
    )
    table.add_column("")
    table.add_column("RRISE", justify="right", style="bold")
    table.add_column("Monte Carlo", justify="right")
    for row in comparison_rows(evaluation):
        table.add_row(row["name"], row["surrogate"], row["monte_carlo"])
    console.print(table)
    break_even = cost_rows(evaluation.costs)[-1]
    console.print(f"{break_even['name']}: {break_even['passes']}")
    console.print(evaluation.surrogate.guarantee.promise, style="dim", markup=False)
    samples, report = out / "evaluation" / "samples", out / "evaluation" / "report.html"
    command = f"{_this_command()} certify {out / 'certifier'} {samples}"
    for line in (f"try it:  {command}", f"report:  {report.resolve()}"):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _this_command() -> str:
    """Return how this program was called, so that it can be called again."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m rrise"
    found = shutil.which("rrise")
    return "rrise" if found and Path(found).resolve() == called.resolve() else str(called)
