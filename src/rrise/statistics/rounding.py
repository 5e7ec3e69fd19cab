"""Conservative rounding: guarantees round down, and quantities subtracted from them round up.

A radius of 0.12999 printed as 0.13 claims more than was certified. Formatting uses the exact decimal
expansion of the float, so not even its last bit is rounded the wrong way.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def format_down(value: float, decimals: int = 4) -> str:
    """Write a number with the given decimals, rounded towards minus infinity.

    >>> format_down(0.12999)
    '0.1299'
    """
    return _format(value, decimals, ROUND_FLOOR)


def format_up(value: float, decimals: int = 4) -> str:
    """Write a number with the given decimals, rounded towards plus infinity.

    >>> format_up(0.12991)
    '0.1300'
    """
    return _format(value, decimals, ROUND_CEILING)


def exactly(value: float | np.floating[Any]) -> str:
    """Write a number with as few digits as tell it from all others of its type, and at least as `%g` does.

    >>> exactly(0.25), exactly(np.float32(1.0000001)), exactly(0.1234567)
    ('0.25', '1.0000001', '0.1234567')
    """
    text = f"{value:g}"
    return text if type(value)(text) == value else str(value)


def round_down(values: ArrayLike, decimals: int = 6) -> NDArray[np.float64]:
    """Return the largest multiples of `10 ** -decimals` that, as floats, do not exceed the values.

    Rounding is idempotent.

    >>> round_down([0.29999999, 0.3, 0.0], decimals=1).tolist()
    [0.2, 0.3, 0.0]
    """
    exact = np.asarray(values, dtype=np.float64)
    scale = 10.0**decimals
    steps = np.floor(exact * scale)
    below, rounded, above = (steps - 1) / scale, steps / scale, (steps + 1) / scale
    return np.asarray(np.where(rounded > exact, below, np.where(above <= exact, above, rounded)))[()]


def float32_below(values: ArrayLike) -> NDArray[np.float32]:
    """Return the largest float32 numbers that do not exceed the values.

    >>> below = float32_below(0.1)
    >>> float(below) <= 0.1 < float(np.nextafter(below, np.float32(1)))
    True
    """
    exact = np.asarray(values, dtype=np.float64)
    nearest = exact.astype(np.float32)
    lower = np.nextafter(nearest, np.float32(-np.inf))
    return np.asarray(np.where(nearest > exact, lower, nearest))


def _format(value: float, decimals: int, rounding: str) -> str:
    if not np.isfinite(value):
        return str(float(value))
    with localcontext(prec=400):
        rounded = Decimal(float(value)).quantize(Decimal(1).scaleb(-decimals), rounding=rounding)
    return str(abs(rounded) if rounded == 0 else rounded)
