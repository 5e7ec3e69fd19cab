"""The surrogate: a network from the clean input to the class distribution of the votes."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from rrise.data.inputs import InputRange, as_inputs, check_input_range, input_digests
from rrise.data.splits import stratified_holdout
from rrise.models.evaluation_mode import device_of, evaluating, logits_of, precision_of, uncompiled
from rrise.models.head import features_before, find_head
from rrise.models.precision import identity_at
from rrise.progress import OnProgress
from rrise.training.loop import TrainingHistory, TrainingSettings, train
from rrise.training.strategies import check_strategy
from rrise.votes.array import Smoothing, Votes, check_same_inputs, check_votes

_FEATURE_BATCH = 512


class Surrogate(nn.Module):
    """A trained surrogate: the network, and what it was trained for and on.

    `smoothing` is the smoothed classifier of its votes where they told, `seen` holds digests of the
    training inputs (calibration refuses them), `training_passes` the cost in forward-pass equivalents.
    Calling it returns logits `[inputs, K]`; their softmax estimates the smoothed class probabilities,
    with no guarantee before calibration.
    """

    def __init__(
        self,
        network: nn.Module,
        base_fingerprint: str,
        *,
        smoothing: Smoothing | None = None,
        seen: frozenset[bytes] = frozenset(),
        history: TrainingHistory | None = None,
        training_passes: int = 0,
    ) -> None:
        super().__init__()
        self.network = network
        self.base_fingerprint = base_fingerprint
        self.smoothing = smoothing
        self.seen = seen
        self.history = history or TrainingHistory()
        self.training_passes = training_passes

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of the network."""
        logits: torch.Tensor = self.network(images)
        return logits


def train_surrogate(
    base: nn.Module,
    images: Any,
    votes: Any,
    *,
    strategy: str = "head",
    head: str | None = None,
    epochs: int = 200,
    learning_rate: float = 5e-4,
    batch_size: int = 512,
    validation_share: float = 0.1,
    seed: int = 0,
    input_range: InputRange = (0.0, 1.0),
    on_progress: OnProgress | None = None,
) -> Surrogate:
    """Train a copy of the base classifier to predict, from the clean input, the votes' distribution.

    Minimises the cross-entropy against `votes / n`, whose gradient is unbiased for that of the true
    smoothed distribution. `strategy="head"` trains the last layer alone (on features computed once),
    `"all"` every weight; both start from the base classifier, which stays as it is. A tenth of the
    inputs, spread over the targets' top probabilities, selects the epoch: the smallest mean absolute
    error of the probability of the target's top class. Labels are not needed.
    """
    check_strategy(strategy)
    limits = check_input_range(input_range)
    inputs = as_inputs(images, input_range=limits)
    digests = input_digests(inputs)
    smoothing = votes.smoothing if isinstance(votes, Votes) else None
    precision = None if smoothing is None else smoothing.precision
    base_fingerprint = identity_at(base, precision, inputs, "base classifier")
    if smoothing is not None:
        replace(smoothing, base=base_fingerprint, input_range=limits).check_same(
            smoothing, "this training", "the votes"
        )
    network = copy.deepcopy(uncompiled(base))
    with evaluating(network):
        classes = logits_of(network, inputs[:1], "base classifier").shape[1]
    counts, n = check_votes(votes, len(inputs), classes)
    check_same_inputs(votes, digests)
    targets = torch.from_numpy(counts / n).to(device_of(network), precision_of(network))
    kept, held_out = (
        torch.from_numpy(part) for part in stratified_holdout(counts.max(axis=1) / n, validation_share, seed)
    )

    moved = inputs.to(device_of(network), precision_of(network))
    trained, predict, examples = _trainable(network, moved, classes, strategy, head)
    cached = examples is not moved

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        network.train(strategy == "all")
        return F.cross_entropy(predict(examples[kept[batch]]), targets[kept[batch]])

    def measure() -> dict[str, float]:
        with evaluating(network):
            return agreement_with_targets(predict(examples[held_out]), targets[held_out])

    history = train(
        network,
        trained,
        size=len(kept),
        loss_of=loss_of,
        measure=measure,
        select_by="top_probability_error",
        settings=TrainingSettings(epochs, learning_rate, batch_size, seed=seed),
        on_progress=on_progress,
    )
    network.eval().requires_grad_(False)
    passes = len(inputs) if cached else (3 * len(kept) + len(held_out)) * history.selected_epoch
    return Surrogate(
        network,
        base_fingerprint,
        smoothing=smoothing,
        seen=frozenset(digests),
        history=history,
        training_passes=passes,
    ).eval()


def agreement_with_targets(logits: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
    """Measure predictions against targets: error at the top class, cross-entropy, argmax agreement."""
    top = targets.argmax(dim=1)
    chosen = F.softmax(logits.double(), dim=1).gather(1, top[:, None])[:, 0]
    return {
        "top_probability_error": (chosen - targets.max(dim=1).values).abs().mean().item(),
        "cross_entropy": F.cross_entropy(logits.double(), targets.double()).item(),
        "argmax_agreement": (logits.argmax(dim=1) == top).double().mean().item(),
    }


def _trainable(
    network: nn.Module, inputs: torch.Tensor, classes: int, strategy: str, head_name: str | None
) -> tuple[list[nn.Parameter], Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    """Return the weights to train, the function to train them through, and its examples.

    For the head alone these are the head and the features that enter it, where the network allows it.
    """
    network.requires_grad_(True)
    if strategy == "all":
        return list(network.parameters()), network, inputs
    head = find_head(network, classes, head_name)
    network.requires_grad_(False)
    network.eval()
    features = features_before(network, head, inputs, _FEATURE_BATCH)
    head.requires_grad_(True)
    if features is None:
        return list(head.parameters()), network, inputs
    return list(head.parameters()), head, features


def surrogate_probabilities(module: nn.Module, inputs: torch.Tensor, batch_size: int) -> np.ndarray[Any, Any]:
    """Return the class probabilities `[inputs, K]` of a surrogate in float64."""
    with evaluating(module):
        parts = [
            F.softmax(logits_of(module, batch, "surrogate").double(), dim=1).cpu()
            for batch in inputs.split(batch_size)
        ]
    return torch.cat(parts).numpy()
