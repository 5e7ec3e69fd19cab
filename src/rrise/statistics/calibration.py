"""The one-time fit that turns the surrogate's top probability into a lower bound."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.errors import InputError, SettingError
from rrise.statistics.binomial import check_budget, clopper_pearson_lower
from rrise.statistics.conformal import Level, conformal_rank, conformal_share, exact_level
from rrise.statistics.scores import PROBIT, Score, as_score

_ROUNDING = 1e-9
"""How far a bound may exceed what the votes prove by rounding alone, in the check of a score."""


@dataclass(frozen=True)
class Calibration:
    """The numbers of one calibration.

    Guarantee: take an input exchangeable with the calibration inputs, and let `p` be the smoothed
    probability of the surrogate's class. With probability at least `1 - beta - gamma`, `lower_bound` of the
    surrogate's top probability is at most `p`. This probability is marginal: it is over calibration
    inputs, new input and noise together.

    Attributes:
        score: the calibration score.
        offset: the offset that the score's bound subtracts.
        rank: the conformal rank; the offset is the score of this rank, or 0 if that is negative.
        size: the number of calibration inputs.
        n: votes per calibration input.
        beta: the failure level of the Clopper–Pearson bounds.
        gamma: the failure level of the conformal step.
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
        """The lower bound after `n` unanimous votes; no bound of this calibration exceeds it."""
        return float(clopper_pearson_lower(self.n, self.n, float(self.beta)))

    def lower_bound(self, top_probability: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated lower bound on the smoothed probability of the surrogate's class."""
        q = check_probabilities(top_probability, "top probabilities")
        return np.asarray(self.score.bound(q, self.offset, self.ceiling))


@dataclass(frozen=True)
class CalibrationEvidence:
    """The values from which the offset was computed, one per calibration input, in order.

    Attributes:
        top_probability: the surrogate's top probability.
        agreeing: the number of votes for the surrogate's class.
        lower: the Clopper–Pearson lower bound of these votes.
        score: the calibration score.
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

    Here `r` are the calibration scores of the M inputs, and `gamma = failure - beta`.

    Args:
        top_probability: the surrogate's top probability, one per calibration input.
        agreeing: how many of the `n` votes of each calibration input are for the surrogate's class.
        n: votes per calibration input.
        failure: the allowed probability of a wrong bound, `beta + gamma`.
        beta: the part of `failure` that pays for the noise of the votes.
        score: the calibration score, or its name.

    Returns:
        The calibration, and the values from which it was computed.

    Raises:
        InputError: the arrays are not probabilities and counts of one shape.
        SettingError: a level is invalid, or there are too few calibration inputs or votes for it.

    Example:
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
        raise InputError("a calibration score is not finite: the offset cannot be computed")
    offset = max(0.0, float(np.partition(residual, rank - 1)[rank - 1]))
    kept = int(np.count_nonzero(chosen.bound(q, offset, ceiling) <= lower + _ROUNDING))
    if kept < rank:
        raise SettingError(
            f"the score {chosen.name!r} is not valid: its bounds hold for {kept} of {q.size} calibration "
            f"inputs at its offset, expected at least {rank}. A residual up to the offset must imply a bound "
            f"up to what the votes prove"
        )
    calibration = Calibration(chosen, offset, rank, q.size, n, beta=exact_beta, gamma=gamma)
    return calibration, CalibrationEvidence(q, counts.astype(np.int64), lower, residual)


def refit_calibration(
    former: Calibration, top_probability: ArrayLike, agreeing: ArrayLike
) -> tuple[Calibration, CalibrationEvidence]:
    """Fit a calibration with the levels, score and votes per input of a former one.

    Args:
        former: the calibration whose settings to use.
        top_probability: the surrogate's top probability, one per calibration input.
        agreeing: how many of the `former.n` votes of each input are for the surrogate's class.

    Returns:
        The calibration, and the values from which it was computed.
    """
    return fit_calibration(
        top_probability,
        agreeing,
        former.n,
        failure=former.failure,
        beta=former.beta,
        score=former.score,
    )


def check_probabilities(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the values as float64; refuse NaN and anything outside [0, 1]."""
    array = np.asarray(values, dtype=np.float64)
    if np.any(np.isnan(array)):
        raise InputError(f"expected {name} in [0, 1], got NaN at position {int(np.argmax(np.isnan(array)))}")
    if np.any((array < 0) | (array > 1)):
        raise InputError(f"expected {name} in [0, 1], got values from {array.min():g} to {array.max():g}")
    return array
