"""When has a surrogate paid off? Tables of docs/reproduction.md, from the published results."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from published import HEAD, LEVELS, MAIN_LEVEL, Columns, Entry, Results, table, text
from rrise.evaluation import costs, metrics
from rrise.evaluation.evidence import Evidence
from rrise.evaluation.methods import surrogate_outcomes
from rrise.evaluation.outcomes import RRISE, Outcome
from rrise.statistics import certified_radius, clopper_pearson_lower
from rrise.votes.array import Votes, votes_for

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
SELECTIONS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
BUDGETS = (5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 100, 120, 150, 200, 300, 500, 700, 1_000, 2_000, 5_000)
"""Votes of the first and of the second stage among which the cheapest Monte Carlo is looked for."""


def break_evens(results: Results) -> str:
    """Tell when the run's own surrogate has paid off, in both countings, beside the paper's."""
    own = {protocol: results.entries(protocol, method=RRISE, main=True)[0] for protocol in results.metrics}
    rows = [{"against": against, "metric": metric} for against, metric in BREAK_EVENS.items()]

    def ours(protocol: str) -> Callable[[Entry], str]:
        return lambda row: text(own[protocol]["mean"]["break_even"].get(row["against"]), 0)

    columns: Columns = {
        "against": lambda row: row["against"],
        "everything counted, per example": ours("held-out"),
        "counted as the paper does": ours("paper"),
        "the paper's": lambda row: text(results.paper("main_compute", RRISE, row["metric"]), 0),
    }
    return table(columns, rows)


def cheapest(results: Results) -> str:
    """Find the cheapest targets and calibration that lose at most a point, and when they have paid off."""
    paper = results.paper("main_compute", RRISE, "RRISE BE vs B1")
    rows = []
    for score in ("additive", "probit"):
        best, alike, good = _choices(results.evidence[0].held_out(), score)
        rows += [{**option, "lost": best["accuracy"] - option["accuracy"]} for option in (best, alike, good)]
    columns: Columns = {
        "score": lambda row: row["score"],
        "votes per training input": lambda row: f"{row['targets']:,}",
        "votes per calibration input": lambda row: f"{row['calibration']:,}",
        "CertAcc@0 (%)": lambda row: text(100 * row["accuracy"]),
        "lost (points)": lambda row: text(100 * row["lost"]),
        "average certified radius": lambda row: text(row["radius"], 3),
        "offline passes": lambda row: f"{row['offline']:,}",
        "break-even against 10,000 passes": lambda row: f"{row['break_even']:,}",
        "paper's": lambda _: text(paper, 0),
        "times earlier": lambda row: text(paper / row["break_even"], 0),
    }
    return table(columns, rows)


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
        level, beta = float(MAIN_LEVEL), evidence.about["beta"]
        (outcome,) = surrogate_outcomes(one, votes, [level], beta=beta, scores=[score])
        total = costs.offline_total(replace(one.offline, calibration=len(votes) * (n + 1)))
        yield {
            "score": score,
            "targets": one.budget,
            "calibration": n,
            **_quality(outcome, evidence.labels),
            "offline": total,
            "break_even": costs.break_even(total, Fraction(1), Fraction(10_000)),
        }


def _quality(outcome: Outcome, labels: NDArray[np.int64]) -> Entry:
    return {
        "accuracy": float(metrics.certified_accuracy(outcome.certificates, labels, 0.0)),
        "radius": metrics.average_certified_radius(outcome.certificates, labels),
    }


def equal_quality(results: Results) -> str:
    """Find the cheapest two-stage Monte Carlo that certifies as much as each surrogate, at its level."""
    evidence = [one.held_out() for one in results.evidence]
    rivals = _rivals(evidence)
    budget = results.entries(method=RRISE, main=True)[0]["budget"]
    rows = []
    for family, level, score in itertools.product(
        ("trainhead_initbase", "trainall_initbase"), LEVELS, ("additive", "probit")
    ):
        (entry,) = results.entries(variant=f"{family}_n{budget}", failure=level, score=score)
        mean = entry["mean"]
        rows.append(
            {
                **{"name": f"`{entry['variant']}`", "score": score, "level": level},
                **{"accuracy": mean["certified_accuracy"], "radius": mean["average_certified_radius"]},
                "offline": round(sum(mean[part] for part in ("targets", "training", "calibration"))),
            }
        )
    for score in ("additive", "probit"):
        option = _choices(evidence[0], score)[-1]
        words = f"`{HEAD}{option['targets']}`, {option['calibration']:,} votes per calibration input"
        rows.append({**option, "name": words, "level": MAIN_LEVEL})
    for row in rows:
        enough = [
            rival
            for rival in rivals[row["level"]]
            if rival["accuracy"] >= row["accuracy"] and rival["radius"] >= row["radius"]
        ]
        nothing = row["accuracy"] == 0
        row["rival"] = None if nothing else min(enough, key=lambda rival: rival["passes"], default=None)
        row["missing"] = "–" if nothing else f"over {SELECTIONS[-1] + BUDGETS[-1]:,}"

    def theirs(key: str, scale: float, digits: int) -> Callable[[Entry], str]:
        return lambda row: text(scale * row["rival"][key] if row["rival"] else None, digits)

    columns: Columns = {
        "surrogate": lambda row: row["name"],
        "total failure": lambda row: row["level"],
        "score": lambda row: row["score"],
        "CertAcc@0 (%)": lambda row: text(100 * row["accuracy"]),
        "average certified radius": lambda row: text(row["radius"], 3),
        "Monte Carlo: passes per query": lambda row: (
            f"{row['rival']['passes']:,}" if row["rival"] else row["missing"]
        ),
        "its CertAcc@0 (%)": theirs("accuracy", 100, 2),
        "its average certified radius": theirs("radius", 1, 3),
        "break-even (queries)": lambda row: text(_break_even(row), 0),
    }
    return table(columns, rows)


def _break_even(row: Entry) -> int | None:
    if row["rival"] is None:
        return None
    return costs.break_even(row["offline"], Fraction(1), Fraction(row["rival"]["passes"]))


def _rivals(evidence: list[Evidence]) -> dict[str, list[Entry]]:
    """Return by level what two-stage Monte Carlo certifies with few votes, drawn without replacement."""
    found: dict[str, dict[tuple[int, int], list[Entry]]] = {level: {} for level in LEVELS}
    for one in evidence:
        rng = np.random.default_rng(int(one.about["seed"]))
        for selection in SELECTIONS:
            chosen = _drawn(rng, one.reference, selection)
            label, rest = chosen.argmax(axis=1), np.asarray(one.reference) - chosen
            good = votes_for(rest, label)
            right = label == one.labels
            for n in BUDGETS:
                agreeing = rng.hypergeometric(good, rest.sum(axis=1) - good, n)
                for level, ones in found.items():
                    bound = clopper_pearson_lower(agreeing, n, float(level))
                    radius = certified_radius(bound, one.about["sigma"])
                    ones.setdefault((selection, n), []).append(
                        {
                            "accuracy": float((right & (bound > 0.5)).mean()),
                            "radius": float(np.where(right, radius, 0).mean()),
                        }
                    )
    return {
        level: [
            {"passes": sum(key), **{name: float(np.mean([one[name] for one in some])) for name in some[0]}}
            for key, some in ones.items()
        ]
        for level, ones in found.items()
    }


def _drawn(rng: np.random.Generator, votes: Votes, n: int) -> NDArray[np.int64]:
    """Return the counts of `n` votes of each input, drawn without replacement."""
    counts = np.asarray(votes, dtype=np.int64)
    drawn, left = np.zeros_like(counts), np.full(len(counts), n)
    for k in range(counts.shape[1]):
        others = counts[:, k + 1 :].sum(axis=1)
        drawn[:, k] = rng.hypergeometric(counts[:, k], others, left) if others.any() else left
        left = left - drawn[:, k]
    return drawn
