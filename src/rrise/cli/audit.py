"""`rrise audit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rrise.errors import SettingError

if TYPE_CHECKING:
    from rrise.audit.findings import Audit


def audit(
    certifier: Annotated[
        Path, typer.Argument(help="A certifier folder, or an exported one.", show_default=False)
    ],
    *,
    base: Annotated[str, typer.Option(help="The base classifier: a folder.", show_default=False)],
    data: Annotated[
        str,
        typer.Option(
            help="Natural inputs: a run folder (its test inputs), a dataset, FILE.npy or a folder of images.",
            show_default=False,
        ),
    ],
    weights: Annotated[
        str | None, typer.Option(help="Weights, if BASE is an architecture.", show_default=False)
    ] = None,
    radius: Annotated[
        list[float] | None,
        typer.Option(help="How far to move inputs.", show_default="sigma / 2, sigma and the attack radius"),
    ] = None,
    attack: Annotated[
        list[str] | None, typer.Option(help="An attack; again for more. Default: all.", show_default=False)
    ] = None,
    attack_radius: Annotated[
        float | None,
        typer.Option(help="How far somebody may have moved an input.", show_default="as calibrated"),
    ] = None,
    inputs: Annotated[int, typer.Option(help="How many inputs to attack.", min=1)] = 128,
    votes: Annotated[int, typer.Option(help="Fresh votes that judge each certificate.", min=1)] = 1_000,
    steps: Annotated[int, typer.Option(help="Gradient steps from each start.", min=1)] = 20,
    restarts: Annotated[int, typer.Option(help="Starts for each input.", min=1)] = 2,
    queries: Annotated[int, typer.Option(help="Certificates to ask for without gradients.", min=1)] = 100,
    seed: Annotated[int | None, typer.Option(help="Makes it reproducible.", show_default=False)] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to compute. Default: a GPU if there is one.", show_default=False)
    ] = None,
    data_root: Annotated[Path | None, typer.Option(help="Folder of datasets.", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="Folder for table, figure, JSON and images.")] = Path("audit"),
) -> None:
    """Attack a certifier as hard as possible, and report which certificates are wrong."""
    from rrise.audit.auditing import attacks_on, radii_of
    from rrise.audit.auditing import audit as run_audit
    from rrise.audit.report import TABLE, verdict, write_audit
    from rrise.audit.victim import Effort
    from rrise.deployment.loading import load_deployed
    from rrise.models.folder import load_base
    from rrise.progress import progress_bar
    from rrise.runs.device import choose_device

    console = Console()
    loaded = load_deployed(certifier, attack_radius=attack_radius)
    given = _inputs(data, inputs, data_root)
    steps_to_do = 1 + len(attacks_on(loaded, attack)[0]) * len(radii_of(loaded, radius))
    with progress_bar(console, "attacks", steps_to_do, "attacks") as advance:
        found = run_audit(
            loaded,
            load_base(base, weights).to(choose_device(device)),
            given,
            radii=radius,
            attacks=attack,
            votes=votes,
            effort=Effort(steps, restarts, queries=queries),
            seed=seed,
            on_progress=advance,
        )
    write_audit(out, found, loaded.smoothing.input_range)
    console.print(_table(found, data))
    if found.left_out:
        console.print(f"left out, for lack of gradients: {', '.join(found.left_out)}", style="dim")
    console.print(verdict(found), highlight=False, markup=False)
    console.print(f"report: {(out / TABLE).resolve()}", highlight=False, markup=False, soft_wrap=True)


def _table(found: "Audit", data: str) -> Table:
    table = Table(title=Text(f"{found.findings[0].inputs} inputs of {data}"), title_justify="left")
    for name in ("attack", "radius", "issued", "changed", "wrong", "95 % interval"):
        table.add_column(name, justify="left" if name == "attack" else "right", overflow="fold")
    for finding in found.findings:
        share, low, high = (100 * part for part in finding.failure)
        issued = f"{100 * finding.issued / finding.inputs:.1f} %"
        interval = f"{low:.1f} to {high:.1f} %"
        row = (
            finding.attack,
            f"{finding.radius:g}",
            issued,
            str(finding.changed),
            f"{share:.1f} %",
            interval,
        )
        table.add_row(*row)
    return table


def _inputs(data: str, number: int, root: Path | None) -> Any:
    """Return the first natural inputs: the test inputs of a run, or those of a source."""
    from rrise.data.sources import load_images
    from rrise.runs.data import RunData
    from rrise.runs.recipe import read_recipe
    from rrise.runs.steps import RECIPE

    recipe = Path(data) / RECIPE
    if recipe.is_file():
        values = RunData(read_recipe(recipe).data, root).values("test")
    else:
        values = load_images(data, "test", root)
    if len(values) == 0:
        raise SettingError(f"{data} holds no inputs")
    return values[:number]
