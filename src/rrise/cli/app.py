"""The `rrise` command: the parts that all subcommands share."""

import os
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from rrise._version import __version__
from rrise.cli.audit import audit
from rrise.cli.certificates import certificates
from rrise.cli.certify import certify
from rrise.cli.compare import compare
from rrise.cli.demo import demo
from rrise.cli.evaluate import evaluate, report
from rrise.cli.export import export
from rrise.cli.init import init
from rrise.cli.publish import publish, rebuild
from rrise.cli.recalibrate import recalibrate
from rrise.cli.recipes import recipes
from rrise.cli.run import run as run_command
from rrise.cli.serve import serve
from rrise.cli.train import train_base, train_surrogate
from rrise.cli.vote import vote
from rrise.errors import RriseError

app = typer.Typer(
    name="rrise",
    help="Certified robustness radii from one forward pass.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(recipes)
app.command()(init)
app.command("run")(run_command)
app.command()(train_base)
app.command()(train_surrogate)
app.command()(vote)
app.command()(evaluate)
app.command()(compare)
app.command()(report)
app.command()(publish)
app.command()(rebuild)
app.command()(certificates)
app.command()(certify)
app.command()(audit)
app.command()(export)
app.command()(serve)
app.command()(recalibrate)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rrise {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command line; every error is a sentence and an exit code, never a traceback."""
    try:
        app()
    except RriseError as error:
        _say("error", str(error))
        sys.exit(2)
    except OSError as error:
        _say("error", ": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
        sys.exit(2)
    except Exception as error:
        if os.environ.get("RRISE_DEBUG"):
            raise
        _say(
            "internal error", f"{type(error).__name__}: {error} (please report it; RRISE_DEBUG=1 shows where)"
        )
        sys.exit(1)


def _say(kind: str, sentence: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"[bold red]{kind}:[/]", Text(sentence))
