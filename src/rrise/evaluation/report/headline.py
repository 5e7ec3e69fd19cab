"""The headline numbers of the report, a card each."""

from dataclasses import dataclass

from rrise.evaluation.measure.all_metrics import METRICS
from rrise.evaluation.measure.main_comparison import name_of, reference_result, surrogate_result
from rrise.evaluation.measure.number_text import DASH, count_text
from rrise.evaluation.report.comparison import break_even_against, looked_for_rival
from rrise.files import Json

_FIRST = "mean_passes"
"""The metric whose headline number comes first."""


@dataclass(frozen=True)
class Tile:
    """A card: a number, what it counts, and what stands beside it for comparison."""

    value: str
    words: str
    beside: str = ""


def headline_tiles(results: Json) -> list[Tile]:
    """Return the card of each headline metric of the surrogate."""
    ours, theirs = surrogate_result(results), reference_result(results)
    if ours is None:
        return []
    tiled = [metric for metric in METRICS.values() if metric.tile]
    shown = []
    for metric in sorted(tiled, key=lambda one: one.key != _FIRST):
        beside = "" if theirs is None else f"Monte Carlo: {metric.write(theirs['metrics'].get(metric.key))}"
        shown.append(Tile(metric.write(ours["metrics"].get(metric.key)), metric.tile, beside))
    return shown


def break_even_tiles(results: Json) -> list[Tile]:
    """Return after how many queries the surrogate has paid off, first against an equally good Monte Carlo.

    The second card is against Monte Carlo with its usual votes, which mostly certifies more. Earlier results
    have that one alone.
    """
    ours, theirs = surrogate_result(results), reference_result(results)
    if ours is None or theirs is None:
        return []
    words, metrics = f"queries until {ours['method']} has paid off", ours["metrics"]
    if not metrics["certified_accuracy"]:
        return [Tile("never", words, "It certifies nothing.")]
    usual = Tile(
        _count(break_even_against(results, theirs)),
        f"{words}, against Monte Carlo with its usual votes",
        f"{name_of(theirs['method'])}: {count_text(theirs['metrics']['mean_passes'])} passes per query",
    )
    if not looked_for_rival(results):
        return [usual]
    words += ", against Monte Carlo that certifies as much"
    passes = metrics["rival_passes"]
    if passes is None:
        return [Tile(DASH, words, "No number of votes tried certifies as much."), usual]
    beside = f"the cheapest that does: {count_text(passes)} passes per query"
    return [Tile(_count(metrics["rival_break_even"]), words, beside), usual]


def _count(queries: int | None) -> str:
    return "never" if queries is None else f"{queries:,}"
