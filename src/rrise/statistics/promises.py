"""Promises: what the failure is about, and which offset of a nested family keeps it.

Each function gets the calibration scores of one group of inputs and returns the offset. The score of an input
is the smallest offset at which its bound holds. `gamma` is the allowed rate of inputs above the offset.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rrise.errors import SettingError, did_you_mean
from rrise.statistics.binomial import clopper_pearson_upper
from rrise.statistics.conformal import conformal_rank, smallest_calibration_size

Array = NDArray[np.float64]

TUNING_SHARE = 0.1
"""The share of the calibration inputs that fixes the order of tests for `issued`."""
TUNING_LEAST = 50
_ROOM, _LEAST_ROOM = 2.0, 1.15
"""The first test of `issued` has so many times the fewest issued inputs, or at least so many."""
_CAUTIOUS = 0.75
"""The first test of `issued` issues at most this share of what the last one does, if it can."""
_GRID = 200
MARGIN = 1e-12
"""Added to an offset: more than the rounding of a bound, so that no bound exceeds what it must not."""
_ROUNDING = 1e-9
"""Relative margin in comparisons with a confidence: more than the rounding of SciPy's tails."""


class Promise(StrEnum):
    """What the promised failure is about."""

    MARGINAL = "marginal"
    """The probability of issuing a wrong radius, over calibration inputs, new input and noise."""
    PAC = "pac"
    """That probability for new inputs, given the calibration set; it holds with a stated confidence."""
    ISSUED = "issued"
    """The error rate among issued certificates, given the calibration set, with a stated confidence."""

    @property
    def has_confidence(self) -> bool:
        """Whether the promise holds with a confidence over the calibration set."""
        return self is not Promise.MARGINAL


def as_promise(promise: "str | Promise") -> Promise:
    """Return the promise of a name."""
    names = [one.value for one in Promise]
    if promise not in names:
        raise SettingError(
            f"expected a promise out of {', '.join(names)}; got {promise!r}"
            f"{did_you_mean(str(promise), names)}"
        )
    return Promise(promise)


@dataclass(frozen=True)
class Chosen:
    """An offset, and how many of the calibration scores are at or below it; None: nothing can be issued."""

    offset: float | None
    rank: int


def marginal_offset(scores: Array, gamma: Fraction) -> Chosen:
    """Return the conformal quantile: the score of rank `ceil((m + 1)(1 - gamma))`."""
    rank = conformal_rank(len(scores), gamma)
    return Chosen(_ranked(scores, rank), rank)


def pac_offset(scores: Array, gamma: Fraction, doubt: Fraction) -> Chosen:
    """Return the smallest score above which, except with probability `doubt`, at most `gamma` of inputs lie.

    The inputs must be independent draws of one distribution.
    """
    rank = pac_rank(len(scores), gamma, doubt)
    return Chosen(_ranked(scores, rank), rank)


def pac_rank(m: int, gamma: Fraction, doubt: Fraction) -> int:
    """Return the smallest rank `k` with `P[Binomial(m, gamma) <= m - k] <= doubt`.

    The share of new inputs above the score of rank `k` exceeds `gamma` only if at least `k` of `m` scores
    fall among the lower `1 - gamma` of their distribution. That has this probability.

    >>> pac_rank(1000, Fraction(1, 100), Fraction(1, 20))
    996
    >>> pac_rank(298, Fraction(1, 100), Fraction(1, 20))
    Traceback (most recent call last):
    rrise.errors.SettingError: 298 calibration inputs are too few for gamma=0.01 with confidence 0.95: use \
at least 299
    """
    needed = smallest_pac_size(gamma, doubt)
    if m < needed:
        raise SettingError(
            f"{m} calibration inputs are too few for gamma={float(gamma):g} with confidence "
            f"{float(1 - doubt):g}: use at least {needed}"
        )
    above = np.arange(m + 1)
    allowed = special.bdtr(above, m, float(gamma)) * (1 + _ROUNDING) <= float(doubt)
    return int(m - np.count_nonzero(allowed) + 1)


def smallest_pac_size(gamma: Fraction, doubt: Fraction) -> int:
    """Return the fewest calibration inputs with which `gamma` can be confirmed: `(1 - gamma)^m <= doubt`.

    >>> smallest_pac_size(Fraction(1, 100), Fraction(1, 20))
    299
    """
    m = max(1, math.floor(math.log(doubt) / math.log1p(-float(gamma))) - 1)
    while (1 - float(gamma)) ** m * (1 + _ROUNDING) > float(doubt):
        m += 1
    return m


