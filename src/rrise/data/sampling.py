"""Reading the pixels of each image of a batch at its own positions."""

import torch
import torch.nn.functional as F


def positions(size: int, images: torch.Tensor) -> torch.Tensor:
    """Return 0, 1, …, size - 1 in the dtype and on the device of the images."""
    return torch.arange(size, device=images.device, dtype=images.dtype)


def sample(
    images: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, *, bilinear: bool = False
) -> torch.Tensor:
    """Return images whose pixel `(y, x)` is that of `images` at position `(rows, columns)[y, x]`.

    `images` is `[images, channels, height, width]`; `rows` and `columns` broadcast to `[images, height,
    width]`; pixel centres are whole numbers. By default the nearest pixel counts, and zero outside the image.
    With `bilinear`, values are interpolated, and the border continues outside.
    """
    height, width = images.shape[2:]
    across, down = torch.broadcast_tensors((2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1)
    grid = torch.stack((across, down), dim=3).to(images.dtype)
    mode, outside = ("bilinear", "border") if bilinear else ("nearest", "zeros")
    return F.grid_sample(images, grid, mode=mode, padding_mode=outside, align_corners=False)
