"""The base classifier: supervised cross-entropy with Gaussian noise augmentation."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from rrise.data.augmentation import Augmentation
from rrise.data.inputs import InputRange, check_input_range
from rrise.data.pool import Pool
from rrise.errors import InputError, SettingError
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of, precision_of
from rrise.models.logits import logits_of
from rrise.progress import OnProgress
from rrise.seeds import derive_seed
from rrise.training.checkpoint import Checkpoint
from rrise.training.loop import OnEpoch, Task, train
from rrise.training.settings import TrainingHistory, TrainingSettings
from rrise.training.team import Team
from rrise.training.trainee import Trainee

LABEL_SMOOTHING = 0.1
_VALIDATION_COPIES = 4_000
"""Noisy validation inputs to have at least; each input gives up to eight."""


def train_base(
    module: nn.Module,
    images: Any,
    labels: Any,
    validation_images: Any,
    validation_labels: Any,
    *,
    sigma: float,
    settings: TrainingSettings,
    augmentation: Augmentation | None = None,
    label_smoothing: float = LABEL_SMOOTHING,
    input_range: InputRange = (0.0, 1.0),
    checkpoint: Checkpoint | None = None,
    team: Team | None = None,
    on_progress: OnProgress | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainingHistory:
    """Train `module` in place, on its device, on inputs with Gaussian noise `sigma`.

    An input is augmented, then gets its noise, then is clipped to the input range, as under the smoothing
    of a certificate. The epoch with the fewest errors on noisy copies of the validation inputs is kept; the
    copies are the same in every epoch. `images` are `Pixels` or floating-point inputs.
    """
    team = team or Team()
    task = base_task(
        module,
        Labelled(module, images, labels, input_range),
        Labelled(module, validation_images, validation_labels, input_range),
        sigma=sigma,
        settings=settings,
        augmentation=augmentation,
        label_smoothing=label_smoothing,
        input_range=input_range,
        team=team,
    )
    return train(task, settings, checkpoint=checkpoint, team=team, on_progress=on_progress, on_epoch=on_epoch)


class Labelled:
    """Inputs and their labels, on a module's device; labels that cannot be its classes are refused."""

    def __init__(self, module: nn.Module, images: Any, labels: Any, input_range: InputRange) -> None:
        self.device, self.dtype = device_of(module), precision_of(module)
        self.inputs = Pool(images, input_range=input_range, device=self.device, dtype=self.dtype)
        with evaluating(module):
            first = self.inputs[torch.zeros(1, dtype=torch.int64, device=self.device)]
            classes = logits_of(module, first, "base classifier").shape[1]
        self.labels = _checked(labels, len(self.inputs), classes).to(self.device, torch.int64)

    def noisy(self, copies: int, seed: int, sigma: float, input_range: InputRange) -> torch.Tensor:
        """Return noisy copies of every input, those of one input side by side."""
        clean = self.inputs[torch.arange(len(self.inputs), device=self.device).repeat_interleave(copies)]
        generator = torch.Generator(self.device).manual_seed(seed)
        return _disturbed(clean, _normal_like(clean, generator), sigma, input_range)


def base_task(
    module: nn.Module,
    training: Labelled,
    validation: Labelled,
    *,
    sigma: float,
    settings: TrainingSettings,
    augmentation: Augmentation | None,
    label_smoothing: float,
    input_range: InputRange,
    team: Team,
) -> Task:
    """Return what the loop needs to train a base classifier."""
    if not sigma >= 0 or not 0 <= label_smoothing < 1:
        raise SettingError(
            f"expected a sigma of at least 0 and a label smoothing from 0 to below 1, got {sigma} and "
            f"{label_smoothing}"
        )
    limits, shape = check_input_range(input_range), training.inputs.shape
    if augmentation is not None and len(shape) != 3:
        raise InputError(f"expected images [channels, height, width] to augment, got inputs of shape {shape}")

    def objective(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, labels, label_smoothing=label_smoothing)

    def prepare(clean: torch.Tensor, noise: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:
        moved = clean if augmentation is None else augmentation.apply(clean, draws)
        return _disturbed(moved, noise, sigma, limits)

    trainee = Trainee(module, objective, settings, team)
    fast_prepare = trainee.compile(prepare, "augmentation")

    def examples(batch: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        clean = training.inputs[batch]
        draws: tuple[torch.Tensor, ...] = ()
        if augmentation is not None:
            channels, height, width = clean.shape[1:]
            draws = augmentation.draw(len(clean), (channels, height, width), generator)
        run = fast_prepare if trainee.is_full(batch) else prepare
        return run(clean, _normal_like(clean, generator), *draws), training.labels[batch]

    copies = min(8, -(-_VALIDATION_COPIES // len(validation.inputs)))
    noisy = validation.noisy(copies, derive_seed(settings.seed, "validation"), sigma, limits)
    truth = validation.labels.repeat_interleave(copies)

    def measure() -> dict[str, float]:
        wrong = trainee.logits(noisy.split(settings.batch_size)).argmax(dim=1) != truth
        return {"noisy_validation_error": wrong.double().mean().item()}

    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return Task(trainee, trained, len(training.inputs), examples, measure, "noisy_validation_error")


def _normal_like(clean: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(clean.shape, generator=generator, device=clean.device, dtype=clean.dtype)


def _disturbed(clean: torch.Tensor, noise: torch.Tensor, sigma: float, limits: InputRange) -> torch.Tensor:
    moved = clean + sigma * noise
    return moved if limits is None else moved.clamp(*limits)


def _checked(labels: Any, inputs: int, classes: int) -> torch.Tensor:
    """Return labels as a tensor; anything but one class number per input is refused."""
    found = torch.as_tensor(labels)
    if found.shape != (inputs,) or found.is_floating_point() or found.is_complex():
        raise InputError(
            f"expected one label, a whole number, for each of the {inputs} inputs, got {found.dtype} of "
            f"shape {tuple(found.shape)}"
        )
    if not 0 <= int(found.min()) <= int(found.max()) < classes:
        raise InputError(
            f"expected labels from 0 to {classes - 1}, got {int(found.min())} to {int(found.max())}"
        )
    return found
