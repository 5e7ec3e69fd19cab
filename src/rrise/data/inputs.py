"""Valid inputs of a classifier: floating-point batches of one shape and range, and nothing else."""

import hashlib
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from rrise.errors import InputError, SettingError, described
from rrise.statistics.rounding import exactly

InputRange = tuple[float, float] | None
"""Lowest and highest value an input may have; noise is clipped to it. None: any value, no clipping."""


DIGEST_SIZE = 12


def check_input_range(input_range: InputRange) -> InputRange:
    """Return the range as a pair of floats; refuse one that is empty or not finite."""
    if input_range is None:
        return None
    try:
        low, high = (float(end) + 0.0 for end in input_range)  # -0.0 becomes 0.0
    except (TypeError, ValueError):
        raise SettingError(
            f"expected input_range to be a pair such as (0, 1), or None; got {input_range!r}"
        ) from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise SettingError(f"expected input_range to hold two finite numbers, low < high; got {input_range}")
    return low, high


def as_inputs(
    values: Any,
    *,
    shape: tuple[int, ...] | None = None,
    input_range: InputRange = (0.0, 1.0),
    name: str = "inputs",
    first: int = 0,
) -> torch.Tensor:
    """Return a copy of a batch `[inputs, *shape]` as a float32 tensor on the CPU; refuse invalid inputs.

    `first` is the number of the first input in messages.

    >>> as_inputs(np.zeros((2, 3), dtype=np.uint8))
    Traceback (most recent call last):
    rrise.errors.InputError: expected inputs as floating-point numbers in [0, 1], got uint8: ...
    """
    check_is_array(values, name)
    array = _as_array(values, name)
    _check_dtype(array, input_range, name)
    _check_shape(array, shape, name)
    with np.errstate(over="ignore"):
        single = np.array(array, dtype=np.float32, order="C")
    _check_values(single, input_range, name, first)
    return torch.from_numpy(single)


def check_is_array(values: Any, name: str = "inputs") -> None:
    """Refuse what holds or names inputs but is no array, and say how to get the array."""
    if isinstance(values, DataLoader):
        advice = "join its batches first, without labels, as torch.cat([batch[0] for batch in loader])"
    elif isinstance(values, TorchDataset):
        advice = "join its inputs first, without labels, as torch.stack([one[0] for one in dataset])"
    elif isinstance(values, str | PathLike):
        advice = "load the array first, as numpy.load(path)"
    elif values is None or isinstance(values, Mapping | Iterator):
        advice = "pass an array or a tensor [inputs, ...]"
    else:
        return
    raise InputError(f"expected {name} as one array, got {described(values)}: {advice}")


def input_digests(inputs: torch.Tensor) -> list[bytes]:
    """Return one short digest per input, equal exactly for equal inputs."""
    rows = inputs.numpy().reshape(len(inputs), -1)
    return [hashlib.blake2b(row.tobytes(), digest_size=DIGEST_SIZE).digest() for row in rows]


def inputs_fingerprint(inputs: torch.Tensor) -> str:
    """Return the SHA-256 of the shape and values of a batch."""
    content = inputs.contiguous().numpy()
    return hashlib.sha256(str(content.shape).encode() + content.tobytes()).hexdigest()


def describe_range(input_range: InputRange) -> str:
    """Write a range as docs and messages do.

    >>> describe_range((0.0, 1.0))
    '[0, 1]'
    """
    return (
        "any finite value"
        if input_range is None
        else f"[{exactly(input_range[0])}, {exactly(input_range[1])}]"
    )


def _as_array(values: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(values, torch.Tensor):
        tensor = values.detach().cpu()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"expected {name} as one array, got a ragged {type(values).__name__}") from None


def _check_dtype(array: np.ndarray[Any, Any], input_range: InputRange, name: str) -> None:
    if not np.issubdtype(array.dtype, np.floating):
        advice = ": divide 8-bit images by 255" if array.dtype == np.uint8 else ""
        inside = "" if input_range is None else f" in {describe_range(input_range)}"
        raise InputError(f"expected {name} as floating-point numbers{inside}, got {array.dtype}{advice}")


def _check_shape(array: np.ndarray[Any, Any], shape: tuple[int, ...] | None, name: str) -> None:
    if shape is None:
        if array.ndim < 2:
            raise InputError(f"expected {name} as a batch [inputs, ...], got an array of shape {array.shape}")
        return
    if array.shape[1:] != shape or array.ndim != len(shape) + 1:
        batch = f"({', '.join(['inputs', *map(str, shape)])})"
        advice = ": a single input needs a leading axis, x[None]" if array.shape == shape else ""
        raise InputError(f"expected {name} of shape {batch}, got {array.shape}{advice}")


def _check_values(array: np.ndarray[Any, Any], input_range: InputRange, name: str, start: int) -> None:
    if array.size == 0:
        return
    low, high = array.min(), array.max()
    if not (np.isfinite(low) and np.isfinite(high)):  # NaN and infinities reach the extremes
        first = int(np.argmax(~np.isfinite(array).reshape(len(array), -1).all(axis=1)))
        raise InputError(f"expected finite {name}, got NaN or infinity in input {start + first}")
    if input_range is not None and not (
        np.float32(input_range[0]) <= low <= high <= np.float32(input_range[1])
    ):
        raise InputError(
            f"expected {name} in {describe_range(input_range)}, got values from {exactly(low)} "
            f"to {exactly(high)}"
        )
