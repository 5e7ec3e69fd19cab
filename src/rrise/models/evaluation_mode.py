"""Run a module as it is certified: evaluation mode, no gradients, and left as it was found."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from rrise.errors import InputError


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch dropout, batch statistics and gradients off, and every mode back on leaving."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, training in modes:
            part.training = training


def precision_of(module: nn.Module) -> torch.dtype:
    """Return the floating-point type a module computes in: that of its first floating-point weight."""
    for weight in (*module.parameters(), *module.buffers()):
        if weight.is_floating_point():
            return weight.dtype
    return torch.float32


def device_of(module: nn.Module) -> torch.device:
    """Return where a module's weights are; the CPU for a module without weights."""
    for weight in (*module.parameters(), *module.buffers()):
        return weight.device
    return torch.device("cpu")


def logits_of(module: nn.Module, inputs: torch.Tensor, name: str) -> torch.Tensor:
    """Return the `[inputs, K]` logits of a batch, or say in a sentence why there are none."""
    batch = inputs.to(device_of(module), precision_of(module))
    try:
        logits = module(batch)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"the {name} could not take inputs of shape {tuple(inputs.shape)}: {reason}"
        ) from error
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or len(logits) != len(inputs):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(f"expected the {name} to return logits of shape ({len(inputs)}, classes), got {got}")
    if logits.shape[1] < 2:
        raise InputError(f"expected the {name} to tell at least 2 classes apart, got {logits.shape[1]}")
    return logits
