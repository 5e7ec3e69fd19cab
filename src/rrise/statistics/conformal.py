"""The rank of split conformal prediction, in exact arithmetic."""

import math
import operator
from decimal import Decimal
from fractions import Fraction
from typing import SupportsIndex

from rrise.errors import SettingError

Level = float | str | Decimal | Fraction


def exact_level(value: Level, name: str) -> Fraction:
    """Return a probability in (0, 1) as the rational number that its shortest decimal form denotes.

    The float `0.1` means 1/10, not the nearest binary number: ranks computed from the latter can be off
    by one.

    >>> exact_level(0.249, "gamma")
    Fraction(249, 1000)
    """
    try:
        level = Fraction(value if isinstance(value, Fraction | Decimal) else str(value))
    except (ValueError, OverflowError, ZeroDivisionError):
        raise SettingError(f"expected {name} to be a number, got {value!r}") from None
    if not 0 < level < 1:
        raise SettingError(f"expected {name} strictly between 0 and 1, got {value}")
    return level


def conformal_rank(m: SupportsIndex, gamma: Level) -> int:
    """Return `ceil((m + 1) * (1 - gamma))`: which of `m` sorted scores is the conformal quantile.

    If `m` calibration scores and a new one are exchangeable, the new one is at most the score of this
    rank with probability at least `1 - gamma`. An `m` too small to have such a score is refused.

    >>> conformal_rank(1000, 0.249)
    752
    >>> conformal_rank(19, 0.05)
    19
    >>> conformal_rank(18, 0.05)
    Traceback (most recent call last):
    rrise.errors.SettingError: 18 calibration inputs are too few for gamma=0.05: use at least 19
    """
    try:
        size = operator.index(m)
    except TypeError:
        raise SettingError(f"expected a whole number of calibration inputs, got {m!r}") from None
    if size < 1:
        raise SettingError("the calibration set is empty: expected at least one calibration input")
    level = exact_level(gamma, "gamma")
    rank = math.ceil((size + 1) * (1 - level))
    if rank > size:
        raise SettingError(
            f"{size} calibration inputs are too few for gamma={float(level):g}: "
            f"use at least {smallest_calibration_size(level)}"
        )
    return rank


def smallest_calibration_size(gamma: Level) -> int:
    """Return the smallest number of calibration inputs with a finite conformal quantile at `gamma`.

    >>> smallest_calibration_size(0.009)
    111
    """
    return math.ceil(1 / exact_level(gamma, "gamma")) - 1


def conformal_share(failure: Level, beta: Level) -> Fraction:
    """Return `gamma = failure - beta` exactly: the part of the total failure left for the conformal step.

    >>> conformal_share(0.01, 0.001)
    Fraction(9, 1000)
    """
    total, binomial = exact_level(failure, "failure"), exact_level(beta, "beta")
    if total <= binomial:
        raise SettingError(
            f"expected beta below the total failure (failure = beta + gamma), "
            f"got beta={beta} and failure={failure}"
        )
    return total - binomial


def level_text(level: Fraction) -> str:
    """Write a probability as a decimal, or as a fraction if it has none; `exact_level` reads it back.

    >>> level_text(Fraction(49, 1000)), level_text(Fraction(1, 3))
    ('0.049', '1/3')
    """
    decimal = Decimal(level.numerator) / Decimal(level.denominator)
    return f"{decimal:f}" if Fraction(decimal) == level else str(level)
