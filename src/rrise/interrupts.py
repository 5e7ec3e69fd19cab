"""SIGTERM as an interrupt: schedulers and containers send it before they kill."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised like an interrupt."""


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM raise `Terminated` inside the context, so that open resources are closed.

    A process that was started to ignore the signal still ignores it. Only the main thread can handle it.
    """
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
