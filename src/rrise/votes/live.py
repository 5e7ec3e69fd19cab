"""Votes drawn from the base classifier on demand."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rrise.models.inspection import device_of
from rrise.progress import OnProgress
from rrise.votes.array import digest_array
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.inputs import ShardedInputs
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.sequence import VoteSequence, count_ranges, within
from rrise.votes.tuning import choose_execution, usual_batch


class LiveVotes(VoteSequence):
    """The votes of a plan, drawn from the base classifier on demand and kept.

    Vote number j of an input is the same as in `collect_votes` or a `VoteStore` with the same plan and
    inputs. A plan for fewer votes gives the first of them.

    Args:
        base: the base classifier; votes are computed on its device.
        images: inputs `[inputs, ...]`.
        plan: the noise, the number of votes and the random stream.
        batch_size: noisy copies to a forward pass; chosen automatically if not given.
        on_progress: called with the number of forward passes done since the last call.

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
        self,
        base: nn.Module,
        images: Any,
        plan: VotePlan,
        *,
        batch_size: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.inputs = images if isinstance(images, ShardedInputs) else ShardedInputs(images, plan.input_range)
        self._base, self._batch_size, self._on_progress = base, batch_size, on_progress
        self._sample, self._prepared = self.inputs.shard(0), 0
        usual = usual_batch(self.inputs.shape, device_of(base).type)
        self.engine = VoteEngine(base, plan, self._sample, Execution(batch_size or usual))
        self.digests = digest_array(self.inputs.digests)
        self._begin(plan)

    def in_stream(self, plan: VotePlan) -> "LiveVotes":
        """Return votes of the same inputs for a plan with another stream or number of votes.

        The base classifier is not checked again.
        """
        other = copy.copy(self)
        other.engine, other._prepared = self.engine.in_stream(plan), 0
        other._begin(plan)
        return other

    def _begin(self, plan: VotePlan) -> None:
        """Start without any vote."""
        self.classes, self.length = self.engine.classes, plan.n
        self.smoothing, self.stream = self.engine.smoothing, plan.stream
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
        self._prepare(int((stop - start).sum()))
        for index in np.unique(shard):
            there = shard == index
            self._draw(int(index), rows[there] % SHARD, start[there], stop[there])
        return count_ranges(self._answers, self.classes, rows, start, stop)

    def _prepare(self, passes: int) -> None:
        """Choose how to compute, if many more passes are wanted than at the last choice."""
        if passes <= 4 * self._prepared:
            return
        self._prepared, plan = passes, self.engine.plan
        inputs = len(self.inputs)
        wanted = replace(plan, n=-(-passes // inputs))
        execution = choose_execution(self._base, wanted, self._sample, inputs, batch_size=self._batch_size)
        if execution == self.engine.execution:
            return
        if execution.compiled:
            self.engine = VoteEngine(self._base, plan, self._sample, execution)
        else:
            self.engine = self.engine.with_batch_size(execution.batch_size)

    def _draw(
        self, index: int, owners: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
    ) -> None:
        """Draw those of a shard's votes that are not known yet, in the order of the draws."""
        low, high = int(start.min()), int(stop.max())
        part = slice(index * SHARD, (index + 1) * SHARD), slice(low, high)
        answers, known = self._answers[part], self._known[part]
        missing = np.zeros_like(known)
        np.logical_or.at(missing, owners, within(start, stop, low, high))
        missing &= ~known
        (shard,) = self.inputs.numbered([index])
        if missing.all() and missing.size:
            whole = self.engine.with_n(high).answers([replace(shard, drawn=low)], self._on_progress)
            ((_, answers[:]),) = whole
        elif missing.any():
            draw, owner = np.nonzero(missing.T)
            answers[owner, draw] = self.engine.chosen_answers(shard, draw + low, owner, self._on_progress)
        known |= missing
        self.drawn += int(missing.sum())