def tuning_part(m: int) -> NDArray[np.bool_]:
    """Return which of `m` calibration inputs fix the tests of `issued`; the others are tested.

    The choice depends on their number alone.
    """
    size = min(m, max(TUNING_LEAST, round(TUNING_SHARE * m)))
    chosen = np.zeros(m, dtype=np.bool_)
    chosen[np.random.default_rng(m).permutation(m)[:size]] = True
    return chosen


def issued_offset(scores: Array, limits: Array, gamma: Fraction, doubt: Fraction) -> Chosen:
    """Return the boldest offset that passes a sequence of tests fixed beforehand, from cautious to bold.

    Some inputs, see `tuning_part`, fix the sequence. On the others, each test asks whether at most `gamma`
    of the inputs issued at an offset are above it, by a Clopper–Pearson bound at `doubt`. The first test that
    fails ends the sequence. The probability of passing any wrong offset is then at most `doubt`.

    Args:
        scores: the smallest offset at which each input's bound holds.
        limits: the smallest offset at which nothing is issued for each input.
        gamma: the allowed rate of inputs above the offset among the issued ones.
        doubt: the allowed probability of a wrong offset.
    """
    tuning = tuning_part(len(scores))
    tested = int(np.count_nonzero(~tuning))
    needed = smallest_pac_size(gamma, doubt)
    if tested < needed:
        raise SettingError(
            f"{len(scores)} calibration inputs are too few for the promise 'issued' at "
            f"gamma={float(gamma):g} with confidence {float(1 - doubt):g}: "
            f"{len(scores) - tested} of them fix the tests, and at least {needed} others must be issued; use "
            f"at least {smallest_size(Promise.ISSUED, gamma, doubt)}"
        )
    offsets = with_margin(_sequence(scores[tuning], limits[tuning], needed / tested))
    wrong = _above(np.sort(scores[~tuning]), offsets)
    issued = _above(np.sort(limits[~tuning]), offsets)
    upper = np.ones(len(offsets))
    some = issued > 0
    upper[some] = clopper_pearson_upper(wrong[some], issued[some], float(doubt))
    passed = np.cumprod(upper * (1 + _ROUNDING) <= float(gamma)).astype(np.bool_)
    if not passed.any():
        return Chosen(None, tested)
    last = int(np.flatnonzero(passed)[-1])
    return Chosen(float(offsets[last]), tested - int(wrong[last]))


def _sequence(scores: Array, limits: Array, needed: float) -> Array:
    """Return the offsets to test, falling; they are a function of the tuning inputs alone.

    The last is the median of the tuning scores, which is bolder than any failure in use allows. The first
    leaves enough inputs issued for a test to pass: `_ROOM` times the share that is `needed`, but not nearly
    all that are issued at the last.
    """
    distinct, end = np.unique(limits), float(np.median(scores))
    most = _CAUTIOUS * float(np.mean(limits > end))
    share = max(_LEAST_ROOM * needed, min(_ROOM * needed, most))
    above = _above(np.sort(limits), distinct) >= share * len(limits)
    start = float(distinct[above][-1]) if above.any() else float(distinct[0]) - 1.0
    end = min(end, start)
    return np.linspace(start, end, _GRID)


def with_margin(offset: Any) -> Any:
    """Return an offset, or several, with the margin for rounding."""
    return offset + MARGIN * (1 + np.abs(offset))


def _above(ordered: Array, offsets: Array) -> NDArray[np.int64]:
    """Count the values strictly above each offset."""
    return len(ordered) - np.searchsorted(ordered, offsets, side="right")


def _ranked(scores: Array, rank: int) -> float:
    return float(np.partition(scores, rank - 1)[rank - 1])


Offset = Callable[[Array, Array, Fraction, Fraction], Chosen]
OFFSETS: dict[Promise, Offset] = {
    Promise.MARGINAL: lambda scores, _, gamma, __: marginal_offset(scores, gamma),
    Promise.PAC: lambda scores, _, gamma, doubt: pac_offset(scores, gamma, doubt),
    Promise.ISSUED: issued_offset,
}
"""By promise: maps scores, limits, gamma and doubt to an offset."""


def smallest_size(promise: Promise, gamma: Fraction, doubt: Fraction) -> int:
    """Return the fewest calibration inputs of one group with which a promise can be kept.

    For `issued` all of them must be issued; it usually takes more.
    """
    if promise is Promise.MARGINAL:
        return smallest_calibration_size(gamma)
    needed = smallest_pac_size(gamma, doubt)
    if promise is Promise.PAC:
        return needed
    size = needed + TUNING_LEAST
    while np.count_nonzero(~tuning_part(size)) < needed:
        size += 1
    return size
