"""The one progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


@contextmanager
def progress_bar(console: Console, what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Show a bar with rate and time left, and give the function that advances it."""
    columns: list[ProgressColumn] = [
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=12),
        _CountAndRate(unit),
        TimeRemainingColumn(elapsed_when_finished=True, compact=True),
    ]
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total)
        yield lambda amount: progress.advance(task, amount)


class _CountAndRate(ProgressColumn):
    """Write how much of how much is done, and how fast."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        rate = "" if not speed else f" {speed:.0f}/s" if speed < 10_000 else f" {speed / 1000:,.0f}k/s"
        return Text(f"{task.completed:,.0f}/{task.total or 0:,.0f} {self.unit}{rate}", style="dim")
