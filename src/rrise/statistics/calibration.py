"""The one-time fit that turns the surrogate's top probability into a lower bound."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.errors import InputError
from rrise.statistics.binomial import check_budget, clopper_pearson_lower
from rrise.statistics.conformal import Level, conformal_rank, conformal_share, exact_level
from rrise.statistics.scores import PROBIT, Score, as_score


@dataclass(frozen=True)
class Calibration:
    """The numbers of one calibration.

    Guarantee: for an input exchangeable with the calibration inputs, `lower_bound` of the surrogate's
    top probability is at most the smoothed probability of the surrogate's class with probability at
    least `1 - beta - gamma`, over calibration inputs, new input and noise together (marginally).
    """

    score: Score
    offset: float
    rank: int
    size: int
    n: int
    beta: Fraction
    gamma: Fraction

    @property
    def failure(self) -> Fraction:
        """The total failure `beta + gamma`."""
        return self.beta + self.gamma

    @cached_property
    def ceiling(self) -> float:
        """The lower bound that `n` unanimous votes give; no bound of this calibration exceeds it."""
        return float(clopper_pearson_lower(self.n, self.n, float(self.beta)))

    def lower_bound(self, top_probability: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated lower bound on the smoothed probability of the surrogate's class."""
        q = check_probabilities(top_probability, "top probabilities")
        return np.asarray(self.score.bound(q, self.offset, self.ceiling))


@dataclass(frozen=True)
class CalibrationEvidence:
    """Per calibration input, in order: what the offset was computed from.

    `top_probability` is the surrogate's, `agreeing` the votes for the surrogate's class, `lower` their
    Clopper–Pearson bound and `score` the calibration score.
    """

    top_probability: NDArray[np.float64]
    agreeing: NDArray[np.int64]
    lower: NDArray[np.float64]
    score: NDArray[np.float64]


def fit_calibration(
    top_probability: ArrayLike,
    agreeing: ArrayLike,
    n: int,
    *,
    failure: Level = 0.05,
    beta: Level = 0.001,
    score: str | Score = PROBIT,
) -> tuple[Calibration, CalibrationEvidence]:
    """Fit the offset on calibration inputs: `offset = max(0, r_(k))`, `k = ceil((M+1)(1-gamma))`.

    `agreeing` counts, out of `n` votes of each calibration input, those for the class the surrogate
    answers there; `r` are the calibration scores of the inputs and `gamma = failure - beta`.

    >>> calibration, _ = fit_calibration([0.9] * 40, [900] * 40, n=1000, failure=0.1, score="additive")
    >>> calibration.rank, round(calibration.offset, 4)
    (37, 0.0325)
    """
    gamma = conformal_share(failure, beta)
    exact_beta = exact_level(beta, "beta")
    check_budget(n, float(exact_beta), "beta")
    chosen = as_score(score)
    q = check_probabilities(top_probability, "top probabilities")
    counts = np.asarray(agreeing)
    if q.shape != counts.shape or q.ndim != 1:
        raise InputError(
            f"expected one top probability and one vote count per calibration input, "
            f"got arrays of shape {q.shape} and {counts.shape}"
        )
    rank = conformal_rank(q.size, gamma)
    lower = clopper_pearson_lower(counts, n, float(exact_beta))
    ceiling = float(clopper_pearson_lower(n, n, float(exact_beta)))
    residual = chosen.residual(q, lower, ceiling)
    if not np.all(np.isfinite(residual)):
        raise InputError("a calibration score is not finite: there is no offset to be had from it")
    offset = max(0.0, float(np.partition(residual, rank - 1)[rank - 1]))
    calibration = Calibration(chosen, offset, rank, q.size, n, beta=exact_beta, gamma=gamma)
    return calibration, CalibrationEvidence(q, counts.astype(np.int64), lower, residual)


def refit_calibration(
    former: Calibration, top_probability: ArrayLike, agreeing: ArrayLike
) -> tuple[Calibration, CalibrationEvidence]:
    """Fit a calibration with the levels, score and votes per input of a former one."""
    return fit_calibration(
        top_probability,
        agreeing,
        former.n,
        failure=former.failure,
        beta=former.beta,
        score=former.score,
    )


def check_probabilities(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the values as float64, refusing NaN and anything outside [0, 1]."""
    array = np.asarray(values, dtype=np.float64)
    if np.any(np.isnan(array)):
        raise InputError(f"expected {name} in [0, 1], got NaN at position {int(np.argmax(np.isnan(array)))}")
    if np.any((array < 0) | (array > 1)):
        raise InputError(f"expected {name} in [0, 1], got values from {array.min():g} to {array.max():g}")
    return array
