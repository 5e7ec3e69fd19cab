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
from rrise.training.settings import TrainingSettings
from rrise.training.strategies import check_classes, check_strategy, starting_network
from rrise.training.surrogate import Surrogate
from rrise.training.team import Team
from rrise.training.trainee import Trainee
from rrise.votes.array import Smoothing, Votes, check_same_inputs, check_votes
from rrise.votes.inputs import ShardedInputs


def train_surrogate(
    base: nn.Module,
    images: Any,
    votes: Any,
    *,
    strategy: str = "head",
    objective: str = "cross-entropy",
    network: nn.Module | None = None,
    head: str | None = None,
    epochs: int = 200,
    learning_rate: float = 5e-4,
    batch_size: int = 512,
    weight_decay: float = 5e-4,
    gradient_clip: float = 1.0,
    warmup_epochs: int = 5,
    validation_share: float = 0.1,
    labels: Any = None,
    seed: int = 0,
    input_range: InputRange = (0.0, 1.0),
    compiled: bool | None = None,
    mixed_precision: bool | None = None,
    checkpoint: Checkpoint | None = None,
    team: Team | None = None,
    features: Features | None = None,
    on_progress: OnProgress | None = None,
    on_epoch: OnEpoch | None = None,
) -> Surrogate:
    """Train a network to predict, from the clean input, the votes' distribution.

    Minimises the cross-entropy against `votes / n`, whose gradient is unbiased for that of the true
    smoothed distribution. `strategy="head"` trains the last layer of a copy of the base classifier alone
    (on features computed once), `"all"` every weight of it, `"all-random"` every weight from a random start.
    Another `network`, of any architecture with the same classes, can take the base's place as the start.
    A tenth of the inputs, spread over the targets' top probabilities, selects the epoch: the smallest mean
    absolute error of the probability of the target's top class. Labels are not needed.

    `objective="jensen-shannon"` is the offline surrogate of Bhardwaj et al. (2024) instead; it selects
    the epoch with the highest certified accuracy at face value, for which it takes `labels` if given.

    `features` keeps what enters the head, so that the next surrogate of the same network and inputs need not
    compute it again.
    """
    check_strategy(strategy)
    loss, select_by = objective_by_name(objective)
    settings = TrainingSettings(
        epochs,
        learning_rate,
        batch_size,
        weight_decay,
        gradient_clip,
        warmup_epochs,
        seed,
        compiled,
        mixed_precision,
    )
    limits, team = check_input_range(input_range), team or Team()
    inputs = ShardedInputs(images, limits)
    smoothing, base_fingerprint = _smoothed(base, inputs, votes)
    student = starting_network(base, network, strategy, derive_seed(seed, "network"))
    device = device_of(student)
    with evaluating(base), evaluating(student):
        classes = logits_of(base, inputs.shard(0)[:1], "base classifier").shape[1]
        check_classes(logits_of(student, inputs.shard(0)[:1], "network").shape[1], classes)
    counts, n = check_votes(votes, len(inputs), classes)
    check_same_inputs(votes, inputs.digests)
    targets = torch.from_numpy(counts / n).to(device, precision_of(student))
    kept, held_out = (
        torch.from_numpy(part).to(device)
        for part in stratified_holdout(counts.max(axis=1) / n, validation_share, seed)
    )
    truth = None if labels is None else torch.as_tensor(labels).to(device)[held_out]

    pool = Pool(images, input_range=limits, device=device, dtype=precision_of(student))
    trained, part = list(student.parameters()), student
    source: Pool | torch.Tensor = pool
    if strategy == "head":
        final = find_head(student, classes, head)
        trained, part, source = _head_alone(student, final, pool, inputs, features or Features())
    else:
        student.requires_grad_(True)
    trainee = Trainee(part, loss, settings, team)

    def examples(batch: torch.Tensor, _: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = kept[batch]
        return source[chosen], targets[chosen]

    def measure() -> dict[str, float]:
        logits = trainee.logits(source[chosen] for chosen in held_out.split(batch_size))
        return measurements(logits, targets[held_out], truth)

    task = Task(trainee, trained, len(kept), examples, measure, select_by, training_mode=strategy != "head")
    history = train(
        task, settings, checkpoint=checkpoint, team=team, on_progress=on_progress, on_epoch=on_epoch
    )
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
    """Return what the votes are of, where they tell, and the base's fingerprint; refuse another base."""
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
    """Return the head's weights, the part of the network to train them through, and what enters that part.

    These are the head and its features, where the network allows it, else the network and its inputs.
    """
    network.requires_grad_(False)
    network.eval()
    entering = features.before(network, head, pool, inputs.fingerprint)
    head.requires_grad_(True)
    if entering is None:
        return list(head.parameters()), network, pool
    return list(head.parameters()), head, entering
