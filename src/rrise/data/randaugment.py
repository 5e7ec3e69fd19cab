"""RandAugment (Cubuk et al., 2020) with separate operations for each image of a batch.

Every image draws two of the fourteen operations of `torchvision.transforms.v2.RandAugment`. That class draws
two for a whole batch, so it is not used here. The batch is never divided: each pass has one table, one
sampling grid and one blend per image, which are the identity if their operation is not drawn.
"""

import math

import torch
import torch.nn.functional as F

from rrise.data.sampling import positions, sample
from rrise.errors import InputError, SettingError

OPERATIONS = (
    "Identity",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
    "Rotate",
    "Brightness",
    "Color",
    "Contrast",
    "Sharpness",
    "Posterize",
    "Solarize",
    "AutoContrast",
    "Equalize",
)
LEVELS = 31


class RandAugment:
    """`passes` random operations of one magnitude, from 0 to 30, on images of 1 or 3 channels in [0, 1].

    Images are rounded to 8 bits first. Every operation returns 8-bit values, `k / 255`, as torchvision's
    operations do on 8-bit images. Geometric operations use the nearest pixel, and zero outside the image.
    Operations with a direction are reversed with probability 1/2.
    """

    def __init__(self, magnitude: int = 9, passes: int = 2) -> None:
        if not 0 <= magnitude < LEVELS:
            raise SettingError(f"expected a RandAugment magnitude from 0 to {LEVELS - 1}, got {magnitude}")
        self.passes = passes
        self._share = magnitude / (LEVELS - 1)
        self._shear = _level(0.0, 0.3, magnitude)
        self._angle = math.radians(_level(0.0, 30.0, magnitude))
        self._strength = _level(0.0, 0.9, magnitude)
        self._threshold = 255 * _level(1.0, 0.0, magnitude)
        self._posterize_step = 2.0 ** round(4 * self._share)

    def draw(self, count: int, shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
        """Return `[count, passes]` whole numbers: twice the index in `OPERATIONS`, plus 1 to reverse it."""
        _check_channels(shape[0])
        return torch.randint(
            2 * len(OPERATIONS), (count, self.passes), generator=generator, device=generator.device
        )

    def apply(self, images: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """Apply to each image the operations drawn for it, in order."""
        _check_channels(images.shape[1])
        pixels = (images * 255).round()
        for choice in drawn.unbind(dim=1):
            pixels = self._operate(pixels, choice // 2, 1.0 - 2.0 * (choice % 2).to(images.dtype))
        return pixels / 255

    def _operate(self, pixels: torch.Tensor, operation: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
        chosen = {name: (operation == place).to(pixels.dtype) for place, name in enumerate(OPERATIONS)}
        grey = _grey(pixels)
        strength = sign * self._strength
        looked_up = self._look_up(pixels, grey, chosen, strength)
        moved = self._move(looked_up, chosen, sign)
        color = (chosen["Color"] * strength)[:, None, None, None] * (pixels.shape[1] == 3)
        sharpness = (chosen["Sharpness"] * strength)[:, None, None, None]
        blended = torch.addcmul(moved * (1 + color), color, grey, value=-1)
        return _eight_bit(blended - sharpness * _blur_difference(pixels))

    def _look_up(
        self,
        pixels: torch.Tensor,
        grey: torch.Tensor,
        chosen: dict[str, torch.Tensor],
        strength: torch.Tensor,
    ) -> torch.Tensor:
        """Map each value through a table of 256 entries, one table per image and channel."""
        values = positions(256, pixels)
        index = pixels.long().flatten(2)
        blend = ((chosen["Brightness"] + chosen["Contrast"]) * strength)[:, None, None]
        contrast = (chosen["Contrast"] * strength)[:, None, None]
        mean = grey.mean(dim=(2, 3))[..., None]
        table = _eight_bit(torch.addcmul(values * (1 + blend), contrast, mean, value=-1))
        others = {
            "Posterize": (values / self._posterize_step).floor() * self._posterize_step,
            "Solarize": torch.where(values >= self._threshold, 255 - values, values),
            "AutoContrast": _stretched(values, pixels),
            "Equalize": _equalized(values, index),
        }
        for name, other in others.items():
            table = torch.where(chosen[name][:, None, None] > 0, other, table)
        return table.expand(*pixels.shape[:2], 256).gather(2, index).view_as(pixels)

    def _move(
        self, pixels: torch.Tensor, chosen: dict[str, torch.Tensor], sign: torch.Tensor
    ) -> torch.Tensor:
        """Read each pixel at its position under the inverse of an affine map."""
        height, width = pixels.shape[2:]
        sign = sign[:, None, None]
        shear_x, shear_y, translate_x, translate_y, rotate = (
            chosen[name][:, None, None] for name in ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
        )
        shear_x, shear_y = sign * self._shear * shear_x, sign * self._shear * shear_y
        cosine, sine = 1 + rotate * (math.cos(self._angle) - 1), rotate * sign * math.sin(self._angle)
        shift_x = sign * translate_x * self._shift(width) - shear_x * (height / 2)
        shift_y = sign * translate_y * self._shift(height) - shear_y * (width / 2)
        y = positions(height, pixels)[:, None] - (height - 1) / 2
        x = positions(width, pixels) - (width - 1) / 2
        columns = cosine * x + (shear_x - sine) * y - shift_x + (width - 1) / 2
        rows = (shear_y + sine) * x + cosine * y - shift_y + (height - 1) / 2
        return sample(pixels, rows, columns)

    def _shift(self, size: int) -> int:
        """Return the translation in pixels of an image of this width or height."""
        return int(150 / 331 * size * self._share)


def _level(first: float, last: float, magnitude: int) -> float:
    """Return one of 31 evenly spaced numbers in single precision, as in torchvision."""
    return float(torch.linspace(first, last, LEVELS)[magnitude])


def _check_channels(channels: int) -> None:
    if channels not in (1, 3):
        raise InputError(f"expected images of 1 or 3 channels for randaugment, got {channels}")


def _eight_bit(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(0, 255).floor()


def _grey(pixels: torch.Tensor) -> torch.Tensor:
    """Return the luminance `[images, 1, height, width]`, rounded down."""
    if pixels.shape[1] == 1:
        return pixels
    red, green, blue = pixels[:, :1], pixels[:, 1:2], pixels[:, 2:]
    return (red * 0.2989).add(green, alpha=0.587).add(blue, alpha=0.114).floor()


def _blur_difference(pixels: torch.Tensor) -> torch.Tensor:
    """Return the smoothed image minus the image, 0 at the border.

    The smoothed value of a pixel is 5/13 of it plus 1/13 of each of its eight neighbours.
    """
    if min(pixels.shape[2:]) <= 2:
        return torch.zeros_like(pixels)
    inner = pixels[..., 1:-1, 1:-1]
    lines = pixels[..., :-2, :] + pixels[..., 1:-1, :] + pixels[..., 2:, :]
    box = lines[..., :-2] + lines[..., 1:-1] + lines[..., 2:]
    return F.pad(((box + 4 * inner) / 13).round() - inner, (1, 1, 1, 1))


def _stretched(values: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    """Return the table that maps the darkest value of a channel to 0 and the brightest to 255."""
    low, high = pixels.amin(dim=(2, 3))[..., None], pixels.amax(dim=(2, 3))[..., None]
    flat = low == high
    scale = ((high - low) * (1 / 255)).masked_fill(flat, 1.0)
    return _eight_bit((values - low.masked_fill(flat, 0.0)) / scale)


def _equalized(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return the table that spreads the values of a channel evenly, by Pillow's whole-number rule.

    A channel with fewer than 255 pixels below its brightest value stays as it is.
    """
    counts = torch.zeros((*index.shape[:2], 256), dtype=torch.int32, device=index.device)
    counts = counts.scatter_add(2, index, torch.ones_like(index, dtype=torch.int32))
    below = counts.cumsum(dim=2) - counts
    step = below.gather(2, index.amax(dim=2, keepdim=True)) // 255
    table = ((below + step // 2) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, table.to(values.dtype), values)
