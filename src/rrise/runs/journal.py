"""The journal of a run: the time of each step, its pieces and the machine."""

import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from rrise.errors import FolderError
from rrise.files import Json, parse_json

JOURNAL = "journal.jsonl"


class Journal:
    """JSON lines in a run folder, one per piece of work, even if interrupted."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.path = folder / JOURNAL
        self._hardware = _name_of(device)

    @contextmanager
    def entry(self, step: str, unit: str = "") -> Iterator[Callable[[int], None]]:
        """Record the work inside; the yielded function counts it, in passes or epochs.

        `finished` is False for interrupted work: the next entry of the step resumes from there.
        """
        start, done, finished = time.perf_counter(), 0, False

        def count(amount: int) -> None:
            nonlocal done
            done += amount

        try:
            yield count
            finished = True
        finally:
            line = {
                "step": step,
                "seconds": round(time.perf_counter() - start, 3),
                **({unit: done} if unit else {}),
                "finished": finished,
                "hardware": self._hardware,
                **_environment(),
                "date": time.strftime("%Y-%m-%d", time.gmtime()),
            }
            self._append(json.dumps(line) + "\n", finished)

    def _append(self, line: str, finished: bool) -> None:
        """Append a line; if that fails after an error of the work itself, the latter is what matters."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            if finished:
                raise FolderError(f"{self.path} could not be written: {error.strerror}") from error


def read_journal(folder: Path) -> list[Json]:
    """Return the entries of a run's journal in order; an empty list if there is no journal."""
    path = folder / JOURNAL
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return [parse_json(line, f"line {number} of {path}") for number, line in enumerate(lines, 1)]


def _environment() -> Json:
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **({"cudnn_benchmark": True} if torch.backends.cudnn.benchmark else {}),
    }


def _name_of(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads of {platform.machine()}"
