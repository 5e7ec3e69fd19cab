"""Measures the fastest way to compute passes on this machine, and what a collection will cost."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from rrise.models.inspection import device_of
from rrise.votes.engine import Execution, VoteEngine
from rrise.votes.inputs import ShardedInputs, ShardInputs
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.shards import Place, write_shard

COMPILE_FROM = 60.0
"""Compiling saves time if eager mode would take more than this many seconds."""
_SMALL_JOB = 100_000
"""Up to this many passes, nothing is measured."""
_DEFAULT_BATCH = {"cpu": 256, "cuda": 2048}
_CANDIDATES = {"cpu": (16, 64, 128, 256, 512, 1024, 2048), "cuda": (16, 64, 256, 1024, 2048, 4096, 8192)}
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

    The batch size is the smallest whose eager speed is within 3 % of the fastest that fits into memory. The
    function is compiled if eager mode would take over a minute.
    """
    kind = device_of(base).type
    per_shard = min(inputs, SHARD) * plan.n
    rates: dict[int, float] = {}
    if inputs * plan.n > _SMALL_JOB and (batch_size is None or compiled is None):
        sizes = _CANDIDATES.get(kind, _CANDIDATES["cuda"]) if batch_size is None else (batch_size,)
        rates = _rates(base, plan, sample, [size for size in sizes if size <= per_shard] or [per_shard])
    if batch_size is None:
        enough = max(rates.values()) / _WORTH_IT if rates else 0
        default = _DEFAULT_BATCH.get(kind, _DEFAULT_BATCH["cuda"])
        wanted = next((size for size, rate in rates.items() if rate >= enough), default)
        batch_size = even_batch(per_shard, wanted)
    if compiled is None:
        compiled = bool(rates) and inputs * plan.n / max(rates.values()) > COMPILE_FROM
    return Execution(batch_size, compiled, kind == "cpu" if freezing is None else freezing)


def even_batch(total: int, wanted: int) -> int:
    """Return a batch size near the wanted one that divides a shard's samples into equal batches.

    >>> even_batch(64_000, 4096), even_batch(30, 4096)
    (4000, 30)
    """
    batches = -(-total // wanted)
    size = -(-total // batches)
    return size if batches == 1 else -(-size // 8) * 8


def passes_per_second(engine: VoteEngine, sample: torch.Tensor, seconds: float = 1.0) -> float:
    """Measure an engine for about this many seconds, after one warm-up batch."""
    engine.try_batch(sample)
    start, batches = time.perf_counter(), 0
    while batches == 0 or time.perf_counter() - start < seconds:
        engine.try_batch(sample)
        batches += 1
    return batches * engine.execution.batch_size / (time.perf_counter() - start)


def _rates(base: nn.Module, plan: VotePlan, sample: torch.Tensor, sizes: list[int]) -> dict[int, float]:
    """Return passes per second in eager mode by batch size, until a batch is too large or too slow."""
    rates: dict[int, float] = {}
    engine = VoteEngine(base, plan, sample, Execution(sizes[0]))
    for size in sizes:
        try:
            rates[size] = passes_per_second(engine.with_batch_size(size), sample, _TRIAL)
        except torch.OutOfMemoryError:
            if not rates:
                raise
            break
        if size / rates[size] > _LONG_BATCH:
            break
    return rates


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
