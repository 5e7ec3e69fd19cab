"""Training of a surrogate on votes of the base classifier."""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from rrise.data.inputs import InputRange, check_input_range
from rrise.data.pool import Pool
from rrise.errors import SettingError
from rrise.models.checks import check_module
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of, precision_of, uncompiled
from rrise.models.logits import logits_of
from rrise.models.precision import identity_at
from rrise.progress import OnProgress
from rrise.seeds import derive_seed
from rrise.training.checkpoint import Checkpoint
from rrise.training.distillation import distillation, smoothing_to_distill
from rrise.training.features import Features
from rrise.training.loop import OnEpoch, train
from rrise.training.objectives import objective_by_name
from rrise.training.settings import SurrogateTraining
from rrise.training.stored_votes import lesson_of_votes
from rrise.training.strategies import check_classes, check_strategy, starting_network
from rrise.training.surrogate import Surrogate
from rrise.training.team import Team
from rrise.training.views import Augment, Views
from rrise.votes.array import Votes
from rrise.votes.inputs import ShardedInputs
from rrise.votes.noise import Noise
from rrise.votes.smoothing import Smoothing


def train_surrogate(
    base: nn.Module,
    images: Any,
    votes: Any = None,
    *,
    settings: SurrogateTraining | None = None,
    network: nn.Module | None = None,
    labels: Any = None,
    sigma: float | Noise | None = None,
    precision: str | None = None,
    augment: Augment | None = None,
    teacher: nn.Module | None = None,
    input_range: InputRange = (0.0, 1.0),
    checkpoint: Checkpoint | None = None,
    team: Team | None = None,
    features: Features | None = None,
    on_progress: OnProgress | None = None,
    on_epoch: OnEpoch | None = None,
    **changes: Any,
) -> Surrogate:
    """Train a network to predict, from the clean input, the distribution of the votes.

    Training minimises the cross-entropy against `votes / n`. Its gradient is an unbiased estimate of the
    gradient for the true smoothed distribution. Some inputs, stratified by the target's top probability, are
    held out to select the epoch: the one with the smallest mean absolute error of the probability of the
    target's top class. Labels are not needed.

    The strategy `distill` needs no votes of the inputs. At every step it augments and mixes a batch, and
    draws a few fresh votes of the base classifier for the result. A few inputs are held out at random, get
    votes once and measure every epoch. The last epoch is kept.

    Args:
        base: the base classifier that cast the votes.
        images: training inputs `[inputs, ...]`.
        votes: their votes, from `collect_votes` or `read_votes`. `distill` works without them, and uses only
            their smoothing.
        settings: how to train.
        network: a network to start from instead of the base classifier. Any architecture with the same
            classes will do.
        labels: true classes; only the objective `jensen-shannon` selects its epoch by them.
        sigma: of `distill`: the noise level, or a `Noise`. Default: that of the votes.
        precision: of `distill`: the precision in which the base classifier votes. Default: that of the votes,
            or else its own.
        augment: of `distill`: an augmentation of one's own instead of `augmentations`. It maps a batch of
            inputs and a `torch.Generator` to as many inputs of the same shape.
        teacher: of `distill`: a trained surrogate of this base classifier, whose answers are the targets in
            place of fresh votes. With `network=`, it makes a smaller surrogate out of a large one.
        input_range: lowest and highest value of an input.
        checkpoint: where an interrupted training resumes from.
        team: processes that train together.
        features: a cache of what enters the head, for the next surrogate of the same network and inputs.
        on_progress: called with the number of epochs done since the last call.
        on_epoch: called with each epoch's number and measurements.
        **changes: single settings, such as `strategy="all"` or `epochs=50`; see `SurrogateTraining`.

    Returns:
        The trained surrogate.

    Raises:
        InputError: inputs or votes are invalid.
        MismatchError: votes, inputs and base do not belong together.
        SettingError: a setting is unknown or invalid.

    Example:
        >>> import numpy as np, rrise
        >>> base, inputs = nn.Linear(4, 3), np.random.default_rng(0).random((200, 4))
        >>> votes = rrise.collect_votes(base, inputs, sigma=0.25, n=100)
        >>> train_surrogate(base, inputs, votes, epochs=5).history.selected_epoch > 0
        True
        >>> large = train_surrogate(base, inputs, strategy="distill", sigma=0.25, epochs=2)
        >>> how = {"strategy": "distill", "sigma": 0.25, "epochs": 2}
        >>> train_surrogate(base, inputs, network=nn.Linear(4, 3), teacher=large, **how).smoothing.sigma
        0.25
    """
    how = (settings or SurrogateTraining()).changed(**changes)
    check_strategy(how.strategy)
    objective_by_name(how.objective)
    distills = how.strategy == "distill"
    only_distill = {"sigma": sigma, "precision": precision, "augment": augment, "teacher": teacher}
    _check_sources(distills, votes, only_distill)
    limits, team = check_input_range(input_range), team or Team()
    inputs = ShardedInputs(images, limits)
    taught = smoothing_to_distill(base, inputs, votes, sigma, precision) if distills else None
    smoothing, base_fingerprint = (taught, taught.base) if taught else _smoothed(base, inputs, votes)
    student = starting_network(base, network, how.strategy, derive_seed(how.seed, "network"))
    with evaluating(base), evaluating(student):
        classes = logits_of(base, inputs.shard(0)[:1], "base classifier").shape[1]
        check_classes(logits_of(student, inputs.shard(0)[:1], "network").shape[1], classes)
    dtype = torch.float32 if distills else precision_of(student)
    pool = Pool(images, input_range=limits, device=device_of(student), dtype=dtype)
    if taught is not None:
        views = Views(how, pool.shape, limits, augment)
        tutor = None if teacher is None else _tutor(teacher, inputs, classes, taught)
        lesson = distillation(
            base, student, pool, taught, views=views, settings=how, team=team, teacher=tutor
        )
    else:
        lesson = lesson_of_votes(
            student,
            pool,
            inputs,
            votes,
            classes=classes,
            labels=labels,
            settings=how,
            team=team,
            features=features or Features(),
        )
    history = train(
        lesson.task, how, checkpoint=checkpoint, team=team, on_progress=on_progress, on_epoch=on_epoch
    )
    student.eval().requires_grad_(False)
    return Surrogate(
        student,
        base_fingerprint,
        smoothing=smoothing,
        seen=frozenset(inputs.digests),
        history=history,
        training_passes=lesson.passes_until(history.selected_epoch),
        vote_passes=lesson.votes_until(history.selected_epoch),
        held_out=lesson.held_out.cpu().numpy(),
        query_noise=how.query_noise if distills else 0.0,
    ).eval()


