"""The kinds of files that hold inputs, and how each is counted and read.

Reading has two parts. `fetch` is called in order by one thread: it returns the stored form of some inputs.
`values` turns that into numbers, in any thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rrise.data.images import IMAGES, read_image
from rrise.data.inputs import InputRange
from rrise.data.sources import Pixels
from rrise.deployment.bulk.places import read_files


@dataclass(frozen=True)
class Wanted:
    """What a certifier takes, and where it is: the column of a table, or the array of an archive."""

    shape: tuple[int, ...]
    input_range: InputRange
    column: str | None = None

    @property
    def images(self) -> bool:
        """Whether 8-bit numbers can be inputs: they are the pixels of images in [0, 1]."""
        return len(self.shape) == 3 and self.shape[0] in (1, 3) and self.input_range == (0.0, 1.0)


class Kind(Protocol):
    """Files of one kind. An object reads for one thread; it may keep the last file open."""

    endings: tuple[str, ...]

    def count(self, name: str, wanted: Wanted) -> int:
        """Return how many inputs a file holds."""

    def fetch(self, name: str, start: int, stop: int, wanted: Wanted) -> Sequence[Any]:
        """Return some inputs of a file as they are stored."""

    def values(self, stored: Any, wanted: Wanted) -> NDArray[Any]:
        """Return stored inputs as numbers `[inputs, *shape]`; bad ones raise an `InputError`."""

    def close(self) -> None:
        """Close the file that was read last."""


class Images:
    """PNG and JPEG files, an input each."""

    endings = IMAGES

    def count(self, _name: str, _wanted: Wanted) -> int:
        """Return 1: files are opened later."""
        return 1

    def fetch(self, name: str, _start: int, _stop: int, _wanted: Wanted) -> list[str]:
        """Return the name: several threads read files."""
        return [name]

    def values(self, stored: Sequence[str], wanted: Wanted) -> NDArray[Any]:
        """Read and decode the files."""
        return decoded(read_files(stored), wanted)

    def close(self) -> None:
        """Do nothing: no file is open between two calls."""


def decoded(images: Sequence[bytes], wanted: Wanted) -> NDArray[np.float32]:
    """Return encoded images as `[images, *shape]` in [0, 1]."""
    return np.concatenate([read_image(one, wanted.shape, wanted.input_range) for one in images])


def pixels_or_numbers(array: NDArray[Any], wanted: Wanted) -> NDArray[Any]:
    """Return 8-bit images in [0, 1], with channels first, last or absent; other arrays as they are."""
    if array.dtype != np.uint8 or not wanted.images:
        return array
    if array.shape[1:] == wanted.shape:
        return array.astype(np.float32) / np.float32(255)
    return Pixels(array)[:]
