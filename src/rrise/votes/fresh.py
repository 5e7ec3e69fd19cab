"""Votes drawn anew for the inputs of a training step, on the device that trains."""

from contextlib import AbstractContextManager

import torch
from torch import nn

from rrise.models.inspection import uncompiled
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.plan import VotePlan


class FreshVotes:
    """The shares of the classes among `plan.n` noisy copies of each input of a batch.

    A vote is the same as in `collect_votes`: same noise, clipping, precision and ties. The key of the noise
    is an argument, because the inputs are new at every step. `sample` holds a few inputs, to test the base.

    Example:
        >>> votes = FreshVotes(nn.Linear(2, 3), VotePlan(0.25, n=4, seed=0), torch.rand(8, 2))
        >>> with votes.computing():
        ...     shares = votes.shares(torch.rand(5, 2), torch.tensor([1, 2]))
        >>> shares.shape, shares.sum(dim=1).tolist()
        (torch.Size([5, 3]), [1.0, 1.0, 1.0, 1.0, 1.0])
    """

    def __init__(self, base: nn.Module, plan: VotePlan, sample: torch.Tensor) -> None:
        self._engine = VoteEngine(base, plan, sample, Execution(batch_size=1))
        self._module = uncompiled(self._engine.module)
        self.device, self.classes = self._engine.device, self._engine.classes
        self._first = torch.zeros((), dtype=torch.int64, device=self.device)

    def computing(self) -> AbstractContextManager[None]:
        """Hold the base classifier in evaluation mode, and its arithmetic as certified."""
        return self._engine.computing()

    def shares(self, inputs: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Return the votes of float32 inputs divided by `plan.n`, `[inputs, K]`; call it while `computing`.

        It uses torch operators alone and never waits for the device, so it can be compiled and recorded. An
        input for which the base classifier returns NaN has shares of NaN.
        """
        number, draws = len(inputs), self._engine.plan.n
        # From a tensor: with numbers known beforehand, the GPU compiler fails (torch 2.11).
        sample = torch.arange(number * draws, device=inputs.device) + self._first
        noisy = self._engine.copies(inputs, key, sample // number, sample % number)
        answers = self._engine.classes_of(self._module(noisy)).view(draws, number, 1)
        cast = answers == torch.arange(self.classes, device=inputs.device)
        return cast.float().mean(dim=0).masked_fill((answers < 0).any(dim=0), torch.nan)
