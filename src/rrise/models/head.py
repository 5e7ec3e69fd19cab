"""The head of a classifier: its last layer, from features to logits."""

from typing import Any

import torch
from torch import nn

from rrise.errors import SettingError


def find_head(module: nn.Module, classes: int, name: str | None = None) -> nn.Module:
    """Return the submodule called `name`, or find the head.

    Found are, in this order: what a `get_classifier()` method returns (timm), and the last
    `nn.Linear` with one output per class.

    >>> find_head(nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.Linear(8, 3)), classes=3)
    Linear(in_features=8, out_features=3, bias=True)
    """
    if name is not None:
        try:
            return module.get_submodule(name)
        except AttributeError:
            known = ", ".join(part for part, _ in module.named_children()) or "none"
            raise SettingError(
                f"the base classifier has no submodule {name!r} to take as its head; it has: {known}"
            ) from None
    get_classifier = getattr(module, "get_classifier", None)
    if callable(get_classifier):
        head = get_classifier()
        if isinstance(head, nn.Module) and next(head.parameters(), None) is not None:
            return head
    linear = [p for p in module.modules() if isinstance(p, nn.Linear) and p.out_features == classes]
    if not linear:
        raise SettingError(
            f"found no last linear layer with {classes} outputs to train alone: name the head with "
            f"head='submodule', or train all weights with strategy='all'"
        )
    return linear[-1]


def features_before(
    module: nn.Module, head: nn.Module, inputs: torch.Tensor, batch_size: int
) -> torch.Tensor | None:
    """Return what enters the head for each input, if `head(features)` is all that follows; else None.

    The module must be in evaluation mode. Training the head on these features is then the same as
    training it inside the frozen module, at the price of one forward pass per input in all.
    """
    caught: list[tuple[Any, ...]] = []
    handle = head.register_forward_pre_hook(lambda _, arguments: caught.append(arguments))
    features: list[torch.Tensor] = []
    try:
        with torch.no_grad():
            for batch in inputs.split(batch_size):
                caught.clear()
                logits = module(batch.clone())
                if len(caught) != 1 or len(caught[0]) != 1 or not isinstance(caught[0][0], torch.Tensor):
                    return None
                feature = caught[0][0]
                if len(feature) != len(batch):
                    return None
                features.append(feature.detach().clone())
                if len(features) == 1:
                    direct = head(feature)
                    if direct.shape != logits.shape or not torch.equal(direct, logits):
                        return None
    finally:
        handle.remove()
    return torch.cat(features)
