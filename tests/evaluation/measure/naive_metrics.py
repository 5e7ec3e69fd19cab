"""The metrics of the paper input by input, in plain Python: slow, and easy to compare with their formulas."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import per_input_guarantee
from rrise.statistics import exact_level
from rrise.votes.smoothing import Smoothing

GUARANTEE = per_input_guarantee(
    "monte-carlo", exact_level(0.1, "failure"), Smoothing("f" * 64, 0.5, None, "float32"), votes=100
)
THRESHOLDS = [0.0, 0.025, 0.05, 0.1, 0.15, 0.2]


def naive_metrics(
    certificates: Certificates, labels: Sequence[int], votes: Any, thresholds: Sequence[float]
) -> dict[str, Any]:
    """Return every metric that needs no other method, by its definition."""
    inputs = range(len(certificates))
    answer = [int(label) for label in certificates.label]
    bound = [float(p) for p in certificates.lower_bound]
    radius = [float(r) for r in certificates.radius]
    right = [answer[i] == labels[i] for i in inputs]
    certified = [i for i in inputs if bound[i] > 0.5]
    boundary = [i for i in inputs if 0.5 < bound[i] < 0.75]
    share = [int(votes[i][answer[i]]) / sum(int(count) for count in votes[i]) for i in inputs]
    most = [max(range(len(votes[i])), key=lambda k: (int(votes[i][k]), -k)) for i in inputs]
    n = len(certificates)

    def certified_accuracy(r: float) -> float:
        return sum(right[i] and bound[i] > 0.5 and radius[i] >= r for i in inputs) / n

    return {
        "accuracy": sum(right) / n,
        "issued": len(certified) / n,
        "certified_accuracy": certified_accuracy(0),
        "certified_accuracy_at": [certified_accuracy(r) for r in thresholds],
        "average_certified_radius": sum(radius[i] for i in certified if right[i]) / n,
        "mean_issued_radius": _mean([radius[i] for i in certified]),
        "boundary_mass": len(boundary) / n,
        "boundary_accuracy": _mean([right[i] for i in boundary]),
        "boundary_radius": _mean([radius[i] for i in boundary]),
        "boundary_crd": [sum(radius[i] > t for i in boundary) / n for t in thresholds],
        "certified_crd": [sum(radius[i] > t for i in certified) / len(certified) for t in thresholds]
        if certified
        else None,
        "agreement": sum(answer[i] == most[i] for i in inputs) / n,
        "violation_rate": sum(bound[i] > share[i] for i in inputs) / n,
        "issued_violation_rate": sum(bound[i] > share[i] for i in certified) / n,
        "violation_rate_among_issued": _mean([bound[i] > share[i] for i in certified]),
        "boundary_violation_rate": _mean([bound[i] > share[i] for i in boundary]),
        "mean_passes": sum(int(passes) for passes in certificates.passes) / n,
        "median_passes": _median(sorted(int(passes) for passes in certificates.passes)),
    }


def random_certificates(rng: np.random.Generator, inputs: int, classes: int) -> Certificates:
    """Return certificates with many bounds of exactly 1/2 and 3/4 and many radii exactly at a threshold."""
    bound = rng.choice([0.0, 0.3, 0.5, 0.6, 0.7, 0.75, 0.9, *rng.random(3)], inputs)
    radius = np.where(bound > 0.5, rng.choice([*THRESHOLDS[1:], *(0.3 * rng.random(3) + 0.001)], inputs), 0.0)
    label, passes = rng.integers(0, classes, inputs), rng.integers(1, 1000, inputs)
    return Certificates(label, radius, bound, bound > 0.5, GUARANTEE, passes)


def random_votes(rng: np.random.Generator, inputs: int, classes: int, n: int = 20) -> np.ndarray:
    """Return counts `[inputs, classes]`, each row summing to n."""
    return rng.multinomial(n, np.full(classes, 1 / classes), size=inputs)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _median(ordered: Sequence[int]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
