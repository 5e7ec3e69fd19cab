"""Arrays in the `.npy` format, read strictly: the header must match the bytes that follow, to the last one.

NumPy's own reader ignores bytes after the array, and takes `True` for a size.
"""

import io
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rrise.errors import InputError

NUMBERS = "biufc"
"""The kinds of NumPy types that are numbers."""
TEXTS = "US"
"""The kinds that are texts."""

_EXPECTED = "expected a .npy file with an array of numbers"
_STARTS: Mapping[bytes, int] = MappingProxyType({b"\x01": 10, b"\x02": 12})
"""Bytes before the header's text, by format version; the last ones hold its length."""
_LONGEST = 12 + 2**14
"""More bytes than a header has; NumPy refuses texts of more than 10,000 characters."""


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool
    dtype: "np.dtype[Any]"
    start: int

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)

    @property
    def order(self) -> Any:
        return "F" if self.fortran else "C"


def parse_array(content: bytes, kinds: str = NUMBERS) -> NDArray[Any]:
    """Return the array in the content of a `.npy` file as a read-only view; its type is one of `kinds`.

    >>> parse_array(b"not an array")
    Traceback (most recent call last):
    rrise.errors.InputError: expected a .npy file with an array of numbers
    """
    header = _checked_header(content[:_LONGEST], len(content), kinds)
    try:
        flat = np.frombuffer(content, header.dtype, header.numbers, header.start)
        return flat.reshape(header.shape, order=header.order)
    except ValueError:  # such as too many axes
        raise InputError(_EXPECTED) from None


def map_array(path: Path) -> NDArray[Any]:
    """Return the array of numbers in a `.npy` file, read from the disk as needed."""
    with path.open("rb") as file:
        header = _checked_header(file.read(_LONGEST), path.stat().st_size, NUMBERS)
    if header.numbers == 0:
        raise InputError(f"expected at least one input, got an empty array of shape {header.shape}")
    try:
        return np.memmap(path, header.dtype, "r", header.start, header.shape, header.order)
    except ValueError:
        raise InputError(_EXPECTED) from None


def _checked_header(beginning: bytes, size: int, kinds: str) -> _Header:
    """Return the header of a file of `size` bytes; refuse one that does not match them."""
    try:
        text = _STARTS[beginning[6:7]]
        start = text + int.from_bytes(beginning[8:text], "little")
        header = _parsed(beginning[:start])
    except Exception:  # its parser raises many kinds
        raise InputError(_EXPECTED) from None
    # True is an int for Python, and for NumPy's parser
    if any(type(axis) is not int or axis < 0 for axis in header.shape):
        raise InputError(f"{_EXPECTED}, got the shape {header.shape}")
    if header.dtype.kind not in kinds or not header.dtype.itemsize:
        raise InputError(f"{_EXPECTED}, got the type {header.dtype}")
    if header.numbers * header.dtype.itemsize != size - header.start:
        raise InputError(f"{_EXPECTED}, got a header that does not match its content: it is damaged")
    return header


@lru_cache(maxsize=64)
def _parsed(header: bytes) -> _Header:
    """Parse a header; most requests to a service have the same one."""
    stream, formats = io.BytesIO(header), np.lib.format
    first = formats.read_magic(stream) == (1, 0)
    read = formats.read_array_header_1_0 if first else formats.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    return _Header(shape, fortran, dtype, len(header))
