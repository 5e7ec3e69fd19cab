"""The main comparison: which results belong to it, and what tables, figures and pages call them."""

from collections.abc import Sequence

from rrise.certifiers.methods import ONE_STAGE, TWO_STAGE, method_by_name
from rrise.evaluation.measure.known import FACE_VALUE, is_papers_score, surrogates
from rrise.files import Json

_NOT_CALIBRATED = "not calibrated"


def main_results(run: Json) -> list[Json]:
    """Return the results of the main comparison, in the paper's order of methods."""
    chosen = [result for result in run["results"] if result["main"]]
    return sorted(chosen, key=lambda result: place_of(result["method"]))


def names_of_main(run: Json) -> list[tuple[str, Json]]:
    """Return the results of the main comparison with the names that figures and tables give them."""
    details = details_that_differ([run])
    return [
        (name_of(result["method"], words_of(result, details[result["method"]])), result)
        for result in main_results(run)
    ]


def name_of(method: str, words: str = "") -> str:
    """Return how a method is called in a figure.

    >>> name_of("Baseline 2"), name_of("RRISE", "probit")
    ('Baseline 2: input-specific budget', 'RRISE, probit')
    """
    return ", ".join(part for part in (method_by_name(method).shown_as, words) if part)


def details_that_differ(runs: Sequence[Json]) -> dict[str, tuple[str, ...]]:
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


def words_of(result: Json, details: tuple[str, ...]) -> str:
    """Return what a name says beyond the method: always a score that is not the paper's."""
    plain = is_papers_score(result["score"])
    told = details if plain or "score" in details else ("score", *details)
    words = {**result, **({"score": _NOT_CALIBRATED} if result["score"] == FACE_VALUE else {})}
    return ", ".join(words[name] for name in told if words[name])


def place_of(method: str) -> int:
    """Return the place of a method in the paper's order; unknown methods come last."""
    return method_by_name(method).order


def main_result(results: Json, *methods: str) -> Json | None:
    """Return the result of the first of the methods that is in the main comparison."""
    for method in methods:
        for result in results["results"]:
            if result["main"] and result["method"] == method:
                found: Json = result
                return found
    return None


def surrogate_result(results: Json) -> Json | None:
    """Return the result of RRISE in the main comparison, else of another surrogate."""
    return main_result(results, *(method.name for method in surrogates()))


def reference_result(results: Json) -> Json | None:
    """Return the result of Monte Carlo in the main comparison, two-stage where there is one."""
    return main_result(results, TWO_STAGE.name, ONE_STAGE.name)
