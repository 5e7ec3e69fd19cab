"""The settings of a recipe: its tables, and what their numbers may be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rrise.errors import SettingError
from rrise.files import sha256_of_json
from rrise.runs.surrogate_choices import Objective, Strategy
from rrise.training.settings import SurrogateTraining, TrainingSettings


@dataclass(frozen=True)
class DataSettings:
    """Which inputs serve what.

    A whole number is a count, a fraction a share: `validation` of the training part, `calibration` of the
    test part. `train` and `test` limit the two parts. `unlabelled` names more inputs for the surrogate;
    `copies` augmented copies of each training input are others.
    """

    source: str
    validation: int | float = 0.1
    calibration: int | float = 0.1
    train: int | None = None
    test: int | None = None
    protocol: Literal["held-out", "paper"] = "held-out"
    seed: int = 0
    unlabelled: str | None = None
    copies: int = 0
    copies_augmentations: tuple[str, ...] = ()


@dataclass(frozen=True)
class BaseSettings:
    """The base classifier: how to build and train it, or `weights` (then nothing is trained)."""

    architecture: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    weights: str | None = None
    sigma: float | None = None
    epochs: int = 200
    learning_rate: float = 1e-3
    batch_size: int = 512
    weight_decay: float = 5e-4
    label_smoothing: float = 0.1
    gradient_clip: float = 1.0
    warmup_epochs: int = 5
    augmentations: tuple[str, ...] = ()
    seed: int = 0
    compile: bool | None = None

    @property
    def training(self) -> TrainingSettings:
        """What the training loop is told of them."""
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
    """The noise, and how many votes each input of a split gets; `selection` is for Monte Carlo alone."""

    sigma: float
    seed: int = 100
    precision: Literal["float32", "tf32", "bfloat16", "float16", "float64"] | None = None
    train: int = 10_000
    calibration: int = 10_000
    test: int = 10_000
    selection: int = 100


@dataclass(frozen=True)
class SurrogateSettings:
    """How the surrogate is trained; with an `architecture` of its own it starts from random weights.

    `votes` is how many of each training input's votes it is trained on: the first so many, or all.
    """

    votes: int | None = None
    strategy: Strategy = "head"
    objective: Objective = "cross-entropy"
    architecture: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    head: str | None = None
    epochs: int = 200
    learning_rate: float = 5e-4
    batch_size: int = 512
    weight_decay: float = 5e-4
    gradient_clip: float = 1.0
    warmup_epochs: int = 5
    validation_share: float = 0.1
    seed: int = 0
    compile: bool | None = None

    @property
    def training(self) -> SurrogateTraining:
        """What the training of a surrogate is told of them."""
        return SurrogateTraining(
            self.strategy,
            self.objective,
            self.head,
            self.epochs,
            self.learning_rate,
            self.batch_size,
            self.weight_decay,
            self.gradient_clip,
            self.warmup_epochs,
            self.validation_share,
            self.seed,
            self.compile,
        )

    @property
    def network_name(self) -> str:
        """A name for its architecture and options, where they are others than the base classifier's."""
        if self.architecture is None:
            return ""
        name = self.architecture.replace(":", "-").replace("/", "-")
        return f"{name}-{sha256_of_json(self.options)[:6]}" if self.options else name


@dataclass(frozen=True)
class CalibrationSettings:
    """The guarantee: `failure = beta + gamma`, and the score it is calibrated with."""

    failure: float = 0.05
    beta: float = 0.001
    score: Literal["additive", "probit"] = "probit"


@dataclass(frozen=True)
class EvaluationSettings:
    """What is compared on the test inputs beside the certifier.

    `surrogates` are more surrogates to train, by name, or by name and votes per training input, as in
    `all-random` or `head@500`. `budgets` are those of the methods that vote, `failures` the levels, and
    `thresholds` the radii of certified accuracy (tenths of sigma if there are none). `protocol` is the
    data's unless it says otherwise. `paper` puts the paper's numbers beside ours.
    """

    surrogates: tuple[str, ...] = ()
    budgets: tuple[int, ...] = (500, 1_000, 5_000, 10_000)
    failures: tuple[float, ...] = (0.25, 0.1, 0.05, 0.01)
    thresholds: tuple[float, ...] = ()
    protocol: Literal["held-out", "paper"] | None = None
    paper: bool = False


TABLES: dict[str, type] = {
    "data": DataSettings,
    "base": BaseSettings,
    "votes": VoteSettings,
    "surrogate": SurrogateSettings,
    "calibration": CalibrationSettings,
    "evaluation": EvaluationSettings,
}
_AT_LEAST = {
    **{f"data.{key}": 1 for key in ("train", "test")},
    **dict.fromkeys(("votes.train", "votes.selection", "surrogate.votes"), 1),
    **{f"{step}.{key}": 1 for step in ("base", "surrogate") for key in ("epochs", "batch_size")},
    **{f"{step}.{key}": 0 for step in ("base", "surrogate") for key in ("weight_decay", "warmup_epochs")},
    "base.sigma": 0,
    "data.copies": 0,
}
_ABOVE_ZERO = [
    f"{step}.{key}" for step in ("base", "surrogate") for key in ("learning_rate", "gradient_clip")
]


def check_numbers(settings: Mapping[str, Any]) -> None:
    """Refuse numbers, by their full names such as `base.epochs`, that no run can have."""
    for key, least in _AT_LEAST.items():
        if settings[key] is not None and not least <= settings[key] < math.inf:
            raise SettingError(f"expected {key} to be at least {least}, got {settings[key]}")
    for key in _ABOVE_ZERO:
        if not 0 < settings[key] < math.inf:
            raise SettingError(f"expected {key} to be above 0, got {settings[key]}")
    if not 0 <= settings["base.label_smoothing"] < 1:
        raise SettingError(
            f"expected base.label_smoothing from 0 to below 1, got {settings['base.label_smoothing']}"
        )
    shares = ("data.validation", "data.calibration", "surrogate.validation_share")
    for key, value in ((key, settings[key]) for key in shares):
        if isinstance(value, int) and value < 1:
            raise SettingError(f"expected {key} to be a count of at least 1, or a share; got {value}")
        if isinstance(value, float) and not 0 < value < 1:
            raise SettingError(f"expected {key} to be a share strictly between 0 and 1, got {value}")
