"""Datasets by name."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True)
class Dataset:
    """Images as `uint8` `[inputs, channels, height, width]`, labels, and the names of the classes."""

    name: str
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]

    def inputs(self, indices: NDArray[np.int64]) -> torch.Tensor:
        """Return the images at these indices as float32 in [0, 1]."""
        return torch.from_numpy(self.images[indices].astype(np.float32) / np.float32(255))


def load_digits() -> Dataset:
    """Return scikit-learn's 1,797 handwritten digits, 8x8 grey pixels; they ship with its wheel."""
    from sklearn import datasets

    digits = datasets.load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)[:, None]
    return Dataset("digits", images, digits.target.astype(np.int64), tuple(str(digit) for digit in range(10)))
