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
FreshVotes = Annotated[int, Setting("Of `distill`: votes of each input, drawn anew at every step.", least=1)]
Mixed = Annotated[
    float, Setting("Of `distill`: share of each batch that is mixed with other inputs.", least=0, most=1)
]
Augmentations = Annotated[
    tuple[str, ...], Setting("Of `distill`: augmentations of each batch of images, in their order.")
]
Jitter = Annotated[
    float, Setting("Of `distill`: level of Gaussian noise added to each batch of inputs.", least=0)
]
QueryNoise = Annotated[
    float, Setting("Of `distill`: level of the noise that the surrogate, not the base, sees.", least=0)
]
StoredStatistics = Annotated[
    bool | None,
    Setting(
        "Of `distill`: whether batch normalisation uses its stored statistics, as the base does.",
        unset="where it starts with those of the base",
        quiet=True,
    ),
]
Averaging = Annotated[
    float,
    Setting("Of `distill`: decay of a running average of the weights, per step; 0: none.", least=0, below=1),
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
            same architecture from a random start (`all-random`). `distill` trains all weights too, on
            augmented and mixed inputs with fresh votes.
        objective: the loss, `cross-entropy`, or `jensen-shannon` as in the paper's Baseline 4.
        head: the submodule that `head` trains; None: the last layer.
        validation_share: the share of the inputs that is held out to measure and select epochs.
        fresh_votes: of `distill`: votes of each input, drawn anew at every step.
        mixed: of `distill`: the share of each batch that is mixed with other inputs.
        augmentations: of `distill`: augmentations of images, named as in `Augmentation`.
        jitter: of `distill`: the level of Gaussian noise added to inputs.
        averaging: of `distill`: the decay of a running average of the weights, per step; 0: none.
        query_noise: of `distill`: the level of Gaussian noise that the surrogate sees inputs with. Votes are
            those of the inputs without it; see `calibrate`.
        stored_statistics: of `distill`: whether batch normalisation uses its stored statistics, as the base
            classifier does when it votes, and leaves them unchanged; None: where the surrogate starts with
            those of the base.

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
        Setting("Which weights to train, and on what: `head`, `all`, `all-random` or `distill`."),
    ] = "head"
    objective: Annotated[
        str, Setting("The loss: `cross-entropy`, or `jensen-shannon` as in the paper's Baseline 4.")
    ] = "cross-entropy"
    head: Annotated[str | None, Setting("The submodule that `head` trains.", unset="the last layer")] = None
    validation_share: Annotated[
        float, Setting("Share of its inputs that selects the surrogate's epoch.", share=True)
    ] = 0.1
    fresh_votes: FreshVotes = 4
    mixed: Mixed = 0.5
    augmentations: Augmentations = ()
    jitter: Jitter = 0.0
    averaging: Averaging = 0.0
    query_noise: QueryNoise = 0.0
    stored_statistics: StoredStatistics = None

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
