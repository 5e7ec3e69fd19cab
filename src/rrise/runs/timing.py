"""The measured time of a forward pass."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from rrise.evaluation.measure.pass_time import PassTime
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of, precision_of
from rrise.votes.crew import one_thread

_FEWEST_TURNS = 15
_SECONDS = 0.5
"""Turns go on for at least so long: the machine may be busy for a moment."""


def time_passes(networks: dict[str, nn.Module], inputs: torch.Tensor) -> dict[str, PassTime]:
    """Return the time of a forward pass for each input, in repeated turns of all networks.

    On a CPU a pass uses one thread: threads wait for each other, and on a busy machine this takes hundreds of
    times as long as the pass. One thread also tells how long it waited for its core.
    """
    passes = {name: _pass(network, inputs) for name, network in networks.items()}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in networks}
    with _one_thread_on_cpu(networks):
        for run in passes.values():  # warms up
            run()
        start, turns = time.perf_counter(), 0
        while turns < _FEWEST_TURNS or time.perf_counter() - start < _SECONDS:
            turns += 1
            for name, run in passes.items():
                taken[name].append(_timed(run))
    found = {}
    for name, network in networks.items():
        wall, worked = (list(seconds) for seconds in zip(*taken[name], strict=True))
        on_cpu = device_of(network).type == "cpu"
        waited = max(0.0, 1 - sum(worked) / sum(wall)) if on_cpu else None
        found[name] = PassTime.of_turns([seconds / len(inputs) for seconds in wall], waited)
    return found


def _pass(network: nn.Module, inputs: torch.Tensor) -> Callable[[], None]:
    device = device_of(network)
    batch = inputs.to(device, precision_of(network))

    def run() -> None:
        with evaluating(network):
            network(batch)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return run


def _timed(run: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds of a call, and those in which this thread had a core."""
    start, worked = time.perf_counter(), time.thread_time()
    run()
    return time.perf_counter() - start, time.thread_time() - worked


def _one_thread_on_cpu(networks: dict[str, nn.Module]) -> AbstractContextManager[None]:
    on_cpu = all(device_of(network).type == "cpu" for network in networks.values())
    return one_thread() if on_cpu else nullcontext()
