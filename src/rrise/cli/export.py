"""`rrise export`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rrise.cli.run import DataRoot
from rrise.deployment.export.runtimes import ONNX_RUNTIME, RUNTIMES
from rrise.errors import SettingError


def export(
    certifier: Annotated[Path, typer.Argument(help="A certifier folder.", show_default=False)],
    *,
    form: Annotated[str, typer.Option("--format", help="onnx.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="Quantise the surrogate to int8.")] = False,
    runtime: Annotated[
        str, typer.Option(help=f"The runtime to calibrate for: {' or '.join(RUNTIMES)}.")
    ] = ONNX_RUNTIME.name,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write.", show_default="CERTIFIER-RUNTIME-NUMBERS")
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="Calibration inputs, .npy or a folder of images.", show_default="the run's"),
    ] = None,
    votes: Annotated[
        Path | None, typer.Option(help="Their votes, a folder of rrise vote.", show_default="the run's")
    ] = None,
    attack_radius: Annotated[
        float | None,
        typer.Option(help="How far somebody may have moved an input.", show_default="as calibrated"),
    ] = None,
    data_root: DataRoot = None,
) -> None:
    """Export a certifier to another runtime, and recalibrate it in that form."""
    if form != "onnx":
        raise SettingError(f"expected the format onnx, got {form!r}")
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print("loading torch ...", style="dim")
    from rrise.certifiers.folder import load_certifier
    from rrise.deployment.export.calibration_data import calibration_data
    from rrise.deployment.export.card import cost_sentence
    from rrise.deployment.export.exporting import export_certifier, folder_beside
    from rrise.deployment.export.folder import read_cost

    loaded = load_certifier(certifier)
    if attack_radius is not None:
        loaded = loaded.against(attack_radius)
    data = calibration_data(certifier, loaded, inputs=inputs, votes=votes, data_root=data_root)
    folder = out or folder_beside(certifier, int8=int8, runtime=runtime)
    with console.status("exporting and recalibrating ..."):
        exported = export_certifier(
            loaded,
            data.images,
            data.votes,
            folder,
            int8=int8,
            runtime=runtime,
            range_inputs=data.range_inputs,
            allow_seen=True,  # a run's splits separate range inputs and calibration inputs
        )
    console.print(f"{folder}: calibrated in {exported.runtime}")
    console.print(cost_sentence(read_cost(folder)), style="dim")
