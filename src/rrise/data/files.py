"""Inputs from files: PNG and JPEG images, .npy and .npz arrays."""

import os
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from rrise.data.inputs import InputRange, as_inputs
from rrise.errors import InputError

IMAGES = (".png", ".jpg", ".jpeg")
ARRAYS = (".npy",)

_MODES = ("L", "RGB")
_BLOCK = 256


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
    try:
        if suffix in IMAGES:
            values = read_image(path, shape, input_range)
        elif suffix in ARRAYS:
            values = _read_array(path, shape)
        else:
            raise InputError(f"expected a file of kind {', '.join(IMAGES + ARRAYS)}")
        inputs = as_inputs(values, shape=shape, input_range=input_range)
        if len(inputs) == 0:
            raise InputError("expected at least one input, got an empty array")
        return inputs
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except Exception as error:  # decoders raise many kinds for broken files
        raise InputError(f"{path} cannot be read: {str(error) or type(error).__name__}") from None


def _read_array(path: Path, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    try:
        values = np.load(path, allow_pickle=False)
    except ValueError:
        raise InputError("expected a .npy file with an array of numbers") from None
    if not isinstance(values, np.ndarray):
        raise InputError("expected one array, got an archive of several")
    return values[None] if values.shape == shape else values


def read_image(
    path: Path | IO[bytes], shape: tuple[int, ...], input_range: InputRange
) -> np.ndarray[Any, Any]:
    """Return an 8-bit image as `[1, channels, height, width]` in [0, 1].

    Nothing is resized or converted with loss: that would certify another input than the given one.
    """
    from PIL import Image

    if len(shape) != 3 or shape[0] not in (1, 3) or input_range != (0.0, 1.0):
        raise InputError(
            f"this certifier takes inputs of shape {shape}, which an image file cannot hold: pass .npy arrays"
        )
    channels, height, width = shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is checked below
        image = Image.open(path, formats=("PNG", "JPEG"))
    with image:
        _check_depth(image)
        if image.size != (width, height):
            raise InputError(
                f"expected an image of {width} x {height} pixels, got {image.size[0]} x {image.size[1]}"
            )
        if image.mode not in ("L", "RGB", "P") or "transparency" in image.info:
            mode = f"{image.mode} with transparency" if "transparency" in image.info else image.mode
            raise InputError(
                f"expected an 8-bit grey or RGB image, got mode {mode}: convert it first, to make clear what "
                f"is certified"
            )
        plain = image.convert("RGB") if image.mode == "P" else image
        pixels = np.atleast_3d(np.asarray(plain, dtype=np.float32) / np.float32(255))
    if channels == 3 and pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    if channels == 1 and pixels.shape[2] == 3:
        if np.ptp(pixels, axis=2).any():
            raise InputError("expected a grey image, got a coloured one")
        pixels = pixels[:, :, :1]
    return np.moveaxis(pixels, 2, 0)[None]


def _check_depth(image: Any) -> None:
    """Refuse a 16-bit image: Pillow would silently cut its values to 8 bits."""
    stored = [tile[3] for tile in image.tile]
    names = [part[0] if isinstance(part, tuple) and part else part for part in stored]
    if any(isinstance(name, str) and ";16" in name for name in names):
        raise InputError(
            "expected an 8-bit image, got one with 16 bits: convert it first, to make clear what is certified"
        )


def read_pixels(paths: Sequence[Path], mode: str | None = None) -> NDArray[np.uint8]:
    """Read 8-bit images of one size as `[images, height, width(, channels)]`.

    Without a mode, every image must have the first one's, grey or RGB. With "RGB", grey images are converted.
    """
    kind, first = _decode(paths[0], mode)
    pixels = np.empty((len(paths), *first.shape), np.uint8)

    def read_block(start: int) -> None:
        for index, path in enumerate(paths[start : start + _BLOCK], start):
            found, image = _decode(path, mode)
            if found not in _MODES or (found, image.shape) != (kind, first.shape):
                raise InputError(
                    f"expected grey or RGB images of one kind, as {paths[0].name} with shape {first.shape}, "
                    f"got {path} of mode {found} with shape {image.shape}"
                )
            pixels[index] = image

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for _ in pool.map(read_block, range(0, len(paths), _BLOCK)):
            pass
    return pixels


def image_mode(path: Path) -> str:
    """Return the mode in the header of an image file, such as "L" for 8-bit grey or "RGB"."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.mode
    except Exception as error:  # decoders raise many kinds for broken files
        raise InputError(f"{path} cannot be read: {str(error) or type(error).__name__}") from None


def _decode(path: Path, mode: str | None) -> tuple[str, NDArray[np.uint8]]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            _check_depth(image)
            plain = image.convert("RGB") if mode == "RGB" and image.mode == "L" else image
            return plain.mode, np.asarray(plain, dtype=np.uint8)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except Exception as error:  # decoders raise many kinds for broken files
        raise InputError(f"{path} cannot be read: {str(error) or type(error).__name__}") from None


def read_arrays(path: Path, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Read arrays by name from a `.npz` file; a missing one is an error unless it is optional."""
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as arrays:
            if missing := [name for name in names if name not in arrays]:
                raise InputError(
                    f"{path} has no array {', '.join(missing)}, only {', '.join(arrays) or 'nothing'}"
                )
            return {name: arrays[name] for name in (*names, *optional) if name in arrays}
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
