"""From a base classifier and inputs to a certifier, in one call."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from torch import nn

from rrise.certifiers.calibrating import Grouping, calibrate
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.inputs import InputRange, as_inputs
from rrise.defaults import FAILURE, SCORE
from rrise.errors import SettingError, described
from rrise.models.checks import check_module
from rrise.models.evaluating import evaluating
from rrise.models.head import find_head
from rrise.models.logits import logits_of
from rrise.progress import OnProgress, progress_bar
from rrise.seeds import derive_seed
from rrise.statistics import Level, Promise, Score, Terms, threat_of
from rrise.training.settings import SurrogateTraining
from rrise.training.surrogate_training import train_surrogate
from rrise.votes.array import Votes
from rrise.votes.collect import collect_votes
from rrise.votes.noise import Noise, as_noise

TRAINING_VOTES = 100
CALIBRATION_VOTES = 1_000

_Bar = Callable[[str, int, str], AbstractContextManager[OnProgress]]


def fit(
    base: nn.Module,
    images: Any,
    *,
    sigma: float | Noise,
    failure: Level = FAILURE,
    promise: str | Promise = Promise.MARGINAL,
    confidence: Level | None = None,
    per: Grouping = None,
    calibration: int | float = 0.2,
    training_votes: int = TRAINING_VOTES,
    calibration_votes: int = CALIBRATION_VOTES,
    score: str | Score = SCORE,
    attack_radius: float = 0.0,
    query_noise: float | None = None,
    tries: int = 1,
    strategy: str | None = None,
    training: SurrogateTraining | None = None,
    input_range: InputRange = (0.0, 1.0),
    class_names: tuple[str, ...] | list[str] | None = None,
    allow_seen: bool = False,
    seed: int = 0,
    verbose: bool = False,
) -> SurrogateCertifier:
    """Make a certifier for a base classifier from unlabelled inputs: vote, train, calibrate.

    The inputs are split at random. Most of them train the surrogate on votes of the base classifier. The
    others get more votes each and calibrate it. `collect_votes`, `train_surrogate` and `calibrate` are the
    single steps.

    Args:
        base: a trained classifier: a module from inputs to K logits. Best trained with noise of this level.
            It must not have been trained on `images`.
        images: inputs `[inputs, ...]`, drawn like those to be certified later. No labels are needed.
        sigma: the level of Gaussian noise, or a `Noise`. More noise certifies larger radii for fewer inputs.
        failure: the allowed probability of issuing a wrong radius.
        promise: what `failure` is about: `marginal`, `pac` or `issued`; see `calibrate`.
        confidence: the confidence of `pac` and `issued`. Default: 0.95.
        per: keep the promise for each class (`class`), or for each of these groups of classes.
        calibration: how many inputs calibrate. A whole number is a count, a fraction a share.
        training_votes: votes per training input; `distill` draws its own instead.
        calibration_votes: votes per calibration input.
        score: `tapered`, `probit`, `additive` as in the paper, or a `Score`.
        attack_radius: keep the promise also for inputs that somebody moved by up to this L2 distance; see
            `calibrate`.
        query_noise: the level of the secret noise that the surrogate sees each query with. Default: none
            without `attack_radius`; with it, that of `training`, or half of sigma.
        tries: how many certificates somebody may ask for on behalf of one input, and use the best.
        strategy: how to train the surrogate, such as `distill`. Default: train its last layer, or all weights
            if it has no such layer; with query noise, `distill`.
        training: all settings of its training, instead of `strategy`.
        input_range: lowest and highest value of an input; None for any value.
        class_names: names of the classes. Default: their numbers.
        allow_seen: accept equal inputs in both parts, if equal inputs occur naturally in this data.
        seed: seed of the split, the noise and the training.
        verbose: show progress bars.

    Returns:
        The certifier: `certifier.certify(inputs)` returns certificates.

    Raises:
        InputError: the inputs or the base classifier are invalid.
        SettingError: there are too few inputs or votes for this failure; the error says how many it needs.

    Example:
        >>> import rrise
        >>> base, inputs = nn.Linear(4, 3), np.random.default_rng(0).random((500, 4))
        >>> certifier = rrise.fit(base, inputs, sigma=0.25, failure=0.1)
        >>> certifier.guarantee.failure_text, len(certifier.certify(inputs[:7]))
        ('0.1', 7)
    """
    check_module(base, "base classifier")
    if training is not None and not isinstance(training, SurrogateTraining):
        raise SettingError(f"expected training as rrise.SurrogateTraining, got {described(training)}")
    inputs = as_inputs(images, input_range=input_range).numpy()
    order = np.random.default_rng(derive_seed(seed, "fit")).permutation(len(inputs))
    held = _count(calibration, len(inputs))
    if training is not None and strategy is not None:
        raise SettingError(f"expected strategy or training, got both: use training.changed({strategy=})")
    if query_noise is None and (attack_radius or tries != 1):
        query_noise = (training and training.query_noise) or as_noise(sigma).sigma / 2
    threat = threat_of(attack_radius, query_noise, tries, as_noise(sigma).sigma)
    groups = None if per is None else (0,)  # at least one: the number of classes is not known yet
    Terms(failure, score=score, promise=promise, confidence=confidence, groups=groups, threat=threat).check(
        held, calibration_votes
    )
    parts = {"calibration": inputs[order[:held]], "train": inputs[order[held:]]}
    bar = _bars(verbose)
    how = training or SurrogateTraining(
        strategy=strategy or ("distill" if query_noise else _strategy(base, inputs)),
        query_noise=query_noise or 0.0,
        seed=seed,
    )
    distills = how.strategy == "distill"
    votes: dict[str, Votes] = {}
    for name, n in (("train", training_votes), ("calibration", calibration_votes)):
        if distills and name == "train":
            continue
        with bar(f"votes for {name}", n * len(parts[name]), "passes") as advance:
            votes[name] = collect_votes(
                base,
                parts[name],
                sigma=sigma,
                n=n,
                seed=seed,
                split=name,
                input_range=input_range,
                on_progress=advance,
            )
    with bar("training the surrogate", how.epochs, "epochs") as advance:
        surrogate = train_surrogate(
            base,
            parts["train"],
            votes.get("train"),
            settings=how,
            sigma=sigma if distills else None,
            input_range=input_range,
            on_progress=advance,
        )
    return calibrate(
        surrogate,
        parts["calibration"],
        votes["calibration"],
        failure=failure,
        promise=promise,
        confidence=confidence,
        per=per,
        score=score,
        attack_radius=attack_radius,
        query_noise=query_noise,
        tries=tries,
        base=base,
        class_names=class_names,
        allow_seen=allow_seen,
    )


def _count(calibration: int | float, inputs: int) -> int:
    """Return how many inputs calibrate; at least one remains for training."""
    try:
        share = float(calibration)
    except (TypeError, ValueError):
        share = -1.0
    wanted = round(share * inputs) if 0 < share < 1 else int(share)
    if not 0 < wanted < inputs:
        raise SettingError(
            f"expected calibration as a share, or a count below the {inputs} inputs; got {calibration}"
        )
    return wanted


def _strategy(base: nn.Module, inputs: Any) -> str:
    """Train the last layer if there is one, else all weights."""
    with evaluating(base):
        classes = logits_of(base, as_inputs(inputs[:1], input_range=None), "base classifier").shape[1]
    try:
        find_head(base, classes)
    except SettingError:
        return "all"
    return "head"


def _bars(verbose: bool) -> _Bar:
    @contextmanager
    def bar(what: str, total: int, unit: str) -> Iterator[OnProgress]:
        if not verbose:
            yield lambda _: None
            return
        with progress_bar(Console(stderr=True), what, total, unit) as advance:
            yield advance

    return bar
