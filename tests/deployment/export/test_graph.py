"""The graph after the surrogate, in each runtime."""

import functools
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from rrise.deployment.export.bound_table import BoundTable
from rrise.deployment.export.graph import surrogate_graph, with_certificates
from rrise.deployment.export.runtimes import ONNX_RUNTIME, OPENVINO, Form, Runner, open_model
from rrise.statistics import Calibration
from rrise.statistics.scores import PROBIT
from rrise.votes.noise import Gaussian

SIGMA = 0.5
CALIBRATION = Calibration(PROBIT, (0.3,), (95,), (100,), 10_000, Fraction(1, 1000), Fraction(49, 1000))
RUNTIMES = [ONNX_RUNTIME.name, OPENVINO.name]


class Ramp(nn.Module):
    """Two logits 12 apart at most: top probabilities from 1/2 to nearly 1."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return 12 * images


class Ratio(nn.Module):
    """NaN where both values are 0."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return 9 * images / images.sum(dim=1, keepdim=True)


RAMP = Ramp()


@functools.cache
def opened(network: nn.Module, runtime: str, input_range: tuple[float, float] | None = (0.0, 1.0)) -> Runner:
    pytest.importorskip(runtime)
    table = BoundTable.of(CALIBRATION, Gaussian(SIGMA))
    model = with_certificates(surrogate_graph(network, torch.rand(3, 2)), input_range, table)
    return open_model(Form(runtime, "fp32"), model.SerializeToString())


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_certificates_follow_from_the_probabilities_and_are_never_above_the_exact_ones(runtime: str) -> None:
    inputs = np.random.default_rng(0).random((4000, 2), dtype=np.float32)
    inputs[:2] = [[0, 1], [1, 0]]
    found = opened(RAMP, runtime).run(inputs)
    shares = np.exp(12 * inputs.astype(np.float64))
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found["probabilities"], shares, atol=2e-6)
    np.testing.assert_array_equal(found["label"], inputs.argmax(axis=1))
    top = found["probabilities"].max(axis=1).astype(np.float64)
    probit = stats.norm.ppf(np.minimum(top, CALIBRATION.ceiling)) - 0.3
    assert (found["lower_bound"] <= stats.norm.cdf(probit)).all()
    assert (found["radius"] <= np.where(probit > 0, SIGMA * probit, 0)).all()
    assert (SIGMA * probit - found["radius"])[found["issued"]].max() < 2.1e-5
    np.testing.assert_array_equal(found["issued"], probit > 2e-5 / SIGMA)
    bound, radius = BoundTable.of(CALIBRATION, Gaussian(SIGMA)).look_up(found["probabilities"].max(axis=1))
    np.testing.assert_array_equal(found["lower_bound"], bound)
    np.testing.assert_array_equal(found["radius"], radius)
    assert 0.1 < found["issued"].mean() < 1


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -0.001, 1.0001])
def test_an_input_that_is_not_in_the_range_is_never_issued(runtime: str, bad: float) -> None:
    runner = opened(RAMP, runtime)
    inputs = np.array([[0.0, 1.0], [bad, 1.0], [1.0, bad], [1.0, 0.0]], dtype=np.float32)
    found = runner.run(inputs)
    assert found["issued"].tolist() == [True, False, False, True]
    assert found["radius"][1:3].tolist() == found["lower_bound"][1:3].tolist() == [0, 0]
    alone = runner.run(inputs[1:2])
    assert not alone["issued"].any()
    assert not alone["radius"].any()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_without_a_range_only_nan_and_infinities_are_refused(runtime: str) -> None:
    inputs = np.array([[-5.0, 3.0], [np.nan, 3.0], [3.0, np.inf]], dtype=np.float32)
    assert opened(RAMP, runtime, None).run(inputs)["issued"].tolist() == [True, False, False]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_surrogate_that_returns_nan_is_not_issued(runtime: str) -> None:
    found = opened(Ratio(), runtime).run(np.array([[0.0, 0.0], [0.0, 1.0]], dtype=np.float32))
    assert found["issued"].tolist() == [False, True]
    assert found["radius"][0] == found["lower_bound"][0] == 0


def test_says_nothing_of_the_code_it_came_from() -> None:
    content = with_certificates(surrogate_graph(Ramp(), torch.rand(3, 2)), None).SerializeToString()
    assert b"forward" not in content
    assert b".py" not in content


def test_a_network_in_double_precision_takes_single_inputs() -> None:
    torch.manual_seed(0)
    network = nn.Linear(2, 3).double().eval()
    inputs = torch.rand(5, 2)
    found = opened(network, ONNX_RUNTIME.name).run(inputs.numpy())
    expected = network(inputs.double()).softmax(dim=1).detach().numpy()
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-7)
