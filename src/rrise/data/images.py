"""Images from PNG and JPEG files, checked to be whole before they are decoded."""

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.data.image_integrity import KINDS, check_whole
from rrise.data.inputs import InputRange
from rrise.errors import InputError

IMAGES = (".png", ".jpg", ".jpeg")

_MODES = ("L", "RGB")
_BLOCK = 256


def read_image(
    content: bytes, shape: tuple[int, ...], input_range: InputRange, kinds: tuple[str, ...] = KINDS
) -> NDArray[np.float32]:
    """Return the 8-bit image in the content of a file as `[1, channels, height, width]` in [0, 1].

    Nothing is resized or converted with loss: that would certify another input than the given one. The size
    is checked before the image is decoded.
    """
    if len(shape) != 3 or shape[0] not in (1, 3) or input_range != (0.0, 1.0):
        raise InputError(
            f"this certifier takes inputs of shape {shape}, which an image file cannot hold: pass .npy arrays"
        )
    channels, height, width = shape
    with _opened(content, kinds) as image:
        if image.size != (width, height):
            raise InputError(
                f"expected an image of {width} x {height} pixels, got {image.size[0]} x {image.size[1]}: "
                f"images are not resized, because that would certify another image"
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

    with named(path), Image.open(path, formats=KINDS) as image:
        return image.mode


def _decode(path: Path, mode: str | None) -> tuple[str, NDArray[np.uint8]]:
    with named(path), _opened(path.read_bytes()) as image:
        plain = image.convert("RGB") if mode == "RGB" and image.mode == "L" else image
        return plain.mode, np.asarray(plain, dtype=np.uint8)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Convert any error of a decoder into an `InputError` that names the file; they raise many kinds."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:
        raise InputError(f"{path} cannot be read: {str(error) or type(error).__name__}") from None


@contextmanager
def _opened(content: bytes, kinds: tuple[str, ...] = KINDS) -> Iterator[Any]:
    """Open a whole image with 8 bits; its pixels are not decoded yet."""
    from PIL import Image, ImageFile

    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise InputError(
            "another part of this program lets Pillow fill damaged images with grey: set "
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES = False before images are read"
        )
    check_whole(content, kinds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # certifiers check the size
            image = Image.open(io.BytesIO(content), formats=kinds)
        with image:
            _check_depth(image)
            yield image
    except InputError:
        raise
    except Exception as error:  # decoders raise many kinds for broken files
        raise InputError(f"the image cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Return what a decoder says; Pillow's sentence about unknown files names an object in memory."""
    from PIL import UnidentifiedImageError

    known = not isinstance(error, UnidentifiedImageError) and str(error)
    return known or "its header is damaged"


def _check_depth(image: Any) -> None:
    """Refuse a 16-bit image: Pillow would silently cut its values to 8 bits."""
    stored = [tile[3] for tile in image.tile]
    names = [part[0] if isinstance(part, tuple) and part else part for part in stored]
    if any(isinstance(name, str) and ";16" in name for name in names):
        raise InputError(
            "expected an 8-bit image, got one with 16 bits: convert it first, to make clear what is certified"
        )
