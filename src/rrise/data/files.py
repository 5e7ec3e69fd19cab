"""Inputs from files: PNG and JPEG images, .npy and .npz arrays."""

import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from rrise.data.images import IMAGES, named, read_image
from rrise.data.inputs import InputRange, as_inputs
from rrise.data.npy import NUMBERS, TEXTS, map_array, parse_array
from rrise.errors import InputError

ARRAYS = (".npy",)
_END = 22
"""Bytes of the last record of a zip archive; the tenth and eleventh count its members, 0xffff for more."""


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield files, and for each folder its images and arrays in the order of their names."""
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.lower() in IMAGES + ARRAYS)
            if not inside:
                raise InputError(f"the folder {path} holds no {', '.join(IMAGES + ARRAYS)} files")
            yield from inside
        elif path.is_file():
            yield path
        elif path.exists():
            raise InputError(f"{path} is neither a file nor a folder")
        else:
            raise InputError(f"there is no file or folder {path}")


def read_inputs(path: Path, shape: tuple[int, ...], input_range: InputRange) -> torch.Tensor:
    """Read one image, or an array of one or many inputs, as a batch `[inputs, *shape]`."""
    suffix = path.suffix.lower()
    with named(path):
        if suffix in IMAGES:
            values = read_image(path.read_bytes(), shape, input_range)
        elif suffix in ARRAYS:
            values = map_array(path)
            values = values[None] if values.shape == shape else values
        else:
            raise InputError(f"expected a file of kind {', '.join(IMAGES + ARRAYS)}")
        return as_inputs(values, shape=shape, input_range=input_range)


def read_arrays(path: Path, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Read arrays by name from a `.npz` file; a missing one is an error unless it is optional.

    Every array is read to its last byte, so that its checksum in the archive is checked.
    """
    if not path.exists():
        raise InputError(f"there is no file {path}")
    with named(path), zipfile.ZipFile(path) as archive:
        _check_members(archive, path)
        found = [name.removesuffix(".npy") for name in archive.namelist()]
        if missing := [name for name in names if name not in found]:
            raise InputError(f"it has no array {', '.join(missing)}, only {', '.join(found) or 'nothing'}")
        return {name: _member(archive, name) for name in (*names, *optional) if name in found}


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    """Check that the archive's list names every member, and each by the name stored with it."""
    with path.open("rb") as file:
        file.seek(-_END - len(archive.comment), os.SEEK_END)
        listed = int.from_bytes(file.read(_END)[10:12], "little")
    members = archive.infolist()
    if listed not in (len(members), 0xFFFF):
        raise InputError(f"expected {listed} arrays in it, got {len(members)}: it is damaged")
    for member in members:
        archive.open(member).close()  # compares the names


def _member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    try:
        return parse_array(archive.read(f"{name}.npy"), NUMBERS + TEXTS)
    except InputError as error:
        raise InputError(f"its array {name}: {error}") from None
