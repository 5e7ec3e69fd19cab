"""The four benchmark datasets of the paper: where to find them, how to get them, and what they contain."""

import os
import socket
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from rrise.data import layouts
from rrise.data.class_names import CIFAR_10, CIFAR_100, FASHION_MNIST
from rrise.data.dataset import Dataset, Part, channels_first
from rrise.data.layouts import Found
from rrise.errors import InputError
from rrise.files import TEMPORARY

_INSTALLED = Path("/usr/share/datasets")
_WAIT_SECONDS = 20.0
_CHUNK = 2048
_DOWNLOAD_ERRORS = (OSError, RuntimeError, HTTPException, EOFError, zipfile.BadZipFile, tarfile.TarError)


@dataclass(frozen=True)
class Benchmark:
    """What a complete set contains, and its layout on disk; all classes have equally many inputs."""

    name: str
    classes: int
    train: int
    test: int
    shape: tuple[int, int, int]
    class_names: tuple[str, ...] | None
    folder: str
    """Its folder below a root, as in torchvision or in the set's own archive."""
    read: Callable[[Path], Found | None]
    fetch: Callable[[Path], object]
    """Downloads and unpacks `folder` below a root."""
    package: str | None = None
    """Its Debian package."""


def load_benchmark(benchmark: Benchmark, root: str | Path | None = None, *, download: bool = True) -> Dataset:
    """Return a benchmark dataset from the first place that has it, or download it.

    `root` overrides the environment variable `RRISE_DATA`. The next places are `./data`, `~/data`, the cache
    of earlier downloads, and the folder of Debian's packages. A download goes to the root, if there is one,
    else to the cache. An incomplete or damaged set is an error.
    """
    given = root or os.environ.get("RRISE_DATA")
    cache = Path("~/.cache/rrise").expanduser()
    target = Path(given).expanduser() if given else cache
    for place in (*([target] if given else []), Path("data"), Path("~/data").expanduser(), cache, _INSTALLED):
        found = layouts.read_npz(place / f"{benchmark.name}.npz") or benchmark.read(place)
        if found is not None:
            return accept(benchmark, found)
    if not download:
        raise InputError(
            f"{benchmark.name} was not found on this machine: {_ways(benchmark)}, or allow the download"
        )
    _download(benchmark, target)
    found = benchmark.read(target)
    if found is None:
        raise InputError(f"the download of {benchmark.name} has unexpected content: {_ways(benchmark)}")
    return replace(accept(benchmark, found), source=f"downloaded to {found.place}")


def accept(benchmark: Benchmark, found: Found) -> Dataset:
    """Return the found arrays as a dataset; refuse an incomplete or different set."""
    x_train, y_train, x_test, y_test = found.arrays
    try:
        dataset = Dataset.from_arrays(
            enlarged(x_train, benchmark.shape),
            y_train,
            enlarged(x_test, benchmark.shape),
            y_test,
            class_names=found.class_names or benchmark.class_names,
            name=benchmark.name,
            source=str(found.place),
        )
    except InputError as error:
        raise InputError(f"{found.place}: {error}") from None
    _check(benchmark, found.place, "train", dataset.train, benchmark.train)
    _check(benchmark, found.place, "test", dataset.test, benchmark.test)
    return dataset


def _check(benchmark: Benchmark, place: Path, name: str, part: Part, size: int) -> None:
    counts = np.bincount(part.labels, minlength=benchmark.classes)
    each = size // benchmark.classes
    if len(counts) != benchmark.classes or (counts != each).any():
        raise InputError(
            f"expected {each:,} {name} inputs in each of {benchmark.classes} classes of {benchmark.name}, "
            f"got {counts.min():,} to {counts.max():,} in {len(counts)} classes in {place}: it is "
            f"incomplete or another set"
        )
    if part.images.dtype != np.uint8 or part.images.shape[1:] != benchmark.shape:
        raise InputError(
            f"expected {benchmark.name} as uint8 images of shape {benchmark.shape}, got {part.images.dtype} "
            f"{part.images.shape[1:]} in {place}"
        )


