"""Architectures by name."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rrise.errors import SettingError


class SmallConvNet(nn.Module):
    """Three 3x3 convolutions and a hidden layer for small grey images: 42,000 weights at width 16.

    Inputs are in [0, 1]; the normalisation to [-1, 1] is part of the model.
    """

    def __init__(self, image_size: int = 8, classes: int = 10, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * ((image_size + 1) // 2) ** 2, 4 * width),
            nn.ReLU(),
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits `[inputs, classes]`."""
        logits: torch.Tensor = self.head(self.features(2 * images - 1))
        return logits


_ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {"small-convnet": SmallConvNet}


def build_model(name: str, *, seed: int, **options: Any) -> nn.Module:
    """Build an architecture by name with seeded random weights; the global seed is left alone."""
    if name not in _ARCHITECTURES:
        raise SettingError(f"expected an architecture out of {', '.join(_ARCHITECTURES)}; got {name!r}")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return _ARCHITECTURES[name](**options)
