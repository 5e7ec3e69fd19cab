"""A surrogate certifier as a service uses it, in whatever form it runs."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.guarantee import Guarantee
from rrise.data.inputs import InputRange


@dataclass(frozen=True, eq=False)
class Answers:
    """What a deployed certifier says about some inputs, an entry for each; all as in `Certificates`.

    `probabilities` `[inputs, K]` are the surrogate's own, before calibration.
    """

    label: NDArray[np.int64]
    radius: NDArray[np.float64]
    lower_bound: NDArray[np.float64]
    issued: NDArray[np.bool_]
    probabilities: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.label)


class Deployed(Protocol):
    """What answers: the certifier in torch, or an exported one in another runtime."""

    input_shape: tuple[int, ...]
    input_range: InputRange
    class_names: tuple[str, ...]
    guarantee: Guarantee
    runtime: str
    """Which runtime computes, such as `torch` or `onnxruntime-int8`."""

    def answer(self, inputs: NDArray[np.float32]) -> Answers:
        """Certify inputs `[n, *input_shape]` that were checked before: one forward pass each."""
