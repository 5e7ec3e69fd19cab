"""Training of a surrogate on the votes of its inputs."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from rrise.data.inputs import InputRange, check_input_range
from rrise.data.pool import Pool
from rrise.data.splits import stratified_holdout
from rrise.models.evaluating import evaluating
from rrise.models.head import find_head
from rrise.models.inspection import device_of, precision_of
from rrise.models.logits import logits_of
from rrise.models.precision import identity_at
from rrise.progress import OnProgress
from rrise.seeds import derive_seed
from rrise.training.checkpoint import Checkpoint
from rrise.training.features import Features
from rrise.training.loop import OnEpoch, Task, train
from rrise.training.objectives import measurements, objective_by_name
from rrise.training.settings import SurrogateTraining
from rrise.training.strategies import check_classes, check_strategy, starting_network
from rrise.training.surrogate import Surrogate
from rrise.training.team import Team
from rrise.training.trainee import Trainee
from rrise.votes.array import Votes, check_same_inputs, check_votes
from rrise.votes.inputs import ShardedInputs
from rrise.votes.smoothing import Smoothing


def train_surrogate(
    base: nn.Module,
    images: Any,
    votes: Any,
    *,
    settings: SurrogateTraining | None = None,
    network: nn.Module | None = None,
    labels: Any = None,
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

    Args:
        base: the base classifier that cast the votes.
        images: training inputs `[inputs, ...]`.
        votes: their votes, from `collect_votes` or `read_votes`.
        settings: how to train.
        network: a network to start from instead of the base classifier. Any architecture with the same
            classes will do.
        labels: true classes; only the objective `jensen-shannon` selects its epoch by them.
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
    """
    how = (settings or SurrogateTraining()).changed(**changes)
    strategy, batch_size = how.strategy, how.batch_size
    check_strategy(strategy)
    loss, select_by = objective_by_name(how.objective)
    limits, team = check_input_range(input_range), team or Team()
    inputs = ShardedInputs(images, limits)
    smoothing, base_fingerprint = _smoothed(base, inputs, votes)
    student = starting_network(base, network, strategy, derive_seed(how.seed, "network"))
    device = device_of(student)
    with evaluating(base), evaluating(student):
        classes = logits_of(base, inputs.shard(0)[:1], "base classifier").shape[1]
        check_classes(logits_of(student, inputs.shard(0)[:1], "network").shape[1], classes)
    counts, n = check_votes(votes, len(inputs), classes)
    check_same_inputs(votes, inputs.digests)
    targets = torch.from_numpy(counts / n).to(device, precision_of(student))
    kept, held_out = (
        torch.from_numpy(part).to(device)
        for part in stratified_holdout(counts.max(axis=1) / n, how.validation_share, how.seed)
    )
    truth = None if labels is None else torch.as_tensor(labels).to(device)[held_out]

    pool = Pool(images, input_range=limits, device=device, dtype=precision_of(student))
    trained, part = list(student.parameters()), student
    source: Pool | torch.Tensor = pool
    if strategy == "head":
        final = find_head(student, classes, how.head)
        trained, part, source = _head_alone(student, final, pool, inputs, features or Features())
    else:
        student.requires_grad_(True)
    trainee = Trainee(part, loss, how, team)

    def examples(batch: torch.Tensor, _: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = kept[batch]
        return source[chosen], targets[chosen]

    def measure() -> dict[str, float]:
        logits = trainee.logits(source[chosen] for chosen in held_out.split(batch_size))
        return measurements(logits, targets[held_out], truth)

    task = Task(trainee, trained, len(kept), examples, measure, select_by, training_mode=strategy != "head")
    history = train(task, how, checkpoint=checkpoint, team=team, on_progress=on_progress, on_epoch=on_epoch)
    student.eval().requires_grad_(False)
    cached = source is not pool
    passes = len(inputs) if cached else (3 * len(kept) + len(held_out)) * history.selected_epoch
    return Surrogate(
        student,
        base_fingerprint,
        smoothing=smoothing,
        seen=frozenset(inputs.digests),
        history=history,
        training_passes=passes,
        held_out=held_out.cpu().numpy(),
    ).eval()


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


def _head_alone(
    network: nn.Module, head: nn.Module, pool: Pool, inputs: ShardedInputs, features: Features
) -> tuple[list[nn.Parameter], nn.Module, Pool | torch.Tensor]:
    """Return the head's weights, the part of the network to train them in, and the inputs of that part.

    That part is the head with its features, if the network allows it, else the network with its inputs.
    """
    network.requires_grad_(False)
    network.eval()
    entering = features.before(network, head, pool, inputs.fingerprint)
    head.requires_grad_(True)
    if entering is None:
        return list(head.parameters()), network, pool
    return list(head.parameters()), head, entering
