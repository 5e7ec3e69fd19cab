"""Metrics of certificates, by the definitions of the paper (Section 4)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.certifiers.certificates import Certificates
from rrise.errors import InputError
from rrise.votes.array import check_votes, votes_for


def certified_accuracy(
    certificates: Certificates, labels: NDArray[np.int64], radii: ArrayLike
) -> NDArray[np.float64]:
    """Return, for each radius r, the share of inputs that are correct, issued and have radius >= r."""
    good = np.sort(certificates.radius[correct(certificates, labels) & certificates.issued])
    at_least = len(good) - np.searchsorted(good, np.asarray(radii, dtype=np.float64), side="left")
    return np.asarray(at_least / len(certificates))


def average_certified_radius(certificates: Certificates, labels: NDArray[np.int64]) -> float:
    """Return the mean over all inputs of the radius, counted as 0 where wrong or abstained (ACR)."""
    return float(np.where(correct(certificates, labels), certificates.radius, 0.0).mean())


def summarise(certificates: Certificates, labels: NDArray[np.int64]) -> dict[str, float]:
    """Return the headline numbers of one certifier."""
    issued = certificates.issued
    return {
        "accuracy": float(correct(certificates, labels).mean()),
        "issued": float(issued.mean()),
        "certified_accuracy": float(certified_accuracy(certificates, labels, 0.0)),
        "average_certified_radius": average_certified_radius(certificates, labels),
        "mean_issued_radius": float(certificates.radius[issued].mean()) if issued.any() else 0.0,
        "passes_per_input": certificates.mean_passes,
    }


def vote_share_of_label(certificates: Certificates, votes: Any) -> NDArray[np.float64]:
    """Return the Monte Carlo estimate of the smoothed probability of each certificate's label."""
    counts, n = check_votes(votes, len(certificates))
    return votes_for(counts, certificates.label) / n


def observed_violations(certificates: Certificates, votes: Any) -> dict[str, float]:
    """Compare lower bounds with the Monte Carlo estimate of what they bound.

    `rate` is the share of inputs whose bound lies above the estimate, `rate_among_issued` the same among
    issued certificates. Estimates have noise of their own, so a bound that is exactly right counts as a
    violation half of the time.
    """
    violated = certificates.lower_bound > vote_share_of_label(certificates, votes)
    issued = certificates.issued
    among = float(violated[issued].mean()) if issued.any() else 0.0
    return {"rate": float(violated.mean()), "rate_among_issued": among}


def correct(certificates: Certificates, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where the answered class is the true one."""
    if labels.shape != certificates.label.shape:
        raise InputError(f"expected one true label per certificate ({len(certificates)}), got {len(labels)}")
    return np.asarray(certificates.label == labels)
