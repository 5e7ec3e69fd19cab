"""The published results of a dataset, read, and tables of them in Markdown."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.methods import methods
from rrise.evaluation.measure import metrics
from rrise.evaluation.measure.evidence_files import EVIDENCE, read_evidence
from rrise.evaluation.measure.outcomes import Outcome
from rrise.evaluation.tables.paper import paper_numbers

ROOT = Path(__file__).parent.parent
ORDER = [method.name for method in methods()]
MAIN_LEVEL, LEVELS = "0.25", ("0.25", "0.1", "0.05", "0.01")
HEAD = "trainhead_initbase_n"
Entry = dict
Columns = dict[str, Callable[[Entry], str]]


class Results:
    """The published results of one dataset."""

    def __init__(self, name: str) -> None:
        self.folder = ROOT / "results" / name
        self.metrics = json.loads((self.folder / "metrics.json").read_text(encoding="utf-8"))
        self.dataset = self.metrics["held-out"][0]["dataset"]
        self.evidence = [read_evidence(path.parent) for path in sorted(self.folder.glob(f"*/{EVIDENCE}"))]

    def entries(self, protocol: str = "held-out", **wanted: object) -> list[Entry]:
        """Return the results of all settings with these fields, in the order of the paper's methods."""
        found = [
            {**entry, "protocol": protocol}
            for entry in self.metrics[protocol]
            if all(entry[name] == value for name, value in wanted.items())
        ]
        return sorted(found, key=lambda entry: ORDER.index(entry["method"]))

    def paper(self, table: str, method: str, metric: str) -> float | None:
        """Return what the paper prints."""
        found = paper_numbers().get((table, self.dataset, method, "", "", "", metric))
        return None if found is None else found.mean


def quality(outcome: Outcome, labels: NDArray[np.int64]) -> Entry:
    """Return what an outcome certifies: its share of right and issued answers, and the average radius."""
    return {
        "accuracy": float(metrics.certified_accuracy(outcome.certificates, labels, 0.0)),
        "radius": metrics.average_certified_radius(outcome.certificates, labels),
    }


def number(entry: Entry, key: str, scale: float = 1, digits: int = 2) -> str:
    """Return mean ± standard deviation over seeds as text."""
    mean, std = entry["mean"][key], entry["std"][key]
    spread = "" if std is None else f" ± {scale * std:,.{digits}f}"
    return "–" if mean is None else f"{scale * mean:,.{digits}f}{spread}"


def column(key: str, scale: float = 1, digits: int = 2) -> Callable[[Entry], str]:
    return partial(number, key=key, scale=scale, digits=digits)


def percent(key: str) -> Callable[[Entry], str]:
    return column(key, scale=100)


def text(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def table(columns: Columns, entries: Iterable[Entry], words: int | None = None) -> str:
    """Return a Markdown table; the columns after the first so many `words` are numbers, at the right."""
    left = len(columns) if words is None else words
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * left + "---:|" * (len(columns) - left)]
    for entry in entries:
        lines.append("| " + " | ".join(read(entry) for read in columns.values()) + " |")
    return "\n".join(lines)
