"""Small networks that the tests of this room share."""

import torch
from torch import nn


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.top = nn.Linear(16, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.top(self.body(inputs))


class Watches(TwoLayers):
    """Remembers what it was trained with."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen.append(inputs.detach().clone())
        return super().forward(inputs)


class ScalesItsHead(TwoLayers):
    """More follows after the head, so features cannot stand in for the network."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(inputs)


class WithDropoutAndNorm(nn.Sequential):
    """Draws random numbers of its own, and keeps statistics outside of its weights."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))


class Convolutions(nn.Sequential):
    """A network whose weights are laid out with the channels last while it trains."""

    def __init__(self) -> None:
        super().__init__(
            nn.Unflatten(1, (1, 2, 2)),
            nn.Conv2d(1, 6, 2),
            nn.Conv2d(6, 4, 3, padding=1),
            nn.Flatten(),
            nn.Linear(4, 2),
        )


def seeded(kind: type[nn.Module], seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind()
