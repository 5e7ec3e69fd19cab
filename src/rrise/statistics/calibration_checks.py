"""What a calibration checks: its probabilities, its groups of classes, and its family of bounds."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rrise.errors import InputError, SettingError
from rrise.statistics.promises import with_margin
from rrise.statistics.rounding import exactly
from rrise.statistics.rules import FLOOR
from rrise.statistics.scores import Score, all_over
from rrise.statistics.terms import Terms

_ROUNDING = 1e-9
"""How far a bound may exceed what the votes prove by rounding alone, in the check of a score."""


def check_probabilities(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the values as float64; refuse NaN and anything outside [0, 1]."""
    array = np.asarray(values, dtype=np.float64)
    if ((array >= 0) & (array <= 1)).all():
        return array
    if (unknown := np.isnan(array)).any():
        raise InputError(f"expected {name} in [0, 1], got NaN at position {int(unknown.argmax())}")
    raise InputError(
        f"expected {name} in [0, 1], got values from {exactly(array.min())} to {exactly(array.max())}"
    )


def groups_of(groups: Sequence[int] | None, label: ArrayLike | None, inputs: int) -> NDArray[np.int64]:
    """Return the group of each calibration input."""
    if groups is None:
        return np.zeros(inputs, dtype=np.int64)
    table = np.asarray(groups)
    if label is None:
        raise InputError("expected the surrogate's class of every calibration input, to group them")
    classes = np.asarray(label)
    if classes.shape != (inputs,) or not np.all((classes >= 0) & (classes < len(table))):
        raise InputError(
            f"expected one class from 0 to {len(table) - 1} for each of {inputs} calibration inputs"
        )
    return np.asarray(table[classes], dtype=np.int64)


def check_group_size(size: int, group: int, terms: Terms) -> None:
    """Refuse a group of classes with too few calibration inputs; name its classes."""
    if terms.groups is None or size >= (needed := terms.smallest_size):
        return
    classes = ", ".join(str(number) for number, of in enumerate(terms.groups) if of == group)
    raise SettingError(
        f"{size} calibration inputs with the surrogate's class in group {group} (classes {classes}) are too "
        f"few for gamma={float(terms.gamma):g}: use at least {needed}. To join "
        f"classes, draw new calibration inputs: groups must be fixed without looking at them"
    )


@lru_cache(maxsize=64)
def abstaining_offset(score: Score, ceiling: float) -> float:
    """Return an offset at which nothing is issued, whatever the top probability.

    It is the costly part of a small calibration, and the same for all with this score and ceiling.
    """
    everywhere = all_over()
    offset = float(with_margin(score.residual(everywhere, np.full_like(everywhere, FLOOR), ceiling).max()))
    if np.any(score.bound(everywhere, offset, ceiling) > FLOOR):
        raise SettingError(
            f"the score {score.name!r} is not valid: at its residual for the bound 1/2 it must abstain"
        )
    return offset


def check_family(
    score: Score, offset: float, ceiling: float, rank: int, of_inputs: NDArray[np.float64]
) -> None:
    """Refuse a score whose bounds do not hold where its residuals say so, or that grow with the offset."""
    q, target, residual = of_inputs
    bound = score.bound(q, offset, ceiling)
    inside = residual <= offset
    kept = int(np.count_nonzero(bound[inside] <= target[inside] + _ROUNDING))
    if kept < int(inside.sum()) or int(inside.sum()) < rank:
        raise SettingError(
            f"the score {score.name!r} is not valid: its bounds hold for {kept} of {len(q)} calibration "
            f"inputs at its offset, expected at least {rank}. A residual up to the offset must imply a "
            f"bound up to what the votes prove"
        )
    if np.any(score.bound(q, offset + 1.0, ceiling) > bound + _ROUNDING):
        raise SettingError(f"the score {score.name!r} is not valid: its bounds must not grow with the offset")
