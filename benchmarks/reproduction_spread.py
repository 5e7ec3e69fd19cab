"""How far would other calibration and test images move what a surrogate certifies? By the bootstrap."""

from dataclasses import replace

import numpy as np

from published import HEAD, quality
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.methods import surrogate_outcomes

RESAMPLED = 200


def spread(evidence: Evidence, budget: int, level: str, score: str) -> str:
    """Return the standard deviation of certified accuracy (points) and of the average certified radius.

    Calibration and test images are drawn anew, with replacement; seeds alone, which share all images, do not
    tell this. Where not every draw certifies something, behind them stands how many do.
    """
    (one,) = (found for found in evidence.surrogates if found.variant == f"{HEAD}{budget}")
    votes, labels, how = evidence.calibration_votes, evidence.labels, evidence.calibrated_by
    rng = np.random.default_rng(0)
    found = []
    for _ in range(RESAMPLED):
        chosen, images = (rng.integers(size, size=size) for size in (len(votes), len(labels)))
        other = replace(one, calibration=one.calibration[chosen], test=one.test[images])
        (outcome,) = surrogate_outcomes(other, votes[chosen], [float(level)], how=how, scores=[score])
        certified = quality(outcome, labels[images])
        found.append((certified["accuracy"], certified["radius"]))
    accuracy, average = np.std(found, axis=0, ddof=1)
    words = f"{100 * accuracy:.1f} / {average:.3f}"
    certifies = np.mean([one > 0 for one, _ in found])
    return words if certifies == 1 else f"{words} ({100 * certifies:.0f} % of draws certify)"
