"""The one progress bar, and its machine-readable form."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

EVERY = 30.0
"""Seconds between lines if the output is a file, where a bar cannot move."""
_RATE_OVER = 600.0
"""Seconds over which rates are averaged: an epoch may last minutes."""

_WRITER = "rrise-progress"

OnProgress = Callable[[int], object]
"""Called with the number of forward passes, or of epochs, done since the last call."""
VoteProgress = Iterator[tuple[OnProgress, OnProgress]]
"""Yields two functions: one to call for passes, one for stored shards."""


@contextmanager
def progress_bar(console: Console, what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a bar with rate and time left, and yield the function that advances it."""
    with _bar(console, unit) as progress:
        task = progress.add_task(what, total=total, shards="")
        yield partial(progress.advance, task)


def both(first: OnProgress, second: OnProgress) -> OnProgress:
    """Return a function that reports progress to two functions."""

    def advance(amount: int) -> None:
        first(amount)
        second(amount)

    return advance


@contextmanager
def vote_bar(console: Console, what: str, passes: int, shards: int) -> VoteProgress:
    """Show a bar of passes and of stored shards, and yield the two functions that advance it."""
    stored = 0
    with _bar(console, "passes") as progress:
        task = progress.add_task(what, total=passes, shards=f"0/{shards} shards")

        def store(amount: int) -> None:
            nonlocal stored
            stored += amount
            progress.update(task, shards=f"{stored}/{shards} shards")

        yield partial(progress.advance, task), store


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


@contextmanager
def _bar(console: Console, unit: str) -> Iterator[Progress]:
    """Show a bar that moves even during a long epoch; in a file, write a line now and then instead."""
    moves = console.is_terminal or console.is_jupyter
    columns: list[ProgressColumn] = [
        *([SpinnerColumn(finished_text=" ")] if moves else []),
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=12),
        _CountAndRate(unit),
        TextColumn("{task.fields[shards]}", style="dim"),
        TimeRemainingColumn(elapsed_when_finished=True, compact=True),
    ]
    with Progress(*columns, console=console, speed_estimate_period=_RATE_OVER) as progress:
        if moves:
            yield progress
            return
        ended = threading.Event()
        lines = threading.Thread(target=_write_lines, args=(progress, ended), name=_WRITER, daemon=True)
        lines.start()
        try:
            yield progress
        finally:
            ended.set()
            lines.join()


def _write_lines(progress: Progress, ended: threading.Event) -> None:
    while not ended.wait(EVERY):
        progress.console.print(progress.get_renderable())


class _CountAndRate(ProgressColumn):
    """Shows the amount done, the total and the rate."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed or 0.0
        rate = f" {speed / 1000:,.0f}k/s" if speed >= 10_000 else f" {speed:.0f}/s" if speed >= 1 else ""
        return Text(f"{task.completed:,.0f}/{task.total or 0:,.0f} {self.unit}{rate}", style="dim")
