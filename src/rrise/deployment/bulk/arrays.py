"""Arrays in `.npy` files and `.npz` archives, read a part at a time.

Parts are read by their place in the file, not through a memory map: what has been read does not stay in
memory, and URLs work alike.
"""

import io
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rrise.deployment.bulk.kinds import Wanted, pixels_or_numbers
from rrise.deployment.bulk.places import open_file
from rrise.errors import FolderError, InputError, RriseError

_LOCAL_HEADER = struct.Struct("<26xHH")
"""What stands before a member of an archive: 26 bytes, and the lengths of two texts that follow."""


@dataclass
class _Stored:
    """An array in an open file: where its numbers begin, and its type and shape."""

    file: IO[bytes]
    begin: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def at(cls, file: IO[bytes], place: int, wanted: Wanted) -> "_Stored":
        """Read the header of an array; an array of one input counts as a batch of one."""
        file.seek(place)
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        try:
            shape, fortran, dtype = readers[np.lib.format.read_magic(file)](file)
        except (ValueError, KeyError, EOFError):
            raise InputError("expected a .npy file with an array of numbers") from None
        if dtype.hasobject or dtype.names:
            raise InputError("expected a .npy file with an array of numbers")
        if fortran and len(shape) > 1:
            raise InputError(
                "expected an array in C order, got Fortran order: save np.ascontiguousarray of it"
            )
        shape = (1, *shape) if shape == wanted.shape else shape
        if len(shape) < 2 or math.prod(shape[1:]) == 0:
            raise InputError(f"expected an array [inputs, ...], got shape {shape}")
        return cls(file, file.tell(), dtype, shape)

    @property
    def width(self) -> int:
        """Bytes of an input."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        self.file.seek(self.begin + start * self.width)
        content = self.file.read((stop - start) * self.width)
        if len(content) < (stop - start) * self.width:
            raise FolderError("it ends too early: it is truncated")
        return np.frombuffer(content, self.dtype).reshape(stop - start, *self.shape[1:])

    def check_length(self, end: int) -> None:
        if self.begin + self.shape[0] * self.width > end:
            raise InputError("it ends too early: it is truncated")


class Arrays:
    """Arrays in `.npy` files: numbers, or 8-bit images."""

    endings: tuple[str, ...] = (".npy",)

    def __init__(self) -> None:
        self._name = ""
        self._file: IO[bytes] = io.BytesIO()
        self._array: _Stored | None = None

    def count(self, name: str, wanted: Wanted) -> int:
        """Read the header of a file."""
        with open_file(name) as file:
            end = file.seek(0, 2)
            stored = self._stored(file, wanted)
            stored.check_length(end)
            return stored.shape[0]

    def fetch(self, name: str, start: int, stop: int, wanted: Wanted) -> NDArray[Any]:
        """Return a part of the array."""
        try:
            if self._array is None or self._name != name:
                self.close()
                self._name, self._file = name, open_file(name)
                self._array = self._stored(self._file, wanted)
            return self._array.rows(start, stop)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RriseError) as error:
            raise FolderError(f"{name} cannot be read: {error}") from error

    def values(self, stored: NDArray[Any], wanted: Wanted) -> NDArray[Any]:
        """Return the part; 8-bit images become numbers in [0, 1]."""
        return pixels_or_numbers(stored, wanted)

    def close(self) -> None:
        """Close the file that was read last."""
        self._file.close()
        self._array = None

    def _stored(self, file: IO[bytes], wanted: Wanted) -> _Stored:
        return _Stored.at(file, 0, wanted)


class Archives(Arrays):
    """Arrays in `.npz` archives. Compressed ones are read from their start, so that resuming takes longer."""

    endings = (".npz",)

    def count(self, name: str, wanted: Wanted) -> int:
        """Read the header of the array in an archive."""
        with open_file(name) as file:
            return self._stored(file, wanted).shape[0]

    def _stored(self, file: IO[bytes], wanted: Wanted) -> _Stored:
        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise InputError(f"expected a .npz archive: {error}") from None
        member = archive.getinfo(_member(archive.namelist(), wanted.column))
        if member.compress_type != zipfile.ZIP_STORED:
            return _Stored.at(archive.open(member), 0, wanted)
        file.seek(member.header_offset)
        lengths = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        begin = member.header_offset + _LOCAL_HEADER.size + sum(lengths)
        stored = _Stored.at(file, begin, wanted)
        stored.check_length(begin + member.file_size)
        return stored


def _member(names: list[str], wanted: str | None) -> str:
    """Return the array to read: the one that was named, or the only one."""
    arrays = [name.removesuffix(".npy") for name in names if name.endswith(".npy")]
    if wanted is None and len(arrays) != 1:
        raise InputError(f"it holds {len(arrays)} arrays ({', '.join(arrays)}): name one as the column")
    if wanted is not None and wanted not in arrays:
        raise InputError(f"it has no array {wanted}, only {', '.join(arrays) or 'nothing'}")
    return f"{wanted or arrays[0]}.npy"
