"""Commands that can be called again after they were stopped."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which schedulers and containers send before they kill."""


@contextmanager
def to_be_continued() -> Iterator[None]:
    """Let an interrupt or SIGTERM end a command in order: a sentence, and the exit code of that signal.

    What was begun is closed, and the journal says how far it got. A command that was started to ignore
    SIGTERM still does.
    """
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    )
    if ours:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except KeyboardInterrupt as interrupt:
        typer.echo("interrupted: the same command goes on from here", err=True)
        number = signal.SIGTERM if isinstance(interrupt, _Terminated) else signal.SIGINT
        raise typer.Exit(128 + number) from None
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated
