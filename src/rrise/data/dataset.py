"""A dataset: two parts of inputs and labels, the names of the classes, and its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rrise.errors import InputError


@dataclass(frozen=True)
class Part:
    """Inputs and their labels, both checked.

    `images` is uint8 `[inputs, channels, height, width]` for 8-bit images. Anything else is float32
    `[inputs, ...]`, with the values as given. `labels` is int64 `[inputs]`. Both are contiguous and
    writable, as torch requires.
    """

    images: NDArray[Any]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, indices: NDArray[np.int64]) -> torch.Tensor:
        """Return the inputs at these indices as float32; 8-bit images are divided by 255."""
        chosen = self.images[indices].astype(np.float32)
        return torch.from_numpy(chosen / np.float32(255) if self.images.dtype == np.uint8 else chosen)


@dataclass(frozen=True)
class Dataset:
    """A train part and a test part with inputs of one shape, and the names of the classes in order."""

    name: str
    train: Part
    test: Part
    class_names: tuple[str, ...]
    source: str
    """Where it came from, for people to read."""

    @classmethod
    def from_arrays(
        cls,
        x_train: Any,
        y_train: Any,
        x_test: Any,
        y_test: Any,
        *,
        class_names: Sequence[str] | None = None,
        name: str = "arrays",
        source: str = "arrays from Python",
    ) -> "Dataset":
        """Return a dataset made of arrays; refuse invalid ones.

        Arrays of uint8 are images with the channels first, last or absent; arrays of floating-point
        numbers may have any shape. Labels are whole numbers from 0. Without `class_names`, the largest label
        determines the number of classes, and their numbers are their names.

        >>> pixels, labels = np.zeros((4, 28, 28, 3), dtype=np.uint8), [0, 1, 1, 0]
        >>> data = Dataset.from_arrays(pixels, labels, pixels[:2], labels[:2])
        >>> data.train.images.shape, data.class_names
        ((4, 3, 28, 28), ('0', '1'))
        """
        train = _part("train", x_train, y_train)
        test = _part("test", x_test, y_test)
        if train.images.shape[1:] != test.images.shape[1:] or train.images.dtype != test.images.dtype:
            raise InputError(
                f"expected x_train and x_test of one type and shape, got {_kind(train)} and {_kind(test)}"
            )
        classes = int(max(train.labels.max(), test.labels.max())) + 1
        names = tuple(map(str, range(classes) if class_names is None else class_names))
        if classes > len(names):
            raise InputError(f"expected a name for each of {classes} classes, got {len(names)} names")
        return cls(name, train, test, names, source)


def channels_first(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 8-bit images with channels first, last or absent as a view `[images, channels, height, width]`.

    >>> channels_first(np.zeros((5, 28, 28), np.uint8)).shape
    (5, 1, 28, 28)
    """
    if images.ndim not in (3, 4):
        raise InputError(f"expected 8-bit images of 3 or 4 axes, got shape {images.shape}")
    if images.ndim == 3:
        return images[:, None]
    if images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
        return images.transpose(0, 3, 1, 2)
    return images


def _kind(part: Part) -> str:
    return f"{part.images.dtype} {part.images.shape[1:]}"


def _part(name: str, images: Any, labels: Any) -> Part:
    inputs, classes = _inputs(f"x_{name}", images), _labels(f"y_{name}", labels)
    if len(inputs) != len(classes):
        raise InputError(
            f"expected a label for each input, got {len(inputs)} inputs in x_{name} and {len(classes)} "
            f"labels in y_{name}"
        )
    return Part(inputs, classes)


def _array(name: str, values: Any) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"expected {name} as one array, got a ragged {type(values).__name__}") from None
    if array.ndim == 0 or len(array) == 0:
        raise InputError(f"expected {name} to hold at least one input, got an array of shape {array.shape}")
    return array


def _inputs(name: str, values: Any) -> NDArray[Any]:
    array = _array(name, values)
    if array.dtype == np.uint8:
        try:
            return np.require(channels_first(array), requirements=["C", "W"])
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(
            f"expected {name} as uint8 images or as floating-point numbers, got {array.dtype}: convert it "
            f"first, to make clear what is certified"
        )
    if array.ndim < 2:
        raise InputError(f"expected {name} as a batch [inputs, ...], got an array of shape {array.shape}")
    with np.errstate(over="ignore"):
        single = np.require(array, np.float32, ["C", "W"])
    if single.size and not (np.isfinite(single.min()) and np.isfinite(single.max())):
        raise InputError(f"expected finite numbers in {name}, got NaN or infinity")
    return single


def _labels(name: str, values: Any) -> NDArray[np.int64]:
    array = _array(name, values)
    if array.ndim != 1:
        raise InputError(f"expected {name} as one label for each input, got an array of shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"expected whole numbers from 0 as labels in {name}, got {array.dtype}")
    if int(array.min()) < 0:
        raise InputError(f"expected whole numbers from 0 as labels in {name}, got {int(array.min())}")
    return array.astype(np.int64)
