"""Are certificates near the boundary true? A table of docs/reproduction, from the published evidence.

They are judged by the votes of the *other* seeds, for the same images and the same classifier: no method has
seen these, so that the methods that vote can be judged too, which their own votes cannot do.
"""

import numpy as np
from numpy.typing import NDArray

from published import MAIN_LEVEL, ORDER, Columns, Entry, Results, table, text
from reproduction_names import plain
from rrise.evaluation.measure import metrics
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.known import is_surrogate
from rrise.evaluation.measure.outcomes import Outcome
from rrise.statistics import certified_radius


def boundary(results: Results) -> str:
    """Tell how many bounds of the boundary set are wrong, and by how much, by method."""
    evidence = [one.held_out() for one in results.evidence]
    found: dict[tuple[str, str, str], list[Entry]] = {}
    for own in evidence:
        votes = _of_other_seeds(own, evidence)
        for outcome in own.outcomes():
            if _shown(outcome, own):
                setting = outcome.setting
                key = (setting.method, setting.variant, setting.score)
                found.setdefault(key, []).append(_near_it(outcome, votes, own.about["sigma"]))
    rows = []
    for (method, variant, score), ones in sorted(found.items(), key=lambda item: ORDER.index(item[0][0])):
        main = results.entries(method=method, main=True)[0]
        printed = (variant, score) == (main["variant"], main["score"])
        paper = results.paper("main_cert_boundary", method, "Avg. Radius") if printed else None
        mean = {key: float(np.mean([one[key] for one in ones])) for key in ones[0]}
        rows.append({"name": f"{plain(method, variant)} {score}", "seeds": len(ones), "paper": paper, **mean})
    columns: Columns = {
        "method": lambda row: row["name"].strip(),
        "seeds": lambda row: str(row["seeds"]),
        "boundary mass (%)": lambda row: text(100 * row["mass"]),
        "average radius there": lambda row: text(row["radius"], 3),
        "paper: average radius there": lambda row: text(row["paper"]),
        "bound too high (%)": lambda row: text(100 * row["violated"], 1),
        "radius too large by": lambda row: text(row["excess"], 3),
        "label without a majority (%)": lambda row: text(100 * row["minority"], 1),
    }
    return table(columns, rows, words=1)


def _of_other_seeds(own: Evidence, evidence: list[Evidence]) -> NDArray[np.int64]:
    others = [one for one in evidence if one.about["seed"] != own.about["seed"]]
    for one in others:
        assert one.reference.smoothing == own.reference.smoothing
        assert np.array_equal(one.indices, own.indices)
    return np.sum([np.asarray(one.reference) for one in others], axis=0)


def _shown(outcome: Outcome, evidence: Evidence) -> bool:
    """Whether it is at the main failure: each way to train, and the main variant of a method that votes."""
    setting = outcome.setting
    if setting.failure != MAIN_LEVEL:
        return False
    if is_surrogate(setting.method):
        own = next(one for one in evidence.surrogates if one.variant == evidence.about["certifier"][1])
        return setting.score in ("additive", "probit") and setting.budget == own.budget
    return setting.budget == evidence.about["main_budget"] and not setting.variant.endswith("0.05")


def _near_it(outcome: Outcome, votes: NDArray[np.int64], sigma: float) -> Entry:
    where = metrics.in_boundary(outcome.certificates)
    certificates = outcome.certificates[where]
    share = metrics.vote_share_of_label(certificates, votes[where])
    violated = certificates.lower_bound > share
    excess = certificates.radius - certified_radius(np.maximum(share, 0.5), sigma)
    return {
        "mass": float(where.mean()),
        "radius": float(certificates.radius.mean()),
        "violated": float(violated.mean()),
        "excess": float(excess[violated].mean()),
        "minority": float((share <= 0.5).mean()),
    }
