"""Surrogates from their stored predictions: calibrated at any level in no time, or taken at face value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import (
    ABOUT_THE_TRUTH,
    WRONG,
    Guarantee,
    smoothing_numbers,
    surrogate_guarantee,
)
from rrise.errors import InputError
from rrise.statistics import Calibration, Level, fit_calibration
from rrise.votes.array import Smoothing, check_votes, votes_for


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a surrogate answers for some inputs: its class, and the probability it gives it."""

    label: NDArray[np.int64]
    top_probability: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.label.shape != self.top_probability.shape or self.label.ndim != 1:
            raise InputError(
                f"expected one class and one probability per input, got arrays of shape {self.label.shape} "
                f"and {self.top_probability.shape}"
            )

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, rows: Any) -> "Predictions":
        return Predictions(self.label[rows], self.top_probability[rows])


def calibrated_certificates(
    predictions: Predictions,
    calibration: Predictions,
    votes: Any,
    *,
    smoothing: Smoothing,
    failure: Level,
    beta: Level = 0.001,
    score: str = "probit",
    seen_in_training: int = 0,
) -> tuple[Certificates, Calibration]:
    """Calibrate a surrogate on held-out predictions and their votes, and certify others with it.

    What `calibrate` promises for a certifier holds here too, under the same assumptions.
    """
    counts, n = check_votes(votes, len(calibration))
    fitted, evidence = fit_calibration(
        calibration.top_probability,
        votes_for(counts, calibration.label),
        n,
        failure=failure,
        beta=beta,
        score=score,
    )
    guarantee = surrogate_guarantee(fitted, evidence, smoothing, seen_in_training)
    bound = fitted.lower_bound(predictions.top_probability)
    return _certified(predictions, bound, smoothing, guarantee), fitted


def face_value_certificates(predictions: Predictions, smoothing: Smoothing) -> Certificates:
    """Take the surrogate's probability for the bound, as it is: nothing is promised.

    The offline surrogate of Bhardwaj et al. (2024) has no calibration; this is what it would certify.
    """
    guarantee = Guarantee(
        method="surrogate-at-face-value",
        failure="none",
        promise=f"Nothing is promised: a radius may be wrong at any rate, that is: {WRONG}.",
        assumptions=(),
        not_promised=("that the probability is a lower bound: it was not calibrated.", ABOUT_THE_TRUTH),
        numbers=smoothing_numbers(smoothing),
    )
    return _certified(predictions, predictions.top_probability, smoothing, guarantee)


def _certified(
    predictions: Predictions, bound: NDArray[np.float64], smoothing: Smoothing, guarantee: Guarantee
) -> Certificates:
    return Certificates.from_bound(
        predictions.label, bound, sigma=smoothing.sigma, guarantee=guarantee, passes=1
    )
