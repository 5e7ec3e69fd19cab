"""Votes in memory, in one call."""

from typing import Any

import numpy as np
from torch import nn

from rrise.data.inputs import InputRange
from rrise.models.checks import check_module
from rrise.progress import OnProgress
from rrise.votes.array import Votes, count_answers
from rrise.votes.engine import VoteEngine
from rrise.votes.inputs import ShardedInputs
from rrise.votes.noise import Noise, as_noise
from rrise.votes.plan import VotePlan
from rrise.votes.tuning import choose_execution


def collect_votes(
    base: nn.Module,
    images: Any,
    *,
    sigma: float | Noise,
    n: int,
    seed: int = 0,
    split: str = "inputs",
    input_range: InputRange = (0.0, 1.0),
    precision: str | None = None,
    batch_size: int | None = None,
    compiled: bool | None = None,
    freezing: bool | None = None,
    on_progress: OnProgress | None = None,
) -> Votes:
    """Count the answers of the base classifier to `n` noisy copies of each input, on the base's device.

    Each copy is `clip(x + e)` with `e ~ N(0, sigma^2 I)` in input space, clipped to `input_range`
    (None: not clipped). Row i of the result is a draw from Multinomial(n, p(· | x_i, sigma)), and rows
    are independent. Votes of the same inputs are independent if `seed` or `split` differ; otherwise the
    smaller collection is a part of the larger one.

    `precision` converts a copy of the base first, to `bfloat16` for instance: that is another classifier,
    and the votes say so. `batch_size`, `compiled` and `freezing` (of the weights, when compiling) are found
    if not given; they change the speed, and the answers only where rounding decides between two classes.

    >>> base = nn.Linear(2, 3)
    >>> votes = collect_votes(base, np.full((4, 2), 0.5), sigma=0.25, n=100, seed=1)
    >>> votes.shape, votes.sum(axis=1).tolist()
    ((4, 3), [100, 100, 100, 100])
    """
    check_module(base, "base classifier")
    plan = VotePlan(as_noise(sigma), n, seed, split, input_range, precision)
    inputs = ShardedInputs(images, plan.input_range)
    sample = inputs.shard(0)
    execution = choose_execution(
        base, plan, sample, len(inputs), batch_size=batch_size, compiled=compiled, freezing=freezing
    )
    engine = VoteEngine(base, plan, sample, execution)
    counts = [
        count_answers(answers, engine.classes)
        for _, answers in engine.answers(inputs.numbered(), on_progress)
    ]
    return Votes(np.concatenate(counts), engine.smoothing, plan.stream, inputs.digests)
