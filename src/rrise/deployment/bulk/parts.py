"""A part of the output: the certificates of one shard of inputs, as a Parquet file with a checksum."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rrise.certifiers.certificates import Certificates
from rrise.deployment.bulk.inputs import Chunk, Listing

_TEXTS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64()),
        pa.field("file", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("label", pa.int64()),
        pa.field("class_name", _TEXTS),
        pa.field("radius", pa.float64()),
        pa.field("lower_bound", pa.float64()),
        pa.field("issued", pa.bool_()),
        pa.field("passes", pa.int64()),
        pa.field("method", _TEXTS),
        pa.field("digest", pa.string()),
        pa.field("error", pa.string()),
    ]
)
_REPEATED = ["file", "class_name", "method", "error"]
"""The columns of texts that repeat; a dictionary of the others would be as long as they are."""


@dataclass(frozen=True)
class Counts:
    """How many inputs of each outcome there are, and the forward passes that they took."""

    issued: int = 0
    abstained: int = 0
    errors: int = 0
    passes: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.issued + other.issued,
            self.abstained + other.abstained,
            self.errors + other.errors,
            self.passes + other.passes,
        )

    @classmethod
    def of(cls, table: pa.Table) -> "Counts":
        """Count the rows of a part."""
        issued = pc.sum(table["issued"]).as_py() or 0
        errors = len(table) - table["error"].null_count
        return cls(issued, len(table) - issued - errors, errors, pc.sum(table["passes"]).as_py() or 0)


@dataclass(frozen=True)
class PartPlace:
    """Where a part belongs: the run it is from, its number, and its first and last inputs."""

    run: str
    index: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"part-{self.index:05d}.parquet"


def rows_of(
    chunk: Chunk, certificates: Certificates, class_names: Sequence[str], listing: Listing
) -> pa.Table:
    """Return a row per input of a chunk; the certificates are of those without an error."""
    size = len(chunk)
    good = np.ones(size, dtype=np.bool_)
    good[list(chunk.errors)] = False
    index = np.arange(chunk.first, chunk.first + size)
    file = np.searchsorted(listing.starts, index, side="right") - 1
    names = listing.names.slice(file[0], file[-1] - file[0] + 1).combine_chunks()
    if certificates.methods is None:
        only = pa.array([certificates.guarantee.method])
        methods = pa.DictionaryArray.from_arrays(np.zeros(len(certificates), dtype=np.int32), only)
    else:
        methods = pa.array(certificates.methods.astype(str)).dictionary_encode()
    errors = pa.nulls(size, pa.string())
    if chunk.errors:
        errors = pa.array([chunk.errors.get(place) for place in range(size)], pa.string())
    label = _spread(pa.array(certificates.label), good)
    columns = {
        "index": index,
        "file": names.take(pa.array(file - file[0])),
        "row": index - listing.starts[file],
        "label": label,
        "class_name": pa.DictionaryArray.from_arrays(label.cast(pa.int32()), pa.array(class_names)),
        "radius": _spread(pa.array(certificates.radius), good),
        "lower_bound": _spread(pa.array(certificates.lower_bound), good),
        "issued": pc.fill_null(_spread(pa.array(certificates.issued), good), False),
        "passes": pc.fill_null(_spread(pa.array(certificates.passes), good), 0),
        "method": _spread(methods, good),
        "digest": _spread(pa.array(chunk.digests, pa.string()), good),
        "error": errors,
    }
    return pa.table(columns, schema=SCHEMA)


def write_part(place: PartPlace, table: pa.Table) -> bytes:
    """Return the file of a part; every number is in it in full."""
    table = table.unify_dictionaries().combine_chunks()
    metadata = {"run": place.run, "part": str(place.index), "sha256": _checksum(table)}
    file = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata(metadata),
        file,
        compression="zstd",
        use_dictionary=_REPEATED,
        write_page_checksum=True,
    )
    return file.getvalue()


def read_part(place: PartPlace, file: IO[bytes]) -> pa.Table | str:
    """Return the rows of a part, or what is wrong with it."""
    try:
        table = pq.read_table(file, page_checksum_verification=True, use_threads=False)
        metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        if not table.schema.equals(SCHEMA) or (metadata["run"], metadata["part"]) != (
            place.run,
            str(place.index),
        ):
            return "it belongs to another run or place"
        if len(table) != place.stop - place.start or metadata["sha256"] != _checksum(table):
            return "it was edited"
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError) as error:
        return f"it is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    return table


def _spread(values: pa.Array, good: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    """Return values in the places of good inputs, and null in the others."""
    if good.all():
        return values
    places = np.cumsum(good) - 1
    return values.take(pa.array(places, mask=~good))


def _checksum(table: pa.Table) -> str:
    """Return the SHA-256 of the content of a table, however its columns are stored."""
    found = hashlib.sha256()
    for field in table.schema:
        column = table[field.name].cast(pa.string()) if field.type == _TEXTS else table[field.name]
        array = column.combine_chunks()
        array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
        missing = np.asarray(array.is_null())
        found.update(f"{field.name} {len(array)} ".encode() + missing.tobytes())
        if field.type in (pa.string(), _TEXTS):
            texts = array.fill_null("")
            found.update(np.asarray(pc.utf8_length(texts), dtype=np.int64).tobytes())
            found.update(_joined(texts))
        else:
            found.update(np.asarray(array.fill_null(0) if missing.any() else array).tobytes())
    return found.hexdigest()


def _joined(texts: pa.StringArray) -> bytes:
    """Return texts without a null as one, in UTF-8: as they stand in memory, without a string for each."""
    _, offsets, content = texts.buffers()
    if not len(texts) or content is None:
        return b""
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(content)[ends[0] : ends[-1]].tobytes()
