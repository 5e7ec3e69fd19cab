"""`rrise demo`."""

from pathlib import Path
from typing import Annotated

import typer

from rrise.cli.run import run_steps
from rrise.defaults import FAILURE, SCORE


def demo(
    *,
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Smaller: seconds instead of minutes.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="How the surrogate is trained: head, all, all-random or distill.",
            show_default="distill; head with --quick",
        ),
    ] = None,
    score: Annotated[str, typer.Option(help="Calibration score: tapered, probit or additive.")] = SCORE,
    failure: Annotated[
        float, typer.Option(help="Bound on the probability of a wrong certificate.")
    ] = FAILURE,
    seed: Annotated[int, typer.Option(help="Seed of splits, training and votes.")] = 100,
) -> None:
    """Run the recipe of handwritten digits and write a report: two minutes on two cores.

    After an interrupt, the same command resumes. After the end, it only shows the results.
    """
    changes = [
        *([] if strategy is None else [f"surrogate.strategy={strategy}"]),
        f"calibration.score={score}",
        f"calibration.failure={failure}",
        *(f"{table}.seed={seed}" for table in ("data", "base", "votes", "surrogate")),
    ]
    run_steps("digits", "quick" if quick else None, changes, out, fresh=fresh)
