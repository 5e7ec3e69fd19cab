"""The results of one dataset, and which of them a table shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from rrise.certifiers.methods import ONE_STAGE, method_by_name
from rrise.evaluation.measure.known import FACE_VALUE, is_papers_score
from rrise.evaluation.tables.paper import SUFFIXES

Result = Mapping[str, Any]
"""One setting over seeds: `dataset`, the fields of a `Setting`, `main`, `mean`, `std` and `runs`."""

UNCALIBRATED, CAUTION = "uncalibrated", "†"
"""Marks of surrogates at face value, and of methods that need a word of caution."""


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
    words = "" if is_papers_score(score) else f" ({UNCALIBRATED if score == FACE_VALUE else score})"
    return f"{words}{CAUTION}" if method_by_name(result["method"]).caution else words


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
        voting = [result for result in main if result["method"] == ONE_STAGE.name]
        return max(int(result["budget"]) for result in voting or main or self.results)

    @property
    def failure(self) -> str:
        """The failure of the main comparison."""
        found = list(self.main.values()) or self.results
        return str(max((result["failure"] for result in found), key=Fraction))

    def select(self, methods: Sequence[str] | None, varied: frozenset[str]) -> list[Result]:
        """Return the results of these methods that differ from the main comparison only in what is varied.

        None stands for all methods.

        `varied` is out of `variant`, `budget` and `failure`; every score is taken, but what is not calibrated
        has no failure to vary. A method that is not in the main comparison has no main variant, so it appears
        only where variants are varied.
        """
        leveled = "failure" in varied
        return [
            result
            for result in self.results
            if (methods is None or result["method"] in methods)
            and self._differs(result) <= varied
            and not (leveled and result["score"] == FACE_VALUE)
        ]

    def ordered(self, results: Sequence[Result], *, main_first: bool) -> list[Result]:
        """Return results in the order of the paper, then those that it does not have.

        Where `main_first`, the main variant of a method comes before the others.
        """

        def place(result: Result) -> tuple[Any, ...]:
            name, variant = result["method"], family(result)
            usual = name in self.main and variant == family(self.main[name])
            method = method_by_name(name)
            return (
                not method.in_paper,
                not is_papers_score(result["score"]),
                method.order,
                result["score"] == FACE_VALUE,
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
