"""`rrise recalibrate`."""

from pathlib import Path
from typing import Annotated

import typer


def recalibrate(
    certifier: Annotated[
        Path, typer.Argument(help="A certifier folder, or an exported one.", show_default=False)
    ],
    *,
    from_monitor: Annotated[
        Path, typer.Option(help="The database of the monitor that watched it.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The new certifier folder.", show_default=False)],
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only queries from this time on, such as 2026-11-15T08:00 (UTC).",
            show_default=False,
        ),
    ] = None,
    unattacked: Annotated[
        bool, typer.Option("--unattacked", help="Nobody moved these queries; needed with an attack radius.")
    ] = False,
) -> None:
    """Recalibrate a certifier on the queries that a monitor has audited."""
    from rrise.deployment.monitor.recalibration import recalibrate_folder

    new = recalibrate_folder(certifier, from_monitor, out, since, unattacked=unattacked)
    typer.echo(f"{out}: calibrated on {new.calibration.size} audited queries")
    typer.echo(str(new.guarantee))
