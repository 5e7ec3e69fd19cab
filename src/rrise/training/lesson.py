"""What a surrogate is trained with, and what that costs."""

from dataclasses import dataclass

import torch

from rrise.training.loop import Task


@dataclass(frozen=True)
class Lesson:
    """A task of the training loop, the inputs that measure its epochs, and its cost in forward passes.

    A backward pass counts as two. Passes for votes of the base classifier are counted on their own.
    """

    task: Task
    held_out: torch.Tensor
    """Indices of the inputs that measure the epochs."""
    passes: int = 0
    """Once."""
    epoch_passes: int = 0
    votes: int = 0
    """Votes of the base classifier, once."""
    epoch_votes: int = 0

    def votes_until(self, epoch: int) -> int:
        """Return the votes that the base classifier casts until this epoch."""
        return self.votes + self.epoch_votes * epoch

    def passes_until(self, epoch: int) -> int:
        """Return all passes until this epoch, votes included."""
        return self.passes + self.epoch_passes * epoch + self.votes_until(epoch)
