"""The results of one or more runs, by method and dataset, with their spread over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rrise.evaluation.figures.style import Look, look_of
from rrise.evaluation.outcomes import (
    EARLY_STOPPING,
    INPUT_SPECIFIC,
    JENSEN_SHANNON,
    METHODS,
    MONTE_CARLO,
)
from rrise.files import Json

_NAMES = {
    MONTE_CARLO: "Baseline 1: Monte Carlo, one-stage",
    INPUT_SPECIFIC: "Baseline 2: input-specific budget",
    EARLY_STOPPING: "Baseline 3: early stopping, not valid",
    JENSEN_SHANNON: "Baseline 4: Jensen–Shannon surrogate",
}
_SCORES = {"none": "not calibrated", "": ""}


@dataclass(frozen=True)
class Spread:
    """Mean over seeds, and standard deviation where there are two or more."""

    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Series:
    """One method of the comparison: per dataset, the metrics of each seed."""

    name: str
    method: str
    look: Look
    metrics: dict[str, list[Json]] = field(default_factory=dict)

    def spread(self, dataset: str, metric: str, place: int | None = None) -> Spread | None:
        """Return a metric over the seeds, its entry `place` if it is a list; None where undefined."""
        values = [metrics.get(metric) for metrics in self.metrics.get(dataset, [])]
        return spread_of([value if place is None or value is None else value[place] for value in values])


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """Return mean and sample standard deviation over seeds; None if the number is undefined for any of them.

    >>> spread_of([0.5]), spread_of([0.5, None]), spread_of([])
    (Spread(mean=0.5, deviation=None), None, None)
    """
    defined = [value for value in values if value is not None]
    if not defined or len(defined) < len(values):
        return None
    deviation = float(np.std(defined, ddof=1)) if len(defined) > 1 else None
    return Spread(float(np.mean(defined)), deviation)


def datasets_of(runs: Sequence[Json]) -> list[str]:
    """Return the datasets of the runs, in the order of their first run."""
    return list(dict.fromkeys(run["dataset"] for run in runs))


def main_results(run: Json) -> list[Json]:
    """Return the results of the main comparison, in the paper's order of methods."""
    chosen = [result for result in run["results"] if result["main"]]
    return sorted(chosen, key=lambda result: _place_of(result["method"]))


def main_series(runs: Sequence[Json]) -> list[Series]:
    """Return the main comparison of the runs, one series per method and, where they differ, setting."""
    series: dict[tuple[str, str], Series] = {}
    details = _details_that_differ(runs)
    for run in runs:
        for result in main_results(run):
            method, words = result["method"], _words(result, details[result["method"]])
            place = sum(known == method for known, _ in series)
            made = Series(name_of(method, words), method, look_of(method, place))
            found = series.setdefault((method, words), made)
            found.metrics.setdefault(run["dataset"], []).append(result["metrics"])
    return sorted(series.values(), key=lambda one: _place_of(one.method))


def names_of_main(run: Json) -> list[tuple[str, Json]]:
    """Return the results of the main comparison with the names that figures and tables give them."""
    details = _details_that_differ([run])
    return [
        (name_of(result["method"], _words(result, details[result["method"]])), result)
        for result in main_results(run)
    ]


def name_of(method: str, words: str = "") -> str:
    """Return how a method is called in a figure.

    >>> name_of("Baseline 2"), name_of("RRISE", "probit")
    ('Baseline 2: input-specific budget', 'RRISE, probit')
    """
    return ", ".join(part for part in (_NAMES.get(method, method), words) if part)


def _details_that_differ(runs: Sequence[Json]) -> dict[str, tuple[str, ...]]:
    """Return, per method, which settings tell the results of one run apart."""
    details: dict[str, tuple[str, ...]] = {}
    for run in runs:
        results = main_results(run)
        for method in {result["method"] for result in results}:
            same = [result for result in results if result["method"] == method]
            needed = tuple(name for name in ("score", "variant", "failure") if _differ(same, name))
            details[method] = max(details.get(method, ()), needed, key=len)
    return details


def _differ(results: list[Json], name: str) -> bool:
    return len({result[name] for result in results}) > 1


def _words(result: Json, details: tuple[str, ...]) -> str:
    """Return what a name says beyond the method: always a score that is not the paper's."""
    told = details if result["score"] in ("", "additive") or "score" in details else ("score", *details)
    return ", ".join(part for part in (_SCORES.get(result[name], result[name]) for name in told) if part)


def _place_of(method: str) -> int:
    return METHODS.index(method) if method in METHODS else len(METHODS)
