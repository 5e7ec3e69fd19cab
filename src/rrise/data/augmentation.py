"""Augmentations for training a base classifier: each image of a batch has its own random numbers.

They compute the same as the classes of `torchvision.transforms.v2` with their default settings. Those draw
one set of numbers for a whole batch, so they must be called image by image, on the CPU. These draw one set
per image and process the whole batch on its device.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from rrise.data.randaugment import RandAugment
from rrise.data.sampling import positions, sample
from rrise.errors import InputError, SettingError, did_you_mean

AUGMENTATIONS = ("crop-N", "flip", "resized-crop", "randaugment", "erasing")
"""The names; N is any number of pixels, as in `crop-4`."""

Shape = tuple[int, int, int]
Box = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
_CANDIDATES = 10


class Step(Protocol):
    """One augmentation: `draw` makes its random numbers, `apply` uses them."""

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> torch.Tensor:
        """Return random numbers for `count` images, the first axis, on the generator's device."""

    def apply(self, images: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """Return the augmented images."""


class Augmentation:
    """The named augmentations, applied in order to images `[images, channels, height, width]`.

    - `crop-N`: pad by N zeros on every side and crop the original size at random.
    - `flip`: mirror left and right with probability 1/2.
    - `resized-crop`: crop 8 % to 100 % of the area at an aspect ratio from 3/4 to 4/3, and enlarge it
      to the original size by bilinear interpolation.
    - `randaugment`: two of fourteen operations at magnitude 9 of 30.
    - `erasing`: with probability 1/2, set a rectangle of 2 % to 33 % of the area to zero.

    Sizes are kept and values stay in [0, 1]. The result depends only on the images, the names and the state
    of the generator, and image i depends on no other image of the batch.

    >>> augmentation = Augmentation(["crop-4", "flip"])
    >>> augmentation(torch.rand(16, 3, 32, 32), torch.Generator().manual_seed(0)).shape
    torch.Size([16, 3, 32, 32])
    """

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str):
            raise SettingError(f'expected a list of augmentations, got {names!r}: write ["{names}"]')
        self.names = tuple(names)
        self._steps = _folded([_step(name) for name in self.names])

    def __repr__(self) -> str:
        return f"Augmentation({list(self.names)!r})"

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Draw all random numbers for `count` images of this shape, on the device of the generator."""
        return tuple(step.draw(count, shape, generator) for step in self._steps)

    def apply(self, images: torch.Tensor, draws: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Augment images in [0, 1] with these random numbers.

        It is pure, never waits for the device, and works with `torch.compile(fullgraph=True)`.
        """
        _check(images)
        if [len(drawn) for drawn in draws] != [len(images)] * len(self._steps):
            raise InputError(
                f"expected the random numbers that {self!r} draws for {len(images)} images, got "
                f"{len(draws)} tensors for {', '.join(str(len(drawn)) for drawn in draws) or 'no'} images"
            )
        for step, drawn in zip(self._steps, draws, strict=True):
            images = step.apply(images, drawn)
        return images

    def __call__(self, images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Draw random numbers and apply them."""
        _check(images)
        channels, height, width = images.shape[1:]
        return self.apply(images, self.draw(len(images), (channels, height, width), generator))


@dataclass(frozen=True)
class Crop:
    """Random crop of the padded image, and a flip in the same pass over the pixels if one follows."""

    padding: int
    flipped: bool = False

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> torch.Tensor:  # noqa: ARG002
        """Return `[count, 3]` uniform numbers: for the row, the column and the flip."""
        return _uniform(count, 3, generator)

    def apply(self, images: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """Shift each image by up to `padding` pixels both ways; pixels from outside are zero."""
        height, width = images.shape[2:]
        shift = (drawn[:, :2] * (2 * self.padding + 1)).floor() - self.padding
        rows = positions(height, images) + shift[:, :1]
        columns = positions(width, images) + shift[:, 1:]
        if self.flipped:
            columns = _flipped(columns, drawn[:, 2:])
        return sample(images, rows[:, :, None], columns[:, None, :])


@dataclass(frozen=True)
class ResizedCrop:
    """Random part of the image, enlarged to full size, and a flip in the same pass if one follows."""

    flipped: bool = False

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> torch.Tensor:  # noqa: ARG002
        """Return `[count, 23]` uniform numbers: for the box, and the last for the flip."""
        return _uniform(count, 2 * _CANDIDATES + 3, generator)

    def apply(self, images: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """Interpolate only between the pixels inside the box."""
        height, width = images.shape[2:]
        top, left, box_height, box_width = crop_box(drawn[:, :-1], height, width)
        rows = _enlarged(positions(height, images), top, box_height, height)
        columns = _enlarged(positions(width, images), left, box_width, width)
        if self.flipped:
            columns = _flipped(columns, drawn[:, -1:])
        return sample(images, rows[:, :, None], columns[:, None, :], bilinear=True).clamp(0, 1)


class Flip:
    """Mirrors left and right with probability 1/2."""

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> torch.Tensor:  # noqa: ARG002
        """Return `[count, 1]` uniform numbers."""
        return _uniform(count, 1, generator)

    def apply(self, images: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """Mirror the images whose number is below 1/2."""
        return _flipped(images, drawn[:, :, None, None])


class Erasing:
    """Sets a rectangle to zero with probability 1/2."""

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> torch.Tensor:  # noqa: ARG002
        """Return `[count, 23]` uniform numbers: for the box, and the last decides whether to erase."""
        return _uniform(count, 2 * _CANDIDATES + 3, generator)

    def apply(self, images: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """Erase the box of each image whose last number is below 1/2."""
        height, width = images.shape[2:]
        top, left, box_height, box_width = erasing_box(drawn[:, :-1], height, width)
        rows, columns = positions(height, images), positions(width, images)
        down = (rows >= top) & (rows < top + box_height) & (drawn[:, -1:] < 0.5)
        across = (columns >= left) & (columns < left + box_width)
        return images.masked_fill((down[:, :, None] & across[:, None, :])[:, None], 0.0)


def crop_box(uniform: torch.Tensor, height: int, width: int) -> Box:
    """Return top, left, height and width `[images, 1]` of a random crop, from `[images, 22]` uniform numbers.

    It is the first of ten candidates that fits. If none fits, it is the largest centred box with an allowed
    aspect ratio.
    """
    columns, rows = _candidates(uniform, height * width, (0.08, 1.0), (3 / 4, 4 / 3))
    fits = (rows > 0) & (rows <= height) & (columns > 0) & (columns <= width)
    top, left, rows, columns = _first(fits, (rows, columns), uniform, (height, width))
    full_height = min(height, round(width / (3 / 4)))
    full_width = min(width, round(height * (4 / 3)))
    none = ~fits.any(dim=1, keepdim=True)
    return (
        top.masked_fill(none, (height - full_height) // 2),
        left.masked_fill(none, (width - full_width) // 2),
        rows.masked_fill(none, full_height),
        columns.masked_fill(none, full_width),
    )


def erasing_box(uniform: torch.Tensor, height: int, width: int) -> Box:
    """Return top, left, height and width `[images, 1]` of the rectangle to erase; height 0 means none.

    It is the first of ten candidates that is smaller than the image both ways.
    """
    rows, columns = _candidates(uniform, height * width, (0.02, 0.33), (0.3, 3.3))
    fits = (rows < height) & (columns < width)
    top, left, rows, columns = _first(fits, (rows, columns), uniform, (height, width))
    return top, left, rows * fits.any(dim=1, keepdim=True), columns


def _candidates(
    uniform: torch.Tensor, area: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sides `[images, 10]` of random boxes: uniform area, log-uniform ratio of first to second."""
    areas = area * (scale[0] + (scale[1] - scale[0]) * uniform[:, :_CANDIDATES])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    ratios = (low + (high - low) * uniform[:, _CANDIDATES : 2 * _CANDIDATES]).exp()
    return (areas * ratios).sqrt().round(), (areas / ratios).sqrt().round()


def _first(
    fits: torch.Tensor, sides: tuple[torch.Tensor, torch.Tensor], uniform: torch.Tensor, size: tuple[int, int]
) -> Box:
    """Return the first candidate that fits, at a position given by the last two uniform numbers."""
    first = fits.to(torch.int32).argmax(dim=1, keepdim=True)
    rows, columns = (side.gather(1, first) for side in sides)
    top = (uniform[:, -2:-1] * (size[0] - rows + 1)).floor()
    left = (uniform[:, -1:] * (size[1] - columns + 1)).floor()
    return top, left, rows, columns


def _enlarged(places: torch.Tensor, start: torch.Tensor, length: torch.Tensor, size: int) -> torch.Tensor:
    """Return the positions in `start` to `start + length` that the pixels of the enlarged image show."""
    inside = (places + 0.5) * (length / size) - 0.5
    return start + torch.minimum(inside.clamp(min=0), length - 1)


def _flipped(values: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Reverse the last axis where the uniform number is below 1/2."""
    return torch.where(uniform < 0.5, values.flip(-1), values)


def _uniform(count: int, size: int, generator: torch.Generator) -> torch.Tensor:
    return torch.rand((count, size), generator=generator, device=generator.device)


def _step(name: str) -> Step:
    plain: dict[str, type[Step]] = {
        "flip": Flip,
        "resized-crop": ResizedCrop,
        "randaugment": RandAugment,
        "erasing": Erasing,
    }
    if name in plain:
        return plain[name]()
    if crop := re.fullmatch(r"crop-([1-9][0-9]{0,3})", str(name)):
        return Crop(int(crop[1]))
    raise SettingError(
        f"expected augmentations among {', '.join(AUGMENTATIONS)} (N pixels, as in crop-4), got {name!r}"
        f"{did_you_mean(str(name), AUGMENTATIONS)}"
    )


def _folded(steps: list[Step]) -> list[Step]:
    """Merge a flip into the crop before it: one pass over the pixels instead of two."""
    folded: list[Step] = []
    for step in steps:
        last = folded[-1] if folded else None
        if isinstance(step, Flip) and isinstance(last, Crop | ResizedCrop) and not last.flipped:
            folded[-1] = replace(last, flipped=True)
        else:
            folded.append(step)
    return folded


def _check(images: torch.Tensor) -> None:
    if images.ndim != 4 or images.dtype not in (torch.float32, torch.float64):
        raise InputError(
            f"expected float32 images [images, channels, height, width] in [0, 1], got {images.dtype} of "
            f"shape {tuple(images.shape)}"
        )
