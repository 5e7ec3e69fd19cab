"""Certificates of every test input by every method, as an evaluation stores them."""

import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from rrise.errors import FolderError, SettingError, did_you_mean
from rrise.evaluation.query.conditions import parse_where
from rrise.files import check_listed, write_bytes, write_table

ENDINGS = (".csv", ".parquet")


class StoredCertificates:
    """The file `evaluation/certificates.parquet` of a run: a row per input and method that is compared."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise FolderError(f"expected certificates in {path}, but there are none: evaluate the run first")
        check_listed(path)
        self._path = path
        try:
            self._metadata = pq.read_metadata(path)
        except pa.ArrowException as error:
            raise self._damaged(error) from None

    def __len__(self) -> int:
        return int(self._metadata.num_rows)

    def select(self, where: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows for which the condition holds, in their order; all columns, or those named."""
        schema = self._metadata.schema.to_arrow_schema()
        condition = None if where is None else parse_where(where, schema)
        for name in columns or ():
            if name not in schema.names:
                near = did_you_mean(name, schema.names) or f"; there are {', '.join(schema.names)}"
                raise SettingError(f"certificates have no column {name}{near}")
        try:
            return pq.read_table(
                self._path, columns=columns, filters=condition, page_checksum_verification=True
            )
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> FolderError:
        return FolderError(f"{self._path} is not a readable Parquet file ({error}): evaluate the run again")


def check_ending(path: Path) -> None:
    """Refuse a file that is neither CSV nor Parquet by its ending, or whose folder is not there."""
    if path.suffix.lower() not in ENDINGS:
        raise SettingError(f"expected a file that ends in {' or '.join(ENDINGS)}, got {path}")
    if not path.parent.is_dir():
        raise FolderError(f"expected the folder {path.parent} to write {path.name} into, but there is none")


def write_rows(path: Path, rows: pa.Table) -> None:
    """Write rows as CSV or as Parquet, by the ending of the file; every number in full precision."""
    check_ending(path)
    if path.suffix.lower() == ".parquet":
        write_table(path, rows)
        return
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(_without_dictionaries(rows), buffer)
    write_bytes(path, buffer.getvalue())


def _without_dictionaries(rows: pa.Table) -> pa.Table:
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))
