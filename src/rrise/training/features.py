"""The features before the head of a network, computed once for all surrogates that train only the head."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from rrise.data.pool import Pool
from rrise.models.fingerprint import fingerprint
from rrise.models.head import features_before
from rrise.models.inspection import device_of
from rrise.progress import OnProgress

_BATCH = 128

Watched = Callable[[int], AbstractContextManager[OnProgress]]
"""Shows progress over that many inputs; yields a function that takes the number done since its last call."""


class Features:
    """A cache of features, keyed by the network without its head's weights and by the inputs."""

    def __init__(self, watched: Watched | None = None) -> None:
        self._watched = watched or _unwatched
        self._kept: dict[tuple[str, str, str], torch.Tensor | None] = {}

    def before(self, network: nn.Module, head: nn.Module, pool: Pool, inputs: str) -> torch.Tensor | None:
        """Return the features before the head, one row per input of the pool; None if not available.

        The network must be in evaluation mode. `inputs` is the fingerprint of the inputs.
        """
        name = next(name for name, module in network.named_modules() if module is head)
        identity = (fingerprint(network, without=name), name, inputs)
        if identity not in self._kept:
            with self._watched(len(pool)) as advance:
                batches = _batches(pool, device_of(network), advance)
                self._kept[identity] = features_before(network, head, batches)
        return self._kept[identity]


def _batches(pool: Pool, device: torch.device, advance: OnProgress) -> Iterator[torch.Tensor]:
    for part in torch.arange(len(pool), device=device).split(_BATCH):
        yield pool[part]
        advance(len(part))


def _unwatched(_: int) -> AbstractContextManager[OnProgress]:
    return nullcontext(lambda _: None)
