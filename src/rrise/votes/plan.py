"""The plan of a collection of votes: noise, number of votes and random stream."""

import operator
from dataclasses import dataclass

import torch
from torch import nn

from rrise.data.inputs import InputRange, check_input_range
from rrise.errors import SettingError
from rrise.models.inspection import precision_name
from rrise.models.precision import check_precision, identity_at
from rrise.seeds import derive_seed
from rrise.votes.noise import Noise, as_noise
from rrise.votes.smoothing import Smoothing

SHARD = 64
"""Inputs per shard. A shard is the unit that is computed, stored and resumed."""


@dataclass(frozen=True)
class VotePlan:
    """`n` draws of noise per input, from the random streams that `seed` and `split` select.

    Attributes:
        noise: the noise; a number means Gaussian noise of that level.
        n: votes per input.
        seed: the seed of the noise.
        split: a name for the set of inputs; it selects the random stream together with `seed`.
        input_range: inputs must lie in it, and noisy inputs are clipped to it unless the noise says
            otherwise; None: any input, no clipping.
        precision: the precision in which the base classifier computes; None keeps its own.

    Raises:
        SettingError: a field is invalid.

    Example:
        >>> VotePlan(0.25, n=1000, seed=0).noise
        Gaussian(sigma=0.25)
    """

    noise: Noise
    n: int
    seed: int
    split: str = "inputs"
    input_range: InputRange = (0.0, 1.0)
    precision: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", as_noise(self.noise))
        object.__setattr__(self, "input_range", check_input_range(self.input_range))
        check_precision(self.precision)
        if not isinstance(self.split, str) or not self.split:
            raise SettingError(f"expected a name for split, got {self.split!r}")
        for name in ("n", "seed"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name))
        if not 1 <= self.n < 2**32:
            raise SettingError(f"expected at least 1 vote per input, got n={self.n}")

    @property
    def noise_range(self) -> InputRange:
        """The range that noisy inputs are clipped to; None: no clipping."""
        return self.input_range if self.noise.clipped else None

    @property
    def stream(self) -> tuple[int, str]:
        """The name of the random stream: votes of the same inputs and stream share noise."""
        return self.seed, self.split

    def shard_seed(self, shard: int, content: str) -> int:
        """Return the seed of a shard's noise; `content` is the fingerprint of its inputs."""
        return derive_seed(self.seed, "votes", self.split, shard, content)

    def smoothing(self, base: nn.Module, inputs: torch.Tensor) -> Smoothing:
        """Return the smoothed classifier that these votes estimate; the base is called once on the inputs."""
        identity = identity_at(base, self.precision, inputs, "base classifier")
        return Smoothing(identity, self.noise, self.input_range, self.precision or precision_name(base))


def whole_number(value: int, name: str) -> int:
    """Return a setting as an int; refuse 10.5 and "10"."""
    try:
        return operator.index(value)
    except TypeError:
        raise SettingError(f"expected a whole number for {name}, got {value!r}") from None
