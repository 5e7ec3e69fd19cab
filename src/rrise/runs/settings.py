"""The settings of a recipe: its tables, each setting with its help text and its limits."""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from rrise.defaults import FAILURE, SCORE
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
    SurrogateTraining,
    TrainingSeed,
    TrainingSettings,
    WarmupEpochs,
    WeightDecay,
)

NoiseSeed = Annotated[int, Setting("Seed of the noise.")]
Precision = Annotated[
    Literal["float32", "tf32", "bfloat16", "float16", "float64"] | None,
    Setting("Number type the base computes in; another one is another classifier.", unset="the base's"),
]
Protocol = Literal["held-out", "paper"]
_OF_DISTILL = ("fresh_votes", "mixed", "augmentations", "jitter", "averaging", "query_noise")


@dataclass(frozen=True)
class DataSettings:
    """The dataset and how it is split."""

    source: Annotated[str, Setting("The dataset: a name, `FILE.npy`, `npz:FILE` or a folder of images.")]
    validation: Annotated[
        int | float, Setting("How many training inputs select the base classifier's epoch.", share=True)
    ] = 0.1
    calibration: Annotated[
        int | float, Setting("How many test inputs calibrate the certifier.", share=True)
    ] = 0.1
    train: Annotated[
        int | None, Setting("Training inputs to keep before anything is taken.", least=1, unset="all")
    ] = None
    test: Annotated[
        int | None, Setting("Test inputs to keep before anything is taken.", least=1, unset="all")
    ] = None
    protocol: Annotated[
        Protocol,
        Setting("Report on test inputs that did not calibrate, or on all of them as the paper does."),
    ] = "held-out"
    seed: Annotated[int, Setting("Seed of the splits.")] = 0
    unlabelled: Annotated[
        tuple[str, ...],
        Setting("More inputs for the surrogate, which needs no labels; larger images are reduced."),
    ] = ()
    copies: Annotated[
        int, Setting("Augmented copies of each training input, for the surrogate alone.", least=0)
    ] = 0
    copies_augmentations: Annotated[tuple[str, ...], Setting("Augmentations that make the copies.")] = ()


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
    gradient_clip: GradientClip = TrainingSettings.gradient_clip
    warmup_epochs: WarmupEpochs = TrainingSettings.warmup_epochs
    augmentations: Annotated[tuple[str, ...], Setting("Augmentations of each batch, in their order.")] = ()
    seed: TrainingSeed = TrainingSettings.seed
    compile: Compiled = TrainingSettings.compiled

    @property
    def training(self) -> TrainingSettings:
        """The settings of the training loop."""
        return TrainingSettings(
            self.epochs,
            self.learning_rate,
            self.batch_size,
            self.weight_decay,
            self.gradient_clip,
            self.warmup_epochs,
            self.seed,
            self.compile,
        )


@dataclass(frozen=True)
class VoteSettings:
    """The noise, and how many votes each input of a split gets."""

    sigma: Annotated[float, Setting("Noise level of the smoothed classifier.", above=0)]
    seed: NoiseSeed = 100
    precision: Precision = None
    train: Annotated[int, Setting("Votes of each training input.", least=1)] = 10_000
    calibration: Annotated[int, Setting("Votes of each calibration input.", least=1)] = 10_000
    test: Annotated[int, Setting("Votes of each test input.", least=1)] = 10_000
    selection: Annotated[
        int, Setting("More votes of each test input, with which Monte Carlo selects the class.", least=1)
    ] = 100


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
    seed: TrainingSeed = TrainingSettings.seed
    compile: Compiled = TrainingSettings.compiled

    @property
    def training(self) -> SurrogateTraining:
        """The settings of the surrogate's training."""
        return SurrogateTraining(
            self.epochs,
            self.learning_rate,
            self.batch_size,
            self.weight_decay,
            self.gradient_clip,
            self.warmup_epochs,
            self.seed,
            self.compile,
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


@dataclass(frozen=True)
class CalibrationSettings:
    """The guarantee: its failure, what the failure is about, and how the certifier is calibrated."""

    failure: Annotated[
        float, Setting("Largest probability that a radius is issued and wrong.", above=0, below=1)
    ] = FAILURE
    promise: Annotated[
        Literal["marginal", "pac", "issued"],
        Setting("What the failure is about; `pac` and `issued` hold with a confidence."),
    ] = "marginal"
    confidence: Annotated[
        float | None,
        Setting(
            "Confidence of `pac` and `issued` over the calibration inputs.", above=0, below=1, unset="0.95"
        ),
    ] = None
    per: Annotated[
        Literal["class"] | None,
        Setting("Keep the promise for each `class` that the surrogate answers.", unset="all inputs"),
    ] = None
    rule: Annotated[
        Literal["floored", "paper"],
        Setting("Charge for issued bounds alone, or for all bounds as the paper does."),
    ] = "floored"
    beta: Annotated[
        float | None,
        Setting("Level at which votes are bounded.", above=0, below=1, unset="0.2; `paper`: 0.001"),
    ] = None
    score: Annotated[
        str, Setting("How the surrogate's error is measured: `tapered`, `probit` or `additive`.")
    ] = SCORE
    attack_radius: Annotated[
        float, Setting("Keep the failure for inputs that were moved by up to this L2 distance.", least=0)
    ] = 0.0
    query_noise: Annotated[
        float | None,
        Setting(
            "Level of the secret noise that the surrogate sees a query with.",
            above=0,
            unset="that of the surrogate's training, if there is an attack radius",
        ),
    ] = None
    tries: Annotated[int, Setting("Certificates that an attacker may ask for, for one input.", least=1)] = 1


@dataclass(frozen=True)
class EvaluationSettings:
    """What is compared with the certifier on the test inputs."""

    surrogates: Annotated[
        tuple[str, ...], Setting("More surrogates to train, such as `all-random` or `head@500` (votes).")
    ] = ()
    budgets: Annotated[tuple[int, ...], Setting("Votes per input of the methods that vote.", least=1)] = (
        500,
        1_000,
        5_000,
        10_000,
    )
    failures: Annotated[
        tuple[float, ...], Setting("Levels of the guarantee that are compared.", above=0, below=1)
    ] = (0.25, 0.1, 0.05, 0.01)
    thresholds: Annotated[
        tuple[float, ...], Setting("Radii of certified accuracy; tenths of sigma if there are none.", least=0)
    ] = ()
    protocol: Annotated[
        Protocol | None, Setting("Which test inputs are reported on.", unset="that of the data")
    ] = None
    paper: Annotated[bool, Setting("Put the paper's numbers beside ours.")] = False


@dataclass(frozen=True)
class AuditSettings:
    """How hard the certifier is attacked, for the report."""

    inputs: Annotated[int, Setting("Test inputs to attack; 0: no audit.", least=0)] = 0
    radii: Annotated[
        tuple[float, ...],
        Setting("How far to move them; half of sigma and sigma if there are none.", above=0),
    ] = ()
    votes: Annotated[int, Setting("Fresh votes that judge each certificate.", least=1)] = 1_000
    steps: Annotated[int, Setting("Gradient steps from each start.", least=1)] = 20
    restarts: Annotated[int, Setting("Starts for each input.", least=1)] = 2
    queries: Annotated[int, Setting("Certificates to ask for without gradients.", least=1)] = 100


TABLES: dict[str, type] = {
    "data": DataSettings,
    "base": BaseSettings,
    "votes": VoteSettings,
    "surrogate": SurrogateSettings,
    "calibration": CalibrationSettings,
    "evaluation": EvaluationSettings,
    "audit": AuditSettings,
}
