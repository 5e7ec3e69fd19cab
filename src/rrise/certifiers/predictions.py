"""Surrogates from their stored predictions: calibrated at any failure, or taken at face value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import no_guarantee, surrogate_guarantee
from rrise.certifiers.guarantee_words import register_words
from rrise.certifiers.method import Method, register_method
from rrise.errors import InputError
from rrise.looks import BLUE, PURPLE, Look
from rrise.statistics import Calibration, fit_calibration
from rrise.votes.array import check_votes, votes_for
from rrise.votes.smoothing import Smoothing


@dataclass(frozen=True, eq=False)
class Predictions:
    """A surrogate's answers for some inputs: the class and its probability."""

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
    seen_in_training: int | None = 0,
    **how: Any,
) -> tuple[Certificates, Calibration]:
    """Calibrate a surrogate on held-out predictions and their votes, and certify others with it.

    `how` are the settings of `fit_calibration`, such as `failure` and `score`. The guarantee of `calibrate`
    holds here too, under the same assumptions.
    """
    counts, n = check_votes(votes, len(calibration))
    agreeing = votes_for(counts, calibration.label)
    fitted, evidence = fit_calibration(
        calibration.top_probability, agreeing, n, label=calibration.label, **how
    )
    guarantee = surrogate_guarantee(fitted, evidence, smoothing, seen_in_training)
    bound = fitted.lower_bound(predictions.top_probability, predictions.label)
    return Certificates.from_bound(predictions.label, bound, guarantee=guarantee, passes=1), fitted


def face_value_certificates(predictions: Predictions, smoothing: Smoothing) -> Certificates:
    """Use the surrogate's probability as the bound, uncalibrated: nothing is promised.

    The offline surrogate of Bhardwaj et al. (2024) has no calibration. It would certify this.
    """
    guarantee = no_guarantee("surrogate-at-face-value", smoothing)
    return Certificates.from_bound(
        predictions.label, predictions.top_probability, guarantee=guarantee, passes=1
    )


register_words(
    "surrogate-at-face-value", why="The surrogate's probability is no lower bound: it was not calibrated."
)
RRISE = register_method(
    Method(
        "RRISE",
        about="Takes one pass of the calibrated surrogate; its promise holds on average over inputs.",
        order=0,
        look=Look(BLUE, (), "o"),
        in_paper=True,
        paper_variant="trainhead_initbase",
    )
)
JENSEN_SHANNON = register_method(
    Method(
        "Baseline 4",
        label="Baseline 4: Jensen–Shannon surrogate",
        about="Takes one pass of the Jensen–Shannon surrogate (Bhardwaj et al., 2024): calibrated, its "
        "promise holds as RRISE's does; at face value nothing is promised.",
        order=4,
        look=Look(PURPLE, (1, 1), "D", "xxx"),
        in_paper=True,
        paper_variant="init0",
        uncalibrated=True,
    )
)
