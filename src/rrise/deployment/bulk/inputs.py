"""Inputs in any number of files, as one sequence that is read a chunk at a time."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from rrise.data.inputs import as_inputs, input_digests
from rrise.deployment.bulk.arrays import Archives, Arrays
from rrise.deployment.bulk.kinds import Images, Kind, Wanted
from rrise.deployment.bulk.places import find_in
from rrise.deployment.bulk.tables import Tables
from rrise.errors import FolderError, InputError

KINDS: tuple[type[Any], ...] = (Images, Arrays, Archives, Tables)
ENDINGS: tuple[str, ...] = tuple(ending for kind in KINDS for ending in kind.endings)

_BLOCK = 4096
"""Files that are counted before their names are put into a compact form."""


@dataclass(frozen=True, eq=False)
class Listing:
    """Files in order: name, size in bytes, and how many inputs each holds. About 100 bytes a file."""

    names: pa.ChunkedArray
    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The number of the first input of each file, and the number of all inputs."""
        return np.concatenate([[0], np.cumsum(self.rows)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of names, sizes and numbers of inputs."""
        found = hashlib.sha256()
        for chunk in self.names.chunks:
            found.update("\n".join([*chunk.to_pylist(), ""]).encode())
        found.update(self.sizes.tobytes() + self.rows.tobytes())
        return found.hexdigest()


def list_inputs(places: Iterable[str], wanted: Wanted) -> Listing:
    """Find the files at some places, and count their inputs; a file without inputs is refused."""
    found = (file for place in places for file in find_in(place, ENDINGS))
    kinds = {ending: kind() for kind in KINDS for ending in kind.endings}

    def count(name: str) -> int:
        try:
            rows: int = kinds[_ending(name)].count(name, wanted)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        if rows == 0:
            raise InputError(f"{name}: expected at least one input, got none")
        return rows

    names, sizes, rows = [], [], []
    with ThreadPoolExecutor(8) as pool:
        while block := list(islice(found, _BLOCK)):
            names.append(pa.array([name for name, _ in block], pa.string()))
            sizes.append(np.array([size for _, size in block], np.int64))
            rows.append(np.fromiter(pool.map(count, names[-1].to_pylist()), np.int64))
    if not names:
        raise InputError("expected at least one file or folder of inputs, got none")
    return Listing(pa.chunked_array(names), np.concatenate(sizes), np.concatenate(rows))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Inputs from `first` on, and why some of them cannot be certified.

    `inputs` and `digests` are of the others, in order.
    """

    first: int
    inputs: torch.Tensor
    digests: list[str]
    errors: dict[int, str]
    """By the place in the chunk."""

    def __len__(self) -> int:
        return len(self.inputs) + len(self.errors)


class Reader:
    """Reads inputs of a listing: `fetch` in order and by one thread, `decode` by any.

    A context: on leaving it, open files are closed.
    """

    def __init__(self, listing: Listing, wanted: Wanted, *, skip_bad: bool) -> None:
        self.listing, self.wanted, self.skip_bad = listing, wanted, skip_bad
        self._kinds: dict[str, Kind] = {
            ending: kind for one in KINDS for kind in [one()] for ending in kind.endings
        }

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        for kind in self._kinds.values():
            kind.close()

    def read(self, start: int, stop: int) -> Chunk:
        """Return inputs."""
        return self.decode(start, self.fetch(start, stop))

    def fetch(self, start: int, stop: int) -> list["_Piece"]:
        """Return inputs as they are stored, in pieces of one kind."""
        pieces: list[_Piece] = []
        for name, begin, end in self.segments(start, stop):
            kind = self._kinds[_ending(name)]
            stored = kind.fetch(name, begin, end, self.wanted)
            if isinstance(stored, list) and pieces and pieces[-1].kind is kind:
                pieces[-1].stored.extend(stored)
            else:
                pieces.append(_Piece(kind, stored))
        return pieces

    def segments(self, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
        """Yield the files that hold some inputs, and which of its rows."""
        starts = self.listing.starts
        first, last = np.searchsorted(starts, [start, stop - 1], side="right") - 1
        names = self.listing.names[first : last + 1].to_pylist()
        for name, file in zip(names, range(first, last + 1), strict=True):
            begin, end = max(start, int(starts[file])), min(stop, int(starts[file + 1]))
            yield name, begin - int(starts[file]), end - int(starts[file])

    def decode(self, start: int, pieces: Sequence["_Piece"]) -> Chunk:
        """Return the inputs of pieces, checked; bad ones are errors of the chunk, or the first is raised."""
        batches: list[torch.Tensor] = []
        errors: dict[int, str] = {}
        place = 0
        for piece in pieces:
            try:
                batches.append(self._valid(piece.kind, piece.stored))
            except FolderError:
                raise
            except Exception:  # decoders raise many kinds: find out which inputs are bad
                good, bad = self._one_by_one(piece, start + place)
                batches += good
                errors |= {place + row: reason for row, reason in bad.items()}
            place += len(piece.stored)
        inputs = torch.cat(batches) if len(batches) != 1 else batches[0]
        return Chunk(start, inputs, [one.hex() for one in input_digests(inputs)], errors)

    def _one_by_one(self, piece: "_Piece", start: int) -> tuple[list[torch.Tensor], dict[int, str]]:
        good, bad = [torch.empty((0, *self.wanted.shape))], {}
        for row in range(len(piece.stored)):
            try:
                good.append(self._valid(piece.kind, piece.stored[row : row + 1]))
            except FolderError:
                raise
            except Exception as error:
                reason = str(error) if isinstance(error, InputError) else f"cannot be read: {error}"
                self.refuse(start + row, reason)
                bad[row] = reason
        return good, bad

    def refuse(self, index: int, reason: str) -> None:
        """Raise an error that names a bad input, unless bad inputs are skipped."""
        if not self.skip_bad:
            name, row, _ = next(self.segments(index, index + 1))
            raise InputError(f"{name}, input {row}: {reason}; skip_bad (--skip-bad) leaves it out")

    def _valid(self, kind: Kind, stored: Any) -> torch.Tensor:
        values = kind.values(stored, self.wanted)
        return as_inputs(values, shape=self.wanted.shape, input_range=self.wanted.input_range)


@dataclass(frozen=True, eq=False)
class _Piece:
    """Inputs of one kind as they are stored."""

    kind: Kind
    stored: Any


def _ending(name: str) -> str:
    return "." + name.rsplit(".", 1)[-1].lower()
