"""The settings of a recipe: its tables, each setting with its help text and its limits."""

from dataclasses import dataclass
from typing import Annotated, Literal

from rrise.defaults import FAILURE, SCORE
from rrise.runs.training_settings import BaseSettings, SurrogateSettings
from rrise.settings import Setting

NoiseSeed = Annotated[int, Setting("Seed of the noise.")]
Precision = Annotated[
    Literal["float32", "tf32", "bfloat16", "float16", "float64"] | None,
    Setting("Number type the base computes in; another one is another classifier.", unset="the base's"),
]
Clip = Annotated[bool, Setting("Whether noisy inputs are clipped to the input range.", quiet=True)]
Protocol = Literal["held-out", "paper"]


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
class VoteSettings:
    """The noise, and how many votes each input of a split gets."""

    sigma: Annotated[float, Setting("Noise level of the smoothed classifier.", above=0)]
    seed: NoiseSeed = 100
    clip: Clip = True
    precision: Precision = None
    train: Annotated[int, Setting("Votes of each training input.", least=1)] = 10_000
    calibration: Annotated[int, Setting("Votes of each calibration input.", least=1)] = 10_000
    test: Annotated[int, Setting("Votes of each test input.", least=1)] = 10_000
    selection: Annotated[
        int, Setting("More votes of each test input, with which Monte Carlo selects the class.", least=1)
    ] = 100


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
        Setting("Failure at which votes are bounded.", above=0, below=1, unset="0.2; `paper`: 0.001"),
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
        tuple[float, ...], Setting("Failures at which methods are compared.", above=0, below=1)
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
