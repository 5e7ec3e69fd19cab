"""Checks that a classifier is a module, and a function of the single input."""

from itertools import chain

import torch
from torch import nn

from rrise.errors import InputError, described
from rrise.models.logits import logits_of


def check_module(module: object, name: str) -> None:
    """Refuse anything but a module, such as its class or its name."""
    if not isinstance(module, nn.Module):
        raise InputError(f"expected the {name} to be a torch.nn.Module, got {described(module)}")


def check_is_function(module: nn.Module, inputs: torch.Tensor, name: str) -> int:
    """Refuse a module that is not a function of the single input, judged by a few probes; return K.

    Its answer must not depend on the rest of the batch, as with batch statistics at evaluation time. It must
    not vary from call to call, as with dropout that ignores evaluation mode. Calls must not change its
    weights or buffers. Otherwise there is nothing to certify.
    """
    before = _versions(module)
    alone = _one_by_one(module, inputs[:4], name)
    together = logits_of(module, torch.cat([inputs[:8], inputs[:1] / 2]), name)
    if together.shape[1] != alone.shape[1]:
        raise InputError(
            f"expected the {name} to return as many logits for one input as for several, got "
            f"{alone.shape[1]} and {together.shape[1]}"
        )
    if _versions(module) != before:
        raise InputError(
            f"the {name} changes its own weights or buffers when it is called in evaluation mode: it is "
            f"not a function of the input, so it cannot be certified"
        )
    if _differ(together[: len(alone)], alone):
        if _differ(_one_by_one(module, inputs[:4], name), alone):
            raise InputError(
                f"the {name} answers the same input differently each time (dropout in evaluation mode?): it "
                f"is not a function of the input, so it cannot be certified"
            )
        raise InputError(
            f"the {name} answers an input differently when other inputs are in its batch (batch statistics "
            f"in evaluation mode?): it is not a function of the input, so it cannot be certified"
        )
    return alone.shape[1]


def _one_by_one(module: nn.Module, inputs: torch.Tensor, name: str) -> torch.Tensor:
    return torch.cat([logits_of(module, row, name) for row in inputs.split(1)])


def _versions(module: nn.Module) -> list[tuple[int, int]]:
    """Return identities and versions, which change when a weight or buffer is written or replaced."""
    return [(id(tensor), tensor._version) for tensor in chain(module.parameters(), module.buffers())]


def _differ(logits: torch.Tensor, others: torch.Tensor) -> bool:
    """Tell whether two answers to one input give clearly different class probabilities."""
    tolerance = 1e-3 if logits.dtype in (torch.float32, torch.float64) else 0.05
    difference = logits.double().softmax(dim=1) - others.double().softmax(dim=1)
    return bool((difference.abs() > tolerance).any())
