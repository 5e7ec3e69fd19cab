"""The measured time of a forward pass."""

import time

import torch
from torch import nn

from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of, precision_of

_REPEATS = 20
"""How many times a pass is timed."""


def seconds_per_pass(networks: dict[str, nn.Module], inputs: torch.Tensor) -> dict[str, float]:
    """Return the seconds per input of a forward pass: the best of many, with the networks in turn."""
    best = dict.fromkeys(networks, float("inf"))
    for repeat in range(_REPEATS + 1):
        for name, network in networks.items():
            batch, device = inputs.to(device_of(network), precision_of(network)), device_of(network)
            with evaluating(network):
                start = time.perf_counter()
                network(batch)
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
            if repeat > 0:  # the first warms up
                best[name] = min(best[name], time.perf_counter() - start)
    return {name: seconds / len(inputs) for name, seconds in best.items()}
