"""Shards of inputs in, their certificates out: the same in this process and in a worker."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import Certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.bulk.ahead import read_ahead
from rrise.deployment.bulk.inputs import Chunk, Reader
from rrise.deployment.bulk.parts import Counts, PartPlace, rows_of, write_part
from rrise.deployment.export.exported import ExportedCertifier
from rrise.errors import InputError
from rrise.progress import OnProgress

_CALL_BYTES = 16 << 20
_CALL_INPUTS = 4096
"""The most inputs of one call of the certifier, and their bytes: few calls cost little beside the passes."""


@dataclass(frozen=True, eq=False)
class PartFile:
    """The file of a part, and what it holds."""

    place: PartPlace
    content: bytes
    counts: Counts

    def encoded(self) -> "PartFile":
        """Return this file."""
        return self


@dataclass(frozen=True, eq=False)
class Part:
    """The certificates of a shard, not encoded yet."""

    place: PartPlace
    table: pa.Table

    def encoded(self) -> PartFile:
        """Return the file."""
        return PartFile(self.place, write_part(self.place, self.table), Counts.of(self.table))


class Shards(Protocol):
    """Certifies shards: in this process, or by workers elsewhere."""

    def parts(
        self, places: Iterable[PartPlace], on_progress: OnProgress | None = None
    ) -> Generator[Part | PartFile, None, None]:
        """Yield the certificates of shards, in any order; report the inputs that are done."""


class ShardCertifier:
    """Certifies shards of the inputs of a reader, a chunk at a time."""

    def __init__(self, certifier: Certifier, reader: Reader, batch_size: int) -> None:
        self.certifier, self._reader = certifier, reader
        self._certify: Callable[[Any], Certificates] = certifier.certify
        self._chunk = batch_size
        if isinstance(certifier, SurrogateCertifier | ExportedCertifier):
            self._certify = partial(certifier.certify, batch_size=batch_size)
            input_bytes = 4 * int(np.prod(certifier.input_shape))
            at_once = min(_CALL_INPUTS, _CALL_BYTES // input_bytes)
            self._chunk *= max(1, at_once // batch_size)

    def parts(
        self, places: Iterable[PartPlace], on_progress: OnProgress | None = None
    ) -> Generator[Part, None, None]:
        """Yield the certificates of shards, in order; the inputs of the next shards are read ahead."""
        begun: list[PartPlace] = []
        tables: list[pa.Table] = []

        def spans() -> Iterator[tuple[int, int]]:
            for place in places:
                begun.append(place)
                for start in range(place.start, place.stop, self._chunk):
                    yield start, min(start + self._chunk, place.stop)

        for chunk in read_ahead(self._reader, spans()):
            tables.append(self._rows(chunk))
            if on_progress is not None:
                on_progress(len(chunk))
            if chunk.first + len(chunk) == begun[0].stop:
                yield Part(begun.pop(0), pa.concat_tables(tables))
                tables = []

    def _rows(self, chunk: Chunk) -> pa.Table:
        try:
            certificates = self._certificates(chunk.inputs)
        except InputError:
            chunk, certificates = self._one_by_one(chunk)
        return rows_of(chunk, certificates, self.certifier.class_names, self._reader.listing)

    def _certificates(self, inputs: torch.Tensor) -> Certificates:
        if len(inputs):
            return self._certify(inputs)
        none = np.zeros(0)
        whole = none.astype(np.int64)
        return Certificates(whole, none, none, none.astype(np.bool_), self.certifier.guarantee, whole)

    def _one_by_one(self, chunk: Chunk) -> tuple[Chunk, Certificates]:
        """Certify each input alone, to find those that the certifier refuses."""
        places = [place for place in range(len(chunk)) if place not in chunk.errors]
        found, kept, errors = [], [], dict(chunk.errors)
        for row, place in enumerate(places):
            try:
                found.append(self._certify(chunk.inputs[row : row + 1]))
                kept.append(row)
            except InputError as error:
                self._reader.refuse(chunk.first + place, str(error))
                errors[place] = str(error)
        certificates = Certificates.joined(found) if found else self._certificates(chunk.inputs[:0])
        digests = [chunk.digests[row] for row in kept]
        return Chunk(chunk.first, chunk.inputs[kept], digests, errors), certificates
