"""Commands that resume when called again after an interrupt."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from rrise.interrupts import Terminated, sigterm_interrupts


@contextmanager
def to_be_continued() -> Iterator[None]:
    """On an interrupt or SIGTERM, end a command cleanly: print a sentence, and exit with the signal's code.

    Open work is closed, and the journal records its progress.
    """
    with sigterm_interrupts():
        try:
            yield
        except KeyboardInterrupt as interrupt:
            typer.echo("interrupted: run the same command to resume", err=True)
            number = signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
            raise typer.Exit(128 + number) from None
