"""The logits of a batch, or an error that explains why there are none."""

import torch
from torch import nn

from rrise.errors import InputError
from rrise.models.inspection import device_of, precision_of


def logits_of(module: nn.Module, inputs: torch.Tensor, name: str, *, copy: bool = True) -> torch.Tensor:
    """Return the `[inputs, K]` logits of a batch, or explain in an error why there are none.

    The module gets a copy, because it may change its input; `copy=False` avoids the copy.
    """
    batch = inputs.to(device_of(module), precision_of(module), copy=copy)
    try:
        logits = module(batch)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a user's module may raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"the {name} does not accept inputs of shape {tuple(inputs.shape)}: {reason}"
        ) from error
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or len(logits) != len(inputs):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(f"expected the {name} to return logits of shape ({len(inputs)}, classes), got {got}")
    if not logits.is_floating_point():
        raise InputError(f"expected the {name} to return floating-point logits, got {logits.dtype}")
    if logits.shape[1] < 2:
        raise InputError(f"expected the {name} to have at least 2 classes, got {logits.shape[1]}")
    return logits
