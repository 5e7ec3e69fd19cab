"""Inputs from wherever users keep them, read as they are needed."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.data.catalogue import load_digits
from rrise.data.files import IMAGES, find_files, read_pixels
from rrise.errors import InputError

_NPZ = "npz:"


class Pixels:
    """8-bit images as inputs in [0, 1], with the channels first, last or none.

    Slices are float32 `[inputs, channels, height, width]`; the rest stays as it came.
    """

    def __init__(self, images: NDArray[np.uint8]) -> None:
        if images.ndim not in (3, 4):
            raise InputError(f"expected 8-bit images of 3 or 4 axes, got shape {images.shape}")
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, key: slice) -> NDArray[np.float32]:
        images = self._images[key]
        if images.ndim == 3:
            images = images[:, None]
        elif images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
            images = images.transpose(0, 3, 1, 2)
        return images.astype(np.float32) / np.float32(255)


def load_images(source: str, split: str) -> Any:
    """Return inputs that can be sliced.

    `source` is `digits`, a `.npy` file, `npz:FILE` (its array `x_SPLIT`), or a folder of PNG or JPEG
    images of one size, taken in the order of their names. Arrays of 8-bit numbers are images.
    """
    if source == "digits":
        return Pixels(load_digits().images)
    if source.startswith(_NPZ):
        return _sliced(_array_of(Path(source.removeprefix(_NPZ)), f"x_{split}"), source)
    path = Path(source)
    if path.is_dir():
        files = [file for file in find_files([path]) if file.suffix.lower() in IMAGES]
        if not files:
            raise InputError(f"the folder {path} holds no {', '.join(IMAGES)} files")
        return Pixels(read_pixels(files))
    if path.suffix != ".npy":
        raise InputError(f"expected data as digits, FILE.npy, npz:FILE or a folder of images; got {source!r}")
    try:
        return _sliced(np.load(path, mmap_mode="r", allow_pickle=False), source)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _array_of(path: Path, name: str) -> NDArray[Any]:
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as arrays:
            if name not in arrays:
                raise InputError(f"{path} holds no array {name}, only {', '.join(arrays)}: choose the split")
            array: NDArray[Any] = arrays[name]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    return array


def _sliced(array: NDArray[Any], source: str) -> Any:
    if not isinstance(array, np.ndarray):
        raise InputError(f"expected one array in {source}, got an archive of several")
    return Pixels(array) if array.dtype == np.uint8 else array
