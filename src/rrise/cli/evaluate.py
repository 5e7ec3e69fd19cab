"""`rrise evaluate` and `rrise report`."""

import shutil
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from rrise.cli.run import DataRoot, Device, run_steps
from rrise.errors import FolderError, SettingError
from rrise.runs.steps import recipe_of

RunFolder = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]


def evaluate(
    run: RunFolder,
    *,
    surrogates: Annotated[
        list[str] | None,
        typer.Option(
            "--surrogate",
            help="Train and compare another surrogate: head, all, all-random, distill, jensen-shannon or "
            "jensen-shannon-base; head@500 uses 500 votes per input. Repeatable.",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="held-out, or paper: also report on the calibration inputs, and count as the paper does."
        ),
    ] = None,
    paper: Annotated[
        bool | None, typer.Option("--paper/--no-paper", help="Put the paper's numbers beside ours.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting, such as evaluation.failures=[0.05] or audit.inputs=100; repeatable.",
        ),
    ] = None,
    data_root: DataRoot = None,
    device: Device = None,
) -> None:
    """Evaluate every method on a run's test inputs from stored votes; write tables, figures and report."""
    wanted = list(changes or [])
    for change in wanted:
        if not change.startswith(("evaluation.", "audit.")):
            raise SettingError(
                f"expected a setting of the tables evaluation or audit, got {change!r}: start another run "
                f"with rrise run RECIPE --set {change}"
            )
    recipe = recipe_of(run)
    if surrogates is not None:
        known = tomllib.loads(recipe.read_text(encoding="utf-8")).get("evaluation", {}).get("surrogates", [])
        names = ", ".join(f'"{name}"' for name in dict.fromkeys([*known, *surrogates]))
        wanted.append(f"evaluation.surrogates=[{names}]")
    if protocol is not None:
        wanted.append(f"evaluation.protocol={protocol}")
    if paper is not None:
        wanted.append(f"evaluation.paper={str(paper).lower()}")
    run_steps(str(recipe), None, wanted, run, data_root=data_root, device=device)


def report(
    run: RunFolder,
    *,
    out: Annotated[Path | None, typer.Option(help="Copy the page to this file.", show_default=False)] = None,
    data_root: DataRoot = None,
) -> None:
    """Update the report of a run, and print its path."""
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise FolderError(f"cannot write the page to {out}: expected a file name in an existing folder")
    run_steps(str(recipe_of(run)), None, None, run, data_root=data_root)
    if out is not None:
        shutil.copyfile(run / "evaluation" / "report.html", out)
