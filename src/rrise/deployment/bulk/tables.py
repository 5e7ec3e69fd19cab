"""Parquet files with a column of inputs: numbers in lists, or encoded images. They are read as a stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rrise.deployment.bulk.kinds import Wanted, decoded, pixels_or_numbers
from rrise.deployment.bulk.places import open_file
from rrise.errors import FolderError, InputError, did_you_mean

_BATCH = 1024
_BUFFER = 1 << 20
"""Bytes that are read at once, so that a row group need not fit into memory."""


class Tables:
    """Parquet files.

    One column holds the inputs:

    - lists of numbers, flat or nested, of fixed or of variable size, or fixed-shape tensors;
    - PNG or JPEG images as binary, or as a struct with a field `bytes`.
    """

    endings = (".parquet",)

    def __init__(self) -> None:
        self._name = ""
        self._stream: _Stream | None = None

    def count(self, name: str, wanted: Wanted) -> int:
        """Read the footer of a file."""
        with open_file(name) as file:
            try:
                parquet = pq.ParquetFile(file)
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"expected a Parquet file: {error}") from None
            _column(parquet.schema_arrow, wanted)
            return int(parquet.metadata.num_rows)

    def fetch(self, name: str, start: int, stop: int, wanted: Wanted) -> pa.Array:
        """Return rows of the column."""
        with _named(name):
            if self._stream is None or self._name != name:
                self.close()
                self._name, self._stream = name, _Stream(name, wanted)
            return self._stream.rows(start, stop)

    def values(self, stored: pa.Array, wanted: Wanted) -> NDArray[Any]:
        """Return rows as numbers, or decode them as images."""
        if stored.null_count:
            raise InputError("expected an input, got nothing: the row is null")
        if isinstance(stored, pa.ExtensionArray):
            stored = stored.storage
        if pa.types.is_struct(stored.type):
            stored = stored.field("bytes")
            if stored.null_count:
                raise InputError("expected an encoded image, got nothing: its bytes are null")
        if _is_binary(stored.type):
            return decoded(stored.to_pylist(), wanted)
        return pixels_or_numbers(_numbers(stored, wanted), wanted)

    def close(self) -> None:
        """Close the file that was read last."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class _Stream:
    """The rows of a column from some place on."""

    def __init__(self, name: str, wanted: Wanted) -> None:
        self._file = open_file(name)
        self._parquet = pq.ParquetFile(self._file, buffer_size=_BUFFER, pre_buffer=False)
        self._column = _column(self._parquet.schema_arrow, wanted)
        sizes = [
            self._parquet.metadata.row_group(group).num_rows for group in range(self._parquet.num_row_groups)
        ]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._open_at(0)

    def _open_at(self, row: int) -> None:
        """Begin with the row group that holds a row."""
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        self._next = int(self._starts[group])
        groups = list(range(group, self._parquet.num_row_groups))
        self._batches = self._parquet.iter_batches(
            _BATCH, row_groups=groups, columns=[self._column], use_threads=False
        )
        self._rest: pa.Array | None = None

    def rows(self, start: int, stop: int) -> pa.Array:
        """Return rows; those before them are read and dropped, but for whole row groups."""
        group_of = np.searchsorted(self._starts, [self._next, start], side="right")
        if start < self._next or group_of[1] > group_of[0]:
            self._open_at(start)
        parts = []
        while self._next < stop:
            batch = self._rest if self._rest is not None else next(self._batches).column(0)
            kept, self._rest = batch, None
            if self._next + len(batch) > stop:
                kept, self._rest = batch[: stop - self._next], batch[stop - self._next :]
            begin, self._next = self._next, self._next + len(kept)
            if self._next > start:
                parts.append(kept[max(0, start - begin) :])
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def close(self) -> None:
        self._file.close()


def _column(schema: pa.Schema, wanted: Wanted) -> str:
    """Return the column that holds the inputs: the one that was named, or the only one that can."""
    fitting = [field.name for field in schema if _can_hold_inputs(field.type)]
    if wanted.column is None:
        if len(fitting) == 1:
            return str(fitting[0])
        found = ", ".join(fitting) or "none"
        raise InputError(f"expected one column of lists or of images, got {found}: name the column of inputs")
    if wanted.column not in schema.names:
        near = did_you_mean(wanted.column, schema.names) or f"; there are {', '.join(schema.names)}"
        raise InputError(f"it has no column {wanted.column}{near}")
    if wanted.column not in fitting:
        kind = schema.field(wanted.column).type
        raise InputError(f"expected lists of numbers or encoded images in {wanted.column}, got {kind}")
    return wanted.column


def _can_hold_inputs(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.FixedShapeTensorType):
        return list(kind.permutation or []) in ([], list(range(len(kind.shape))))
    if isinstance(kind, pa.BaseExtensionType):
        return _can_hold_inputs(kind.storage_type)
    if pa.types.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and _is_binary(kind.field(place).type)
    return _is_list(kind) or _is_binary(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(kind) for is_kind in kinds)


def _numbers(lists: pa.Array, wanted: Wanted) -> NDArray[Any]:
    """Return lists, flat or nested as the shape is, as an array; every list must have the right length."""
    rows, lengths = len(lists), []
    values = lists
    while _is_list(values.type):
        length = _length(values)
        lengths.append(length)
        values = values.flatten()
        if values.null_count:
            raise InputError("expected a number in every place, got nothing in some")
    array = np.asarray(values)
    if len(lengths) == 1 and lengths[0] == int(np.prod(wanted.shape)):
        return array.reshape(rows, *wanted.shape)
    return array.reshape(rows, *lengths)


def _length(lists: pa.Array) -> int:
    """Return the length that all lists have."""
    if pa.types.is_fixed_size_list(lists.type):
        return int(lists.type.list_size)
    lengths = np.unique(np.asarray(lists.value_lengths()))
    if len(lengths) != 1:
        raise InputError(f"expected lists of one length, got lengths from {lengths[0]} to {lengths[-1]}")
    return int(lengths[0])


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise FolderError(f"{name} cannot be read: {error or 'it ends too early'}") from error
