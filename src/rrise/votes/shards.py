"""One shard as a Parquet file: class counts, the answers in the order of the draws, and checksums of both."""

import hashlib
import io
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rrise.data.inputs import DIGEST_SIZE
from rrise.files import Json, sha256_of_json
from rrise.votes.array import count_answers
from rrise.votes.engine import Answers

_COUNTS = ["votes", "input"]


@dataclass(frozen=True)
class Place:
    """Where a shard belongs: the manifest of its store, and the shard's number."""

    manifest: Json
    index: int

    @property
    def name(self) -> str:
        """The name of the shard's file."""
        return f"shard-{self.index:05d}.parquet"

    @property
    def inputs(self) -> int:
        """How many inputs the shard has; the last one may have fewer."""
        inputs, size = int(self.manifest["inputs"]), int(self.manifest["shard"])
        return min(size, inputs - self.index * size)

    def identity(self, draws: int) -> str:
        """Return the identity of a shard with this many draws: a checksum of the manifest with that n.

        For the same inputs and noise, it therefore depends only on the number of draws. The shard with fewer
        draws is the beginning of the other.
        """
        return sha256_of_json({**self.manifest, "n": draws})


@dataclass(frozen=True)
class Shard:
    """Counts `[inputs, classes]`, one digest per input, and the answers if they were read."""

    counts: NDArray[np.integer[Any]]
    digests: NDArray[np.void]
    answers: Answers | None = None

    @property
    def draws(self) -> int:
        """Votes per input."""
        return int(self.counts[0].sum())


def write_shard(place: Place, answers: Answers, classes: int, digests: list[bytes]) -> bytes:
    """Return the file of a shard; equal shards give equal bytes."""
    counts = count_answers(answers, classes).astype(np.int32)
    metadata = {
        "store": place.identity(answers.shape[1]),
        "shard": str(place.index),
        "sha256": _checksum(counts, b"".join(digests)),
        "answers": answers.dtype.name,
        "answers_sha256": _checksum(answers),
    }
    width = answers.shape[1] * answers.itemsize
    columns = {
        "votes": pa.FixedSizeListArray.from_arrays(pa.array(counts.reshape(-1)), classes),
        "input": pa.array(digests, pa.binary(DIGEST_SIZE)),
        "answers": pa.Array.from_buffers(
            pa.binary(width), len(answers), [None, pa.py_buffer(np.ascontiguousarray(answers))]
        ),
    }
    file = io.BytesIO()
    pq.write_table(
        pa.table(columns).replace_schema_metadata(metadata),
        file,
        compression="zstd",
        use_dictionary=["votes.list.element"],
        write_page_checksum=True,
    )
    return file.getvalue()


def read_shard(place: Place, file: IO[bytes], *, answers: bool) -> Shard | None:
    """Return a shard, or None if it is damaged or belongs to another store or place.

    Its number of draws may differ from the store's n. Answers are read and checked only if `answers` is set;
    counts and digests are always checked.
    """
    try:
        columns = [*_COUNTS, *(["answers"] if answers else [])]
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        table = parquet.read(columns=columns, use_threads=False)
        metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        kind = np.dtype(metadata["answers"])
        draws = parquet.schema_arrow.field("answers").type.byte_width // kind.itemsize
        votes = table.column("votes").combine_chunks()
        counts = votes.flatten().to_numpy().reshape(place.inputs, -1)
        digests = _raw(table, "input", np.dtype((np.void, DIGEST_SIZE)))
        wanted = {
            "store": place.identity(draws),
            "shard": str(place.index),
            "sha256": _checksum(counts, digests.tobytes()),
        }
        drawn = None
        if answers:
            drawn = _raw(table, "answers", kind).reshape(place.inputs, draws)
            wanted["answers_sha256"] = _checksum(drawn)
    except (OSError, pa.ArrowException, LookupError, ValueError, AttributeError, TypeError, ArithmeticError):
        return None
    same = all(metadata.get(name) == value for name, value in wanted.items())
    complete = len(digests) == place.inputs and bool((counts.sum(axis=1) == draws).all())
    return Shard(counts, digests, drawn) if same and complete else None


def _raw(table: pa.Table, name: str, dtype: "np.dtype[Any]") -> NDArray[Any]:
    """Return the bytes of a fixed-width column as an array."""
    column = table.column(name).combine_chunks()
    start = column.offset * column.type.byte_width
    return np.frombuffer(column.buffers()[1], np.uint8)[
        start : start + len(column) * column.type.byte_width
    ].view(dtype)


def _checksum(array: NDArray[Any], more: bytes = b"") -> str:
    return hashlib.sha256(f"{array.dtype} {array.shape} ".encode() + array.tobytes() + more).hexdigest()
