"""The losses and measurements of a surrogate: predictions `[inputs, K]` against targets."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from rrise.errors import SettingError, did_you_mean

Objective = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps logits and targets `[inputs, K]` to a mean loss."""


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return `-mean(sum_k t_k log q_k)`.

    It is linear in the targets. For targets that are multinomial frequencies, its expected gradient is
    therefore the gradient at their true distribution, for any number of votes.
    """
    return F.cross_entropy(logits, targets)


def jensen_shannon(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean Jensen–Shannon divergence between softmax(logits) and the targets, in nats.

    It is not linear in the targets: with n votes, its gradient has a bias of order 1/n.
    """
    predicted = F.log_softmax(logits, dim=1)
    middle = torch.logaddexp(predicted, targets.log()) - math.log(2)
    to_targets = torch.xlogy(targets, targets) - targets * middle
    to_predicted = predicted.exp() * (predicted - middle)
    return (to_targets + to_predicted).sum(dim=1).mean() / 2


OBJECTIVES: dict[str, tuple[Objective, str]] = {
    "cross-entropy": (cross_entropy, "top_probability_error"),
    "jensen-shannon": (jensen_shannon, "certified_error"),
}
"""By name: the loss, and the measurement whose smallest value selects the epoch."""


def objective_by_name(name: str) -> tuple[Objective, str]:
    """Return an objective and the name of the measurement that selects its epoch."""
    if name not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise SettingError(
            f"expected an objective out of {known}; got {name!r}{did_you_mean(name, OBJECTIVES)}"
        )
    return OBJECTIVES[name]


def measurements(
    logits: torch.Tensor, targets: torch.Tensor, labels: torch.Tensor | None = None
) -> dict[str, float]:
    """Measure predictions against targets.

    `top_probability_error` is the mean absolute error of the probability of the target's top class.
    `certified_error` is the share of inputs not certified correctly if the prediction is taken at face
    value: it is not the label, or its probability is at most 1/2. Without labels, the target's top class
    replaces them.
    """
    logits, targets = logits.double(), targets.double()
    top = targets.argmax(dim=1)
    chosen = logits.argmax(dim=1)
    probabilities = F.softmax(logits, dim=1)
    certified = (chosen == (top if labels is None else labels)) & (probabilities.amax(dim=1) > 0.5)
    of_top = probabilities.gather(1, top[:, None])[:, 0]
    return {
        "top_probability_error": (of_top - targets.amax(dim=1)).abs().mean().item(),
        "cross_entropy": cross_entropy(logits, targets).item(),
        "jensen_shannon": jensen_shannon(logits, targets).item(),
        "argmax_agreement": (chosen == top).double().mean().item(),
        "certified_error": 1 - certified.double().mean().item(),
    }