def enlarged(images: NDArray[Any], shape: tuple[int, int, int]) -> NDArray[Any]:
    """Return FashionMNIST's 28x28 grey images as 32x32 with three equal channels; others as they are.

    Interpolation is bilinear between pixel centres (`align_corners=False`), then rounded to whole numbers.
    The weights are multiples of 1/256, so the result is exact in any arithmetic.
    """
    if images.dtype != np.uint8 or images.shape[1:] not in ((28, 28), (28, 28, 1), (1, 28, 28)):
        return images
    grey = channels_first(images)
    large = np.empty((len(grey), *shape), np.uint8)
    for start in range(0, len(grey), _CHUNK):
        chunk = torch.from_numpy(grey[start : start + _CHUNK].astype(np.float32))
        resized = F.interpolate(chunk, size=shape[1:], mode="bilinear", align_corners=False)
        large[start : start + _CHUNK] = resized.round().numpy()
    return large


def _download(benchmark: Benchmark, root: Path) -> None:
    """Download a set below a root, atomically."""
    is_new = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _short_wait(), tempfile.TemporaryDirectory(dir=root, prefix=TEMPORARY) as scratch:
            benchmark.fetch(Path(scratch))
            (Path(scratch) / benchmark.folder).replace(root / benchmark.folder)
    except (*_DOWNLOAD_ERRORS, InputError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if is_new:
            with suppress(OSError):
                root.rmdir()
        raise InputError(
            f"{benchmark.name} was not found on this machine and could not be downloaded ({reason}): "
            f"{_ways(benchmark)}, or try again with a network"
        ) from None


@contextmanager
def _short_wait() -> Iterator[None]:
    """Give up on a server that does not respond; torchvision itself waits forever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_WAIT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _ways(benchmark: Benchmark) -> str:
    package = f"install Debian's package {benchmark.package}, or " if benchmark.package else ""
    return (
        f"{package}put {benchmark.name}.npz with x_train, y_train, x_test, y_test, or the folder "
        f"{benchmark.folder}, into ./data or into the folder given by RRISE_DATA or the data root"
    )


def _fetch_torchvision(class_name: str, root: Path) -> None:
    getattr(layouts.import_datasets(), class_name)(root, train=False, download=True)


def _fetch_tiny_imagenet(root: Path) -> None:
    utilities = layouts.import_datasets().utils
    utilities.download_and_extract_archive(_TINY_IMAGENET_URL, root, md5=_TINY_IMAGENET_MD5)


_TINY_IMAGENET_URL = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
_TINY_IMAGENET_MD5 = "90528d7ca1a48142e341f4ef8d21d0de"

BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            name="fashion-mnist",
            classes=10,
            train=60_000,
            test=10_000,
            shape=(3, 32, 32),
            class_names=FASHION_MNIST,
            folder=layouts.FASHION_MNIST,
            read=layouts.read_fashion_mnist,
            fetch=partial(_fetch_torchvision, "FashionMNIST"),
            package="dataset-fashion-mnist",
        ),
        Benchmark(
            name="cifar-10",
            classes=10,
            train=50_000,
            test=10_000,
            shape=(3, 32, 32),
            class_names=CIFAR_10,
            folder="cifar-10-batches-py",
            read=partial(layouts.read_cifar, class_name="CIFAR10"),
            fetch=partial(_fetch_torchvision, "CIFAR10"),
        ),
        Benchmark(
            name="cifar-100",
            classes=100,
            train=50_000,
            test=10_000,
            shape=(3, 32, 32),
            class_names=CIFAR_100,
            folder="cifar-100-python",
            read=partial(layouts.read_cifar, class_name="CIFAR100"),
            fetch=partial(_fetch_torchvision, "CIFAR100"),
        ),
        Benchmark(
            name="tiny-imagenet",
            classes=200,
            train=100_000,
            test=10_000,
            shape=(3, 64, 64),
            class_names=None,
            folder=layouts.TINY_IMAGENET,
            read=layouts.read_tiny_imagenet,
            fetch=_fetch_tiny_imagenet,
        ),
    )
}
