"""Arrays whose header says anything but what follows are refused."""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rrise.data.files import read_arrays
from rrise.data.npy import map_array, parse_array
from rrise.errors import InputError

VALUES = np.random.default_rng(0).random((1, 8, 8), dtype=np.float32)


def npy(descr: str = "'<f4'", fortran: str = "False", shape: str = "(1, 8, 8)", more: bytes = b"") -> bytes:
    """A .npy file whose header says what it is told to."""
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + VALUES.tobytes() + more


def saved(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def mapped(content: bytes, folder: Path) -> Any:
    (folder / "x.npy").write_bytes(content)
    return map_array(folder / "x.npy")


@pytest.fixture(params=["bytes", "file"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bytes], Any]:
    return parse_array if request.param == "bytes" else lambda content: mapped(content, tmp_path)


@pytest.mark.parametrize(
    "array",
    [VALUES, VALUES.astype(">f8"), np.asfortranarray(VALUES[0]), VALUES[0, 0, 0], VALUES.astype("<f2")],
)
def test_arrays_are_read_as_numpy_writes_them(read: Callable[[bytes], Any], array: Any) -> None:
    found = read(saved(array))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.parametrize(
    "content",
    [
        npy(shape="(True, 8, 8)"),
        npy(shape="(1, 8, 8.0)"),
        npy(shape="(-1, -8, 8)"),
        npy(shape="(-1, 8, 8)"),
        npy(shape="(1, 8, 9)"),
        npy(shape="(1, 8)"),
        npy(shape="[1, 8, 8]"),
        npy(shape="64"),
        npy(shape="(2**62, 8, 8)"),
        npy(shape=f"({2**62}, 8, 8)"),
        npy(shape=f"({10**400},)"),
        npy(shape="(" + "1, " * 80 + "64)"),
        npy(descr="'O'"),
        npy(descr="'|V4'"),
        npy(descr="[('x', '<f4')]"),
        npy(descr="('<f4', (8,))", shape="(1, 8)"),
        npy(descr="'<U0'"),
        npy(descr="'<M8[s]'", shape="(1, 8, 4)"),
        npy(descr="'<f4,<f4'", shape="(1, 8, 4)"),
        npy(descr="3"),
        npy(fortran="1"),
        npy(more=b"\0"),
        npy()[:-1],
        npy()[:40],
        npy()[:8],
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + npy()[10:],
        b"\x93NUMPY\x09\x00" + npy()[8:],
        b"\x93NUMPY\x01\x00\xff\xff{'descr': " + b"[" * 70_000,
        b"",
        b"PK\x03\x04",
    ],
)
def test_headers_that_lie_are_refused_in_a_sentence(read: Callable[[bytes], Any], content: bytes) -> None:
    with pytest.raises(InputError, match=r"expected a \.npy file with an array of numbers"):
        read(content)


def test_an_array_without_inputs_may_claim_any_size(tmp_path: Path) -> None:
    header = npy(shape=f"(0, {2**62}, {2**62})")[: -VALUES.nbytes]
    with pytest.raises(InputError, match="expected"):
        parse_array(header)
    with pytest.raises(InputError, match="expected at least one input"):
        mapped(header, tmp_path)


def test_arrays_in_an_archive_are_read_to_their_last_byte(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(1697.0), names=np.array(["a", "b"]))
    assert read_arrays(path, ["x"], ["names"])["names"].tolist() == ["a", "b"]
    whole = path.read_bytes()
    shorter = whole.replace(b"(1697,)", b"(1597,)")
    assert shorter != whole
    path.write_bytes(shorter)
    with pytest.raises(InputError, match=r"x\.npz cannot be read: Bad CRC-32"):
        read_arrays(path, ["x"])
