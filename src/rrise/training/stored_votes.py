"""Training on votes that were collected before: the same inputs and targets in every epoch."""

from typing import Any

import torch
from torch import nn

from rrise.data.pool import Pool
from rrise.data.splits import stratified_holdout
from rrise.models.head import find_head
from rrise.models.inspection import device_of, precision_of
from rrise.training.features import Features
from rrise.training.lesson import Lesson
from rrise.training.loop import Task
from rrise.training.objectives import measurements, objective_by_name
from rrise.training.settings import SurrogateTraining
from rrise.training.team import Team
from rrise.training.trainee import Trainee
from rrise.votes.array import check_same_inputs, check_votes
from rrise.votes.inputs import ShardedInputs


def lesson_of_votes(
    student: nn.Module,
    pool: Pool,
    inputs: ShardedInputs,
    votes: Any,
    *,
    classes: int,
    labels: Any,
    settings: SurrogateTraining,
    team: Team,
    features: Features,
) -> Lesson:
    """Return what the loop needs to train a network, or its head alone, on the votes of the inputs."""
    device = device_of(student)
    counts, n = check_votes(votes, len(inputs), classes)
    check_same_inputs(votes, inputs.digests)
    targets = torch.from_numpy(counts / n).to(device, precision_of(student))
    kept, held_out = (
        torch.from_numpy(part).to(device)
        for part in stratified_holdout(counts.max(axis=1) / n, settings.validation_share, settings.seed)
    )
    truth = None if labels is None else torch.as_tensor(labels).to(device)[held_out]
    trained, part = list(student.parameters()), student
    source: Pool | torch.Tensor = pool
    alone = settings.strategy == "head"
    if alone:
        final = find_head(student, classes, settings.head)
        trained, part, source = _head_alone(student, final, pool, inputs, features)
    else:
        student.requires_grad_(True)
    loss, select_by = objective_by_name(settings.objective)
    trainee = Trainee(part, loss, settings, team)

    def examples(batch: torch.Tensor, _: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = kept[batch]
        return source[chosen], targets[chosen]

    def measure() -> dict[str, float]:
        logits = trainee.logits(source[chosen] for chosen in held_out.split(settings.batch_size))
        return measurements(logits, targets[held_out], truth)

    shape = source.shape if isinstance(source, Pool) else tuple(source.shape[1:])
    task = Task(
        trainee, trained, len(kept), examples, measure, select_by, training_mode=not alone, shape=shape
    )
    if source is not pool:
        return Lesson(task, held_out, passes=len(inputs))
    return Lesson(task, held_out, epoch_passes=3 * len(kept) + len(held_out))


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
