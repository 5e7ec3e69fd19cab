"""When has a surrogate paid off? Tables of docs/reproduction, from the published results."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from published import (
    HEAD,
    LEVELS,
    MAIN_LEVEL,
    Columns,
    Entry,
    Results,
    column,
    number,
    percent,
    quality,
    table,
    text,
)
from reproduction_names import entry_name, plain
from rrise.certifiers.methods import RRISE
from rrise.evaluation.measure import costs
from rrise.evaluation.measure.equal_monte_carlo import Rivals
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.methods import surrogate_outcomes
from rrise.votes.noise import Gaussian

BREAK_EVENS = {
    "Baseline 1 n10000": "RRISE BE vs B1",
    "Baseline 2 k10000_decline0.01": None,
    "Baseline 2 k10000_decline0.05": "RRISE BE vs B2",
    "Baseline 3 n10000_tol0.01": None,
    "Baseline 3 n10000_tol0.05": "RRISE BE vs B3",
    "Monte Carlo, two-stage n10000": None,
    "Sequential, anytime-valid n10000_tol0.01": None,
}
"""What the paper says it breaks even with, at the variants that give its numbers."""


def break_evens(results: Results) -> str:
    """Tell when the run's own surrogate has paid off, in both countings, beside the paper's."""
    own = {
        protocol: results.entries(protocol, method=RRISE.name, main=True)[0] for protocol in results.metrics
    }
    rows = [{"against": against, "metric": metric} for against, metric in BREAK_EVENS.items()]

    def ours(protocol: str) -> Callable[[Entry], str]:
        return lambda row: text(own[protocol]["mean"]["break_even"].get(row["against"]), 0)

    columns: Columns = {
        "compared with": lambda row: plain(*row["against"].rsplit(" ", 1)),
        "all costs counted": ours("held-out"),
        "counted as in the paper": ours("paper"),
        "paper": lambda row: text(results.paper("main_compute", RRISE.name, row["metric"]), 0),
    }
    return table(columns, rows, words=1)


def cheapest(results: Results) -> str:
    """Find the cheapest targets and calibration that lose at most a point, and when they have paid off."""
    paper = results.paper("main_compute", RRISE.name, "RRISE BE vs B1")
    rows = []
    for score in ("additive", "probit"):
        best, alike, good = _choices(results.evidence[0].held_out(), score)
        rows += [{**option, "lost": best["accuracy"] - option["accuracy"]} for option in (best, alike, good)]
    columns: Columns = {
        "score": lambda row: row["score"],
        "votes per training image": lambda row: f"{row['targets']:,}",
        "votes per calibration image": lambda row: f"{row['calibration']:,}",
        "CertAcc@0 (%)": lambda row: text(100 * row["accuracy"]),
        "CertAcc@0 lost (points)": lambda row: text(100 * row["lost"]),
        "average certified radius": lambda row: text(row["radius"], 3),
        "passes before the first query": lambda row: f"{row['offline']:,}",
        "break-even (queries)": lambda row: f"{row['break_even']:,}",
        "paper: break-even (queries)": lambda _: text(paper, 0),
        "times earlier": lambda row: text(paper / row["break_even"], 0),
    }
    return table(columns, rows, words=1)


def _choices(evidence: Evidence, score: str) -> tuple[Entry, Entry, Entry]:
    """Return the most expensive option, and the cheapest that lose a point: calibrated alike, or anyhow."""
    options = list(_options(evidence, score))
    best = max(options, key=lambda option: (option["targets"], option["calibration"]))
    good = [one for one in options if one["accuracy"] >= best["accuracy"] - 0.01]
    alike = [one for one in good if one["calibration"] == best["calibration"]]
    by_cost = [min(some, key=lambda one: one["offline"]) for some in (alike, good)]
    return best, by_cost[0], by_cost[1]


def _options(evidence: Evidence, score: str) -> Iterator[Entry]:
    """Yield certified accuracy and cost at every number of votes for targets and for calibration."""
    heads = [one for one in evidence.surrogates if one.variant.startswith(HEAD)]
    every = {**evidence.fewer_votes, int(evidence.calibration_votes[0].sum()): evidence.calibration_votes}
    for one, (n, votes) in itertools.product(heads, every.items()):
        level, how = float(MAIN_LEVEL), evidence.calibrated_by
        (outcome,) = surrogate_outcomes(one, votes, [level], how=how, scores=[score])
        total = costs.offline_total(replace(one.offline, calibration=len(votes) * (n + 1)))
        yield {
            "score": score,
            "targets": one.budget,
            "calibration": n,
            **quality(outcome, evidence.labels),
            "offline": total,
            "break_even": costs.break_even(total, Fraction(1), Fraction(10_000)),
        }


def equal_quality(results: Results) -> str:
    """Tell which Monte Carlo certifies as much as each surrogate at its failure, and when they break even."""
    budget = results.entries(method=RRISE.name, main=True)[0]["budget"]
    rows = []
    for family, level, score in itertools.product(
        ("trainhead_initbase", "trainall_initbase"), LEVELS, ("additive", "probit")
    ):
        (entry,) = results.entries(variant=f"{family}_n{budget}", failure=level, score=score)
        rows.append({**entry, "name": entry_name(entry)})
    evidence = results.evidence[0].held_out()
    rivals = Rivals(evidence.reference, evidence.labels, Gaussian(evidence.about["sigma"]))
    for score in ("additive", "probit"):
        option = _choices(evidence, score)[-1]
        rival = rivals.cheapest(float(MAIN_LEVEL), option["accuracy"], option["radius"])
        assert rival is not None
        mean = {
            "certified_accuracy": option["accuracy"],
            "average_certified_radius": option["radius"],
            "rival_passes": rival.passes,
            "rival_break_even": costs.break_even(option["offline"], Fraction(1), Fraction(rival.passes)),
        }
        votes = f"{option['targets']} per training image, {option['calibration']:,} per calibration image"
        rows.append(
            {
                **{"name": f"RRISE `head`, votes: {votes}", "failure": MAIN_LEVEL, "score": score, "runs": 1},
                **{"mean": mean, "std": dict.fromkeys(mean)},
            }
        )
    columns: Columns = {
        "surrogate": lambda row: row["name"],
        "seeds": lambda row: str(row["runs"]),
        "total failure": lambda row: row["failure"],
        "score": lambda row: row["score"],
        "CertAcc@0 (%)": percent("certified_accuracy"),
        "average certified radius": column("average_certified_radius", digits=3),
        "Monte Carlo: passes per query": _passes,
        "break-even (queries)": column("rival_break_even", digits=0),
    }
    return table(columns, rows, words=4)


def _passes(row: Entry) -> str:
    certifies = row["mean"]["certified_accuracy"] > 0
    if certifies and row["mean"]["rival_passes"] is None:
        return "none found"
    return number(row, "rival_passes", digits=0)
