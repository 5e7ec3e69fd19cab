"""A surrogate's probability and a few votes, blended into one number."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rrise.errors import SettingError


def blended(
    top_probability: ArrayLike, agreeing: ArrayLike, votes: ArrayLike, strength: float
) -> NDArray[np.float64]:
    """Return the mean of a Beta posterior: the surrogate is the prior, and votes of the input update it.

    The prior is Beta(strength * q, strength * (1 - q)): the surrogate counts as so many votes.

    Args:
        top_probability: the surrogate's top probability `q`.
        agreeing: how many votes are for the surrogate's class.
        votes: how many votes there are.
        strength: how many votes the surrogate is worth, positive.

    Returns:
        `(strength * q + agreeing) / (strength + votes)`.

    Example:
        >>> float(blended(0.9, 60, 64, 64.0))
        0.91875
    """
    q, k, m = (np.asarray(value, dtype=np.float64) for value in (top_probability, agreeing, votes))
    return np.asarray((check_strength(strength) * q + k) / (strength + m))


def spread_in_sigma(probability: ArrayLike, strength: ArrayLike) -> NDArray[np.float64]:
    """Return the standard deviation of a Beta posterior, in units of sigma of the radius.

    Args:
        probability: the mean of the posterior.
        strength: votes and prior strength together.
    """
    p = np.clip(np.asarray(probability, dtype=np.float64), 1e-6, 1 - 1e-6)
    deviation = np.sqrt(p * (1 - p) / (np.asarray(strength, dtype=np.float64) + 1))
    density = np.exp(-(special.ndtri(p) ** 2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(deviation / density)


def check_strength(strength: float) -> float:
    """Refuse a strength that is not a positive number."""
    if not np.isfinite(strength) or strength <= 0:
        raise SettingError(f"expected a positive strength of the surrogate, got {strength}")
    return strength
