"""Properties of a module: its precision, its device, and the module inside a compiled one."""

from itertools import chain

import torch
from torch import nn


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
