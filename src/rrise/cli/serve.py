"""`rrise serve`."""

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rrise.cli.options import check_needed, options_given, options_of, read_token
from rrise.deployment.monitor.settings import MonitorSettings
from rrise.deployment.service.settings import ServiceSettings


@options_of(ServiceSettings, "limits", without=("token",))
@options_of(MonitorSettings, "watching")
def serve(
    certifier: Annotated[
        Path,
        typer.Argument(
            help="A certifier folder, an exported one, or a ready one, such as cifar-10.", show_default=False
        ),
    ],
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free one.")] = 8000,
    base: Annotated[
        str | None,
        typer.Option(help="The base classifier, for verification and audits: a folder.", show_default=False),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Its weights, if BASE is an architecture.", show_default=False)
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            help="A folder of samples for the page: images or arrays.",
            show_default="a ready certifier's own",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that requests need.", show_default=False)
    ] = None,
    attack_radius: Annotated[
        float | None,
        typer.Option(help="How far somebody may have moved an input.", show_default="as calibrated"),
    ] = None,
    limits: dict[str, Any],
    monitor: Annotated[
        Path | None, typer.Option(help="A database file; enables the monitor.", show_default=False)
    ] = None,
    watching: dict[str, Any],
) -> None:
    """Serve certificates over HTTP, with a web page at /."""
    from rrise.deployment.loading import find_samples, load_deployed
    from rrise.deployment.monitor.monitor import Monitor
    from rrise.deployment.service.app import create_app
    from rrise.deployment.service.samples import read_samples
    from rrise.deployment.service.server import run_service
    from rrise.models.folder import load_base

    check_needed("--monitor", monitor is not None, options_given(MonitorSettings, watching))
    of_audits = {name: value for name, value in watching.items() if name in ("fraction", "max_waiting")}
    check_needed(
        "--base", base is not None, {**options_given(MonitorSettings, of_audits), "--weights": weights}
    )
    of_votes = ("verifications", "max_votes", "fallback_votes")
    voting = {name: value for name, value in limits.items() if name in of_votes}
    check_needed("--base", base is not None, options_given(ServiceSettings, voting))
    settings = ServiceSettings(**limits, token=None if token_file is None else read_token(token_file))
    wanted = MonitorSettings(**watching)
    deployed = load_deployed(certifier, attack_radius=attack_radius)
    module = None if base is None else load_base(base, weights)
    samples = samples or find_samples(certifier)
    shown = (
        {} if samples is None else read_samples(samples, deployed.input_shape, deployed.smoothing.input_range)
    )
    with ExitStack() as opened:
        watch = None
        if monitor is not None:
            watch = opened.enter_context(Monitor(deployed, monitor, base=module, **asdict(wanted)))
        app = create_app(deployed, settings=settings, base=module, monitor=watch, samples=shown)
        run_service(app, host=host, port=port, on_start=lambda address: typer.echo(f"serving on {address}"))
