"""Where a surrogate starts from, and which of its weights are trained."""

import copy

import torch
from torch import nn

from rrise.errors import MismatchError, SettingError, did_you_mean
from rrise.models.checks import check_module
from rrise.models.inspection import uncompiled

STRATEGIES = ("head", "all", "all-random")
"""`head` trains the last layer of the base classifier alone, `all` every weight of it, and `all-random`
every weight of a network of the same architecture that starts from random ones."""


def check_strategy(name: str) -> None:
    """Refuse an unknown strategy."""
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise SettingError(
            f"expected a strategy out of {known}; got {name!r}{did_you_mean(name, STRATEGIES)}"
        )


def starting_network(base: nn.Module, network: nn.Module | None, strategy: str, seed: int) -> nn.Module:
    """Return the network to train, a copy: of `network` if there is one, else of the base classifier.

    `all-random` gives the base's architecture new weights; a `network` is taken with those it has.
    """
    if network is not None:
        check_module(network, "network")
        return _copy(network)
    started = _copy(base)
    if strategy == "all-random":
        _reset(started, seed)
    return started


def check_classes(found: int, base: int) -> None:
    """Refuse a network that tells another number of classes apart than the base classifier."""
    if found != base:
        raise MismatchError(f"expected a network of {base} classes, as the base classifier; got {found}")


def _copy(module: nn.Module) -> nn.Module:
    return copy.deepcopy(uncompiled(module))


def _reset(module: nn.Module, seed: int) -> None:
    """Draw all weights anew, as each layer does when it is made."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for name, part in module.named_modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
            elif next(part.parameters(recurse=False), None) is not None:
                raise SettingError(
                    f"{type(part).__name__} {name or '(the base classifier itself)'} holds weights and no "
                    f"reset_parameters(): build a network with random weights and pass it as network="
                )
