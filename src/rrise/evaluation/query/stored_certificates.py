"""Stored certificates: those of an evaluation, or of a whole dataset."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset

from rrise.errors import FolderError, SettingError, did_you_mean
from rrise.evaluation.query.conditions import parse_where
from rrise.files import check_listed, write_bytes, write_table

ENDINGS = (".csv", ".parquet")
_CHECKED = pyarrow.dataset.ParquetFileFormat(
    default_fragment_scan_options=pyarrow.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
)


class StoredCertificates:
    """Certificates in a Parquet file, or in the parts of one.

    The file `evaluation/certificates.parquet` of a run has a row per input and method that is compared.
    """

    def __init__(self, path: Path | Sequence[Path]) -> None:
        paths = [path] if isinstance(path, Path) else path
        for one in paths:
            if not one.is_file():
                raise FolderError(
                    f"expected certificates in {one}, but there are none: evaluate the run first"
                )
            check_listed(one)
        self._where = paths[0] if len(paths) == 1 else paths[0].parent
        try:
            self._rows = pa.dataset.dataset(list(paths), format=_CHECKED)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def __len__(self) -> int:
        return self.count()

    def count(self, where: str | None = None) -> int:
        """Return the number of rows for which the condition holds."""
        try:
            return int(self._rows.count_rows(filter=self._condition(where)))
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def select(
        self, where: str | None = None, columns: Sequence[str] | None = None, *, first: int | None = None
    ) -> pa.Table:
        """Return the rows for which the condition holds, in their order; all columns, or those named.

        With `first`, only so many of them are read and returned.
        """
        names = self._rows.schema.names
        condition = self._condition(where)
        for name in columns or ():
            if name not in names:
                near = did_you_mean(name, names) or f"; there are {', '.join(names)}"
                raise SettingError(f"certificates have no column {name}{near}")
        wanted = {"columns": columns, "filter": condition}
        try:
            return self._rows.to_table(**wanted) if first is None else self._rows.head(first, **wanted)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _condition(self, where: str | None) -> Any:
        return None if where is None else parse_where(where, self._rows.schema)

    def _damaged(self, error: Exception) -> FolderError:
        return FolderError(f"{self._where} is not a readable Parquet file ({error}): make it again")


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
