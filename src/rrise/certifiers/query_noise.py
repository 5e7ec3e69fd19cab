"""Query noise: what the surrogate sees of an input where inputs may have been attacked.

The promise for attacked inputs holds because nobody knows the noise before the query is in. So every call of
`certify` takes a new 128-bit key from the operating system. No state outlives the call: nothing can be read
out of a process, saved, or shared by processes that were forked. The noise is never returned.
"""

import secrets

import numpy as np
import torch

from rrise.data.inputs import InputRange
from rrise.errors import InputError
from rrise.seeds import derive_seed
from rrise.statistics import Threat

_STEPS = 1_000
"""The noise level in steps of float32 at the largest input, at least."""


class QueryNoise:
    """Adds query noise to batches of inputs, and clips the sums to the input range.

    Args:
        threat: its query noise; None: nothing is added.
        input_range: lowest and highest value of an input; None for any value.
        seed: makes the noise reproducible, for calibration inputs and evaluations. A query never has a seed.
    """

    def __init__(self, threat: Threat | None, input_range: InputRange, *, seed: int | None = None) -> None:
        self._level = 0.0 if threat is None else threat.query_noise
        self._limits = input_range
        if self._level == 0:
            return
        key = secrets.randbits(128) if seed is None else derive_seed(seed, "query noise")
        self._source = np.random.Generator(np.random.Philox(key=key))

    def seen(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return what the surrogate sees of inputs in float32; the next call has the next noise."""
        if self._level == 0:
            return inputs
        self._check_resolution(inputs)
        noise = self._source.standard_normal(tuple(inputs.shape), dtype=np.float32)
        noisy = inputs + self._level * torch.from_numpy(noise).to(inputs.device)
        return noisy if self._limits is None else noisy.clamp(*self._limits)

    def _check_resolution(self, inputs: torch.Tensor) -> None:
        """Refuse inputs so large that float32 cannot hold the noise beside them: it would not hide a move."""
        largest = float(inputs.abs().max()) if inputs.numel() else 0.0
        if float(np.spacing(np.float32(largest))) * _STEPS > self._level:
            raise InputError(
                f"an input has the value {largest:g}, beside which float32 cannot hold query noise of level "
                f"{self._level:g}: scale the inputs"
            )
