"""A trained surrogate: a network from the clean input to the class distribution of the votes."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.training.settings import TrainingHistory
from rrise.votes.smoothing import Smoothing


class Surrogate(nn.Module):
    """A trained surrogate: the network, and what it was trained for and on.

    Calling it returns logits `[inputs, K]`. Their softmax estimates the smoothed class probabilities,
    without any guarantee before calibration.

    Attributes:
        network: the network.
        base_fingerprint: the fingerprint of the base classifier.
        smoothing: the smoothed classifier of its votes; None if they did not know it.
        seen: digests of the training inputs; calibration refuses these inputs.
        history: the measurements of every epoch.
        training_passes: the cost of training, in forward-pass equivalents, with votes drawn meanwhile.
        vote_passes: the part of it that is votes of the base classifier; 0 for stored votes.
        held_out: indices of the training inputs that did not train, but measured the epochs.
        query_noise: the level of the noise that it saw its training inputs with; see `calibrate`.

    Example:
        >>> import rrise
        >>> base, inputs = nn.Linear(4, 3), np.random.default_rng(0).random((200, 4))
        >>> votes = rrise.collect_votes(base, inputs, sigma=0.25, n=100)
        >>> surrogate = rrise.train_surrogate(base, inputs, votes, epochs=5)
        >>> surrogate(torch.rand(2, 4)).shape, surrogate.smoothing.sigma
        (torch.Size([2, 3]), 0.25)
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
        vote_passes: int = 0,
        held_out: NDArray[np.int64] | None = None,
        query_noise: float = 0.0,
    ) -> None:
        super().__init__()
        self.network = network
        self.base_fingerprint = base_fingerprint
        self.smoothing = smoothing
        self.seen = seen
        self.history = history or TrainingHistory()
        self.training_passes, self.vote_passes = training_passes, vote_passes
        self.query_noise = query_noise
        self.held_out = np.zeros(0, dtype=np.int64) if held_out is None else held_out

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of the network."""
        logits: torch.Tensor = self.network(images)
        return logits
