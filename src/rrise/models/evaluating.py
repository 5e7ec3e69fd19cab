"""Run a module as it is certified: in evaluation mode, without gradients; its state is restored."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

from rrise.models.inspection import device_of


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Disable dropout, batch statistics, gradients and autocast; restore every mode on exit."""
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
