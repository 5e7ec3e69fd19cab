"""The one training loop: AdamW, warm-up and cosine decay, gradient clipping, best checkpoint kept."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from rrise.errors import RriseError, SettingError
from rrise.progress import OnProgress
from rrise.seeds import derive_seed


@dataclass(frozen=True)
class TrainingSettings:
    """How to optimise; the defaults are the paper's (Appendix A.3 and A.5) but for length and rate."""

    epochs: int
    learning_rate: float
    batch_size: int = 512
    weight_decay: float = 5e-4
    gradient_clip: float = 1.0
    warmup_epochs: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0:
            raise SettingError(
                f"expected at least 1 epoch, a batch size of at least 1 and a positive learning rate, got "
                f"{self.epochs}, {self.batch_size} and {self.learning_rate}"
            )


@dataclass
class TrainingHistory:
    """What each epoch measured on the validation part, and which epoch was kept (counted from 1)."""

    selected_epoch: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)

    @property
    def selected(self) -> dict[str, float]:
        """The measurements at the kept epoch."""
        return self.epochs[self.selected_epoch - 1]


def train(
    module: nn.Module,
    trained: Sequence[nn.Parameter],
    *,
    size: int,
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    measure: Callable[[], dict[str, float]],
    select_by: str,
    settings: TrainingSettings,
    on_progress: OnProgress | None = None,
) -> TrainingHistory:
    """Minimise `loss_of(indices)` over batches of `size` examples, and keep the best epoch.

    `measure()` runs after each epoch; the module ends with the weights of the epoch where the value
    named `select_by` was smallest. A loss that is not finite stops the training with a sentence.
    """
    optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: _rate(epoch, settings))
    shuffle = np.random.default_rng(derive_seed(settings.seed, "batches"))
    history = TrainingHistory()
    best_value, best_weights = math.inf, copy.deepcopy(module.state_dict())
    for epoch in range(1, settings.epochs + 1):
        total = 0.0
        for batch in _batches(torch.from_numpy(shuffle.permutation(size)), settings.batch_size):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(batch)
            if not math.isfinite(value := loss.item()):
                raise RriseError(f"training stopped: the loss became {value} in epoch {epoch}")
            loss.backward()
            nn.utils.clip_grad_norm_(trained, settings.gradient_clip)
            optimizer.step()
            total += value * len(batch)
        scheduler.step()
        history.epochs.append({"training_loss": total / size, **measure()})
        if (value := history.epochs[-1][select_by]) < best_value:
            best_value, history.selected_epoch = value, epoch
            best_weights = copy.deepcopy(module.state_dict())
        if on_progress is not None:
            on_progress(1)
    if history.selected_epoch == 0:
        raise RriseError(f"training stopped: no epoch had a finite {select_by}")
    module.load_state_dict(best_weights)
    return history


def _batches(order: torch.Tensor, batch_size: int) -> list[torch.Tensor]:
    """Deal examples into batches; a last one of a single example, which batch norm cannot take, joins."""
    batches = list(order.split(batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1 < batch_size:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def _rate(epoch: int, settings: TrainingSettings) -> float:
    """Return the factor on the learning rate: linear warm-up, then a cosine down to zero."""
    warmup = min(settings.warmup_epochs, settings.epochs - 1)
    if epoch < warmup:
        return (epoch + 1) / (warmup + 1)
    return 0.5 * (1 + math.cos(math.pi * (epoch - warmup) / (settings.epochs - warmup)))
