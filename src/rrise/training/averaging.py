"""A running average of a network's weights over the steps of its training."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

_START = 10
"""In step t, the decay is at most `(1 + t) / (10 + t)`: the average soon forgets where it started."""


class RunningAverage:
    """The exponential average of all weights and statistics of a network: `a <- a + (1 - d) (w - a)`.

    `d` is the decay, smaller in the first steps. What does not change has itself as its average, to the last
    bit. Everything stays in place, so a recorded step can update it.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._network, self._decay = network, decay
        live = network.state_dict()
        self.weights = {name: weight.detach().clone() for name, weight in live.items()}
        self.steps = torch.zeros((), device=next(iter(live.values())).device)
        averaged = [name for name, weight in live.items() if weight.is_floating_point()]
        self._averages, self._live = ([part[name] for name in averaged] for part in (self.weights, live))
        self._counts = [(self.weights[name], live[name]) for name in live.keys() - set(averaged)]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the network's weights after a step."""
        decay = ((1 + self.steps) / (_START + self.steps)).clamp(max=self._decay)
        steps = torch._foreach_sub(self._live, self._averages)
        torch._foreach_mul_(steps, 1 - decay)
        torch._foreach_add_(self._averages, steps)
        for count, now in self._counts:
            count.copy_(now)
        self.steps.add_(1)

    @contextmanager
    def in_network(self) -> Iterator[None]:
        """Put the averages into the network; on exit, put its own weights back."""
        own = {name: weight.detach().clone() for name, weight in self._network.state_dict().items()}
        self._network.load_state_dict(self.weights)
        try:
            yield
        finally:
            self._network.load_state_dict(own)

    def resume(self, weights: Mapping[str, torch.Tensor], steps: torch.Tensor) -> None:
        """Continue from stored averages."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])
        self.steps.copy_(steps)
