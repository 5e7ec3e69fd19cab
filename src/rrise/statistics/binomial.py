"""Clopper–Pearson confidence bounds on a binomial proportion."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rrise.errors import SettingError

_CHUNK = 1 << 15  # bounds per thread task: small enough to balance, large enough to hide the overhead


def clopper_pearson_lower(k: ArrayLike, n: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Lower confidence bound on a proportion after `k` successes in `n` independent trials.

    For every true proportion `p`, `P[bound <= p] >= 1 - alpha` if `n` was fixed beforehand. The
    bound is the `alpha` quantile of Beta(k, n - k + 1); it is 0 at `k = 0` and `alpha ** (1/n)` at
    `k = n`.

    Args:
        k: successes.
        n: trials; broadcasts with `k`.
        alpha: the allowed probability that the bound exceeds `p`.

    Returns:
        The bounds, in the common shape of `k` and `n`.

    Raises:
        SettingError: `k` and `n` are not counts, or `alpha` is not strictly between 0 and 1.

    Example:
        >>> float(clopper_pearson_lower(990, 1000, 0.001).round(4))
        0.976
        >>> clopper_pearson_lower([0, 10], 10, 0.05).round(4).tolist()
        [0.0, 0.7411]
    """
    successes, trials = check_counts(k, n)
    alpha = check_level(alpha, "alpha")
    bound = _by_distinct_pair(
        lambda s, t: special.betaincinv(np.maximum(s, 1), t - s + 1, alpha), successes, trials
    )
    bound = np.where((successes == 0) | np.isnan(bound), 0.0, bound)  # SciPy has no answer below 1e-140
    unanimous = np.minimum(alpha ** (1.0 / trials), np.nextafter(1.0, 0.0))
    return np.asarray(np.where(successes == trials, unanimous, bound))[()]


def clopper_pearson_upper(k: ArrayLike, n: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Upper confidence bound on a proportion: `P[bound >= p] >= 1 - alpha` for every `p`.

    Args:
        k: successes.
        n: trials, fixed beforehand; broadcasts with `k`.
        alpha: the allowed probability that the bound is below `p`.

    Returns:
        The bounds, in the common shape of `k` and `n`.

    Example:
        >>> clopper_pearson_upper([0, 10], 10, 0.05).round(4).tolist()
        [0.2589, 1.0]
    """
    successes, trials = check_counts(k, n)
    alpha = check_level(alpha, "alpha")
    bound = _by_distinct_pair(
        lambda s, t: special.betainccinv(s + 1, np.maximum(t - s, 1), alpha), successes, trials
    )
    bound = np.where(successes == 0, -np.expm1(np.log(alpha) / trials), bound)
    return np.asarray(np.where((successes == trials) | np.isnan(bound), 1.0, bound))[()]


def clopper_pearson_interval(
    k: ArrayLike, n: ArrayLike, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided interval with confidence `1 - alpha`: the lower and upper bounds, each at `alpha / 2`.

    Args:
        k: successes.
        n: trials, fixed beforehand; broadcasts with `k`.
        alpha: the allowed probability that the interval misses the true proportion.

    Returns:
        The lower and the upper ends.

    Example:
        >>> [float(end.round(4)) for end in clopper_pearson_interval(5, 10, 0.05)]
        [0.1871, 0.8129]
    """
    alpha = check_level(alpha, "alpha")
    return clopper_pearson_lower(k, n, alpha / 2), clopper_pearson_upper(k, n, alpha / 2)


def check_level(value: float, name: str) -> float:
    """Return a failure as a float; refuse one outside the open interval (0, 1)."""
    try:
        level = float(value)
    except (TypeError, ValueError):
        raise SettingError(f"expected {name} to be a number, got {value!r}") from None
    if not 0.0 < level < 1.0:  # NaN fails too
        raise SettingError(f"expected {name} strictly between 0 and 1, got {value}")
    return level


def check_budget(n: int, alpha: float, name: str = "alpha") -> None:
    """Refuse a budget so small that even `n` unanimous votes leave the lower bound at or below 1/2.

    Args:
        n: votes per input.
        alpha: the failure of the lower bound.
        name: what the error calls `alpha`.

    Raises:
        SettingError: the budget is too small; the error says how many votes are enough.

    Example:
        >>> check_budget(10, 0.001)
        >>> check_budget(9, 0.001)
        Traceback (most recent call last):
        rrise.errors.SettingError: 9 votes can never certify at alpha=0.001: ... at least 10 votes
    """
    check_level(alpha, name)
    if n < 1:
        raise SettingError(f"expected a budget of at least 1 vote, got {n}")
    best = alpha ** (1.0 / n)
    if best <= 0.5:
        enough = int(np.floor(-np.log2(alpha))) + 1
        raise SettingError(
            f"{n} votes can never certify at {name}={alpha}: if all agree, the lower bound is {best:.4f}, "
            f"which is not above 1/2; use at least {enough} votes"
        )


def highest_bound(n: int, alpha: float) -> float:
    """Return the lower bound after `n` unanimous votes.

    >>> round(highest_bound(100, 0.001), 4)
    0.9333
    """
    return float(clopper_pearson_lower(n, n, alpha))


def check_counts(k: ArrayLike, n: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return successes and trials as floats of one shape; refuse values that are not counts."""
    try:
        arrays = [np.asarray(values, dtype=np.float64) for values in (k, n)]
    except (TypeError, ValueError):
        raise SettingError(f"expected whole numbers for k and n, got {k!r} and {n!r}") from None
    successes, trials = np.broadcast_arrays(*arrays)
    for name, values in (("k", successes), ("n", trials)):
        if not np.all(np.isfinite(values)) or np.any(values != np.floor(values)):
            raise SettingError(f"expected whole numbers for {name}, got {_first_bad_count(values)}")
    if np.any(trials < 1):
        raise SettingError(f"expected at least 1 trial, got n={int(trials.min())}")
    if np.any((successes < 0) | (successes > trials)):
        where = np.unravel_index(np.argmax((successes < 0) | (successes > trials)), successes.shape)
        raise SettingError(f"expected 0 <= k <= n, got k={int(successes[where])} and n={int(trials[where])}")
    return successes, trials


def _first_bad_count(values: NDArray[np.float64]) -> float:
    bad = ~np.isfinite(values) | (values != np.floor(values))
    return float(values[bad].flat[0])


def _by_distinct_pair(
    quantile: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.floating[Any]]],
    successes: NDArray[np.float64],
    trials: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Evaluate `quantile` once per distinct (successes, trials), on all cores if there are many.

    Votes repeat a few counts many times, and a quantile costs a microsecond or two.
    """
    if successes.size <= _CHUNK:
        return np.asarray(quantile(successes, trials), dtype=np.float64)
    pairs, inverse = np.unique(successes + 1j * trials, return_inverse=True)
    pieces = np.array_split(pairs, -(-pairs.size // _CHUNK))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        values = np.concatenate(list(pool.map(lambda piece: quantile(piece.real, piece.imag), pieces)))
    return np.asarray(values[inverse].reshape(successes.shape), dtype=np.float64)
