"""The noise-vote engine: the base classifier under Gaussian noise, many inputs to a batch.

Determinism: the noise depends on the seed, the split's name, the shard with its inputs, and the block
alone. Inputs are dealt into shards of `SHARD` in their order and the n noise draws of an input into blocks
of `BLOCK`; each (shard, block) has a random stream of its own. Batch size and interruption leave the noise
as it is; a CPU and a GPU draw different noise. Other inputs get other noise, so the votes of different
sets are independent under the same seed and split too.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.data.inputs import InputRange, as_inputs, check_input_range, input_digests, inputs_fingerprint
from rrise.errors import InputError, SettingError
from rrise.models.evaluation_mode import (
    check_is_function,
    check_module,
    device_of,
    evaluating,
    logits_of,
    precision_name,
)
from rrise.models.fingerprint import fingerprint_in_use
from rrise.seeds import derive_seed
from rrise.statistics import check_sigma
from rrise.votes.array import Smoothing, Votes

SHARD = 64
"""Inputs to a shard: the unit that is stored and resumed."""
BLOCK = 100
"""Noise draws per input that share one random stream."""
BATCH_SIZE = 256
"""Default number of noisy inputs to a forward pass."""

OnProgress = Callable[[int], object]
"""Called with the number of forward passes, or of epochs, done since the last call."""


@dataclass(frozen=True)
class VotePlan:
    """What to vote on: `n` draws of noise `sigma` per input, from the random streams of `seed`, `split`."""

    sigma: float
    n: int
    seed: int
    split: str = "inputs"
    input_range: InputRange = (0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_sigma(self.sigma))
        object.__setattr__(self, "input_range", check_input_range(self.input_range))
        if not isinstance(self.split, str) or not self.split:
            raise SettingError(f"expected a name for split, got {self.split!r}")
        for name in ("n", "seed"):
            object.__setattr__(self, name, _whole_number(getattr(self, name), name))
        if self.n < 1:
            raise SettingError(f"expected at least 1 vote per input, got n={self.n}")

    @property
    def stream(self) -> tuple[int, str]:
        """What names the random stream: votes of the same inputs with the same stream share noise."""
        return self.seed, self.split

    def smoothing(self, base: nn.Module, inputs: torch.Tensor) -> Smoothing:
        """Return the smoothed classifier these votes estimate; the inputs are to call it once."""
        identity = fingerprint_in_use(base, inputs, "base classifier")
        return Smoothing(identity, self.sigma, self.input_range, precision_name(base))


def collect_votes(
    base: nn.Module,
    images: Any,
    *,
    sigma: float,
    n: int,
    seed: int = 0,
    split: str = "inputs",
    input_range: InputRange = (0.0, 1.0),
    batch_size: int = BATCH_SIZE,
    on_progress: OnProgress | None = None,
) -> Votes:
    """Count the answers of the base classifier to `n` noisy copies of each input.

    Each copy is `clip(x + e)` with `e ~ N(0, sigma^2 I)` in input space, clipped to `input_range`
    (None: not clipped). Row i of the result is a draw from Multinomial(n, p(· | x_i, sigma)), and rows
    are independent. Votes of the same inputs are independent if `seed` or `split` differ; otherwise the
    smaller collection is a part of the larger one.

    >>> base = nn.Linear(2, 3)
    >>> votes = collect_votes(base, np.full((4, 2), 0.5), sigma=0.25, n=100, seed=1)
    >>> votes.shape, votes.sum(axis=1).tolist()
    ((4, 3), [100, 100, 100, 100])
    """
    check_module(base, "base classifier")
    plan = VotePlan(sigma, n, seed, split, input_range)
    inputs = as_inputs(images, input_range=plan.input_range)
    if len(inputs) == 0:
        raise InputError("expected at least one input to vote on, got none")
    smoothing = plan.smoothing(base, inputs)
    counts = [
        vote_shard(base, shard, plan, index, batch_size=batch_size, on_progress=on_progress)
        for index, shard in shards_of(inputs)
    ]
    return Votes(np.concatenate(counts), smoothing, plan.stream, input_digests(inputs))


def shards_of(inputs: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Deal inputs into numbered shards."""
    yield from enumerate(inputs.split(SHARD))


