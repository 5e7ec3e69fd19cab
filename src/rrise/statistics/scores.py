"""Calibration scores: how far the surrogate's top probability may lie above what the votes prove.

A score compares, for one calibration input, the surrogate's top probability with the Clopper–Pearson
lower bound for the same class. Its inverse turns a new top probability and the calibrated offset into
a lower bound. Both directions use the same `ceiling`, the bound that `n` unanimous votes give: no
surrogate may claim more than the votes it is calibrated on could ever prove. The ceiling depends on
`n` and `beta` alone, so it leaves the scores exchangeable.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rrise.errors import SettingError

Array = NDArray[np.float64]

PROBIT_LIMIT = 8.0
"""Probits below `-PROBIT_LIMIT` (probabilities under 1e-15) count as that limit, and bounds there as 0."""


@dataclass(frozen=True)
class Score:
    """One calibration score.

    `residual(top_probability, lower, ceiling)` is the score of calibration inputs;
    `bound(top_probability, offset, ceiling)` is the lower bound it gives for new ones, such that
    `residual(q, l, c) <= offset` implies `bound(q, offset, c) <= l`.
    """

    name: str
    residual: Callable[[Array, Array, float], Array]
    bound: Callable[[Array, float, float], Array]


def score_by_name(name: str) -> Score:
    """Look a score up: `additive` (the paper's) or `probit`.

    >>> score_by_name("probit").name
    'probit'
    """
    try:
        return SCORES[name]
    except KeyError:
        raise SettingError(f"expected a score out of {', '.join(sorted(SCORES))}; got {name!r}") from None


def _additive_residual(top_probability: Array, lower: Array, ceiling: float) -> Array:  # noqa: ARG001
    return top_probability - lower


def _additive_bound(top_probability: Array, offset: float, ceiling: float) -> Array:
    return np.clip(top_probability - offset, 0.0, ceiling)


def _probit(probability: Array, ceiling: float) -> Array:
    return np.maximum(special.ndtri(np.clip(probability, 0.0, ceiling)), -PROBIT_LIMIT)


def _probit_residual(top_probability: Array, lower: Array, ceiling: float) -> Array:
    return _probit(top_probability, ceiling) - _probit(lower, ceiling)


def _probit_bound(top_probability: Array, offset: float, ceiling: float) -> Array:
    shifted = _probit(top_probability, ceiling) - offset
    bound = np.minimum(special.ndtr(shifted), ceiling)  # inverting the probit may gain a last bit
    return np.where(shifted <= -PROBIT_LIMIT, 0.0, bound)


SCORES = {
    "additive": Score("additive", _additive_residual, _additive_bound),
    "probit": Score("probit", _probit_residual, _probit_bound),
}
"""`additive` subtracts the offset from the probability, as the paper does, and so caps every radius at
`sigma * Phi^-1(1 - offset)`; `probit` subtracts it from the probit, which shortens every radius by the
same `sigma * offset`."""
