"""Predictions of a surrogate: class probabilities, and the top class with its probability."""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from rrise.errors import InputError
from rrise.models.evaluating import evaluating
from rrise.models.logits import logits_of
from rrise.models.precision import matrix_products

BATCH_SIZE = 256
"""The default number of inputs to a forward pass."""


def class_probabilities(
    network: nn.Module, inputs: torch.Tensor, batch_size: int = BATCH_SIZE
) -> NDArray[np.float64]:
    """Return the class probabilities `[inputs, K]` of a surrogate in float64, for at least one input.

    Float32 has full precision regardless of torch's switches: calibration and certificates round alike.
    """
    with evaluating(network), matrix_products("float32"):
        logits = [
            logits_of(network, batch, "surrogate").to("cpu", torch.float64, copy=True)
            for batch in inputs.split(batch_size)
        ]
    return np.asarray(F.softmax(torch.cat(logits), dim=1).numpy())


def top_prediction(
    network: nn.Module, inputs: torch.Tensor, batch_size: int = BATCH_SIZE
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the class and the top probability of a surrogate, rounded to float32.

    NaN is an error that names the input, because it cannot be calibrated.
    """
    if len(inputs) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    probabilities = class_probabilities(network, inputs, batch_size)
    broken = np.isnan(probabilities).any(axis=1)
    if broken.any():
        raise InputError(f"the surrogate returned NaN for input {int(broken.argmax())}")
    return probabilities.argmax(axis=1), top_of(probabilities)


def top_of(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest probability of each input, rounded to float32."""
    return np.asarray(probabilities.max(axis=1).astype(np.float32), dtype=np.float64)
