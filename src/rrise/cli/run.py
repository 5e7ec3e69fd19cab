"""`rrise run`."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rrise.cli.interrupts import to_be_continued

if TYPE_CHECKING:
    from rrise.evaluation.measure.results import Evaluation

RecipeName = Annotated[
    str, typer.Argument(help="A TOML file, or a name from `rrise recipes`.", show_default=False)
]
Profile = Annotated[str | None, typer.Option(help="A profile of the recipe, such as quick.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as base.epochs=3; repeatable."),
]
Out = Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/RECIPE")]
DataRoot = Annotated[Path | None, typer.Option(help="Where datasets are.", show_default="$RRISE_DATA")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda.", show_default="cuda if there")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")]
_COLUMNS = {
    "method": "method",
    "accuracy": "accuracy",
    "issued": "issued",
    "certified accuracy": "certified",
    "average certified radius": "radius",
    "passes per input": "passes",
}
"""Columns of the report's comparison that fit a terminal, with their headings there."""
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Write logs to RUN/tensorboard.")]


def run(
    recipe: RecipeName,
    *,
    profile: Profile = None,
    changes: Changes = None,
    out: Out = None,
    data_root: DataRoot = None,
    device: Device = None,
    until: Annotated[
        str | None, typer.Option(help="Stop after base, votes or surrogate.", show_default="the report")
    ] = None,
    fresh: Fresh = False,
    tensorboard: TensorBoard = False,
) -> None:
    """Run all steps of a recipe that are not up to date: base, votes, surrogate, certifier, report.

    After an interrupt, the same command resumes. After the end, it only shows the results.
    """
    run_steps(
        recipe,
        profile,
        changes,
        out,
        data_root=data_root,
        device=device,
        until=until,
        fresh=fresh,
        tensorboard=tensorboard,
    )


def run_steps(
    source: str, profile: str | None, changes: list[str] | None, out: Path | None, **how: Any
) -> None:
    """Read a recipe, run its steps with `run_recipe`, and show the results."""
    from rrise.runs.recipe import RecipeFile, parse_changes

    file = RecipeFile.find(source)
    recipe = file.recipe(profile, parse_changes(changes or []))
    folder = out or Path("runs") / file.name
    console = Console()
    with to_be_continued():
        console.print("loading torch ...", style="dim")
        from rrise.runs.pipeline import run_recipe

        evaluation = run_recipe(folder, recipe, console, **how)
        if evaluation is not None:
            _print_results(console, evaluation, folder)


def _print_results(console: Console, evaluation: "Evaluation", out: Path) -> None:
    from rrise.evaluation.report.comparison import (
        break_even_sentence,
        comparison_headings,
        comparison_rows,
    )

    found = evaluation.results
    table = Table(
        title=f"{found['test_inputs']:,} test inputs, total failure {found['main_failure']}, protocol "
        f"{found['protocol']}"
    )
    headings = comparison_headings()
    kept = [headings.index(name) for name in _COLUMNS]
    for heading in _COLUMNS.values():
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for row in comparison_rows(found):
        table.add_row(*(row[place] for place in kept))
    console.print(table)
    if even := break_even_sentence(found):
        console.print(even)
    for sentence in found["left_out"]:
        console.print(f"left out: {sentence}", style="dim", markup=False, soft_wrap=True)
    console.print(found["promise"], style="dim", markup=False)
    samples, report = out / "evaluation" / "samples", out / "evaluation" / "report.html"
    lines = [f"report:  {report.resolve()}"]
    if samples.is_dir():
        lines.insert(0, f"try it:  {_this_command()} certify {out / 'certifier'} {samples}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _this_command() -> str:
    """Return the command that called this program."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m rrise"
    found = shutil.which("rrise")
    return "rrise" if found and Path(found).resolve() == called.resolve() else str(called)
