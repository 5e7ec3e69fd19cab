"""The layouts of datasets on disk, and their readers.

A reader returns None if its layout is absent, and refuses one that is damaged.
"""

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rrise.data.files import read_arrays
from rrise.data.images import IMAGES, image_mode, read_pixels
from rrise.errors import InputError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")

FASHION_MNIST = "FashionMNIST"
TINY_IMAGENET = "tiny-imagenet-200"

_IDX_UINT8 = 8


class Found(NamedTuple):
    """The arrays of a dataset as stored on disk, the names of its classes if known, and its place."""

    arrays: Sequence[NDArray[Any]]
    """In the order of `ARRAYS`."""
    class_names: tuple[str, ...] | None
    place: Path


def read_npz(path: Path) -> Found | None:
    """Read `x_train, y_train, x_test, y_test` of a `.npz` file, and `class_names` if present."""
    if not path.exists():
        return None
    arrays = read_arrays(path, ARRAYS, optional=["class_names"])
    names = arrays.get("class_names")
    if names is not None and names.ndim != 1:
        raise InputError(f"expected class_names in {path} as a list of names, got shape {names.shape}")
    class_names = None if names is None else tuple(map(str, names))
    return Found([arrays[name] for name in ARRAYS], class_names, path)


def read_class_folders(path: Path) -> Found:
    """Read `train/CLASS/*` and `test/CLASS/*` (or `val/CLASS/*`): images of one size, grey or coloured.

    Classes and images are in the order of their names. If any image is coloured, all are read as coloured.
    """
    tested = path / "test" if (path / "test").is_dir() else path / "val"
    if not ((path / "train").is_dir() and tested.is_dir()):
        raise InputError(f"expected image folders train/CLASS and test/CLASS (or val/CLASS) in {path}")
    train, test = _classes(path / "train"), _classes(tested)
    names = sorted(train)
    if unknown := sorted(set(test) - set(train)):
        raise InputError(f"expected in {tested} only classes of {path / 'train'}, got {unknown[0]!r} too")
    files = [file for part in (train, test) for inside in part.values() for file in inside]
    mode = "RGB" if any(image_mode(file) == "RGB" for file in files) else "L"
    return Found([*_labelled(train, names, mode), *_labelled(test, names, mode)], tuple(names), path)


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Return the image files of each class folder."""
    classes = {
        inside.name: sorted(file for file in inside.iterdir() if file.suffix.lower() in IMAGES)
        for inside in sorted(folder.iterdir())
        if inside.is_dir() and not inside.name.startswith(".")
    }
    if not classes:
        raise InputError(f"expected a folder of images for each class in {folder}, got none")
    if empty := [name for name, files in classes.items() if not files]:
        raise InputError(f"the folder {folder / empty[0]} holds no {', '.join(IMAGES)} files")
    return classes


def _labelled(
    classes: dict[str, list[Path]], names: Sequence[str], mode: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    files = [file for inside in classes.values() for file in inside]
    labels = [names.index(name) for name, inside in classes.items() for _ in inside]
    return read_pixels(files, mode), np.array(labels, np.int64)


def read_fashion_mnist(root: Path) -> Found | None:
    """Read IDX files, gzipped or not, in torchvision's `FashionMNIST/raw` or Debian's `fashion-mnist`."""
    for folder in (root / FASHION_MNIST / "raw", root / "fashion-mnist"):
        if any(folder.glob("train-images-idx3-ubyte*")):
            parts = [
                read_idx(folder / f"{part}-{kind}-ubyte")
                for part in ("train", "t10k")
                for kind in ("images-idx3", "labels-idx1")
            ]
            return Found(parts, None, folder)
    return None


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read a file of bytes in the IDX format, or its gzipped version with the suffix `.gz`."""
    packed = path.with_name(f"{path.name}.gz")
    file = path if path.exists() else packed
    try:
        content = path.read_bytes() if file == path else gzip.decompress(packed.read_bytes())
    except FileNotFoundError:
        raise InputError(f"expected a file {path.name} or {packed.name} in {path.parent}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    axes = content[3] if content[:3] == bytes([0, 0, _IDX_UINT8]) and len(content) > 3 else 0
    start = 4 + 4 * axes
    if axes == 0 or len(content) < start:
        raise InputError(f"expected an IDX file of bytes in {file}: it is damaged or of another kind")
    shape = [int(size) for size in np.frombuffer(content[4:start], ">u4")]
    if len(content) - start != math.prod(shape):
        raise InputError(
            f"expected {math.prod(shape)} bytes of data in {file}, got {len(content) - start}: it is "
            f"truncated or damaged"
        )
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    except ValueError:  # such as too many axes
        raise InputError(f"expected an IDX file of images or labels in {file}: it is damaged") from None


def read_cifar(root: Path, class_name: str) -> Found | None:
    """Read the pickles of torchvision's `CIFAR10` or `CIFAR100`; torchvision checks their MD5 sums first."""
    folder = root / {"CIFAR10": "cifar-10-batches-py", "CIFAR100": "cifar-100-python"}[class_name]
    if not folder.is_dir():
        return None
    dataset = getattr(import_datasets(), class_name)
    try:
        train, test = (dataset(root, train=part, download=False) for part in (True, False))
    except (RuntimeError, OSError) as error:
        raise InputError(
            f"{folder} is damaged or incomplete ({error}): delete it and download it again"
        ) from None
    arrays = [train.data, np.array(train.targets), test.data, np.array(test.targets)]
    return Found(arrays, None, folder)


def import_datasets() -> Any:
    """Return the module `torchvision.datasets`, or say how to install it."""
    from rrise.torchvision_import import import_torchvision

    try:
        return import_torchvision().datasets
    except ImportError:
        raise InputError(
            "CIFAR's own files and downloads need torchvision: pip install 'rrise[vision]'"
        ) from None


def read_tiny_imagenet(root: Path) -> Found | None:
    """Read `tiny-imagenet-200` as in its archive: test is the labelled `val`, classes are WordNet ids."""
    folder = root / TINY_IMAGENET
    if not folder.is_dir():
        return None
    classes = {
        inside.name: sorted((inside / "images").glob("*.JPEG"))
        for inside in sorted((folder / "train").glob("n*"))
    }
    names = sorted(classes)
    annotations = folder / "val" / "val_annotations.txt"
    try:
        rows = [line.split("\t")[:2] for line in annotations.read_text().splitlines()]
        tested = [folder / "val" / "images" / file for file, _ in rows]
        labels = np.array([names.index(name) for _, name in rows])
    except (OSError, ValueError) as error:
        raise InputError(f"{annotations} cannot be read: {error}") from None
    if not tested or not any(classes.values()):
        raise InputError(
            f"expected images of {len(names)} classes in {folder}: delete it and download it again"
        )
    images, classified = _labelled(classes, names, "RGB")
    return Found([images, classified, read_pixels(tested, "RGB"), labels], tuple(names), folder)
