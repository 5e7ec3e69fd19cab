"""Mean and standard deviation over runs that differ in their seed alone."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from rrise.errors import MismatchError
from rrise.files import Json

_SHARED = ("protocol", "sigma", "classes", "thresholds", "main_budget", "main_failure")
_TARGETS = ("votes.train", "surrogate.votes")
_SETTING = ("method", "variant", "budget", "failure", "score")


def over_seeds(runs: Sequence[Json]) -> list[Json]:
    """Return `mean` and `std` of every metric over the runs of each dataset, by setting.

    `runs` are as `results.json` holds them. Each entry has `dataset`, the fields of the setting, `main`,
    `mean`, `std` and `runs`, their number; entries come in the order of the results. `std` is the sample
    standard deviation (n - 1 in the denominator), None with one run. Lists are taken element by element and
    break-evens method by method.

    A metric that is undefined in some runs is undefined (None) over all of them: a mean over the others would
    leave out just the runs that certified nothing, or that never broke even. A setting that some runs lack is
    averaged over those that have it.

    Refuses two runs of one dataset that differ in protocol, sigma, classes, thresholds or main comparison, or
    that have the same seed.
    """
    _check_comparable(runs)
    groups: dict[tuple[Any, ...], list[Json]] = {}
    for run in runs:
        for result in run["results"]:
            key = (run["dataset"], *(result[name] for name in _SETTING))
            groups.setdefault(key, []).append(result)
    return [
        {
            **dict(zip(("dataset", *_SETTING), key, strict=True)),
            "main": all(result["main"] for result in group),
            "mean": _combined([result["metrics"] for result in group], statistics.fmean),
            "std": _combined([result["metrics"] for result in group], _standard_deviation),
            "runs": len(group),
        }
        for key, group in groups.items()
    ]


def _standard_deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def _combined(values: Sequence[Any], number: Callable[[Sequence[float]], float | None]) -> Any:
    """Apply `number` to the numbers at the same place in each value; None where one has none there."""
    if any(value is None for value in values):
        return None
    if isinstance(values[0], dict):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _combined([value.get(name) for value in values], number) for name in names}
    if isinstance(values[0], list):
        return [_combined(place, number) for place in zip(*values, strict=True)]
    return number(values)


def _check_comparable(runs: Sequence[Json]) -> None:
    firsts: dict[str, Json] = {}
    seeds: dict[tuple[Any, ...], str] = {}
    for run in runs:
        dataset, first = run["dataset"], firsts.setdefault(run["dataset"], run)
        for name in _SHARED:
            if run[name] != first[name]:
                raise MismatchError(
                    f"the runs {first['run']} and {run['run']} of {dataset} cannot be averaged: "
                    f"{name.replace('_', ' ')} {first[name]} in the first, {run[name]} in the second; "
                    f"evaluate both in the same way"
                )
        _check_same_settings(first, run)
        own = (dataset, *sorted(run.get("seeds", {"votes.seed": run["seed"]}).items()))
        if own in seeds:
            raise MismatchError(
                f"the runs {seeds[own]} and {run['run']} of {dataset} cannot be averaged: both have seed "
                f"{run['seed']}, and a standard deviation over seeds needs different ones"
            )
        seeds[own] = run["run"]


def _check_same_settings(first: Json, run: Json) -> None:
    """Refuse two runs whose recipes differ in more than seeds.

    How the same base was had does not matter, and a surrogate's variant tells how many votes trained it.
    """
    mine, theirs = first.get("settings", {}), run.get("settings", {})
    for name in sorted({*mine, *theirs}):
        same_base = name.startswith("base.") and first.get("base") == run.get("base")
        if name not in _TARGETS and mine.get(name) != theirs.get(name) and not same_base:
            raise MismatchError(
                f"the runs {first['run']} and {run['run']} of {run['dataset']} cannot be averaged: {name} is "
                f"{mine.get(name)} in the first and {theirs.get(name)} in the second; only seeds may differ"
            )
