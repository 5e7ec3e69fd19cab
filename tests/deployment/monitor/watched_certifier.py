"""A certifier as a service would have it, for the tests of the monitor."""

import numpy as np
import torch
from numpy.typing import NDArray

import rrise
from rrise.certifiers.guarantee import Guarantee
from rrise.data.inputs import InputRange
from rrise.deployment.service.deployed import Answers
from rrise.statistics import Calibration, CalibrationEvidence
from tests.closed_forms import HalfSpace


class WatchedCertifier:
    """The certifier in torch, with its calibration."""

    runtime = "torch"

    def __init__(self, certifier: rrise.Certifier) -> None:
        self._certifier = certifier
        self.input_shape: tuple[int, ...] = certifier.input_shape
        self.input_range: InputRange = certifier.smoothing.input_range
        self.class_names: tuple[str, ...] = certifier.class_names
        self.guarantee: Guarantee = certifier.guarantee
        self.calibration: Calibration = certifier.calibration
        self.evidence: CalibrationEvidence = certifier.evidence

    def answer(self, inputs: NDArray[np.float32]) -> Answers:
        certificates = self._certifier(inputs)
        with torch.no_grad():
            logits = self._certifier.network(torch.from_numpy(inputs))
        return Answers(
            certificates.label,
            certificates.radius,
            certificates.lower_bound,
            certificates.issued,
            torch.softmax(logits.double(), dim=1).float().numpy(),
        )


def watched_half_space(size: int = 200, votes: int = 100) -> tuple[WatchedCertifier, HalfSpace]:
    """Return a small certifier and its base classifier, the same in every process."""
    torch.manual_seed(0)
    base = HalfSpace(torch.tensor([3.0, -2.0, 1.0, 0.5]), -1.0)
    inputs = np.random.default_rng(0).random((300 + size, 4), dtype=np.float32)
    settings = {"sigma": 0.25, "seed": 1}
    train = rrise.collect_votes(base, inputs[:300], n=200, split="train", **settings)
    held_out = rrise.collect_votes(base, inputs[300:], n=votes, split="calibration", **settings)
    surrogate = rrise.train_surrogate(base, inputs[:300], train, epochs=20, learning_rate=0.05, batch_size=64)
    return WatchedCertifier(rrise.calibrate(surrogate, inputs[300:], held_out, sigma=0.25, failure=0.1)), base


def queries(number: int, seed: int = 1) -> NDArray[np.float32]:
    """Return inputs drawn like the calibration inputs."""
    return np.random.default_rng(seed).random((number, 4), dtype=np.float32)
