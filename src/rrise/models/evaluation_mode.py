"""Run a module as it is certified: evaluation mode, no gradients, and left as it was found."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain

import torch
from torch import nn

from rrise.errors import InputError


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch dropout, batch statistics, gradients and autocast off, and every mode back on leaving."""
    training = [part for part in module.modules() if part.training]
    if training:
        module.eval()
    try:
        with torch.no_grad(), _no_autocast(device_of(module).type):
            yield
    finally:
        for part in training:
            part.training = True


def _no_autocast(device: str) -> AbstractContextManager[object]:
    available = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if available else nullcontext()


def precision_of(module: nn.Module) -> torch.dtype:
    """Return the floating-point type a module computes in: that of its first floating-point weight."""
    for weight in chain(module.parameters(), module.buffers()):
        if weight.is_floating_point():
            return weight.dtype
    return torch.float32


def precision_name(module: nn.Module) -> str:
    """Return the precision as files and messages write it, such as `float32`."""
    return str(precision_of(module)).removeprefix("torch.")


def device_of(module: nn.Module) -> torch.device:
    """Return where a module's weights are; the CPU for a module without weights."""
    for weight in chain(module.parameters(), module.buffers()):
        return weight.device
    return torch.device("cpu")


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module that `torch.compile` wrapped, or the module itself."""
    inner: nn.Module = getattr(module, "_orig_mod", module)
    return inner


def check_module(module: object, name: str) -> None:
    """Refuse anything but a module, such as its class or its name."""
    if not isinstance(module, nn.Module):
        got = module.__name__ if isinstance(module, type) else type(module).__name__
        kind = "the class " if isinstance(module, type) else "a "
        raise InputError(f"expected the {name} to be a torch.nn.Module, got {kind}{got}")


def logits_of(module: nn.Module, inputs: torch.Tensor, name: str, *, copy: bool = True) -> torch.Tensor:
    """Return the `[inputs, K]` logits of a batch, or say in a sentence why there are none.

    The module gets a copy, for it may change what it is given; `copy=False` spares that.
    """
    batch = inputs.to(device_of(module), precision_of(module), copy=copy)
    try:
        logits = module(batch)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a user's module may raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"the {name} could not take inputs of shape {tuple(inputs.shape)}: {reason}"
        ) from error
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or len(logits) != len(inputs):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(f"expected the {name} to return logits of shape ({len(inputs)}, classes), got {got}")
    if not logits.is_floating_point():
        raise InputError(f"expected the {name} to return floating-point logits, got {logits.dtype}")
    if logits.shape[1] < 2:
        raise InputError(f"expected the {name} to tell at least 2 classes apart, got {logits.shape[1]}")
    return logits


def check_is_function(module: nn.Module, inputs: torch.Tensor, name: str) -> int:
    """Refuse a module that is no function of the single input, as far as a few probes tell; return K.

    Its answer must not depend on the rest of the batch (batch statistics at evaluation time do that) or
    change from call to call (dropout that ignores evaluation mode does), and calls must not change its
    weights or buffers. There is nothing to certify then.
    """
    before = _versions(module)
    alone, again = (
        torch.cat([logits_of(module, row, name) for row in inputs[:4].split(1)]) for _ in range(2)
    )
    together = logits_of(module, torch.cat([inputs[:8], inputs[:1] / 2]), name)
    if together.shape[1] != alone.shape[1]:
        raise InputError(
            f"expected the {name} to return as many logits for one input as for several, got "
            f"{alone.shape[1]} and {together.shape[1]}"
        )
    if _versions(module) != before:
        raise InputError(
            f"the {name} changes its own weights or buffers when it is called in evaluation mode: there is "
            f"no function of the input to certify"
        )
    if _differ(again, alone):
        raise InputError(
            f"the {name} answers the same input differently each time (dropout in evaluation mode?): there "
            f"is no function of the input to certify"
        )
    if _differ(together[: len(alone)], alone):
        raise InputError(
            f"the {name} answers an input differently when other inputs are in its batch (batch statistics "
            f"in evaluation mode?): there is no function of the input to certify"
        )
    return alone.shape[1]


def _versions(module: nn.Module) -> list[tuple[int, int]]:
    """Return what changes when a weight or buffer is written to or replaced."""
    return [(id(tensor), tensor._version) for tensor in chain(module.parameters(), module.buffers())]


def _differ(logits: torch.Tensor, others: torch.Tensor) -> bool:
    """Tell whether two answers to one input give clearly different class probabilities."""
    tolerance = 1e-3 if logits.dtype in (torch.float32, torch.float64) else 0.05
    difference = logits.double().softmax(dim=1) - others.double().softmax(dim=1)
    return bool((difference.abs() > tolerance).any())
