"""Metrics of certificates, by the definitions of the paper (Section 4 and Appendix A.9).

All are shares or means over at least one input. `None` stands for what is undefined: a mean over an empty
set, which the paper writes as a dash. With `p` the lower bound and `R` the radius of an input, an input is
certified (issued) where `p > 1/2`, and lies in the boundary set where `1/2 < p < 3/4`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.certifiers.certificates import Certificates
from rrise.errors import InputError
from rrise.votes.array import check_votes, votes_for

BOUNDARY = (0.5, 0.75)
"""The boundary set is where the lower bound lies strictly between these."""


def correct(certificates: Certificates, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where the answered class is the true one."""
    if labels.shape != certificates.label.shape:
        raise InputError(f"expected one true label per certificate ({len(certificates)}), got {len(labels)}")
    return np.asarray(certificates.label == labels)


def accuracy(certificates: Certificates, labels: NDArray[np.int64]) -> float:
    """Return the share of inputs whose answer is right, issued or not."""
    return float(correct(certificates, labels).mean())


def certified_accuracy(
    certificates: Certificates, labels: NDArray[np.int64], radii: ArrayLike
) -> NDArray[np.float64]:
    """Return, for each radius r, the share of inputs that are correct, issued and have radius >= r.

    With calibrated bounds, as the paper defines CertAcc(r). What its tables print for surrogates as
    CertAcc@0 is the plain accuracy instead.
    """
    good = np.sort(certificates.radius[correct(certificates, labels) & certificates.issued])
    at_least = len(good) - np.searchsorted(good, np.asarray(radii, dtype=np.float64), side="left")
    return np.asarray(at_least / len(certificates))


def average_certified_radius(certificates: Certificates, labels: NDArray[np.int64]) -> float:
    """Return the mean over all inputs of the radius, counted as 0 where wrong or abstained (ACR)."""
    return float(np.where(correct(certificates, labels), certificates.radius, 0.0).mean())


def mean_issued_radius(certificates: Certificates) -> float | None:
    """Return the mean radius of the issued certificates; None if none is."""
    return _mean(certificates.radius, certificates.issued)


def in_boundary(certificates: Certificates) -> NDArray[np.bool_]:
    """Return where the lower bound lies in the boundary set, `1/2 < p < 3/4`."""
    low, high = BOUNDARY
    return np.asarray((certificates.lower_bound > low) & (certificates.lower_bound < high))


def boundary_mass(certificates: Certificates) -> float:
    """Return the share of all inputs that lie in the boundary set."""
    return float(in_boundary(certificates).mean())


def boundary_accuracy(certificates: Certificates, labels: NDArray[np.int64]) -> float | None:
    """Return the share of right answers in the boundary set (OCA); None if the set is empty."""
    return _mean(correct(certificates, labels), in_boundary(certificates))


def boundary_radius(certificates: Certificates) -> float | None:
    """Return the mean radius in the boundary set, of right and wrong answers; None if the set is empty."""
    return _mean(certificates.radius, in_boundary(certificates))


def boundary_crd(certificates: Certificates, thresholds: ArrayLike) -> NDArray[np.float64]:
    """Return, for each t, the share of all inputs in the boundary set with radius > t.

    A fraction: the paper's tables announce percentages and print fractions.
    """
    return _above(certificates.radius[in_boundary(certificates)], thresholds) / len(certificates)


def certified_crd(certificates: Certificates, thresholds: ArrayLike) -> NDArray[np.float64] | None:
    """Return, for each t, the share of issued certificates with radius > t; None if none is issued."""
    radius = certificates.radius[certificates.issued]
    return _above(radius, thresholds) / len(radius) if len(radius) else None


def radius_ratio(certificates: Certificates, reference: Certificates) -> float | None:
    """Return the mean radius divided by that of the reference (Baseline 1 at the same budget and failure).

    Both means are over all inputs, with 0 where abstained, and whether the answer is right plays no part; the
    paper names the ratio without defining it. None where the reference certifies nothing. The radius drop is
    `1 - ratio`.
    """
    if len(certificates) != len(reference):
        raise InputError(
            f"expected both methods to certify the same inputs, got {len(certificates)} and {len(reference)}"
        )
    theirs = float(reference.radius.mean())
    return float(certificates.radius.mean()) / theirs if theirs > 0 else None


def agreement(certificates: Certificates, smoothed: NDArray[np.int64]) -> float:
    """Return the share of inputs whose label is the smoothed classifier's answer.

    `smoothed` are these answers: the class with most of many votes.
    """
    return float((certificates.label == smoothed).mean())


def vote_share_of_label(certificates: Certificates, votes: Any) -> NDArray[np.float64]:
    """Return the Monte Carlo estimate of the smoothed probability of each certificate's label."""
    counts, n = check_votes(votes, len(certificates))
    return votes_for(counts, certificates.label) / n


class Violations(NamedTuple):
    """Bounds that lie above the estimate of what they bound; `None` where the set is empty.

    `rate`: share of all inputs, issued or not: what a total failure limits.
    `issued`: share of all inputs that have a certificate, which is wrong; at most `rate`.
    `among_issued`: the same as a share of issued certificates, which no total failure limits.
    `in_boundary`: share of the boundary set.
    """

    rate: float
    issued: float
    among_issued: float | None
    in_boundary: float | None


def violations(certificates: Certificates, estimate: NDArray[np.float64]) -> Violations:
    """Count bounds above the estimate of what they bound.

    Estimates have noise of their own, so a bound that is exactly right counts as a violation half of the
    time.
    """
    violated = certificates.lower_bound > estimate
    return Violations(
        float(violated.mean()),
        float((violated & certificates.issued).mean()),
        _mean(violated, certificates.issued),
        _mean(violated, in_boundary(certificates)),
    )


def median_passes(certificates: Certificates) -> float:
    """Return the median number of forward passes per input."""
    return float(np.median(certificates.passes))


def sample_reduction(certificates: Certificates, budget: int) -> float:
    """Return how many times fewer votes than the full budget an input took on average."""
    return budget / certificates.mean_passes


def _mean(values: NDArray[Any], where: NDArray[np.bool_]) -> float | None:
    return float(values[where].mean()) if where.any() else None


def _above(values: NDArray[np.float64], thresholds: ArrayLike) -> NDArray[np.float64]:
    below = np.searchsorted(np.sort(values), np.asarray(thresholds, dtype=np.float64), side="right")
    return np.asarray(len(values) - below, dtype=np.float64)
