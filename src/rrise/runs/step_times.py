"""The time of each step of published runs, summed over its pieces."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from rrise.files import Json, write_text
from rrise.runs.journal import read_journal

STEPS = "steps"
_STEP_COLUMNS = ("seed", "step", "pieces", "passes", "epochs", "seconds", "hardware", "torch", "date")


def write_step_times(target: Path, parts: Sequence[Path]) -> None:
    """Write the time of each step, summed over its pieces, as CSV and Markdown."""
    rows = [row for part in parts for row in _steps(part)]
    text = io.StringIO()
    writer = csv.DictWriter(text, _STEP_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(target / f"{STEPS}.csv", text.getvalue())
    lines = ["| " + " | ".join(_STEP_COLUMNS) + " |", "|" + "---|" * len(_STEP_COLUMNS)]
    lines += ["| " + " | ".join(str(row[name]) for name in _STEP_COLUMNS) + " |" for row in rows]
    write_text(target / f"{STEPS}.md", "\n".join(lines) + "\n")


def _steps(part: Path) -> list[Json]:
    seed = part.name.removeprefix("seed-")
    steps: dict[tuple[str, str], list[Json]] = {}
    for entry in read_journal(part):
        steps.setdefault((entry["step"], entry["hardware"]), []).append(entry)
    return [
        {
            "seed": seed,
            "step": step,
            "pieces": len(entries),
            **{unit: sum(entry.get(unit, 0) for entry in entries) or "" for unit in ("passes", "epochs")},
            "seconds": round(sum(entry["seconds"] for entry in entries), 1),
            "hardware": hardware,
            "torch": entries[-1]["torch"],
            "date": entries[-1]["date"],
        }
        for (step, hardware), entries in steps.items()
    ]
