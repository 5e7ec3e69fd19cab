"""Loading datasets by name, and datasets of users."""

from pathlib import Path

import numpy as np

from rrise.data.benchmarks import BENCHMARKS, load_benchmark
from rrise.data.dataset import Dataset, Part
from rrise.data.layouts import Found, read_class_folders, read_npz
from rrise.data.splits import split_indices
from rrise.errors import InputError, did_you_mean

__all__ = ["DATASETS", "NPZ", "Dataset", "Part", "load_dataset", "load_digits"]

DATASETS = ("digits", *BENCHMARKS)
NPZ = "npz:"

_DIGITS = {"train": 1047, "test": 750}


def load_dataset(source: str | Path, root: str | Path | None = None, *, download: bool = True) -> Dataset:
    """Return a dataset; its `source` says where it was found.

    `source` is one of `DATASETS`, `npz:FILE` with the arrays x_train, y_train, x_test, y_test, or a folder
    with images in `train/CLASS` and `test/CLASS`. Benchmark datasets are searched below `root`, then in the
    places of `load_benchmark`, and downloaded if `download` allows it.

    >>> data = load_dataset("digits")
    >>> len(data.train), len(data.test), data.train.images.shape[1:]
    (1047, 750, (1, 8, 8))
    """
    source = str(source)
    if source == "digits":
        return _load_digits()
    if source in BENCHMARKS:
        return load_benchmark(BENCHMARKS[source], root, download=download)
    if source.startswith(NPZ):
        path = Path(source.removeprefix(NPZ)).expanduser()
        found = read_npz(path)
        if found is None:
            raise InputError(f"there is no file {path}")
        return _dataset(path.stem, found)
    path = Path(source).expanduser()
    if path.is_dir():
        return _dataset(path.resolve().name, read_class_folders(path))
    raise InputError(
        f"expected a dataset out of {', '.join(DATASETS)}, npz:FILE or a folder of images; got "
        f"{source!r}{did_you_mean(source, DATASETS)}"
    )


def load_digits() -> Part:
    """Return the 1,797 handwritten digits in scikit-learn's wheel, 8x8 grey pixels each."""
    from sklearn import datasets

    digits = datasets.load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)[:, None]
    return Part(images, digits.target.astype(np.int64))


def _load_digits() -> Dataset:
    """Split the digits into two fixed parts."""
    pool = load_digits()
    train, test = (
        Part(pool.images[indices], pool.labels[indices])
        for indices in split_indices(len(pool), _DIGITS, seed=0).values()
    )
    names = tuple(str(digit) for digit in range(10))
    return Dataset("digits", train, test, names, "the scikit-learn package")


def _dataset(name: str, found: Found) -> Dataset:
    try:
        return Dataset.from_arrays(
            *found.arrays, class_names=found.class_names, name=name, source=str(found.place)
        )
    except InputError as error:
        raise InputError(f"{found.place}: {error}") from None
