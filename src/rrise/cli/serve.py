"""`rrise serve`."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer


def serve(
    certifier: Annotated[
        Path, typer.Argument(help="A certifier folder, or an exported one.", show_default=False)
    ],
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 finds a free one.")] = 8000,
    base: Annotated[
        str | None,
        typer.Option(help="The base classifier, to verify and audit with: a folder.", show_default=False),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Its weights, where BASE is an architecture.", show_default=False)
    ] = None,
    samples: Annotated[
        Path | None, typer.Option(help="A folder of images that the page offers.", show_default=False)
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that requests need.", show_default=False)
    ] = None,
    max_batch: Annotated[int, typer.Option(help="Inputs to a forward pass.")] = 64,
    max_delay: Annotated[float, typer.Option(help="Seconds to wait for a batch to fill.")] = 0.002,
    queue: Annotated[int, typer.Option(help="Inputs that may wait; more are refused.")] = 1024,
    timeout: Annotated[float, typer.Option(help="Seconds to answer in.")] = 10.0,
    max_inputs: Annotated[int, typer.Option(help="Inputs to a request.")] = 256,
    max_body: Annotated[int, typer.Option(help="Bytes to a request.")] = 16 * 2**20,
    verifications: Annotated[int, typer.Option(help="Inputs to verify at a time.")] = 1,
    max_votes: Annotated[int, typer.Option(help="Votes to a verification.")] = 100_000,
    monitor: Annotated[
        Path | None, typer.Option(help="A database file; turns the monitor on.", show_default=False)
    ] = None,
    audit: Annotated[
        float | None, typer.Option(help="Share of queries to audit with votes.", show_default="0.001")
    ] = None,
    false_alarms: Annotated[
        float | None, typer.Option(help="Probability of ever raising a false alarm.", show_default="0.01")
    ] = None,
    on_alarm: Annotated[
        str | None, typer.Option(help="warn, abstain or monte-carlo.", show_default="warn")
    ] = None,
    keep_inputs: Annotated[bool, typer.Option(help="Keep audited inputs in the database.")] = False,
) -> None:
    """Answer certificates over HTTP, with a page for people at /."""
    from rrise.deployment.loading import load_deployed
    from rrise.deployment.monitor.monitor import Monitor
    from rrise.deployment.service.app import create_app
    from rrise.deployment.service.running import check_needed, read_token, run_service
    from rrise.deployment.service.samples import read_samples
    from rrise.deployment.service.settings import ServiceSettings
    from rrise.models.folder import load_base

    chosen: dict[str, Any] = {"fraction": audit, "rate": false_alarms, "policy": on_alarm}
    watched = {"--audit": audit, "--false-alarms": false_alarms, "--on-alarm": on_alarm}
    check_needed("--monitor", monitor is not None, {**watched, "--keep-inputs": keep_inputs})
    check_needed("--base", base is not None, {"--audit": audit, "--weights": weights})
    settings = ServiceSettings(
        max_batch=max_batch,
        max_delay=max_delay,
        queue=queue,
        timeout=timeout,
        max_inputs=max_inputs,
        max_body=max_body,
        verifications=verifications,
        max_votes=max_votes,
        token=None if token_file is None else read_token(token_file),
    )
    deployed = load_deployed(certifier)
    module = None if base is None else load_base(base, weights)
    shown = (
        {} if samples is None else read_samples(samples, deployed.input_shape, deployed.smoothing.input_range)
    )
    with ExitStack() as opened:
        watching = None
        if monitor is not None:
            watching = opened.enter_context(
                Monitor(
                    deployed,
                    monitor,
                    base=module,
                    keep_inputs=keep_inputs,
                    **{name: value for name, value in chosen.items() if value is not None},
                )
            )
        app = create_app(deployed, settings=settings, base=module, monitor=watching, samples=shown)
        run_service(app, host=host, port=port, on_start=lambda address: typer.echo(f"serving on {address}"))
