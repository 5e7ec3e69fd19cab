"""A trained surrogate: a network from the clean input to the class distribution of the votes."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.training.settings import TrainingHistory
from rrise.votes.smoothing import Smoothing


class Surrogate(nn.Module):
    """A trained surrogate: the network, and what it was trained for and on.

    `smoothing` is the smoothed classifier of its votes where they told, `seen` holds digests of the
    training inputs (calibration refuses them), `training_passes` the cost in forward-pass equivalents,
    `held_out` the indices of the training inputs that selected the epoch.
    Calling it returns logits `[inputs, K]`; their softmax estimates the smoothed class probabilities,
    with no guarantee before calibration.
    """

    def __init__(
        self,
        network: nn.Module,
        base_fingerprint: str,
        *,
        smoothing: Smoothing | None = None,
        seen: frozenset[bytes] = frozenset(),
        history: TrainingHistory | None = None,
        training_passes: int = 0,
        held_out: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.base_fingerprint = base_fingerprint
        self.smoothing = smoothing
        self.seen = seen
        self.history = history or TrainingHistory()
        self.training_passes = training_passes
        self.held_out = np.zeros(0, dtype=np.int64) if held_out is None else held_out

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of the network."""
        logits: torch.Tensor = self.network(images)
        return logits
