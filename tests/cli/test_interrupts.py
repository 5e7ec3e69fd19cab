"""Commands that can be called again end in order when they are stopped."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import typer

from rrise.cli.interrupts import to_be_continued


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Python's own handlers, whatever these tests were started with: a background job ignores SIGINT."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def stopped_by(number: int) -> None:
    with to_be_continued():
        os.kill(os.getpid(), number)
        time.sleep(5)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_exit_code_tells_which_signal_it_was(
    number: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        stopped_by(number)
    assert ended.value.exit_code == code
    assert "run the same command to resume" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_what_was_started_to_ignore_sigterm_goes_on() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with to_be_continued():
        os.kill(os.getpid(), signal.SIGTERM)
        done = True
    assert done
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_a_thread_that_may_not_handle_signals_works_without() -> None:
    done: list[Callable[..., object] | int | None] = []

    def work() -> None:
        with to_be_continued():
            done.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.SIG_DFL]
