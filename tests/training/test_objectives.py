"""The gradient facts of the paper's Appendices C and D, and the formulas themselves."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr

from rrise.training.objectives import Objective, cross_entropy, jensen_shannon, measurements

TRUTH = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
LOGITS = torch.tensor([[0.2, 0.5, -0.4]], dtype=torch.float64)


def gradient(objective: Objective, targets: torch.Tensor) -> torch.Tensor:
    """The gradient in the logits at one prediction, for each of many targets."""
    logits = LOGITS.repeat(len(targets), 1).requires_grad_()
    (objective(logits, targets) * len(targets)).backward()
    assert logits.grad is not None
    return logits.grad


def expected_gradient(objective: Objective, n: int) -> torch.Tensor:
    """Its exact mean over all outcomes of n multinomial votes."""
    counts = torch.tensor([[a, b, n - a - b] for a in range(n + 1) for b in range(n + 1 - a)]).double()
    factorials = (counts + 1).lgamma().sum(dim=1)
    weight = (math.lgamma(n + 1) - factorials + (counts * TRUTH.log()).sum(dim=1)).exp()
    assert abs(weight.sum().item() - 1) < 1e-9
    return (weight[:, None] * gradient(objective, counts / n)).sum(dim=0)


@pytest.mark.parametrize("n", [1, 2, 10, 50])
def test_cross_entropys_gradient_is_unbiased_for_any_number_of_votes(n: int) -> None:
    torch.testing.assert_close(expected_gradient(cross_entropy, n), gradient(cross_entropy, TRUTH[None])[0])


def test_jensen_shannons_gradient_is_off_by_an_amount_of_order_one_over_n() -> None:
    exact = gradient(jensen_shannon, TRUTH[None])[0]
    offsets = [float((expected_gradient(jensen_shannon, n) - exact).norm()) for n in (20, 40, 80)]
    assert offsets[0] > 1e-4
    np.testing.assert_allclose(np.array(offsets) * [20, 40, 80], offsets[2] * 80, rtol=0.1)


def test_jensen_shannon_is_the_divergence_of_the_textbook() -> None:
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 4, generator=random, dtype=torch.float64)
    targets = torch.softmax(3 * torch.randn(50, 4, generator=random, dtype=torch.float64), dim=1)
    targets[:10] = torch.eye(4, dtype=torch.float64)[torch.arange(10) % 4]
    expected = jensenshannon(logits.softmax(dim=1).numpy(), targets.numpy(), axis=1) ** 2
    assert jensen_shannon(logits, targets).item() == pytest.approx(expected.mean())


def test_cross_entropy_is_relative_entropy_and_a_constant() -> None:
    random = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(50, 4, generator=random), torch.rand(50, 4, generator=random)
    targets /= targets.sum(dim=1, keepdim=True)
    predicted = logits.softmax(dim=1).numpy()
    own = -(targets * targets.log()).sum(dim=1).mean().item()
    expected = rel_entr(targets.numpy(), predicted).sum(axis=1).mean() + own
    assert cross_entropy(logits, targets).item() == pytest.approx(expected, rel=1e-5)


def test_targets_of_zero_and_predictions_that_underflow_give_finite_gradients() -> None:
    logits = torch.tensor([[200.0, 0.0, -200.0]], requires_grad=True)
    for objective in (cross_entropy, jensen_shannon):
        logits.grad = None
        objective(logits, torch.tensor([[0.0, 1.0, 0.0]])).backward()
        assert torch.isfinite(logits.grad).all()  # type: ignore[arg-type]


def test_measurements_by_hand() -> None:
    targets = torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5]])
    predicted = torch.tensor([[0.7, 0.3], [0.45, 0.55], [0.2, 0.8]])
    found = measurements(predicted.log(), targets)
    assert found["top_probability_error"] == pytest.approx((0.1 + 0.05 + 0.3) / 3)
    assert found["argmax_agreement"] == pytest.approx(2 / 3)
    assert found["certified_error"] == pytest.approx(1 / 3)
    labels = torch.tensor([1, 1, 1])
    assert measurements(predicted.log(), targets, labels)["certified_error"] == pytest.approx(1 / 3)
    uncertain = torch.full((3, 3), 1 / 3)
    assert measurements(uncertain.log(), uncertain)["certified_error"] == 1
