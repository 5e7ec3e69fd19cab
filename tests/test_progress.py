"""Progress can be followed in a terminal and in a log file."""

import io
import threading
import time
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.control import Control

from rrise import progress
from rrise.progress import progress_bar, vote_bar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Give what lets time pass."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    return passes


def wait_for(words: str, file: io.StringIO) -> str:
    """Return the line with these words, which is written by and by."""
    deadline = time.perf_counter() + 20
    while time.perf_counter() < deadline:
        found = [line for line in file.getvalue().splitlines() if words in line]
        if found:
            return found[-1]
        time.sleep(0.005)
    raise AssertionError(f"no line with {words!r} in {file.getvalue()!r}")


def test_a_log_file_gets_lines_also_while_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    file = io.StringIO()
    with progress_bar(Console(file=file, width=120), "training the base", 200, "epochs") as advance:
        assert wait_for("0/200 epochs", file).startswith("training the base")
        advance(50)
        wait_for("50/200 epochs", file)
        advance(150)
    lines = file.getvalue().splitlines()
    assert "200/200 epochs" in lines[-1]
    time.sleep(0.05)
    assert file.getvalue().splitlines() == lines


def test_lines_end_with_a_step_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    writing = []

    def fail() -> None:
        with progress_bar(Console(file=io.StringIO()), "votes", 2, "passes"):
            writing.extend(thread for thread in threading.enumerate() if thread.name == "rrise-progress")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [thread.is_alive() for thread in writing] == [False]


def test_half_a_minute_lies_between_lines() -> None:
    file = io.StringIO()
    with progress_bar(Console(file=file, width=120), "epochs", 2, "epochs") as advance:
        advance(1)
        advance(1)
    assert len(file.getvalue().splitlines()) == 1
    assert progress.EVERY == 30


def test_shards_are_in_the_lines_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    file = io.StringIO()
    with vote_bar(Console(file=file, width=120), "votes of train", 100, 4) as (advance, store):
        store(2)
        advance(50)
        assert "2/4 shards" in wait_for("50/100 passes", file)


def test_a_bar_in_a_terminal_is_drawn_in_its_place(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    printed: list[object] = []
    monkeypatch.setattr(console, "print", lambda *things: printed.append(things))
    with progress_bar(console, "votes of train", 100_000, "passes") as advance:
        for _ in range(10):
            clock(10.0)
            advance(10_000)
    assert all(isinstance(things[0], Control) for things in printed)


def test_steps_of_minutes_have_a_time_left(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    file = io.StringIO()
    console = Console(file=file, width=120, get_time=progress.time.monotonic)
    with progress_bar(console, "training the base", 10, "epochs") as advance:
        for _ in range(4):
            clock(90.0)
            advance(1)
        assert wait_for("4/10 epochs", file).split()[-1] == "09:00"
