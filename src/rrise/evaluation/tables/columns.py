"""Columns of the tables: which metric each shows, in which unit, and what the paper prints for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rrise.evaluation.measure.outcomes import (
    EARLY_STOPPING,
    INPUT_SPECIFIC,
    MONTE_CARLO,
    RRISE,
    SEQUENTIAL,
    SURROGATES,
    TWO_STAGE,
)
from rrise.evaluation.tables.comparison import Comparison, Result, family
from rrise.evaluation.tables.values import Column, Number


@dataclass(frozen=True)
class Metric:
    """A column and how its number is read from a result.

    `comparable` names the methods whose number in the paper is the same thing; None is all of them.
    """

    column: Column
    read: Callable[[Result], Number]
    comparable: tuple[str, ...] | None = None


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


def _plain(name: str, key: str, *, paper: str | None = "", scale: float = 1, digits: int = 2) -> Metric:
    column = Column(name, name if paper == "" else paper, digits)
    return Metric(column, lambda result: number(result, key, scale=scale))


def _percent(name: str, key: str, *, paper: str | None = "") -> Metric:
    return _plain(name, key, paper=paper, scale=100)


CERTIFIED_ACCURACY = _percent("CertAcc@0 (%)", "certified_accuracy")
ACCURACY = Metric(
    Column("Accuracy (%)", CERTIFIED_ACCURACY.column.name),
    lambda result: number(result, "accuracy", scale=100),
    comparable=SURROGATES,
)
"""Plain accuracy, beside CertAcc@0 because it is what the paper prints as CertAcc@0 of surrogates."""

BOUNDARY_MASS = _percent("Boundary Mass", "boundary_mass")
BOUNDARY = (
    ACCURACY,
    CERTIFIED_ACCURACY,
    _percent("OCA (%)", "boundary_accuracy"),
    _plain("Avg. Radius", "boundary_radius"),
    BOUNDARY_MASS,
)
OFFSET = _plain("δ", "offset", paper="delta")
BEST_EPOCH = _plain("Best Epoch", "epoch")
TEST_COST = _plain("Test Cost", "mean_passes")
SAMPLE_REDUCTION = _plain("Sample Red.", "sample_reduction")
VIOLATIONS = (
    _percent("Violations (%)", "violation_rate", paper=None),
    _percent("Issued Violations (%)", "issued_violation_rate", paper=None),
    _percent("Violations among Issued (%)", "violation_rate_among_issued", paper=None),
)
EQUAL_MONTE_CARLO = (
    _plain("Equal MC", "rival_passes", paper=None),
    _plain("BE vs Equal MC", "rival_break_even", paper=None),
)
FURTHER = (
    _percent("Issued (%)", "issued", paper=None),
    _plain("ACR", "average_certified_radius", paper=None, digits=3),
    _plain("Mean Issued Radius", "mean_issued_radius", paper=None, digits=3),
    _plain("Radius Ratio", "radius_ratio", paper=None, digits=3),
    _plain("Radius Drop", "radius_drop", paper=None, digits=3),
    _percent("Agreement (%)", "agreement", paper=None),
    *VIOLATIONS,
)


def at_thresholds(
    thresholds: Sequence[float], key: str, *, paper: bool, scale: float = 1
) -> tuple[Metric, ...]:
    """Return one column for each threshold of a metric that has one number for each."""

    def column(position: int, threshold: float) -> Metric:
        name = f"t={threshold:g}"
        return Metric(
            Column(name, name if paper else None), lambda result: number(result, key, position, scale)
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


def representative_crd(shown: Sequence[Comparison]) -> tuple[Metric, ...]:
    """Return boundary CRD at up to three thresholds, which are each dataset's own, and the boundary mass."""
    places = {comparison.dataset: representative(comparison.thresholds) for comparison in shown}

    def column(order: int) -> Metric:
        def read(result: Result) -> Number:
            own = places[result["dataset"]]
            return number(result, "boundary_crd", own[order]) if order < len(own) else Number()

        name = f"CRD(t_{order + 1})"
        return Metric(Column(name, name), read)

    return (*(column(order) for order in range(max(map(len, places.values()), default=0))), BOUNDARY_MASS)


def costs(shown: Sequence[Comparison], *, paper_counting: bool) -> tuple[Metric, ...]:
    """Return costs per query and before, measured time, and break-evens of RRISE.

    Break-evens are against the variant of a method that is in the main comparison; with `paper_counting`
    they are against the 5 % variants of Baselines 2 and 3, as the paper's are.
    """
    parts = ("targets", "training_paper") if paper_counting else ("targets", "training", "calibration")
    against = {MONTE_CARLO: "B1", INPUT_SPECIFIC: "B2", EARLY_STOPPING: "B3"}
    added = {TWO_STAGE: "two-stage", SEQUENTIAL: "sequential"}
    present = {method for comparison in shown for method in comparison.main}
    rivals = [*against.items(), *(item for item in added.items() if item[0] in present)]
    times = [_plain("Time (ms)", "seconds", paper=None, scale=1000, digits=3)]
    measured = any(
        result["mean"].get("seconds") is not None for comparison in shown for result in comparison.results
    )
    return (
        TEST_COST,
        *(times if measured else []),
        Metric(Column("Train Cost", "Train Cost"), lambda result: _total(result, parts)),
        *(_break_even(shown, method, name, paper_counting) for method, name in rivals),
        *(EQUAL_MONTE_CARLO if any(_has_rival(result) for one in shown for result in one.results) else ()),
    )


def _has_rival(result: Result) -> bool:
    return bool(result["main"] and result["mean"].get("rival_passes") is not None)


def _break_even(shown: Sequence[Comparison], method: str, name: str, paper_counting: bool) -> Metric:
    rivals = {comparison.dataset: _rival(comparison, method, paper_counting) for comparison in shown}

    def read(result: Result) -> Number:
        rival = rivals[result["dataset"]]
        return number(result, "break_even", rival) if result["method"] == RRISE and rival else Number()

    heading = f"RRISE BE vs {name}"
    return Metric(Column(heading, heading if name.startswith("B") else None), read)


def _rival(comparison: Comparison, method: str, paper_counting: bool) -> str | None:
    """Return the name under which break-evens against the wanted variant of a method are saved."""
    main = comparison.main.get(method)
    wanted = (
        {INPUT_SPECIFIC: "decline0.05", EARLY_STOPPING: "tol0.05"}.get(method) if paper_counting else None
    )
    if wanted is None:
        return None if main is None else f"{method} {main['variant']}"
    for result in comparison.select([method], frozenset({"variant"})):
        if family(result) == wanted:
            return f"{method} {result['variant']}"
    return None


def _total(result: Result, parts: Sequence[str]) -> Number:
    """Return the sum of costs; its deviation is known where at most one of them differs between runs."""
    numbers = [number(result, part) for part in parts]
    deviations = [part.std for part in numbers if part.std]
    total = sum(part.mean or 0 for part in numbers)
    if len(deviations) > 1 or any(part.std is None for part in numbers):
        return Number(total)
    return Number(total, sum(deviations))
