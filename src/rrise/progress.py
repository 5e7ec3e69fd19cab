"""The one progress bar, and its form for machines."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

EVERY = 30.0
"""Seconds from line to line where the output is a file, in which a bar cannot move."""
_RATE_OVER = 600.0
"""Seconds over which rates are taken: an epoch may last minutes."""

OnProgress = Callable[[int], object]
"""Called with the number of forward passes, or of epochs, done since the last call."""
VoteProgress = Iterator[tuple[OnProgress, OnProgress]]
"""Gives what to call for passes and for stored shards."""


@contextmanager
def progress_bar(console: Console, what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a bar with rate and time left, and give the function that advances it."""
    with _bar(console, unit) as progress:
        task = progress.add_task(what, total=total, shards="")
        yield _advancing(progress, task)


def both(first: OnProgress, second: OnProgress) -> OnProgress:
    """Return what calls two functions that hear of progress."""

    def advance(amount: int) -> None:
        first(amount)
        second(amount)

    return advance


@contextmanager
def vote_bar(console: Console, what: str, passes: int, shards: int) -> VoteProgress:
    """Show a bar of passes and of stored shards, and give the two functions that advance it."""
    stored = 0
    with _bar(console, "passes") as progress:
        task = progress.add_task(what, total=passes, shards=f"0/{shards} shards")

        def store(amount: int) -> None:
            nonlocal stored
            stored += amount
            progress.update(task, shards=f"{stored}/{shards} shards")

        yield _advancing(progress, task), store


@contextmanager
def vote_log(write: Callable[[str], object], passes: int, shards: int) -> VoteProgress:
    """Write a JSON line at the start, for each stored shard, and at the end."""
    start = time.monotonic()
    done = {"passes": 0, "shards": 0}

    def line(event: str) -> None:
        seconds = time.monotonic() - start
        total = {"passes_in_all": passes, "shards_in_all": shards}
        write(json.dumps({"event": event, **done, **total, "seconds": round(seconds, 3)}))

    def advance(amount: int) -> None:
        done["passes"] += amount

    def store(amount: int) -> None:
        done["shards"] += amount
        if amount:
            line("stored")

    line("start")
    yield advance, store
    line("end")


def _advancing(progress: Progress, task: TaskID) -> Callable[[int], None]:
    """Return what advances a bar; in a file, where only its end would be seen, it writes a line at times."""
    console, written = progress.console, time.monotonic()
    moves = console.is_terminal or console.is_jupyter

    def advance(amount: int) -> None:
        nonlocal written
        progress.advance(task, amount)
        if not moves and not progress.finished and time.monotonic() - written >= EVERY:
            written = time.monotonic()
            console.print(progress.get_renderable())

    return advance


def _bar(console: Console, unit: str) -> Progress:
    columns: list[ProgressColumn] = [
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=12),
        _CountAndRate(unit),
        TextColumn("{task.fields[shards]}", style="dim"),
        TimeRemainingColumn(elapsed_when_finished=True, compact=True),
    ]
    return Progress(*columns, console=console, speed_estimate_period=_RATE_OVER)


class _CountAndRate(ProgressColumn):
    """Write how much of how much is done, and how fast."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed or 0.0
        rate = f" {speed / 1000:,.0f}k/s" if speed >= 10_000 else f" {speed:.0f}/s" if speed >= 1 else ""
        return Text(f"{task.completed:,.0f}/{task.total or 0:,.0f} {self.unit}{rate}", style="dim")
