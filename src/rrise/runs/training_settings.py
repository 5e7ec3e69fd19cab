"""The settings of a recipe for its two networks: the base classifier and the surrogate."""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from rrise.files import Json, sha256_of_json
from rrise.runs.surrogate_choices import Objective, Strategy
from rrise.settings import Setting
from rrise.training.settings import (
    Augmentations,
    Averaging,
    BatchSize,
    Compiled,
    Epochs,
    FreshVotes,
    GradientClip,
    Jitter,
    LearningRate,
    Mixed,
    QueryNoise,
    StoredStatistics,
    SurrogateTraining,
    TrainingSeed,
    TrainingSettings,
    WarmupEpochs,
    WeightDecay,
)

_OF_DISTILL = (
    "fresh_votes",
    "mixed",
    "augmentations",
    "jitter",
    "averaging",
    "query_noise",
    "stored_statistics",
)


@dataclass(frozen=True)
class BaseSettings:
    """The base classifier: how to build and train it, or `weights` (then nothing is trained)."""

    architecture: Annotated[
        str | None,
        Setting("A catalogue name, `timm:NAME` or `package.module:name`; needed without `weights`."),
    ] = None
    options: Annotated[dict[str, Any], Setting("What the architecture is built with.")] = field(
        default_factory=dict
    )
    weights: Annotated[
        str | None, Setting("A model folder or a safetensors file; then nothing is trained.")
    ] = None
    sigma: Annotated[
        float | None, Setting("Noise level of the training; needed without `weights`.", least=0)
    ] = None
    epochs: Epochs = 200
    learning_rate: LearningRate = 1e-3
    batch_size: BatchSize = TrainingSettings.batch_size
    weight_decay: WeightDecay = TrainingSettings.weight_decay
    label_smoothing: Annotated[
        float, Setting("Probability that the target gives to all classes alike.", least=0, below=1)
    ] = 0.1
    objective: Annotated[
        str,
        Setting("What is minimised: `cross-entropy`, `consistency`, `smoothmix`.", quiet=True),
    ] = "cross-entropy"
    objective_options: Annotated[dict[str, Any], Setting("Options of the objective.", quiet=True)] = field(
        default_factory=dict
    )
    gradient_clip: GradientClip = TrainingSettings.gradient_clip
    warmup_epochs: WarmupEpochs = TrainingSettings.warmup_epochs
    augmentations: Annotated[tuple[str, ...], Setting("Augmentations of each batch, in their order.")] = ()
    seed: TrainingSeed = TrainingSettings.seed
    compile: Compiled = TrainingSettings.compiled

    @property
    def training(self) -> TrainingSettings:
        """The settings of the training loop."""
        return TrainingSettings(*_of_loop(self))


@dataclass(frozen=True)
class SurrogateSettings:
    """How the surrogate is trained; with an `architecture` of its own it starts from random weights."""

    votes: Annotated[
        int | None,
        Setting("How many votes of each training input count: the first so many.", least=1, unset="all"),
    ] = None
    strategy: Annotated[
        Strategy,
        Setting("Train the base's last layer, all its weights, all from a random start, or distill."),
    ] = "head"
    objective: Annotated[
        Objective, Setting("The loss; `jensen-shannon` is that of the paper's Baseline 4.")
    ] = "cross-entropy"
    architecture: Annotated[
        str | None,
        Setting("An architecture of its own; needs `all-random` or `distill`.", unset="the base's"),
    ] = None
    options: Annotated[dict[str, Any], Setting("What its own architecture is built with.")] = field(
        default_factory=dict
    )
    head: Annotated[str | None, Setting("The submodule that `head` trains.", unset="the last layer")] = None
    epochs: Epochs = 200
    learning_rate: LearningRate = 5e-4
    batch_size: BatchSize = TrainingSettings.batch_size
    weight_decay: WeightDecay = TrainingSettings.weight_decay
    gradient_clip: GradientClip = TrainingSettings.gradient_clip
    warmup_epochs: WarmupEpochs = TrainingSettings.warmup_epochs
    validation_share: Annotated[
        float, Setting("Share of its inputs that selects the surrogate's epoch.", share=True)
    ] = 0.1
    fresh_votes: FreshVotes = SurrogateTraining.fresh_votes
    mixed: Mixed = SurrogateTraining.mixed
    augmentations: Augmentations = SurrogateTraining.augmentations
    jitter: Jitter = SurrogateTraining.jitter
    averaging: Averaging = SurrogateTraining.averaging
    query_noise: QueryNoise = SurrogateTraining.query_noise
    stored_statistics: StoredStatistics = SurrogateTraining.stored_statistics
    seed: TrainingSeed = TrainingSettings.seed
    compile: Compiled = TrainingSettings.compiled

    @property
    def training(self) -> SurrogateTraining:
        """The settings of the surrogate's training."""
        return SurrogateTraining(
            *_of_loop(self),
            strategy=self.strategy,
            objective=self.objective,
            head=self.head,
            validation_share=self.validation_share,
            **{name: getattr(self, name) for name in _OF_DISTILL},
        )

    @property
    def used(self) -> Json:
        """The settings that its strategy uses: those of `distill` count for `distill` alone."""
        unused = () if self.strategy == "distill" else _OF_DISTILL
        return {name: value for name, value in asdict(self).items() if name not in unused}

    @property
    def network_name(self) -> str:
        """A name for its architecture and options, if they differ from the base classifier's."""
        if self.architecture is None:
            return ""
        name = self.architecture.replace(":", "-").replace("/", "-")
        return f"{name}-{sha256_of_json(self.options)[:6]}" if self.options else name


def _of_loop(
    own: BaseSettings | SurrogateSettings,
) -> tuple[Epochs, LearningRate, BatchSize, WeightDecay, GradientClip, WarmupEpochs, TrainingSeed, Compiled]:
    """Return the settings that both networks share, in the order of `TrainingSettings`."""
    return (
        own.epochs,
        own.learning_rate,
        own.batch_size,
        own.weight_decay,
        own.gradient_clip,
        own.warmup_epochs,
        own.seed,
        own.compile,
    )
