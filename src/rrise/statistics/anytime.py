"""A lower confidence bound on a proportion that holds at every number of trials at once."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rrise.errors import SettingError
from rrise.statistics.binomial import check_counts, check_level

Array = NDArray[np.float64]

_TOLERANCE = 1e-10
"""The bound lies at most this far below the end of the rejected interval."""

_STEPS = 100
"""Newton's method takes three to six steps; bisection alone would take 34."""


def anytime_lower(k: ArrayLike, n: ArrayLike, alpha: float) -> Array:
    """Lower confidence bound on a proportion after `k` successes in `n` trials, valid at all `n` at once.

    For every true proportion `p`, the probability that the bound *ever* exceeds `p`, at any of the
    trials 1, 2, 3, ..., is at most `alpha`. You may therefore look after each trial, stop at any time for
    any reason, and keep the largest bound seen.

    **The test.** Against each `p0` we bet on the proportions above it, with the weights `w` of
    Beta(1/2, 1/2) restricted to (p0, 1]. With `L(p) = p^k (1-p)^(n-k)`, the capital after n trials is

        M(p0) = integral_p0^1 w(p) L(p) dp / (S(p0) L(p0)),    S(p0) = integral_p0^1 w(p) dp.

    If the true proportion is at most `p0`, no bet gains on average: one trial multiplies `L(q) / L(p0)`,
    q > p0, by a factor whose mean increases with the true proportion and is 1 at p0. By Ville's inequality,
    `M(p0)` then ever reaches `1/alpha` with probability at most `alpha`. We reject `p0` when it does. The
    bound is the end of the rejected interval, approached from inside: at the bound, `p0` is rejected even
    after an allowance for rounding.

    **The rejected `p0` form an interval** above `floor = (2 log(1/alpha))^-2`. With `h = w / S`,

        M' = h (M - 1) - M (k - n p0) / (p0 (1 - p0)).

    Where `M >= 1/alpha`: `log(1/alpha) <= log M <= n KL(k/n, p0) <= (k - n p0)^2 / (n p0 (1 - p0))`, and
    `k - n p0 <= n (1 - p0)`, hence `(k - n p0) / (p0 (1 - p0)) >= log(1/alpha) / (1 - p0)`. Also,
    `S(p0) = (2/pi) arcsin(sqrt(1 - p0)) >= (2/pi) sqrt(1 - p0)` implies `h <= 1 / (2 sqrt(p0) (1 - p0))`.
    So `M' < 0` there if `sqrt(p0) >= 1 / (2 log(1/alpha))`, and M cannot return to `1/alpha` from below.
    If the floor itself is not rejected, the bound is 0. Nothing below the floor needs to be rejected: if the
    true proportion is under it, the floor is also rejected with probability at most `alpha`.

    Args:
        k: successes.
        n: trials; broadcasts with `k`. Each distinct pair is computed once.
        alpha: the allowed probability that the bound ever exceeds `p`; below 0.493.

    Returns:
        The bounds, in the common shape of `k` and `n`.

    Raises:
        SettingError: `k` and `n` are not counts, or `alpha` is out of range.

    Example:
        >>> anytime_lower([0, 900, 1000], 1000, 0.001).round(4).tolist()
        [0.0, 0.8545, 0.992]
    """
    successes, trials = check_counts(k, n)
    alpha = check_level(alpha, "alpha")
    if _floor(alpha) >= 0.5:
        raise SettingError(
            f"expected alpha below 0.493, got {alpha}: with a larger alpha, the anytime-valid bound is "
            f"undefined at a proportion of 1/2"
        )
    pairs, inverse = np.unique(successes + 1j * trials, return_inverse=True)
    bound = _end_of_rejected_interval(pairs.real, pairs.imag, alpha)
    return np.asarray(bound[inverse].reshape(successes.shape))[()]


def _floor(alpha: float) -> float:
    """Return the smallest positive value that a bound may take."""
    return float((2 * np.log(1 / alpha)) ** -2)


def _end_of_rejected_interval(k: Array, n: Array, alpha: float) -> Array:
    """Return the `p0` where `M(p0)` falls to `1/alpha`, at most `_TOLERANCE` too low; 0 if never above it.

    Newton's method runs inside an interval whose lower end is rejected and whose upper end is not. If a
    step leaves the interval, the interval is halved instead.
    """
    floor = _floor(alpha)
    excess = _Excess(k, n, alpha)
    low, high = np.zeros_like(k), k / n
    active = np.flatnonzero(high > floor)
    low[active] = np.where(excess.at(np.full(active.shape, floor), active)[0] >= 0, floor, 0.0)
    active = active[low[active] > 0]
    place = _score_bound(k[active], n[active], alpha)
    for _ in range(_STEPS):
        if active.size == 0:
            break
        inside = (place > low[active]) & (place < high[active])
        place = np.where(inside, place, (low[active] + high[active]) / 2)
        value, slope = excess.at(place, active)
        rejected = value >= 0
        low[active] = np.where(rejected, place, low[active])
        high[active] = np.where(rejected, high[active], place)
        step = value / np.maximum(-slope, np.finfo(float).tiny)
        close = (rejected & (step <= _TOLERANCE)) | (high[active] - low[active] <= _TOLERANCE)
        active, place = active[~close], (place + step - _TOLERANCE / 4)[~close]
    return low


class _Excess:
    """`log M(p0) - log(1/alpha)`, minus an allowance for rounding, and its slope in `p0`."""

    def __init__(self, k: Array, n: Array, alpha: float) -> None:
        self.k, self.n = k, n
        allowance = 16 * np.finfo(float).eps * (1 + n * np.log(n + 2))
        self.constant = special.betaln(k + 0.5, n - k + 0.5) + np.log(alpha) - allowance

    def at(self, p0: Array, which: NDArray[np.intp]) -> tuple[Array, Array]:
        k, n = self.k[which], self.n[which]
        angle = np.arcsin(np.sqrt(1 - p0))  # S(p0) = (2/pi) angle, and B(1/2, 1/2) = pi
        likelihood = special.xlogy(k, p0) + special.xlog1py(n - k, -p0)
        with np.errstate(divide="ignore"):  # all of the mixture may lie below p0: then M = 0
            above = np.log1p(-special.betainc(k + 0.5, n - k + 0.5, p0))
        value = self.constant[which] + above - np.log(2 * angle) - likelihood
        hazard = 1 / (2 * angle * np.sqrt(p0 * (1 - p0)))
        return value, hazard - (k - n * p0) / (p0 * (1 - p0))


def _score_bound(k: Array, n: Array, alpha: float) -> Array:
    """Return a first guess: the bound of a score test that is about as wide as the mixture."""
    z = 2 * np.log(1 / alpha) + np.log(n + 1)
    centre, spread = k + z / 2, np.sqrt(z * (k * (n - k) / n + z / 4))
    return np.asarray((centre - spread) / (n + z))
