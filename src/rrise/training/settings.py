"""The settings and the history of a training."""

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from rrise.errors import SettingError, did_you_mean
from rrise.settings import Setting, check_settings

Epochs = Annotated[int, Setting("Passes over the training inputs.", least=1)]
LearningRate = Annotated[float, Setting("Learning rate after the warm-up; it falls from there.", above=0)]
BatchSize = Annotated[int, Setting("Inputs to a training step.", least=1)]
WeightDecay = Annotated[float, Setting("Weight decay of the optimiser.", least=0)]
GradientClip = Annotated[float, Setting("Longer gradients are cut to this norm.", above=0)]
WarmupEpochs = Annotated[int, Setting("Epochs in which the learning rate rises.", least=0)]
TrainingSeed = Annotated[int, Setting("Seed of weights, batches, noise and augmentations.")]
Compiled = Annotated[
    bool | None, Setting("Whether training steps are compiled.", unset="on a GPU, not on a CPU")
]


@dataclass(frozen=True)
class TrainingSettings:
    """How to optimise; the defaults are the paper's (Appendix A.3 and A.5) except for epochs and rate.

    Attributes:
        epochs: passes over the training inputs.
        learning_rate: learning rate after the warm-up; it decays from there.
        batch_size: inputs per training step.
        weight_decay: weight decay of the optimiser.
        gradient_clip: gradients are clipped to this norm.
        warmup_epochs: epochs in which the learning rate rises.
        seed: seed of weights, batches, noise and augmentations.
        compiled: whether training steps are compiled; None: on a GPU only.
        mixed_precision: whether to compute in bfloat16 where it is safe; None: on a GPU only.

    Raises:
        SettingError: a value is not allowed.

    Example:
        >>> TrainingSettings(epochs=30, learning_rate=1e-3).batch_size
        512
    """

    epochs: Epochs
    learning_rate: LearningRate
    batch_size: BatchSize = 512
    weight_decay: WeightDecay = 5e-4
    gradient_clip: GradientClip = 1.0
    warmup_epochs: WarmupEpochs = 5
    seed: TrainingSeed = 0
    compiled: Compiled = None
    mixed_precision: Annotated[
        bool | None,
        Setting("Whether to compute in bfloat16 where it is safe.", unset="on a GPU, not on a CPU"),
    ] = None

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class SurrogateTraining(TrainingSettings):
    """How to train a surrogate; the defaults are the paper's (Appendix A.5).

    It has the fields of `TrainingSettings`, with defaults for `epochs` and `learning_rate`, and these:

    Attributes:
        strategy: train the last layer of the base (`head`), all its weights (`all`), or all weights of the
            same architecture from a random start (`all-random`).
        objective: the loss, `cross-entropy`, or `jensen-shannon` as in the paper's Baseline 4.
        head: the submodule that `head` trains; None: the last layer.
        validation_share: the share of the inputs that selects the epoch.

    Raises:
        SettingError: a value is not allowed.

    Example:
        >>> SurrogateTraining(epochs=50).changed(strategy="all").strategy
        'all'
    """

    epochs: Epochs = 200
    learning_rate: LearningRate = 5e-4
    strategy: Annotated[
        str,
        Setting("Train the base's last layer (`head`), all its weights, or `all-random` from a new start."),
    ] = "head"
    objective: Annotated[
        str, Setting("The loss: `cross-entropy`, or `jensen-shannon` as in the paper's Baseline 4.")
    ] = "cross-entropy"
    head: Annotated[str | None, Setting("The submodule that `head` trains.", unset="the last layer")] = None
    validation_share: Annotated[
        float, Setting("Share of its inputs that selects the surrogate's epoch.", share=True)
    ] = 0.1

    def changed(self, **changes: Any) -> "SurrogateTraining":
        """Return the settings with some changed; an unknown name is a `SettingError`."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise SettingError(
                    f"train_surrogate has no setting {name!r}{did_you_mean(name, known)}; it has "
                    f"{', '.join(known)}"
                )
        return replace(self, **changes)


@dataclass
class TrainingHistory:
    """The measurements of each epoch on the validation inputs, and the epoch that was kept (from 1)."""

    selected_epoch: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)

    @property
    def selected(self) -> dict[str, float]:
        """The measurements at the kept epoch."""
        return self.epochs[self.selected_epoch - 1]
