"""The main comparison and the costs as rows of text, for the page and the terminal."""

from fractions import Fraction

from rrise.certifiers.methods import method_by_name
from rrise.evaluation.measure.all_metrics import METRICS, Metric
from rrise.evaluation.measure.costs import COUNTED, break_even
from rrise.evaluation.measure.known import is_surrogate
from rrise.evaluation.measure.main_comparison import (
    name_of,
    names_of_main,
    reference_result,
    surrogate_result,
)
from rrise.evaluation.measure.number_text import count_text
from rrise.evaluation.tables.comparison import family
from rrise.files import Json

_EQUALLY_GOOD = "equally good Monte Carlo"


def compared_metrics() -> list[Metric]:
    """Return the metrics of the main comparison, a column each."""
    return [metric for metric in METRICS.values() if metric.compared]


def comparison_headings() -> list[str]:
    """Return the headings of the main comparison: the method, then its metrics."""
    return ["method", *(metric.compared for metric in compared_metrics())]


def comparison_rows(results: Json) -> list[list[str]]:
    """Return one row per method, under `comparison_headings`; shares are rounded down, error rates up.

    A metric that earlier results do not have is a dash.
    """
    return [
        [name, *(metric.write(result["metrics"].get(metric.key)) for metric in compared_metrics())]
        for name, result in names_of_main(results)
    ]


def cost_rows(results: Json) -> list[list[str]]:
    """Return what the surrogate costs: name, passes counted per example, and as the paper counts.

    Empty without a surrogate. The paper counts a training step as one pass whatever its batch, and leaves
    calibration out.
    """
    ours = surrogate_result(results)
    if ours is None:
        return []
    metrics = ours["metrics"]
    targets, training, calibration = (metrics[name] for name in ("targets", "training", "calibration"))
    honest, paper = _offline(metrics)
    return [
        ["votes of the training inputs (targets)", count_text(targets), count_text(targets)],
        ["training to the selected epoch", count_text(training), count_text(metrics["training_paper"])],
        ["calibration: votes, and one pass each of the surrogate", count_text(calibration), "not counted"],
        ["all of it, once", count_text(honest), count_text(paper)],
        ["each certificate", *[count_text(metrics["mean_passes"])] * 2],
    ]


def break_even_rows(results: Json) -> list[list[str]]:
    """Return when the surrogate has paid off: against what, its passes per query, and queries in both counts.

    The first row is against Monte Carlo that certifies as much, where that was looked for. Empty without a
    surrogate. The paper takes the 5 % variants of Baselines 2 and 3.
    """
    ours = surrogate_result(results)
    if ours is None:
        return []
    metrics, rows = ours["metrics"], []
    own, totals = metrics["mean_passes"], _offline(metrics)
    if looked_for_rival(results):
        passes = metrics["rival_passes"]
        when = ["none found"] * 2 if passes is None else [_when(total, own, passes) for total in totals]
        rows.append([f"the cheapest {_EQUALLY_GOOD}", count_text(passes), *when])
    for name, result in names_of_main(results):
        if is_surrogate(result["method"]):
            continue
        passes = [one["metrics"]["mean_passes"] for one in (result, _rival_of_paper(results, result))]
        when = [_when(total, own, theirs) for total, theirs in zip(totals, passes, strict=True)]
        rows.append([name, count_text(passes[0]), *when])
    return rows


def _offline(metrics: Json) -> tuple[int, int]:
    """Return the passes before the first query, counted per example and as the paper counts."""
    honest, paper = (sum(metrics[name] for name in COUNTED[as_paper]) for as_paper in (False, True))
    return honest, paper


def looked_for_rival(results: Json) -> bool:
    """Whether a Monte Carlo was looked for that certifies as much as the surrogate: not in earlier results.

    There is nothing to look for where the surrogate certifies nothing.
    """
    ours = surrogate_result(results)
    metrics = {} if ours is None else ours["metrics"]
    return "rival_passes" in metrics and metrics["certified_accuracy"] > 0


def _rival_of_paper(results: Json, result: Json) -> Json:
    """Return the variant that the paper takes for its break-evens: another one of Baselines 2 and 3."""
    wanted = method_by_name(result["method"]).paper_break_even
    for other in results["results"] if wanted else ():
        same = all(other[name] == result[name] for name in ("method", "budget", "failure"))
        if same and family(other) == wanted:
            found: Json = other
            return found
    return result


def break_even_against(results: Json, other: Json) -> int | None:
    """Return the certificates after which the surrogate has paid off, in the counting of the run."""
    ours = surrogate_result(results)
    if ours is None or ours["metrics"]["break_even"] is None:
        return None
    found: int | None = ours["metrics"]["break_even"].get(f"{other['method']} {other['variant']}")
    return found


def break_even_sentence(results: Json) -> str | None:
    """Say after how many queries the surrogate has paid off, against which methods and in which count.

    Monte Carlo that certifies as much comes first; with its usual votes it mostly certifies more.
    """
    ours, theirs = surrogate_result(results), reference_result(results)
    queries = None if theirs is None else break_even_against(results, theirs)
    if ours is None or theirs is None or queries is None:
        return None
    if not ours["metrics"]["certified_accuracy"]:
        return f"{ours['method']} certifies nothing here: it never pays off"
    count = ", counted as the paper does" if results["protocol"] == "paper" else ""
    usual = f"after {queries:,} queries against {name_of(theirs['method'])}{count}"
    if not looked_for_rival(results):
        return f"{ours['method']} has paid off {usual}"
    passes, later = (ours["metrics"][name] for name in ("rival_passes", "rival_break_even"))
    if passes is None:
        return f"{ours['method']} has paid off {usual}; no {_EQUALLY_GOOD} was found"
    rival = f"the cheapest {_EQUALLY_GOOD} ({count_text(passes)} passes per query)"
    if later is None:
        return f"{ours['method']} never pays off against {rival}; it has paid off {usual}"
    return f"{ours['method']} has paid off after {count_text(later)} queries against {rival}, and {usual}"


def _when(offline: int, ours: float, theirs: float) -> str:
    found = break_even(offline, Fraction(ours), Fraction(theirs))
    return "never" if found is None else f"{found:,}"
