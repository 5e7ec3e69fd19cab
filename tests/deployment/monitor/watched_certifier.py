"""A certifier as a service would have it, for the tests of the monitor."""

import numpy as np
import torch
from numpy.typing import NDArray

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from tests.closed_forms import HalfSpace


def watched_half_space(size: int = 200, votes: int = 100) -> tuple[SurrogateCertifier, HalfSpace]:
    """Return a small certifier and its base classifier, the same in every process."""
    torch.manual_seed(0)
    base = HalfSpace(torch.tensor([3.0, -2.0, 1.0, 0.5]), -1.0)
    inputs = np.random.default_rng(0).random((300 + size, 4), dtype=np.float32)
    settings = {"sigma": 0.25, "seed": 1}
    train = rrise.collect_votes(base, inputs[:300], n=200, split="train", **settings)
    held_out = rrise.collect_votes(base, inputs[300:], n=votes, split="calibration", **settings)
    surrogate = rrise.train_surrogate(base, inputs[:300], train, epochs=20, learning_rate=0.05, batch_size=64)
    return rrise.calibrate(surrogate, inputs[300:], held_out, failure=0.1), base


def queries(number: int, seed: int = 1) -> NDArray[np.float32]:
    """Return inputs drawn like the calibration inputs."""
    return np.random.default_rng(seed).random((number, 4), dtype=np.float32)
