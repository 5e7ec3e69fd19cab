"""Measures the fastest way to compute passes on this machine, and what a collection will cost."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rrise.models.inspection import device_of
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.inputs import ShardedInputs, ShardInputs
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.shards import Place, write_shard

_TUNED_FROM = 60.0
"""Batch sizes are tried if the job takes more than this many seconds at the usual one."""
_COMPILED_FROM = 30.0
"""The job is compiled if that saves more than this many seconds; compiling takes 5 to 25."""
_SMALL_JOB = 64
"""Up to this many batches of the usual size, nothing is measured."""
_SHORT_JOB = 15.0
"""If one batch says that a job takes at most this many seconds, no choice pays back: nothing is measured."""
_CUDA_BATCH, _LARGEST_CUDA = 2048, 2**26
"""The usual batch on a GPU, and the most numbers in it."""
_VECTORS, _IMAGES, _LARGEST = 2**18, 2**15, 2**22
"""Numbers in a usual batch of vectors or of images on a CPU, where its layers fit into a core's cache; the
most where even 64 inputs are too many."""
_FACTORS = (1 / 8, 1 / 4, 1 / 2, 2, 4)
"""Other batch sizes that are tried, as multiples of the usual one."""
_LONG_BATCH = 0.5
"""If a batch takes more than this many seconds, larger ones are not tried."""
_WORTH_IT = 1.03
_TRIAL, _LONG_TRIAL = 0.2, 2.0
"""Seconds of measurement for each batch size, and for the chosen one."""


def choose_execution(
    base: nn.Module,
    plan: VotePlan,
    sample: torch.Tensor,
    inputs: int,
    *,
    batch_size: int | None = None,
    compiled: bool | None = None,
    freezing: bool | None = None,
) -> Execution:
    """Return how to compute the votes of this many inputs; settings not given are chosen.

    A short job is not measured, or by one batch. In a longer one, another batch size is taken if it is over
    3 % faster in eager mode, and the function is compiled if that saves over half a minute.
    """
    kind = device_of(base).type
    per_shard = min(inputs, SHARD) * plan.n
    usual = usual_batch(tuple(sample.shape[1:]), kind) if batch_size is None else batch_size
    size = even_batch(per_shard, usual) if batch_size is None else batch_size
    freezes = kind == "cpu" if freezing is None else freezing
    if inputs * plan.n <= _SMALL_JOB * usual or (batch_size is not None and compiled is not None):
        return Execution(size, bool(compiled), freezes)
    clock = _Clock(VoteEngine(base, plan, sample, Execution(size)), sample)
    if kind == "cpu" and inputs * plan.n * clock.glance(size) <= _SHORT_JOB:
        return Execution(size, bool(compiled), freezes)
    size = clock.fitting(size) if batch_size is None else size
    if batch_size is None and inputs * plan.n / clock.rate(size) > _TUNED_FROM:
        size = clock.fastest(size, [even_batch(per_shard, int(usual * factor)) for factor in _FACTORS])
    if compiled is None:
        compiled = inputs * plan.n / clock.rate(size) * clock.share_saved(size) > _COMPILED_FROM
    return Execution(size, compiled, freezes)


def usual_batch(shape: tuple[int, ...], kind: str) -> int:
    """Return the batch size for a kind of device that needs no measurement.

    >>> usual_batch((64,), "cpu"), usual_batch((3, 32, 32), "cpu"), usual_batch((3, 224, 224), "cpu")
    (4096, 64, 27)
    """
    numbers = max(1, math.prod(shape))
    if kind != "cpu":
        return min(_CUDA_BATCH, max(16, _LARGEST_CUDA // numbers))
    least = min(64, max(8, _LARGEST // numbers))
    return min(max(least, (_VECTORS if len(shape) == 1 else _IMAGES) // numbers), 4096)


def even_batch(total: int, wanted: int) -> int:
    """Return a batch size near the wanted one that divides a shard's samples into equal batches.

    >>> even_batch(64_000, 4096), even_batch(30, 4096)
    (4000, 30)
    """
    batches = -(-total // max(1, wanted))
    size = -(-total // batches)
    return size if batches == 1 else -(-size // 8) * 8


class _Clock:
    """Measures batches in eager mode.

    On a CPU it reads the processor time of one thread, so other processes disturb it little.
    """

    def __init__(self, engine: VoteEngine, sample: torch.Tensor) -> None:
        self._engine, self._sample = engine, sample
        self._now = time.thread_time if engine.device_type == "cpu" else time.perf_counter
        self._rates: dict[int, float] = {}

    def glance(self, size: int) -> float:
        """Return the seconds per pass of a single task, of all threads; infinite if it does not fit."""
        engine = self._engine.with_batch_size(size)
        try:
            return self._seconds(engine.try_task) / (engine.task_size * engine.threads)
        except torch.OutOfMemoryError:
            return math.inf

    def rate(self, size: int) -> float:
        """Return passes per second at a batch size, of all threads, on an idle machine."""
        if size not in self._rates:
            self._rates[size] = self._measured(size)
        return self._rates[size]

    def fitting(self, size: int) -> int:
        """Return the batch size, halved until a batch fits into memory."""
        try:
            self.rate(size)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            return self.fitting(size // 2)
        return size

    def fastest(self, size: int, others: list[int]) -> int:
        """Return the fastest batch size, or `size` unless another is faster, also when measured again."""
        for other in sorted(set(others)):
            try:
                self.rate(other)
            except torch.OutOfMemoryError:
                break
            if other / self._rates[other] > _LONG_BATCH:
                break
        enough = max(self._rates.values()) / _WORTH_IT
        best = min(found for found, rate in self._rates.items() if rate >= enough)
        again = {found: self._measured(found) for found in {best, size}}
        return best if again[best] > again[size] * _WORTH_IT else size

    def share_saved(self, size: int) -> float:
        """Return the share of the time that a compiled function saves, as a rule.

        On a CPU it makes the noise about five times as fast, the network a little. On a GPU it saves half.
        """
        engine = self._engine.with_batch_size(size)
        if engine.device_type != "cpu":
            return 0.5
        noise = min(self._seconds(engine.try_noise) for _ in range(3))
        return 0.05 + 0.75 * min(1.0, noise / min(self._seconds(engine.try_task) for _ in range(3)))

    def _measured(self, size: int) -> float:
        engine = self._engine.with_batch_size(size)
        engine.try_task(self._sample)
        spent: list[float] = []
        while sum(spent) < _TRIAL:
            spent.append(self._seconds(engine.try_task))
        return engine.task_size * engine.threads / float(np.median(spent))

    def _seconds(self, do: Callable[[torch.Tensor], object]) -> float:
        start = self._now()
        do(self._sample)
        return self._now() - start


def passes_per_second(engine: VoteEngine, sample: torch.Tensor, seconds: float = 1.0) -> float:
    """Measure an engine with all its threads for about this many seconds, after one warm-up batch."""
    engine.try_task(sample)
    start, tasks = time.perf_counter(), 0
    while tasks == 0 or time.perf_counter() - start < seconds:
        engine.try_task(sample, engine.threads)
        tasks += engine.threads
    return tasks * engine.task_size / (time.perf_counter() - start)


@dataclass(frozen=True)
class Estimate:
    """The cost of a collection."""

    execution: Execution
    passes: int
    passes_per_second: float
    bytes_on_disk: int

    @property
    def seconds(self) -> float:
        """The duration of the passes, at the rate measured on this machine."""
        return self.passes / self.passes_per_second


def estimate(base: nn.Module, plan: VotePlan, inputs: ShardedInputs, **wishes: Any) -> Estimate:
    """Measure for a few seconds, and estimate the cost of collecting votes of these inputs here.

    The size on disk is extrapolated from the votes of a few inputs.
    """
    sample = inputs.shard(0)
    execution = choose_execution(base, plan, sample, len(inputs), **wishes)
    engine = VoteEngine(base, plan, sample, execution)
    rate = passes_per_second(engine, sample, _LONG_TRIAL)
    shards = range(0, inputs.shards, -(-inputs.shards // 16))
    few = torch.cat([inputs.shard(index)[:: max(1, SHARD * len(shards) // 16)] for index in shards])[:SHARD]
    draws = min(plan.n, max(20, int(2 * rate / len(few))))
    _, answers = next(engine.with_n(draws).answers([ShardInputs(0, few, "")]))

    def size(draws: int) -> int:
        drawn = answers[:, :draws]
        return len(write_shard(Place({}, 0), drawn, engine.classes, inputs.digests[: len(few)]))

    passes = len(inputs) * plan.n
    per_vote = (size(draws) - size(1)) / (len(few) * draws)
    return Estimate(execution, passes, rate, int(inputs.shards * size(1) + passes * per_vote))
