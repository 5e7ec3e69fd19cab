"""Numbers as the page and the figures write them: a claim is never rounded up."""

import math
from fractions import Fraction

from rrise.statistics import format_down, format_up

DASH = "–"
"""Stands for a number that is not defined, such as the mean of nothing."""


def percent(share: float | None) -> str:
    """Write a share of counted inputs as a percentage, rounded down.

    >>> percent(0.9999), percent(58 / 100), percent(None)
    ('99.9 %', '58.0 %', '–')
    """
    if share is None:
        return DASH
    tenths = math.floor(1000 * Fraction(share).limit_denominator(10**6))
    return f"{tenths // 10}.{tenths % 10} %"


def percent_up(share: float | None) -> str:
    """Write a rate of errors as a percentage, rounded up.

    >>> percent_up(0.0101)
    '1.1 %'
    """
    return DASH if share is None else f"{format_up(100 * float(share), 1)} %"


def radius_text(radius: float | None) -> str:
    """Write a radius with three decimals, rounded down.

    >>> radius_text(0.0859), radius_text(None)
    ('0.085', '–')
    """
    return DASH if radius is None else format_down(radius, 3)


def count_text(count: float | None) -> str:
    """Write a number of passes or queries, to the unit.

    >>> count_text(600042500.0), count_text(7.25), count_text(None)
    ('600,042,500', '7.2', '–')
    """
    if count is None:
        return DASH
    return f"{count:,.0f}" if count >= 100 or count == int(count) else f"{count:,.1f}"


def ratio_text(value: float | None) -> str:
    """Write a ratio or an offset with three decimals, to the nearest.

    >>> ratio_text(0.97049), ratio_text(None)
    ('0.970', '–')
    """
    return DASH if value is None else f"{value:.3f}"


def milliseconds(seconds: float | None) -> str:
    """Write a time in milliseconds.

    >>> milliseconds(0.00251), milliseconds(12.5), milliseconds(None)
    ('2.51', '12,500', '–')
    """
    if seconds is None:
        return DASH
    return f"{1000 * seconds:.3g}" if seconds < 0.1 else f"{1000 * seconds:,.0f}"
