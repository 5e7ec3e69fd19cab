"""What enters the head of a network, computed once for all surrogates that train the head alone."""

import torch
from torch import nn

from rrise.data.pool import Pool
from rrise.models.evaluation_mode import device_of
from rrise.models.fingerprint import fingerprint
from rrise.models.head import features_before

_BATCH = 128


class Features:
    """Features by network without its head's weights, and by inputs; kept as long as this object."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], torch.Tensor | None] = {}

    def before(self, network: nn.Module, head: nn.Module, pool: Pool, inputs: str) -> torch.Tensor | None:
        """Return what enters the head, a row for each input of the pool; None where it cannot be had.

        The network must be in evaluation mode. `inputs` is the fingerprint of the inputs.
        """
        name = next(name for name, module in network.named_modules() if module is head)
        identity = (fingerprint(network, without=name), name, inputs)
        if identity not in self._kept:
            everything = torch.arange(len(pool), device=device_of(network))
            batches = (pool[part] for part in everything.split(_BATCH))
            self._kept[identity] = features_before(network, head, batches)
        return self._kept[identity]
