"""The one training loop: AdamW, warm-up and cosine decay, gradient clipping, best epoch kept.

The random numbers and the learning rate of an epoch depend only on the settings, which include the seed, and
on the epoch's number. A training resumed from a checkpoint therefore takes the same steps as an uninterrupted
one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass

import torch
from torch import nn

from rrise.errors import RriseError
from rrise.models.compiling import take_signals_back
from rrise.progress import OnProgress
from rrise.seeds import derive_seed
from rrise.training.averaging import RunningAverage
from rrise.training.checkpoint import Checkpoint, State
from rrise.training.recording import RecordedStep
from rrise.training.settings import TrainingHistory, TrainingSettings
from rrise.training.team import Team
from rrise.training.trainee import Trainee
from rrise.votes.crew import one_thread

OnEpoch = Callable[[int, dict[str, float]], object]
"""Called after each epoch with its number, counted from 1, and its measurements."""
Examples = Callable[[torch.Tensor, torch.Generator], tuple[torch.Tensor, torch.Tensor]]
"""Maps the indices of a batch, and a random generator on the device, to inputs and targets."""


_SMALL = 1_000_000_000


@dataclass(frozen=True)
class Task:
    """What to train: a network, on `size` examples, measured after each epoch."""

    trainee: Trainee
    trained: Sequence[nn.Parameter]
    size: int
    examples: Examples
    measure: Callable[[], dict[str, float]]
    select_by: str | None
    """The measurement whose smallest value selects the epoch; None keeps the last epoch."""
    training_mode: bool = True
    still: Sequence[nn.Module] = ()
    """Parts of the network that stay in evaluation mode."""
    recordable: bool = True
    """Whether all code of `examples` is known, so that a recorded step repeats all of it."""
    shape: tuple[int, ...] | None = None
    """The shape of one input; None if it is not known."""
    averaging: float = 0.0
    """The decay of a running average of the weights, which is measured and kept instead of them; 0: none."""


def train(
    task: Task,
    settings: TrainingSettings,
    *,
    checkpoint: Checkpoint | None = None,
    team: Team | None = None,
    on_progress: OnProgress | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainingHistory:
    """Minimise the objective over batches of examples, and leave the network at its best epoch.

    A loss that is not finite stops the training with an error.
    """
    team = team or Team()
    course = _Course(task, settings, team)
    if checkpoint is not None and (state := checkpoint.load()) is not None:
        course.resume(state)
    if on_progress is not None:
        on_progress(course.epoch)
    with one_thread() if _is_small(task, settings) else nullcontext():
        while course.epoch < settings.epochs:
            measured = course.run_epoch()
            if checkpoint is not None and team.leads and checkpoint.due():
                checkpoint.save(course.state())
            if on_progress is not None:
                on_progress(1)
            if on_epoch is not None:
                on_epoch(course.epoch, measured)
    course.finish()
    return course.history


def _is_small(task: Task, settings: TrainingSettings) -> bool:
    """Tell whether a step on a CPU is so short that threads inside operators cost more than they save.

    They wait for each other at every operator. On a busy machine that is most of the time. The bound on the
    multiplications of a forward pass lets every weight meet every number of an input.
    """
    if task.shape is None or task.trainee.device.type != "cpu":
        return False
    weights = sum(weight.numel() for weight in task.trainee.network.parameters())
    return weights * math.prod(task.shape) * settings.batch_size <= _SMALL


class _Course:
    """The state of a training between two epochs."""

    def __init__(self, task: Task, settings: TrainingSettings, team: Team) -> None:
        self.task, self.settings, self.team = task, settings, team
        self.network, self.device = task.trainee.network, task.trainee.device
        on_gpu = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            task.trained,
            lr=torch.tensor(settings.learning_rate, device=self.device) if on_gpu else settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=on_gpu or self.device.type == "cpu",
            capturable=on_gpu,
        )
        self.generator = torch.Generator(self.device)
        self.total_loss = torch.zeros((), device=self.device)
        self.average = RunningAverage(self.network, task.averaging) if task.averaging else None
        recorded = task.trainee.recorded and task.recordable and task.size >= settings.batch_size
        self.full_step = (
            RecordedStep(self._step, settings.batch_size, self.generator) if recorded else self._step
        )
        self.history = TrainingHistory()
        self.best = _copied(self.network.state_dict())

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""
        return len(self.history.epochs)

    def run_epoch(self) -> dict[str, float]:
        """Run the next epoch, and return its measurements."""
        epoch = self.epoch + 1
        self._set_rate(self.settings.learning_rate * _rate(epoch - 1, self.settings))
        self.network.train(self.task.training_mode)
        for part in self.task.still:
            part.eval()
        self.total_loss.zero_()
        seed = derive_seed(self.settings.seed, "epoch", epoch)
        with _seeded(derive_seed(seed, "member", self.team.rank), self.generator):
            for batch in self._batches(seed):
                step = self.full_step if len(batch) == self.settings.batch_size else self._step
                step(batch)
        if not self.history.epochs:
            take_signals_back()  # gradients are compiled at the first step
        loss = self.total_loss.item() / self.task.size
        if not math.isfinite(loss):
            raise RriseError(f"training stopped: the loss became {loss} in epoch {epoch}")
        with nullcontext() if self.average is None else self.average.in_network():
            measured = {"training_loss": loss, **self.task.measure()}
            self.history.epochs.append(measured)
            if self._is_best(measured):
                self.history.selected_epoch = epoch
                self.best = _copied(self.network.state_dict())
        return measured

    def _set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _step(self, batch: torch.Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        inputs, targets = self.task.examples(self.team.part(batch), self.generator)
        loss = self.task.trainee.loss(inputs, targets)
        (loss * self.team.weight(batch) if self.team.size > 1 else loss).backward()
        nn.utils.clip_grad_norm_(self.task.trained, self.settings.gradient_clip)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()
        self.total_loss.add_(loss.detach(), alpha=len(batch))

    def _is_best(self, measured: dict[str, float]) -> bool:
        chosen, name = self.history.selected_epoch, self.task.select_by
        if name is None:
            return True
        value = measured[name]
        return math.isfinite(value) and (chosen == 0 or value < self.history.selected[name])

    def _batches(self, seed: int) -> list[torch.Tensor]:
        """Divide examples into batches; a single last example joins the batch before, for batch norm."""
        size = self.settings.batch_size
        shuffle = torch.Generator().manual_seed(derive_seed(seed, "batches"))
        batches = list(torch.randperm(self.task.size, generator=shuffle).to(self.device).split(size))
        if len(batches) > 1 and len(batches[-1]) == 1 < size:
            batches[-2:] = [torch.cat(batches[-2:])]
        return batches

    def state(self) -> State:
        """Return everything that the rest of the training depends on."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
        if self.average is not None:
            tensors |= {f"average.{name}": value for name, value in self.average.weights.items()}
            tensors["average_steps"] = self.average.steps
        return State(tensors, asdict(self.history))

    def resume(self, state: State) -> None:
        """Resume from a state."""
        self.history = TrainingHistory(**state.record)
        self.network.load_state_dict(state.part("network"))
        self.best = {name: value.to(self.device) for name, value in state.part("best").items()}
        if self.average is not None:
            self.average.resume(state.part("average"), state.tensors["average_steps"])
        moments = [state.part(f"optimizer.{index}") for index in range(len(self.task.trained))]
        groups = self.optimizer.state_dict()["param_groups"]
        kept = {index: values for index, values in enumerate(moments) if values}
        self.optimizer.load_state_dict({"state": kept, "param_groups": groups})
        # A fused step assumes that moments have the same memory layout as their weight.
        for weight in self.task.trained:
            state_of = self.optimizer.state[weight]
            for name, value in state_of.items():
                if value.shape == weight.shape:
                    state_of[name] = torch.empty_like(weight).copy_(value)

    def finish(self) -> None:
        """Put the best epoch's weights into the network, in evaluation mode."""
        if self.history.selected_epoch == 0:
            raise RriseError(f"training stopped: no epoch had a finite {self.task.select_by}")
        self.network.load_state_dict(self.best)
        if self.task.trainee.channels_last:
            self.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self.network.eval()


def _copied(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in weights.items()}


@contextmanager
def _seeded(seed: int, generator: torch.Generator) -> Iterator[None]:
    """Seed the generator of an epoch's examples, and torch's global one, from which the network draws."""
    devices = [generator.device] if generator.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(derive_seed(seed, "network"))
        generator.manual_seed(derive_seed(seed, "examples"))
        yield


def _rate(epoch: int, settings: TrainingSettings) -> float:
    """Return the factor on the learning rate: linear warm-up, then cosine decay to zero."""
    warmup = min(settings.warmup_epochs, settings.epochs - 1)
    if epoch < warmup:
        return (epoch + 1) / (warmup + 1)
    return 0.5 * (1 + math.cos(math.pi * (epoch - warmup) / (settings.epochs - warmup)))
