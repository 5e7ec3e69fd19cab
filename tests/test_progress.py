"""Progress can be followed in a terminal and in a log file."""

import io
import re
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


def a_long_step(console: Console, passes: Callable[[float], None]) -> None:
    with progress_bar(console, "votes of train", 100_000, "passes") as advance:
        for _ in range(10):
            passes(10.0)
            advance(10_000)


def test_a_log_file_gets_a_line_every_half_minute_and_one_at_the_end(clock: Callable[[float], None]) -> None:
    file = io.StringIO()
    a_long_step(Console(file=file, width=120), clock)
    counts = re.findall(r"([\d,]+)/100,000 passes", file.getvalue())
    assert counts == ["30,000", "60,000", "90,000", "100,000"]


def test_a_short_step_gets_one_line(clock: Callable[[float], None]) -> None:
    file = io.StringIO()
    with progress_bar(Console(file=file, width=120), "epochs", 2, "epochs") as advance:
        clock(29.0)
        advance(1)
        advance(1)
    assert len(file.getvalue().splitlines()) == 1


def test_shards_are_in_the_lines_too(clock: Callable[[float], None]) -> None:
    file = io.StringIO()
    with vote_bar(Console(file=file, width=120), "votes of train", 100, 4) as (advance, store):
        store(2)
        clock(31.0)
        advance(50)
        first = file.getvalue()
    assert "50/100 passes" in first
    assert "2/4 shards" in first


def test_a_bar_in_a_terminal_is_drawn_in_its_place(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    printed: list[object] = []
    monkeypatch.setattr(console, "print", lambda *things: printed.append(things))
    a_long_step(console, clock)
    assert all(isinstance(things[0], Control) for things in printed)


def test_steps_of_minutes_have_a_time_left(clock: Callable[[float], None]) -> None:
    file = io.StringIO()
    console = Console(file=file, width=120, get_time=progress.time.monotonic)
    with progress_bar(console, "training the base", 10, "epochs") as advance:
        for _ in range(4):
            clock(90.0)
            advance(1)
        lines = file.getvalue().splitlines()
    assert lines[-1].split()[-3:] == ["4/10", "epochs", "09:00"]
