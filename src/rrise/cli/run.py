"""`rrise run`."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rrise.evaluation.results import Evaluation

RecipeName = Annotated[
    str, typer.Argument(help="A TOML file, or a name of `rrise recipes`.", show_default=False)
]
Profile = Annotated[str | None, typer.Option(help="A profile of the recipe, such as quick.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as base.epochs=3; repeatable."),
]
Out = Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/RECIPE")]
DataRoot = Annotated[Path | None, typer.Option(help="Where datasets are.", show_default="$RRISE_DATA")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda.", show_default="cuda if there")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of going on.")]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Write logs to RUN/tensorboard.")]


def run(
    recipe: RecipeName,
    *,
    profile: Profile = None,
    changes: Changes = None,
    out: Out = None,
    data_root: DataRoot = None,
    device: Device = None,
    fresh: Fresh = False,
    tensorboard: TensorBoard = False,
) -> None:
    """Do all steps of a recipe that are not up to date: base classifier, votes, surrogate, certifier, report.

    Interrupted, it goes on where it was; finished, it only shows the results again.
    """
    run_steps(
        recipe,
        profile,
        changes,
        out,
        data_root=data_root,
        device=device,
        fresh=fresh,
        tensorboard=tensorboard,
    )


def run_steps(
    source: str, profile: str | None, changes: list[str] | None, out: Path | None, **how: Any
) -> None:
    """Read a recipe, do its steps as `run_recipe` takes it, and show what came of them."""
    from rrise.runs.recipe import RecipeFile, parse_changes

    file = RecipeFile.find(source)
    recipe = file.recipe(profile, parse_changes(changes or []))
    folder = out or Path("runs") / file.name
    console = Console()
    try:
        console.print("loading torch ...", style="dim")
        from rrise.runs.pipeline import run_recipe

        evaluation = run_recipe(folder, recipe, console, **how)
        if evaluation is not None:
            _print_results(console, evaluation, folder)
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
    lines = [f"report:  {report.resolve()}"]
    if evaluation.images.shape[2] > 1:  # images, not strips of numbers
        lines.insert(0, f"try it:  {_this_command()} certify {out / 'certifier'} {samples}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _this_command() -> str:
    """Return how this program was called, so that it can be called again."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m rrise"
    found = shutil.which("rrise")
    return "rrise" if found and Path(found).resolve() == called.resolve() else str(called)
