"""Inputs on the device that trains on them."""

from typing import Any

import torch

from rrise.data.inputs import InputRange, as_inputs
from rrise.data.sources import Pixels


class Pool:
    """Inputs on a device, indexed in batches; 8-bit images stay 8-bit until then.

    Batches are floating-point tensors in the input range, ready for the network.
    """

    def __init__(
        self,
        images: Any,
        *,
        input_range: InputRange = (0.0, 1.0),
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._dtype = dtype
        if isinstance(images, Pixels):
            self._values = torch.from_numpy(images.images).to(device)
        else:
            self._values = as_inputs(images[:], input_range=input_range).to(device, dtype)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, indices: torch.Tensor) -> torch.Tensor:
        picked = self._values[indices]
        if picked.dtype == torch.uint8:
            return (picked.float() / 255).to(self._dtype)
        return picked

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self._values.shape[1:])
