"""Benchmark datasets in miniature, written the way the real ones lie on a disk."""

import gzip
import hashlib
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rrise.data.benchmarks import BENCHMARKS, Benchmark
from rrise.data.layouts import import_datasets

RANDOM = np.random.default_rng(0)


def small(name: str, classes: int = 10) -> Benchmark:
    return replace(BENCHMARKS[name], classes=classes, train=4 * classes, test=2 * classes)


def labels(count: int, classes: int = 10) -> np.ndarray:
    return RANDOM.permutation(np.arange(count) % classes)


def arrays(shape: tuple[int, ...] = (28, 28)) -> dict[str, np.ndarray]:
    return {
        "x_train": RANDOM.integers(0, 256, (40, *shape), dtype=np.uint8),
        "y_train": labels(40),
        "x_test": RANDOM.integers(0, 256, (20, *shape), dtype=np.uint8),
        "y_test": labels(20),
    }


def write_idx(folder: Path, content: dict[str, np.ndarray], *, packed: bool) -> None:
    folder.mkdir(parents=True)
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    for name, array in zip(names, content.values(), strict=True):
        data = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
        data += array.astype(np.uint8).tobytes()
        file = folder / f"{name}-ubyte{'.gz' if packed else ''}"
        file.write_bytes(gzip.compress(data) if packed else data)


def write_cifar(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Write CIFAR-10's pickles and let torchvision expect their checksums."""
    folder, content = root / "cifar-10-batches-py", arrays((3, 32, 32))
    folder.mkdir(parents=True)

    def write(name: str, value: object) -> str:
        (folder / name).write_bytes(pickle.dumps(value))
        return hashlib.md5((folder / name).read_bytes()).hexdigest()

    def batch(part: str) -> dict[str, object]:
        images = content[f"x_{part}"]
        return {"data": images.reshape(len(images), -1), "labels": content[f"y_{part}"].tolist()}

    cifar = import_datasets().CIFAR10
    meta = write("batches.meta", {"label_names": list("abcdefghij")})
    monkeypatch.setattr(cifar, "train_list", [["data_batch_1", write("data_batch_1", batch("train"))]])
    monkeypatch.setattr(cifar, "test_list", [["test_batch", write("test_batch", batch("test"))]])
    monkeypatch.setattr(cifar, "meta", {**cifar.meta, "md5": meta})
    return content


def write_tiny_imagenet(root: Path) -> None:
    """Write two classes of four train and two validation images, one of them grey."""
    folder = root / "tiny-imagenet-200"
    (folder / "val" / "images").mkdir(parents=True)
    rows = []
    for label, name in enumerate(["n02", "n01"]):
        (folder / "train" / name / "images").mkdir(parents=True)
        for index in range(4):
            flat = np.full((64, 64, 3), 100 * label + 10 * index, np.uint8)
            file = folder / "train" / name / "images" / f"{name}_{index}.JPEG"
            Image.fromarray(flat).save(file, quality=95)
        for index in range(2):
            grey = Image.fromarray(np.full((64, 64), 100 * label + index, np.uint8))
            file = folder / "val" / "images" / f"val_{label + 2 * index}.JPEG"
            (grey if index else grey.convert("RGB")).save(file, quality=95)
            rows.append(f"{file.name}\t{name}\t0\t0\t63\t63")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(rows) + "\n")
