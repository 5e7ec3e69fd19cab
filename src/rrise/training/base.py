"""The base classifier: supervised training on inputs with Gaussian noise."""

from functools import partial
from typing import Any

import torch
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
from rrise.training.base_objectives import BaseObjective, CrossEntropy, Scene
from rrise.training.checkpoint import Checkpoint
from rrise.training.loop import OnEpoch, Task, train
from rrise.training.recording import is_known
from rrise.training.settings import TrainingHistory, TrainingSettings
from rrise.training.team import Team
from rrise.training.trainee import Trainee
from rrise.votes.noise import Gaussian, Noise, as_noise

LABEL_SMOOTHING = 0.1
_VALIDATION_COPIES = 4_000
"""The wanted number of noisy validation inputs; each input gives up to eight."""


def train_base(
    module: nn.Module,
    images: Any,
    labels: Any,
    validation_images: Any,
    validation_labels: Any,
    *,
    sigma: float | Noise,
    settings: TrainingSettings,
    augmentation: Augmentation | None = None,
    objective: BaseObjective | None = None,
    label_smoothing: float = LABEL_SMOOTHING,
    input_range: InputRange = (0.0, 1.0),
    checkpoint: Checkpoint | None = None,
    team: Team | None = None,
    on_progress: OnProgress | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainingHistory:
    """Train `module` in place, on its device, on inputs with Gaussian noise `sigma`.

    Each input is augmented, gets its noise and is clipped to the input range, as in the smoothing of a
    certificate. Noise that is `UnclippedGaussian` is not clipped. The epoch with the fewest errors on noisy
    copies of the validation inputs is kept. The copies are the same in every epoch.

    Args:
        module: the network to train, from inputs to K logits.
        images: training inputs, as `Pixels` or floating-point numbers `[inputs, ...]`.
        labels: their classes, from 0 to K - 1.
        validation_images: inputs that select the epoch.
        validation_labels: their classes.
        sigma: the noise level, or Gaussian noise, clipped or not; 0 trains without noise.
        settings: how to optimise.
        augmentation: augmentations for images `[channels, height, width]`.
        objective: what to minimise, such as `Consistency()` out of `rrise.training.base_objectives`. Default:
            `CrossEntropy()`.
        label_smoothing: the label smoothing of the cross-entropy.
        input_range: lowest and highest value of an input; None: any value, no clipping.
        checkpoint: where an interrupted training resumes from.
        team: processes that train together.
        on_progress: called with the number of epochs done since the last call.
        on_epoch: called with each epoch's number and measurements.

    Returns:
        The measurements of every epoch, and which epoch was kept.

    Raises:
        InputError: inputs or labels are invalid.
        SettingError: a setting is invalid.
        RriseError: the loss became NaN or infinite.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).random((300, 4))
        >>> y = x.argmax(axis=1)
        >>> settings = TrainingSettings(epochs=5, learning_rate=0.01, batch_size=50)
        >>> module = nn.Linear(4, 4)
        >>> history = train_base(module, x[:200], y[:200], x[200:], y[200:], sigma=0.1, settings=settings)
        >>> len(history.epochs), 1 <= history.selected_epoch <= 5
        (5, True)
    """
    team, noise = team or Team(), _gaussian(sigma)
    task = base_task(
        module,
        Labelled(module, images, labels, input_range),
        Labelled(module, validation_images, validation_labels, input_range),
        sigma=0.0 if noise is None else noise.sigma,
        settings=settings,
        augmentation=augmentation,
        objective=objective or CrossEntropy(),
        label_smoothing=label_smoothing,
        input_range=input_range,
        clip=noise is None or noise.clipped,
        team=team,
    )
    return train(task, settings, checkpoint=checkpoint, team=team, on_progress=on_progress, on_epoch=on_epoch)


class Labelled:
    """Inputs and their labels, on a module's device; refuses labels that are not its classes."""

    def __init__(self, module: nn.Module, images: Any, labels: Any, input_range: InputRange) -> None:
        self.device, self.dtype = device_of(module), precision_of(module)
        self.inputs = Pool(images, input_range=input_range, device=self.device, dtype=self.dtype)
        with evaluating(module):
            first = self.inputs[torch.zeros(1, dtype=torch.int64, device=self.device)]
            classes = logits_of(module, first, "base classifier").shape[1]
        self.labels = _checked(labels, len(self.inputs), classes).to(self.device, torch.int64)

    def noisy(self, copies: int, seed: int, sigma: float, input_range: InputRange) -> torch.Tensor:
        """Return noisy copies of every input; copies of one input are adjacent."""
        clean = self.inputs[torch.arange(len(self.inputs), device=self.device).repeat_interleave(copies)]
        generator = torch.Generator(self.device).manual_seed(seed)
        return _disturbed(clean, _normal(clean, 1, generator), sigma, input_range)


def base_task(
    module: nn.Module,
    training: Labelled,
    validation: Labelled,
    *,
    sigma: float,
    settings: TrainingSettings,
    augmentation: Augmentation | None,
    objective: BaseObjective,
    label_smoothing: float,
    input_range: InputRange,
    clip: bool,
    team: Team,
) -> Task:
    """Return what the loop needs to train a base classifier."""
    if not 0 <= label_smoothing < 1:
        raise SettingError(f"expected 0 <= label_smoothing < 1, got label_smoothing={label_smoothing}")
    limits, shape = check_input_range(input_range), training.inputs.shape
    if augmentation is not None and len(shape) != 3:
        raise InputError(
            f"expected images [channels, height, width] for augmentation, got inputs of shape {shape}"
        )
    noise_limits = limits if clip else None

    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return objective.loss(logits, targets, label_smoothing)

    def augment(clean: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:
        return clean if augmentation is None else augmentation.apply(clean, draws)

    def disturb(moved: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return _disturbed(moved, noise, sigma, noise_limits)

    def clipped(moved: torch.Tensor) -> torch.Tensor:
        return moved if limits is None else moved.clamp(*limits)

    trainee = Trainee(module, loss, settings, team, rows=objective.rows)
    fast_augment, fast_disturb = (trainee.compile(part, "augmentation") for part in (augment, disturb))

    def examples(batch: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        clean, full = training.inputs[batch], trainee.is_full(batch)
        if augmentation is not None:
            channels, height, width = clean.shape[1:]
            draws = augmentation.draw(len(clean), (channels, height, width), generator)
            clean = (fast_augment if full else augment)(clean, *draws)
        noise = _normal(clean, objective.copies, generator)

        def noisy(moved: torch.Tensor) -> torch.Tensor:
            return (fast_disturb if full else disturb)(moved, noise)

        scene = Scene(noisy, clipped, partial(trainee.probabilities, full=full), generator)
        return objective.examples(clean, training.labels[batch], scene)

    copies = min(8, -(-_VALIDATION_COPIES // len(validation.inputs)))
    noisy = validation.noisy(copies, derive_seed(settings.seed, "validation"), sigma, noise_limits)
    truth = validation.labels.repeat_interleave(copies)

    def measure() -> dict[str, float]:
        wrong = trainee.logits(noisy.split(settings.batch_size)).argmax(dim=1) != truth
        return {"noisy_validation_error": wrong.double().mean().item()}

    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return Task(
        trainee,
        trained,
        len(training.inputs),
        examples,
        measure,
        "noisy_validation_error",
        shape=training.inputs.shape,
        recordable=is_known(objective),
    )


def _gaussian(sigma: float | Noise) -> Gaussian | None:
    """Return the noise of the training; None for noise level 0, which adds none."""
    if not isinstance(sigma, Noise):
        if not sigma >= 0:
            raise SettingError(f"expected sigma >= 0, got sigma={sigma}")
        if sigma == 0:
            return None
    noise = as_noise(sigma)
    if not isinstance(noise, Gaussian):
        raise SettingError(f"the base classifier is trained with Gaussian noise, got {noise.name} noise")
    return noise


def _normal(clean: torch.Tensor, copies: int, generator: torch.Generator) -> torch.Tensor:
    shape = (copies, *clean.shape)
    return torch.randn(shape, generator=generator, device=clean.device, dtype=clean.dtype)


def _disturbed(clean: torch.Tensor, noise: torch.Tensor, sigma: float, limits: InputRange) -> torch.Tensor:
    """Return noisy copies `[copies * B, ...]`."""
    moved = (clean + sigma * noise).flatten(0, 1)
    return moved if limits is None else moved.clamp(*limits)


def _checked(labels: Any, inputs: int, classes: int) -> torch.Tensor:
    """Return labels as a tensor; refuse anything but one class number per input."""
    found = torch.as_tensor(labels)
    if found.shape != (inputs,) or found.is_floating_point() or found.is_complex():
        raise InputError(
            f"expected one whole-number label for each of the {inputs} inputs, got {found.dtype} of shape "
            f"{tuple(found.shape)}"
        )
    if not 0 <= int(found.min()) <= int(found.max()) < classes:
        raise InputError(
            f"expected labels from 0 to {classes - 1}, got {int(found.min())} to {int(found.max())}"
        )
    return found
