"""Inputs from datasets, files and folders, read as needed."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.data.catalogue import DATASETS, NPZ, load_dataset, load_digits
from rrise.data.dataset import channels_first
from rrise.data.files import find_files, read_arrays
from rrise.data.images import IMAGES, named, read_pixels
from rrise.data.npy import map_array
from rrise.errors import InputError


class Pixels:
    """8-bit images as inputs in [0, 1], with the channels first, last or absent.

    `images` is uint8 `[inputs, channels, height, width]`, a view of the given array. Slices are converted to
    float32 on demand.
    """

    def __init__(self, images: NDArray[np.uint8]) -> None:
        self.images = channels_first(images)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: slice) -> NDArray[np.float32]:
        return self.images[key].astype(np.float32) / np.float32(255)


def load_images(source: str | Path, split: str, root: str | Path | None = None) -> Any:
    """Return inputs that can be sliced.

    `source` is one of:

    - the name of a dataset: `split` is train or test (for digits, any other name means all 1,797);
    - a `.npy` file, or `npz:FILE` (its array `x_SPLIT`);
    - a folder of images in `train/CLASS` and `test/CLASS`;
    - a folder of PNG or JPEG images of one size, in the order of their names.

    Arrays of 8-bit numbers are images. `root` is the folder of datasets, as in `load_dataset`.
    """
    path, source = Path(source), str(source)
    if source in DATASETS or (path / "train").is_dir():
        return _sliced(_part_of(source, split, root))
    if source.startswith(NPZ):
        name = f"x_{split}"
        return _sliced(read_arrays(Path(source.removeprefix(NPZ)), [name])[name])
    if path.is_dir():
        files = [file for file in find_files([path]) if file.suffix.lower() in IMAGES]
        if not files:
            raise InputError(f"the folder {path} holds no {', '.join(IMAGES)} files")
        return Pixels(read_pixels(files))
    if path.suffix != ".npy":
        raise InputError(
            f"expected data as {', '.join(DATASETS)}, FILE.npy, npz:FILE or a folder of images; got "
            f"{source!r}"
        )
    with named(path):
        return _sliced(map_array(path))


def has_parts(source: str) -> bool:
    """Tell whether a source has a train and a test part, of which one must be named."""
    return source in DATASETS[1:] or (Path(source) / "train").is_dir()


def _part_of(source: str, split: str, root: str | Path | None) -> NDArray[Any]:
    if source == "digits" and split not in ("train", "test"):
        return load_digits().images
    if split not in ("train", "test"):
        raise InputError(f"expected the split of {source} to be train or test, got {split!r}")
    dataset = load_dataset(source, root)
    return (dataset.train if split == "train" else dataset.test).images


def _sliced(array: NDArray[Any]) -> Any:
    return Pixels(array) if array.dtype == np.uint8 else array
