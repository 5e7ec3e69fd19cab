"""A network in training: how its losses and predictions are computed."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from rrise.models.compiling import Compiled, prefers_channels_last
from rrise.models.inspection import device_of
from rrise.training.objectives import Objective
from rrise.training.recording import is_recordable
from rrise.training.settings import TrainingSettings
from rrise.training.team import Team


class Trainee:
    """A network with its objective, compiled and in mixed precision according to the settings.

    Only full batches run compiled: a smaller last batch would have to be compiled separately. The network
    sees `rows` inputs for each of a batch.
    """

    def __init__(
        self,
        network: nn.Module,
        objective: Objective,
        settings: TrainingSettings,
        team: Team,
        *,
        rows: int = 1,
    ) -> None:
        self.network, self.device = network, device_of(network)
        self.channels_last = prefers_channels_last(network)
        if self.channels_last:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        on_gpu = self.device.type == "cuda"
        self._mixed = on_gpu if settings.mixed_precision is None else settings.mixed_precision
        self.compiled = on_gpu if settings.compiled is None else settings.compiled
        self.recorded = self.compiled and on_gpu and team.size == 1 and is_recordable(network)
        self._part, self._batch = -(-settings.batch_size // team.size), settings.batch_size
        self._rows = rows
        shared = team.wrap(network)

        def loss(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return objective(shared(inputs), targets)

        def logits(inputs: torch.Tensor) -> torch.Tensor:
            predicted: torch.Tensor = network(inputs)
            return predicted

        self._loss: Callable[..., torch.Tensor] = loss
        self._logits: Callable[..., torch.Tensor] = logits
        self._fast_loss = self.compile(loss, "training step")
        self._fast_logits = self.compile(logits, "network")
        self._fast_attacked = self.compile(logits, "network")

    def compile(self, function: Callable[..., torch.Tensor], name: str) -> Callable[..., torch.Tensor]:
        """Return the function compiled, if this training compiles."""
        return Compiled(function, name) if self.compiled else function

    def is_full(self, batch: torch.Tensor) -> bool:
        """Tell whether this is a member's part of a full batch."""
        return len(batch) == self._part

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of a batch, with gradients."""
        step = self._fast_loss if len(inputs) == self._part * self._rows else self._loss
        with self.precision():
            return step(self.laid_out(inputs), targets)

    def probabilities(self, inputs: torch.Tensor, *, full: bool) -> torch.Tensor:
        """Return class probabilities in evaluation mode, with gradients."""
        training = self.network.training
        predict = self._fast_attacked if full else self._logits
        self.network.eval()
        try:
            with self.precision():
                return predict(self.laid_out(inputs)).float().softmax(dim=1)
        finally:
            self.network.train(training)

    def logits(self, batches: Iterable[torch.Tensor]) -> torch.Tensor:
        """Return the predictions in evaluation mode, in the precision of the training."""
        self.network.eval()
        found = []
        with torch.no_grad(), self.precision():
            for batch in batches:
                predict = self._fast_logits if len(batch) == self._batch else self._logits
                found.append(predict(self.laid_out(batch)).float())
        return torch.cat(found)

    def precision(self) -> AbstractContextManager[object]:
        """Compute in bfloat16 where it is safe, if this training does."""
        return torch.autocast(self.device.type, torch.bfloat16) if self._mixed else nullcontext()

    def laid_out(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return images in the memory layout that suits the network."""
        if self.channels_last and inputs.ndim == 4:
            return inputs.contiguous(memory_format=torch.channels_last)
        return inputs
