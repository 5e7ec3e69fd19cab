"""Columns of the tables: which metric each shows, and what the paper prints for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rrise.certifiers.methods import RRISE, Method
from rrise.evaluation.measure.all_metrics import METRICS, Metric, metrics_in
from rrise.evaluation.measure.cost_metrics import EQUAL, PASSES, TIME
from rrise.evaluation.measure.costs import COUNTED
from rrise.evaluation.measure.known import is_surrogate, voting_methods
from rrise.evaluation.tables.comparison import Comparison, Result, family
from rrise.evaluation.tables.values import Column, Number


@dataclass(frozen=True)
class Reading:
    """A column, how its number is read from a result, and of which methods the paper has the same number."""

    column: Column
    read: Callable[[Result], Number]
    comparable: Callable[[str], bool] = lambda _: True


def number(result: Result, key: str, place: int | str | None = None, scale: float = 1) -> Number:
    """Return a metric of a result or, of one that has several numbers, the one at a place."""
    mean, std = (_at(result[which].get(key), place) for which in ("mean", "std"))
    if mean is None:
        return Number()
    return Number(scale * mean, None if std is None else scale * std)


def _at(values: Any, place: int | str | None) -> Any:
    if values is None or place is None:
        return values
    return values.get(place) if isinstance(values, dict) else values[place]


def column_of(metric: Metric) -> Column:
    """Return the column of a metric."""
    digits = 2 if metric.table is None else metric.table.digits
    return Column(metric.heading, metric.paper_heading, digits)


def reading(metric: Metric) -> Reading:
    """Return the column of a metric that has one number."""

    def read(result: Result) -> Number:
        return number(result, metric.key, scale=metric.table_scale)

    if metric.table is not None and metric.table.surrogates_only:
        return Reading(column_of(metric), read, comparable=is_surrogate)
    return Reading(column_of(metric), read)


def columns(*groups: str) -> tuple[Reading, ...]:
    """Return the columns of all metrics of some groups."""
    return tuple(reading(metric) for group in groups for metric in metrics_in(group))


def at_thresholds(thresholds: Sequence[float], key: str) -> tuple[Reading, ...]:
    """Return one column for each threshold of a metric that has one number for each."""
    metric = METRICS[key]

    def column(position: int, threshold: float) -> Reading:
        name = f"t={threshold:g}"
        return Reading(
            Column(name, None if metric.paper_heading is None else name),
            lambda result: number(result, key, position, metric.table_scale),
        )

    return tuple(column(position, threshold) for position, threshold in enumerate(thresholds))


def representative(thresholds: Sequence[float]) -> list[int]:
    """Return the places of up to three thresholds, at a quarter, a half and three quarters of them all.

    >>> representative([0, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175])
    [2, 4, 6]
    """
    return (
        list(dict.fromkeys(len(thresholds) * quarter // 4 for quarter in (1, 2, 3)))
        if len(thresholds)
        else []
    )


def representative_crd(shown: Sequence[Comparison]) -> tuple[Reading, ...]:
    """Return boundary CRD at up to three thresholds, which are each dataset's own, and the boundary mass."""
    places = {comparison.dataset: representative(comparison.thresholds) for comparison in shown}
    metric = METRICS["boundary_crd"]

    def column(order: int) -> Reading:
        def read(result: Result) -> Number:
            own = places[result["dataset"]]
            if order >= len(own):
                return Number()
            return number(result, metric.key, own[order], metric.table_scale)

        name = f"{metric.heading}(t_{order + 1})"
        return Reading(Column(name, name), read)

    some = (column(order) for order in range(max(map(len, places.values()), default=0)))
    return (*some, reading(METRICS["boundary_mass"]))


def costs(shown: Sequence[Comparison], *, paper_counting: bool) -> tuple[Reading, ...]:
    """Return costs per query and before, measured time, and break-evens of RRISE.

    Break-evens are against the variant of a method that is in the main comparison; with `paper_counting`
    they are against the variants that the paper's rest on.
    """
    parts = COUNTED[paper_counting]
    present = {method for comparison in shown for method in comparison.main}
    rivals = [
        method
        for method in voting_methods()
        if method.abbreviation and (method.in_paper or method.name in present)
    ]
    results = [result for comparison in shown for result in comparison.results]
    timed = any(result["mean"].get("seconds") is not None for result in results)
    equalled = any(result["main"] and result["mean"].get("rival_passes") is not None for result in results)
    return (
        *columns(PASSES),
        *(columns(TIME) if timed else ()),
        Reading(Column("Train Cost", "Train Cost"), lambda result: _total(result, parts)),
        *(_break_even(shown, method, paper_counting) for method in rivals),
        *(columns(EQUAL) if equalled else ()),
    )


def _break_even(shown: Sequence[Comparison], method: Method, paper_counting: bool) -> Reading:
    rivals = {comparison.dataset: _rival(comparison, method, paper_counting) for comparison in shown}

    def read(result: Result) -> Number:
        rival = rivals[result["dataset"]]
        return number(result, "break_even", rival) if result["method"] == RRISE.name and rival else Number()

    heading = f"RRISE BE vs {method.abbreviation}"
    return Reading(Column(heading, heading if method.in_paper else None), read)


def _rival(comparison: Comparison, method: Method, paper_counting: bool) -> str | None:
    """Return the name under which break-evens against the wanted variant of a method are saved."""
    main = comparison.main.get(method.name)
    if not paper_counting or not method.paper_break_even:
        return None if main is None else f"{method.name} {main['variant']}"
    for result in comparison.select([method.name], frozenset({"variant"})):
        if family(result) == method.paper_break_even:
            return f"{method.name} {result['variant']}"
    return None


def _total(result: Result, parts: Sequence[str]) -> Number:
    """Return the sum of costs; its deviation is known where at most one of them differs between runs."""
    numbers = [number(result, part) for part in parts]
    deviations = [part.std for part in numbers if part.std]
    total = sum(part.mean or 0 for part in numbers)
    if len(deviations) > 1 or any(part.std is None for part in numbers):
        return Number(total)
    return Number(total, sum(deviations))
