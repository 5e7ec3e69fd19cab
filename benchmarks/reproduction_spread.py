"""How far would other calibration and test images move what a surrogate certifies? By the bootstrap."""

import numpy as np

from published import HEAD
from rrise.evaluation.evidence import Evidence
from rrise.statistics import certified_radius, fit_calibration
from rrise.votes.array import votes_for

RESAMPLED = 200


def spread(evidence: Evidence, budget: int, level: str, score: str) -> str:
    """Return the standard deviation of certified accuracy (points) and of the average certified radius.

    Calibration and test images are drawn anew, with replacement; seeds alone, which share all images, do not
    tell this. Where not every draw certifies something, behind them stands how many do.
    """
    (one,) = (found for found in evidence.surrogates if found.variant == f"{HEAD}{budget}")
    counts = np.asarray(evidence.calibration_votes)
    n, agreeing = int(counts[0].sum()), votes_for(counts, one.calibration.label)
    right = one.test.label == evidence.labels
    rng = np.random.default_rng(0)
    found = []
    for _ in range(RESAMPLED):
        chosen = rng.integers(len(agreeing), size=len(agreeing))
        fitted, _ = fit_calibration(
            one.calibration.top_probability[chosen],
            agreeing[chosen],
            n,
            failure=level,
            beta=evidence.about["beta"],
            score=score,
        )
        images = rng.integers(len(right), size=len(right))
        bound = fitted.lower_bound(one.test.top_probability[images])
        radius = certified_radius(bound, evidence.about["sigma"])
        found.append(((right[images] & (bound > 0.5)).mean(), np.where(right[images], radius, 0).mean()))
    accuracy, average = np.std(found, axis=0, ddof=1)
    words = f"{100 * accuracy:.1f} / {average:.3f}"
    certifies = np.mean([one > 0 for one, _ in found])
    return words if certifies == 1 else f"{words} ({100 * certifies:.0f} % certify)"
