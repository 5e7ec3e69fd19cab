"""Inputs in files of every kind, for the small certifier of images."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.deployment.service.serving import SIZE, some_images

SOME = 37


@pytest.fixture(scope="session")
def images() -> NDArray[np.float32]:
    return some_images(SOME, seed=5)


@pytest.fixture(scope="session")
def pixels(images: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.round(images * 255).astype(np.uint8)


def png(image: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image[0]).save(buffer, "PNG")
    return buffer.getvalue()


def _folder_of_images(folder: Path, pixels: NDArray[np.uint8]) -> Path:
    for number, image in enumerate(pixels):
        inside = folder / f"class-{number // 10}"
        inside.mkdir(parents=True, exist_ok=True)
        (inside / f"{number:03d}.png").write_bytes(png(image))
    (folder / "notes.txt").write_text("not an input")
    return folder


def _npy(folder: Path, values: NDArray[np.generic]) -> Path:
    np.save(folder / "inputs.npy", values)
    return folder / "inputs.npy"


def _several(folder: Path, pixels: NDArray[np.uint8]) -> Path:
    inside = folder / "several"
    inside.mkdir()
    np.save(inside / "1.npy", pixels[:5] / np.float32(255))
    np.save(inside / "2.npy", pixels[5, 0][None] / np.float32(255))  # one input
    (inside / "3.png").write_bytes(png(pixels[6]))
    _parquet(inside / "4.parquet", pixels[7:])
    return inside


def _npz(folder: Path, pixels: NDArray[np.uint8], *, compressed: bool) -> Path:
    save = np.savez_compressed if compressed else np.savez
    save(folder / "inputs.npz", images=pixels)
    return folder / "inputs.npz"


def _parquet(path: Path, pixels: NDArray[np.uint8], form: str = "fixed") -> Path:
    flat = (pixels / np.float32(255)).astype(np.float32).reshape(len(pixels), -1)
    column: pa.Array = {
        "fixed": lambda: pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), SIZE * SIZE),
        "list": lambda: pa.array(flat.tolist(), pa.list_(pa.float64())),
        "nested": lambda: pa.array((pixels / np.float32(255)).tolist()),
        "tensor": lambda: pa.FixedShapeTensorArray.from_numpy_ndarray(
            flat.reshape(len(pixels), 1, SIZE, SIZE)
        ),
        "bytes": lambda: pa.array([png(image) for image in pixels], pa.binary()),
        "struct": lambda: pa.array([{"bytes": png(image), "path": "x"} for image in pixels]),
        "uint8": lambda: pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1)), SIZE * SIZE),
    }[form]()
    pq.write_table(pa.table({"id": np.arange(len(pixels)), "image": column}), path, row_group_size=11)
    return path


FORMS: dict[str, Callable[[Path, NDArray[np.uint8]], Path]] = {
    "images": lambda folder, pixels: _folder_of_images(folder / "images", pixels),
    "npy": lambda folder, pixels: _npy(folder, pixels / np.float32(255)),
    "npy-uint8": _npy,
    "npy-uint8-channels-absent": lambda folder, pixels: _npy(folder, pixels[:, 0]),
    "npy-uint8-channels-last": lambda folder, pixels: _npy(folder, np.moveaxis(pixels, 1, 3)),
    "npz": lambda folder, pixels: _npz(folder, pixels, compressed=False),
    "npz-compressed": lambda folder, pixels: _npz(folder, pixels, compressed=True),
    "several": _several,
    **{
        f"parquet-{form}": lambda folder, pixels, form=form: _parquet(folder / "a.parquet", pixels, form)
        for form in ("fixed", "list", "nested", "tensor", "bytes", "struct", "uint8")
    },
}
