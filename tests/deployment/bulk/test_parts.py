"""The checksum of a part: a function of its content alone, the same in all versions."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from rrise.deployment.bulk.parts import SCHEMA, Counts, PartPlace, _checksum, read_part, write_part

COLUMNS = {
    "index": [4, 5, 6, 7],
    "file": ["ä/漢.png", "b.png", "b.png", ""],
    "row": [0, 0, 1, 0],
    "label": [1, 0, None, 1],
    "class_name": ["Füße", "cat", None, "Füße"],
    "radius": [0.25, 0.0, None, 1e-300],
    "lower_bound": [0.75, 0.0, None, 0.5],
    "issued": [True, False, False, True],
    "passes": [1, 1, 0, 1],
    "method": ["rrise", "rrise", None, "monte-carlo"],
    "digest": ["aa", "bb", None, "cc"],
    "error": [None, None, "expected 😀, got 漢", None],
}
PLACE = PartPlace("run", 3, 4, 8)


def table() -> pa.Table:
    return pa.table(COLUMNS, schema=SCHEMA)


def by_hand(columns: dict[str, list]) -> str:
    """Compute the checksum from Python's values."""
    found = hashlib.sha256()
    for field in SCHEMA:
        values = columns[field.name]
        missing = np.array([value is None for value in values])
        found.update(f"{field.name} {len(values)} ".encode() + missing.tobytes())
        if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type):
            texts = [value or "" for value in values]
            found.update(np.array([len(text) for text in texts], np.int64).tobytes())
            found.update("".join(texts).encode())
        else:
            numbers = [0 if value is None else value for value in values]
            found.update(np.array(numbers, field.type.to_pandas_dtype()).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("first", [0, 1, 3, 4])
def test_the_checksum_is_that_of_the_values_however_they_lie_in_memory(first: int) -> None:
    rest = {name: values[first:] for name, values in COLUMNS.items()}
    pieces = pa.concat_tables([table().slice(first, 1), table().slice(first + 1)]).unify_dictionaries()
    assert _checksum(table().slice(first)) == _checksum(pieces) == by_hand(rest)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_checksum_notices_a_change_of_any_column(name: str) -> None:
    moved = {**COLUMNS, name: COLUMNS[name][1:] + COLUMNS[name][:1]}
    assert _checksum(pa.table(moved, schema=SCHEMA)) != _checksum(table())


def test_the_boundary_between_two_texts_counts() -> None:
    moved = {**COLUMNS, "digest": ["a", "abb", None, "cc"]}
    assert _checksum(pa.table(moved, schema=SCHEMA)) != _checksum(table())


def test_the_checksum_is_that_of_the_first_version() -> None:
    """It was computed in another way, from a list of the texts."""
    assert _checksum(table()) == "b12f2c590f7b5dad53daed14e7bd2b8228f587ea89198d77c08e592145680a39"


def test_what_was_written_is_read_in_full() -> None:
    found = read_part(PLACE, pa.BufferReader(write_part(PLACE, table())))
    assert isinstance(found, pa.Table)
    assert found.to_pylist() == table().to_pylist()
    assert Counts.of(found) == Counts(issued=2, abstained=1, errors=1, passes=3)
