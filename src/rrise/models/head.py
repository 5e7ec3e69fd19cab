"""The head of a classifier: its last layer, from features to logits."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from rrise.errors import SettingError


def find_head(module: nn.Module, classes: int, name: str | None = None) -> nn.Module:
    """Return the submodule called `name`, or find the head.

    The head is the result of a `get_classifier()` method (timm), or else the last `nn.Linear` with one
    output per class.

    >>> find_head(nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.Linear(8, 3)), classes=3)
    Linear(in_features=8, out_features=3, bias=True)
    """
    if name is not None:
        try:
            return module.get_submodule(name)
        except AttributeError:
            known = ", ".join(part for part, _ in module.named_children()) or "none"
            raise SettingError(
                f"the base classifier has no submodule {name!r} to use as its head; it has: {known}"
            ) from None
    get_classifier = getattr(module, "get_classifier", None)
    if callable(get_classifier):
        head = get_classifier()
        if isinstance(head, nn.Module) and next(head.parameters(), None) is not None:
            return head
    linear = [p for p in module.modules() if isinstance(p, nn.Linear) and p.out_features == classes]
    if not linear:
        raise SettingError(
            f"found no linear layer with {classes} outputs to train as the head: name the head with "
            f"head='submodule', or train all weights with strategy='all'"
        )
    return linear[-1]


def features_before(
    module: nn.Module, head: nn.Module, batches: Iterable[torch.Tensor]
) -> torch.Tensor | None:
    """Return the input of the head for each input, or None unless the logits are `head(features)`.

    The module must be in evaluation mode. Training the head on these features is then the same as
    training it inside the frozen module, at a total cost of one forward pass per input.
    """
    features: list[torch.Tensor] = []
    with torch.no_grad():
        for batch in batches:
            feature, _ = _caught(module, head, batch)
            if feature is None or (not features and not _ends_with(module, head, batch)):
                return None
            features.append(feature.clone())
    return torch.cat(features)


def _caught(
    module: nn.Module, head: nn.Module, batch: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Return the input of the head, if called once with one tensor `[inputs, ...]`, and the logits."""
    caught: list[tuple[Any, ...]] = []
    handle = head.register_forward_pre_hook(lambda _, arguments: caught.append(arguments))
    try:
        logits = module(batch.clone())
    finally:
        handle.remove()
    if len(caught) != 1 or len(caught[0]) != 1 or not isinstance(caught[0][0], torch.Tensor):
        return None, logits
    feature = caught[0][0].detach()
    return (feature if len(feature) == len(batch) else None), logits


def _ends_with(module: nn.Module, head: nn.Module, batch: torch.Tensor) -> bool:
    """Tell whether the logits are `head(features)`, even with other weights in the head.

    A head that starts at zero, as in some timm networks, would hide any later layers.
    """
    weights = list(head.parameters())
    before = [weight.detach().clone() for weight in weights]
    generator = torch.Generator().manual_seed(0)
    try:
        for weight in weights:
            noise = torch.randn(weight.shape, generator=generator)
            weight.add_(noise.to(weight.device, weight.dtype))
        feature, logits = _caught(module, head, batch)
        if feature is None:
            return False
        direct = head(feature)
        return direct.shape == logits.shape and torch.equal(direct, logits)
    finally:
        for weight, value in zip(weights, before, strict=True):
            weight.copy_(value)