def _tutor(teacher: nn.Module, inputs: ShardedInputs, classes: int, taught: Smoothing) -> nn.Module:
    """Return a frozen copy of a teacher; refuse one of other classes, or of another smoothed classifier."""
    check_module(teacher, "teacher")
    if isinstance(teacher, Surrogate):
        if teacher.smoothing is not None:
            taught.check_same(teacher.smoothing, "this training", "the teacher")
        teacher = teacher.network
    tutor = copy.deepcopy(uncompiled(teacher)).eval().requires_grad_(False)
    with evaluating(tutor):
        check_classes(logits_of(tutor, inputs.shard(0)[:1], "teacher").shape[1], classes, "teacher")
    return tutor


def _check_sources(distills: bool, votes: Any, only_distill: dict[str, Any]) -> None:
    """Refuse a training without votes, and arguments that it would not use."""
    if distills:
        return
    if votes is None:
        raise SettingError(
            "expected the votes of the inputs, from collect_votes; only strategy='distill' works without them"
        )
    if unused := [name for name, value in only_distill.items() if value is not None]:
        raise SettingError(f"only strategy='distill' takes {', '.join(unused)}; votes know their own noise")


def _smoothed(base: nn.Module, inputs: ShardedInputs, votes: Any) -> tuple[Smoothing | None, str]:
    """Return the smoothing of the votes, if known, and the base's fingerprint; refuse another base."""
    smoothing = votes.smoothing if isinstance(votes, Votes) else None
    precision = None if smoothing is None else smoothing.precision
    found = identity_at(base, precision, inputs.shard(0), "base classifier")
    if smoothing is not None:
        replace(smoothing, base=found, input_range=inputs.input_range).check_same(
            smoothing, "this training", "the votes"
        )
    return smoothing, found
