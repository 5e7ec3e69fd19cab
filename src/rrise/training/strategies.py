"""The initial network of a surrogate, and which of its weights are trained."""

import copy

import torch
from torch import nn

from rrise.errors import MismatchError, SettingError, did_you_mean
from rrise.models.checks import check_module
from rrise.models.inspection import uncompiled

STRATEGIES = ("head", "all", "all-random", "distill")
"""`head` trains only the last layer of the base classifier, `all` trains all its weights, and `all-random`
trains all weights of the same architecture from a random start. `distill` trains all weights, on augmented
and mixed inputs with fresh votes."""


def check_strategy(name: str) -> None:
    """Refuse an unknown strategy."""
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise SettingError(
            f"expected a strategy out of {known}; got {name!r}{did_you_mean(name, STRATEGIES)}"
        )


def starting_network(base: nn.Module, network: nn.Module | None, strategy: str, seed: int) -> nn.Module:
    """Return the network to train: a copy of `network` if given, else of the base classifier.

    `all-random` draws new weights for the copy of the base; a given `network` keeps its weights.
    """
    if network is not None:
        check_module(network, "network")
        return _copy(network)
    started = _copy(base)
    if strategy == "all-random":
        _reset(started, seed)
    return started


def check_classes(found: int, base: int, name: str = "network") -> None:
    """Refuse a network whose number of classes differs from the base classifier's."""
    if found != base:
        raise MismatchError(f"expected a {name} of {base} classes, like the base classifier; got {found}")


def _copy(module: nn.Module) -> nn.Module:
    return copy.deepcopy(uncompiled(module))


def _reset(module: nn.Module, seed: int) -> None:
    """Draw all weights again, with each layer's own initialisation."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for name, part in module.named_modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
            elif next(part.parameters(recurse=False), None) is not None:
                raise SettingError(
                    f"{type(part).__name__} {name or '(the base classifier itself)'} has weights but no "
                    f"reset_parameters(): build a network with random weights and pass it as network="
                )
