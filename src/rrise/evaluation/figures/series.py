"""The results of one or more runs, by method and dataset, with their spread over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rrise.certifiers.methods import method_by_name
from rrise.evaluation.measure.main_comparison import (
    details_that_differ,
    main_results,
    name_of,
    place_of,
    words_of,
)
from rrise.files import Json
from rrise.looks import Look


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


def main_series(runs: Sequence[Json]) -> list[Series]:
    """Return the main comparison of the runs, one series per method and, where they differ, setting."""
    series: dict[tuple[str, str], Series] = {}
    details = details_that_differ(runs)
    for run in runs:
        for result in main_results(run):
            method, words = result["method"], words_of(result, details[result["method"]])
            place = sum(known == method for known, _ in series)
            made = Series(name_of(method, words), method, method_by_name(method).look.variant(place))
            found = series.setdefault((method, words), made)
            found.metrics.setdefault(run["dataset"], []).append(result["metrics"])
    return sorted(series.values(), key=lambda one: place_of(one.method))
