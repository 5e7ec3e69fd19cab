"""The results of one dataset, and which of them a table shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from rrise.evaluation.measure.outcomes import (
    EARLY_STOPPING,
    METHODS,
    MONTE_CARLO,
    SEQUENTIAL,
    TWO_STAGE,
)
from rrise.evaluation.tables.paper import SUFFIXES

Result = Mapping[str, Any]
"""One setting over seeds: `dataset`, the fields of a `Setting`, `main`, `mean`, `std` and `runs`."""

NOT_IN_PAPER = (TWO_STAGE, SEQUENTIAL)
PLAIN_SCORES = ("", "additive")
"""Scores that need no mark: those of the paper."""


def family(result: Result) -> str:
    """Return the variant without its budget.

    >>> family({"variant": "k500_decline0.01", "budget": 500})
    'decline0.01'
    """
    budget = (f"n{result['budget']}", f"k{result['budget']}")
    return "_".join(part for part in result["variant"].split("_") if part not in budget)


def mark(result: Result) -> str:
    """Return what is written behind the name of a method that needs a word of caution or of distinction."""
    score = result["score"]
    words = "" if score in PLAIN_SCORES else f" ({'uncalibrated' if score == 'none' else score})"
    return f"{words}†" if result["method"] == EARLY_STOPPING else words


@dataclass(frozen=True)
class Comparison:
    """All results of one dataset, and its thresholds."""

    dataset: str
    results: Sequence[Result]
    thresholds: Sequence[float]

    @cached_property
    def main(self) -> dict[str, Result]:
        """The result of each method in the main comparison."""
        return {result["method"]: result for result in self.results if result["main"]}

    @property
    def budget(self) -> int:
        """The budget of the main comparison."""
        main = list(self.main.values())
        voting = [result for result in main if result["method"] == MONTE_CARLO]
        return max(int(result["budget"]) for result in voting or main or self.results)

    @property
    def failure(self) -> str:
        """The level of the main comparison."""
        found = list(self.main.values()) or self.results
        return str(max((result["failure"] for result in found), key=Fraction))

    def select(self, methods: Sequence[str], varied: frozenset[str]) -> list[Result]:
        """Return the results of these methods that differ from the main comparison only in what is varied.

        `varied` is out of `variant`, `budget` and `failure`; every score is taken, but what is not calibrated
        has no level to vary. A method that is not in the main comparison has no main variant, so it appears
        only where variants are varied.
        """
        leveled = "failure" in varied
        return [
            result
            for result in self.results
            if result["method"] in methods
            and self._differs(result) <= varied
            and not (leveled and result["score"] == "none")
        ]

    def ordered(self, results: Sequence[Result], *, main_first: bool) -> list[Result]:
        """Return results in the order of the paper, then those that it does not have.

        Where `main_first`, the main variant of a method comes before the others.
        """

        def place(result: Result) -> tuple[Any, ...]:
            method, variant = result["method"], family(result)
            usual = method in self.main and variant == family(self.main[method])
            return (
                method in NOT_IN_PAPER,
                result["score"] not in PLAIN_SCORES,
                METHODS.index(method) if method in METHODS else len(METHODS),
                result["score"] == "none",
                result["score"],
                not (main_first and usual),
                variant,
                result["budget"],
                Fraction(result["failure"]),
            )

        return sorted(results, key=place)

    def _differs(self, result: Result) -> set[str]:
        main = self.main.get(result["method"])
        differs = {
            "variant": main is None or family(result) != family(main),
            "budget": result["budget"] != (self.budget if main is None else main["budget"]),
            "failure": Fraction(result["failure"]) != Fraction(self.failure),
        }
        return {name for name, different in differs.items() if different}


def comparisons(results: Sequence[Result], thresholds: Mapping[str, Sequence[float]]) -> list[Comparison]:
    """Split results by dataset: the paper's datasets in its order, then others as they come."""
    datasets = list(dict.fromkeys(result["dataset"] for result in results))
    known = [name for name in SUFFIXES if name in datasets]
    return [
        Comparison(name, [result for result in results if result["dataset"] == name], thresholds[name])
        for name in [*known, *(name for name in datasets if name not in known)]
    ]
