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
    """Count the predictions of the base classifier on `n` noisy copies of each input.

    Each copy is `clip(x + e)` with `e ~ N(0, sigma^2 I)` in input space. Row i of the result is a draw from
    Multinomial(n, p(· | x_i, sigma)), and rows are independent. Votes of the same inputs are independent if
    `seed` or `split` differ. Otherwise the smaller collection is a part of the larger one.

    `batch_size`, `compiled` and `freezing` are chosen automatically if not given. They affect the speed, and
    a vote only where rounding decides between two classes.

    Args:
        base: the base classifier; votes are computed on its device.
        images: inputs `[inputs, ...]`, as floating-point numbers.
        sigma: the noise level, or a `Noise`.
        n: votes per input.
        seed: the seed of the noise.
        split: a name for this set of inputs; it selects the random stream together with `seed`.
        input_range: lowest and highest value of an input. Noisy copies are clipped to it; None: no clipping.
        precision: converts a copy of the base first, for instance to `bfloat16`. That is another classifier,
            and the votes record it.
        batch_size: noisy copies to a forward pass.
        compiled: whether to compile the base classifier.
        freezing: whether to compile its weights in as constants.
        on_progress: called with the number of forward passes done since the last call.

    Returns:
        The votes, `[inputs, K]`.

    Raises:
        InputError: the inputs are invalid, or the base is not a classifier of single inputs.
        SettingError: a setting is invalid, or a batch does not fit into memory.

    Example:
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
