"""From a lower bound on the smoothed top probability to a certified L2 radius."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from rrise.errors import SettingError
from rrise.statistics.rounding import exactly


def certified_radius(p: ArrayLike, sigma: float) -> NDArray[np.float64]:
    """Return `sigma * Phi^-1(p)` where `p > 1/2`, and 0 (abstained) elsewhere.

    Let `p` be at most the probability that the base classifier predicts a class under Gaussian noise
    of level `sigma`. Then the smoothed classifier predicts that class everywhere within this L2 distance
    (Cohen et al., 2019).

    >>> certified_radius([0.3, 0.5, 0.9, 0.99], sigma=0.25).round(4).tolist()
    [0.0, 0.0, 0.3204, 0.5816]
    """
    sigma = check_sigma(sigma)
    bound = np.asarray(p, dtype=np.float64)
    if not ((bound >= 0) & (bound <= 1)).all():
        if np.isnan(bound).any():
            raise SettingError("expected probabilities to certify, got NaN")
        raise SettingError(
            f"expected probabilities in [0, 1], got values from {exactly(bound.min())} to "
            f"{exactly(bound.max())}"
        )
    return np.asarray(np.where(bound > 0.5, sigma * special.ndtri(np.maximum(bound, 0.5)), 0.0))[()]


def check_sigma(sigma: float) -> float:
    """Return a noise level as a float; refuse one that is not a positive finite number."""
    try:
        level = float(sigma)
    except (TypeError, ValueError):
        raise SettingError(f"expected a positive noise level sigma, got {sigma!r}") from None
    if not (np.isfinite(level) and level > 0):
        raise SettingError(f"expected a positive noise level sigma, got {sigma}")
    return level
