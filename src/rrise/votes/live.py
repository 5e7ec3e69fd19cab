"""Votes that are drawn from the base classifier as they are asked for."""

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
    """The votes that a plan names, each drawn when it is first asked for, and kept.

    Vote number j of an input is the one that `collect_votes` or a `VoteStore` has for the same plan and
    inputs. A plan for fewer votes names the first of them. `drawn` counts the forward passes so far.
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
        """Draw what is not known yet of these votes of a shard, in the order of the draws."""
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
