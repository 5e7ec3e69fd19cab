"""Metrics: the numbers of `results.json`, each with everything that is said and drawn about it.

A metric is registered with how it is computed. Tables, figures, the report and the documents read names,
units and ways of writing from here: another metric is one `register_metric(Metric(...))`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rrise.evaluation.measure.number_text import count_text
from rrise.registry import register

if TYPE_CHECKING:
    from rrise.evaluation.measure.context import Context

FURTHER = "further"
"""The group of columns for metrics of no other group: those of the table `main_further`."""


@dataclass(frozen=True)
class InTables:
    """How a metric stands in tables.

    Attributes:
        group: the columns it stands among; `tables.layouts` says which tables show which groups.
        heading: of its column; its label and unit if empty.
        paper: the heading in the paper's tables: None where they do not have it, the same one if empty.
        digits: after the point.
        scale: what a number is multiplied by, where it is not the scale of the metric.
        last: whether it comes behind the others of its group; those come in the order of registration.
        surrogates_only: whether the paper's number is the same thing for surrogates alone.
    """

    group: str = FURTHER
    heading: str = ""
    paper: str | None = None
    digits: int = 2
    scale: float | None = None
    last: bool = False
    surrogates_only: bool = False


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        key: what `results.json` calls it.
        compute: from what was measured to the number; None where it is undefined. Metrics with a number for
            each threshold give a list, those with one for each other method a dictionary.
        label: what figures and pages call it.
        unit: what one is counted in, after scaling, such as `% of test inputs`.
        meaning: one sentence that defines it.
        scale: what figures and tables multiply it by: 100 for shares in percent.
        write: how pages and hover texts write it; what is claimed is rounded down, errors up.
        table: how it stands in tables; None if it does not.
        bars: its place among the panels of bars; 0 if it has none.
        compared: its heading in the main comparison of the report; not there if empty.
        tile: words behind its value among the headline numbers of the report; not there if empty.
    """

    key: str
    compute: Callable[["Context"], Any]
    label: str
    unit: str
    meaning: str
    scale: float = 1
    write: Callable[[float | None], str] = count_text
    table: InTables | None = None
    bars: int = 0
    compared: str = ""
    tile: str = ""

    @property
    def title(self) -> str:
        """The label as a title of its own."""
        return self.label[:1].upper() + self.label[1:]

    @property
    def heading(self) -> str:
        """The heading of its column in tables."""
        return (self.table.heading if self.table else "") or f"{self.title} ({self.unit})"

    @property
    def paper_heading(self) -> str | None:
        """The heading of its column in the paper's tables; None where they do not have it."""
        return None if self.table is None or self.table.paper is None else self.table.paper or self.heading

    @property
    def table_scale(self) -> float:
        """What tables multiply it by."""
        return self.scale if self.table is None or self.table.scale is None else self.table.scale


METRICS: dict[str, Metric] = {}
"""All metrics by key, in the order in which `results.json` has them."""


def register_metric(metric: Metric) -> Metric:
    """Make a metric known by its key, which must be new."""
    return register(METRICS, metric.key, metric, "metric")


def metrics_in(group: str) -> list[Metric]:
    """Return the metrics of a group of columns, in their order."""
    found = [(metric.table, metric) for metric in METRICS.values() if metric.table is not None]
    own = [(table.last, metric) for table, metric in found if table.group == group]
    return [metric for _, metric in sorted(own, key=lambda one: one[0])]


def metrics_as_bars() -> list[Metric]:
    """Return the metrics that have a panel of bars, in their order."""
    return sorted((metric for metric in METRICS.values() if metric.bars), key=lambda metric: metric.bars)
