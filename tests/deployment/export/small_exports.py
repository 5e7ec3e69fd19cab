"""A small certifier with its calibration inputs and votes, exported once for all tests."""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

import rrise
from rrise.votes.array import Votes
from rrise.votes.smoothing import Smoothing

SMOOTHING = Smoothing("0" * 64, 0.25, (0.0, 1.0), "float32")
N = 400


class Calibrated(NamedTuple):
    certifier: rrise.Certifier
    images: np.ndarray
    votes: Votes
    fresh: np.ndarray


class Sharpened(nn.Module):
    """A network whose logits are spread, so that random weights give decided answers too."""

    def __init__(self, network: nn.Module, sample: torch.Tensor) -> None:
        super().__init__()
        with torch.no_grad():
            logits = network.eval()(sample)
        self.network = network
        self.register_buffer("centre", logits.mean(dim=0))
        self.register_buffer("scale", 3 / (logits - logits.mean(dim=0)).std())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (self.network(images) - self.centre) * self.scale


def calibrated(
    network: nn.Module, shape: tuple[int, ...], inputs: int = 200, score: str = "probit"
) -> Calibrated:
    """Calibrate a network on random inputs, with votes drawn from its own probabilities, flattened a bit."""
    random = np.random.default_rng(0)
    images = random.random((inputs + 100, *shape), dtype=np.float32)
    network = Sharpened(network, torch.from_numpy(images[:50]))
    held_out = images[:inputs]
    with torch.no_grad():
        shares = network(torch.from_numpy(held_out)).double().softmax(dim=1).numpy()
    classes = shares.shape[1]
    counts = random.multinomial(N, 0.97 * shares + 0.03 / classes)
    digests = rrise_digests(held_out)
    votes = Votes(counts, SMOOTHING, (0, "calibration"), digests)
    certifier = rrise.calibrate(network, held_out, votes, sigma=0.25, failure=0.1, score=score)
    return Calibrated(certifier, held_out, votes, images[inputs:])


def rrise_digests(images: np.ndarray) -> list[bytes]:
    from rrise.data.inputs import input_digests

    return input_digests(torch.from_numpy(images))
