"""Votes drawn from the base classifier on demand."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rrise.votes.array import digest_array
from rrise.votes.engine import VoteEngine
from rrise.votes.inputs import ShardedInputs
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.sequence import VoteSequence, count_ranges, within
from rrise.votes.tuning import choose_execution


class LiveVotes(VoteSequence):
    """The votes of a plan, drawn from the base classifier on demand and kept.

    Vote number j of an input is the same as in `collect_votes` or a `VoteStore` with the same plan and
    inputs. A plan for fewer votes gives the first of them.

    Args:
        base: the base classifier; votes are computed on its device.
        images: inputs `[inputs, ...]`.
        plan: the noise, the number of votes and the random stream.
        batch_size: noisy copies to a forward pass; chosen automatically if not given.

    Attributes:
        drawn: the number of forward passes so far.
        length: votes per input, `plan.n`.
        classes: the number of classes K.
        smoothing: the smoothed classifier that the votes estimate.

    Raises:
        InputError: the inputs are invalid, or the base is not a classifier of single inputs.

    Example:
        >>> import rrise
        >>> plan = rrise.VotePlan(0.25, n=1000, seed=0)
        >>> votes = LiveVotes(nn.Linear(2, 3), np.full((4, 2), 0.5), plan)
        >>> votes.counts(0, 100, rows=[1, 3]).sum(axis=1).tolist(), votes.drawn
        ([100, 100], 200)
    """

    def __init__(
        self, base: nn.Module, images: Any, plan: VotePlan, *, batch_size: int | None = None
    ) -> None:
        self.inputs = images if isinstance(images, ShardedInputs) else ShardedInputs(images, plan.input_range)
        sample = self.inputs.shard(0)
        execution = choose_execution(
            base, plan, sample, len(self.inputs), batch_size=batch_size, compiled=False
        )
        self.engine = VoteEngine(base, plan, sample, execution)
        self.classes, self.length = self.engine.classes, plan.n
        self.smoothing, self.stream = self.engine.smoothing, plan.stream
        self.digests = digest_array(self.inputs.digests)
        self.drawn = 0
        shape = (len(self.inputs), plan.n)
        self._answers = np.zeros(shape, dtype=np.min_scalar_type(self.classes - 1))
        self._known = np.zeros(shape, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.inputs)

    def _count(
        self, rows: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        shard = rows // SHARD
        for index in np.unique(shard):
            there = shard == index
            self._draw(int(index), rows[there] % SHARD, start[there], stop[there])
        return count_ranges(self._answers, self.classes, rows, start, stop)

    def _draw(
        self, index: int, owners: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> None:
        """Draw those of a shard's votes that are not known yet, in the order of the draws."""
        low, high = int(start.min()), int(stop.max())
        part = slice(index * SHARD, (index + 1) * SHARD), slice(low, high)
        answers, known = self._answers[part], self._known[part]
        missing = np.zeros_like(known)
        np.logical_or.at(missing, owners, within(start, stop, low, high))
        draw, owner = np.nonzero((missing & ~known).T)
        if len(draw) == 0:
            return
        (shard,) = self.inputs.numbered([index])
        answers[owner, draw] = self.engine.chosen_answers(shard, draw + low, owner)
        known |= missing
        self.drawn += len(draw)
