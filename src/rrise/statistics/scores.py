"""Calibration scores: nested families of bounds, from bold to cautious.

A family has a bound for each top probability and each offset. The bound never grows with the offset, and at a
large enough offset nothing is issued. The score of a calibration input is the smallest offset at which its
bound is at most what its votes allow. Both directions use the same `ceiling`, the bound after `n` unanimous
votes: no surrogate may claim more than its calibration votes could ever prove. The ceiling depends only on
`n` and `beta`, so the scores stay exchangeable.

A score owns its texts and its look. Tables, figures, cards and command lines read them from here. To add a
score, call `register_score(Score(...))`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rrise.errors import SettingError, did_you_mean
from rrise.looks import BLUE, GREEN, UNKNOWN, VERMILLION, Look
from rrise.registry import register

Array = NDArray[np.float64]

PROBIT_LIMIT = 8.0
"""Probits below `-PROBIT_LIMIT` (probabilities under 1e-15) are set to that limit, and bounds there to 0."""
_BELOW = 1 - 1e-15
"""Bounds of `tapered` are cut so far below the ceiling: more than the rounding of that number."""
_BOLDEST = -1.0
"""The lowest score of `tapered`. At lower offsets, bounds could fall where the top probability grows."""
SPREAD = MappingProxyType({0.0: 0.3, 1.0: 0.9, 2.0: 1.0, 3.0: 0.5, 4.0: 0.35})
"""Of `tapered`: how far a surrogate may err, by the probit that it claims.

Surrogates of two datasets gave it, on images that nothing is reported on (`benchmarks/score_shapes.py`).
Folders name the score alone, so these numbers never change: another spread is another score.
"""


@dataclass(frozen=True)
class Score:
    """One calibration score: a nested family of bounds.

    Any family that was fixed without looking at the calibration inputs is valid.

    Attributes:
        name: its name in settings, files and tables.
        residual: `residual(top_probability, allowed, ceiling)` is the score of calibration inputs: the
            smallest offset whose bound is at most `allowed`.
        bound: `bound(top_probability, offset, ceiling)` is the lower bound for new inputs. It does not grow
            with the offset, and `residual(q, l, c) <= offset` implies `bound(q, offset, c) <= l`.
        unit: the unit of its offset, as a card writes it after the number.
        formula: the bound as a formula of the top probability `q` and the offset `d`.
        note: the footnote of its marked rows in tables.
        in_paper: whether the paper uses it; its rows then need no mark.
        look: how it is drawn.
    """

    name: str
    residual: Callable[[Array, Array, float], Array]
    bound: Callable[[Array, float, float], Array]
    unit: str = "in units of the score"
    formula: str = ""
    note: str = ""
    in_paper: bool = False
    look: Look = UNKNOWN


SCORES: dict[str, Score] = {}
"""All scores by name, in order of registration."""


def register_score(score: Score) -> Score:
    """Register a score under its name, which must be new."""
    return register(SCORES, score.name, score, "score")


def score_by_name(name: str) -> Score:
    """Look up a score: `tapered`, `probit`, `additive` (the paper's), or one that was registered.

    >>> score_by_name("probit").unit
    'in units of sigma'
    """
    if name not in SCORES:
        known = ", ".join(sorted(SCORES))
        raise SettingError(f"expected a score out of {known}; got {name!r}{did_you_mean(str(name), SCORES)}")
    return SCORES[name]


def as_score(score: str | Score) -> Score:
    """Return the score; look it up if a name is given."""
    return score if isinstance(score, Score) else score_by_name(score)


def _additive_residual(top_probability: Array, lower: Array, ceiling: float) -> Array:  # noqa: ARG001
    return top_probability - lower


def _additive_bound(top_probability: Array, offset: float, ceiling: float) -> Array:
    return np.clip(top_probability - offset, 0.0, ceiling)


def _probit(probability: Array, ceiling: float) -> Array:
    return np.maximum(special.ndtri(np.clip(probability, 0.0, ceiling)), -PROBIT_LIMIT)


def _probit_residual(top_probability: Array, lower: Array, ceiling: float) -> Array:
    return _probit(top_probability, ceiling) - _probit(lower, ceiling)


def _probit_bound(top_probability: Array, offset: float, ceiling: float) -> Array:
    return _bound_of(_probit(top_probability, ceiling) - offset, ceiling)


def _bound_of(probit: Array, ceiling: float) -> Array:
    bound = np.minimum(special.ndtr(probit), ceiling)  # inverting the probit may add a last bit
    return np.where(probit <= -PROBIT_LIMIT, 0.0, bound)


def tapered_by(spread: Mapping[float, float], name: str, **texts: Any) -> Score:
    """Return the family `min(Phi(z - t h(z)), ceiling)`, `z = Phi^-1(q)`, with a spread `h` of your own.

    Args:
        spread: positive numbers by probit, ascending. They are linear between these points, and constant
            beyond them.
        name: the name of the score.
        texts: further fields of the score.
    """
    knots, heights = list(spread), list(spread.values())

    def claimed(top_probability: Array) -> tuple[Array, Array]:
        probit = np.clip(special.ndtri(top_probability), -PROBIT_LIMIT, PROBIT_LIMIT)
        return probit, np.interp(probit, knots, heights)

    def residual(top_probability: Array, lower: Array, ceiling: float) -> Array:
        probit, height = claimed(top_probability)
        found = (probit - _probit(lower, ceiling)) / height
        unanimous = lower >= ceiling * _BELOW  # no bound is above it, whatever the offset
        return np.where(unanimous, _BOLDEST, np.maximum(found, _BOLDEST))

    def bound(top_probability: Array, offset: float, ceiling: float) -> Array:
        probit, height = claimed(top_probability)
        return _bound_of(probit - offset * height, ceiling * _BELOW)

    return Score(name, residual, bound, **texts)


def all_over() -> Array:
    """Return top probabilities all over [0, 1], to check a family at: dense in probits from -6 to 8."""
    return np.append(special.ndtr(np.linspace(-6.0, 8.0, 28_001)), 1.0)


ADDITIVE = register_score(
    Score(
        "additive",
        _additive_residual,
        _additive_bound,
        unit="in probability",
        formula="q - d",
        in_paper=True,
        look=Look(VERMILLION, (5, 2), "s"),
    )
)
"""Subtracts the offset from the probability, as the paper does. This caps every radius at
`sigma * Phi^-1(1 - offset)`."""
PROBIT = register_score(
    Score(
        "probit",
        _probit_residual,
        _probit_bound,
        unit="in units of sigma",
        formula="Phi(Phi^-1(q) - d)",
        note="the offset is taken in probit space, which the paper does not do.",
        look=Look(BLUE, (), "o"),
    )
)
"""Subtracts the offset from the probit, which shortens every radius by the same `sigma * offset`."""
TAPERED = register_score(
    tapered_by(
        SPREAD,
        "tapered",
        unit="in units of sigma, where a surrogate errs most",
        formula="Phi(z - d h(z)), z = Phi^-1(q)",
        note="the offset is taken in probit space, and is smaller where surrogates err less.",
        look=Look(GREEN, (1, 1), "^"),
    )
)
"""The default. Like `probit`, but the offset is multiplied by how far surrogates err at that probability, and
the ceiling cuts the bound after the offset, not the surrogate's claim before it."""
