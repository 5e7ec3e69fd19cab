"""Commands that can be called again after they were stopped."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from rrise.interrupts import Terminated, sigterm_interrupts


@contextmanager
def to_be_continued() -> Iterator[None]:
    """Let an interrupt or SIGTERM end a command in order: a sentence, and the exit code of that signal.

    What was begun is closed, and the journal says how far it got.
    """
    with sigterm_interrupts():
        try:
            yield
        except KeyboardInterrupt as interrupt:
            typer.echo("interrupted: the same command goes on from here", err=True)
            number = signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
            raise typer.Exit(128 + number) from None