def vote_shard(
    base: nn.Module,
    inputs: torch.Tensor,
    plan: VotePlan,
    shard: int,
    *,
    batch_size: int = BATCH_SIZE,
    on_progress: OnProgress | None = None,
) -> NDArray[np.int64]:
    """Return the counts `[inputs, K]` of one shard."""
    if batch_size < 1:
        raise SettingError(f"expected a batch size of at least 1, got {batch_size}")
    with evaluating(base):
        classes = check_is_function(base, inputs, "base classifier")
        content = inputs_fingerprint(inputs)
        counts = torch.zeros(len(inputs) * classes, dtype=torch.int64, device=device_of(base))
        for block, start in enumerate(range(0, plan.n, BLOCK)):
            draws = min(BLOCK, plan.n - start)
            seed = derive_seed(plan.seed, "votes", plan.split, shard, content, block)
            stream = _NoiseStream(seed, device_of(base))
            together = max(1, batch_size // draws)
            for first in range(0, len(inputs), together):
                group = inputs[first : first + together].to(device_of(base))
                noisy = _noisy_copies(group, draws, plan, stream)
                owners = torch.arange(first, first + len(group), device=noisy.device).repeat_interleave(draws)
                for batch, owner in zip(noisy.split(batch_size), owners.split(batch_size), strict=True):
                    answers = _answers(base, batch, classes, shard * SHARD + owner)
                    counts += torch.bincount(owner * classes + answers, minlength=counts.numel())
                if on_progress is not None:
                    on_progress(len(noisy))
    return counts.view(len(inputs), classes).cpu().numpy()


class _NoiseStream:
    """Standard normal numbers of one (shard, block), drawn input by input.

    On the CPU they come from NumPy: torch's CPU generator keeps only 32 bits of a seed, too few for
    the streams of a large collection to be distinct.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.device = device
        if device.type == "cpu":
            self._numpy = np.random.Generator(np.random.SFC64(seed))
        else:
            self._torch = torch.Generator(device).manual_seed(seed)

    def fill(self, target: torch.Tensor) -> None:
        """Overwrite a contiguous float32 tensor with noise."""
        if self.device.type == "cpu":
            self._numpy.standard_normal(dtype=np.float32, out=target.numpy())
        else:
            target.normal_(generator=self._torch)


def _noisy_copies(group: torch.Tensor, draws: int, plan: VotePlan, stream: _NoiseStream) -> torch.Tensor:
    noise = torch.empty((len(group), draws, *group.shape[1:]), device=group.device)
    for row in noise:
        stream.fill(row)
    noisy = noise.mul_(plan.sigma).add_(group.unsqueeze(1))
    if plan.input_range is not None:
        noisy.clamp_(*plan.input_range)
    return noisy.flatten(0, 1)


def _answers(base: nn.Module, batch: torch.Tensor, classes: int, indices: torch.Tensor) -> torch.Tensor:
    """Return the class of each noisy input: the lowest among equals; NaN is an error naming the input."""
    logits = logits_of(base, batch, "base classifier", copy=False)
    if logits.shape[1] != classes:
        raise InputError(f"the base classifier returned {logits.shape[1]} logits after {classes} before")
    broken = torch.isnan(logits).any(dim=1)
    if bool(broken.any()):
        index = int(indices[int(broken.int().argmax())])
        raise InputError(f"the base classifier returned NaN for a noisy copy of input {index}")
    answers: torch.Tensor = logits.argmax(dim=1)
    return answers


def _whole_number(value: int, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise SettingError(f"expected a whole number for {name}, got {value!r}") from None
