"""A certifier that issues almost nothing says why."""

import numpy as np
import pytest
import torch

import rrise
from rrise.certifiers.advice import advice_on
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.errors import LittleIssuedWarning
from tests.closed_forms import HalfSpace


def test_too_much_noise_is_blamed_where_votes_prove_little(
    half_space: HalfSpace, uniform: np.ndarray
) -> None:
    held_out = rrise.collect_votes(half_space, uniform[:200], sigma=25.0, n=100, input_range=None)
    with pytest.warns(LittleIssuedWarning, match=r"sigma=25 is too large, 100 votes are too few") as found:
        rrise.calibrate(half_space, uniform[:200], held_out, failure=0.05)
    assert "Train the base classifier with Gaussian noise" in str(found[0].message)


def test_the_surrogate_is_blamed_where_votes_prove_much(half_space: HalfSpace, uniform: np.ndarray) -> None:
    held_out = rrise.collect_votes(half_space, uniform[:500], sigma=0.01, n=400)
    poor = torch.nn.Linear(4, 2)
    weights = 50 * torch.tensor([2.0, -2.0, 1.5, 0.0])
    poor.weight.data, poor.bias.data = torch.stack([-weights, weights]), torch.tensor([30.0, -30.0])
    with pytest.warns(LittleIssuedWarning, match=r"too far from the votes for the failure 0.01"):
        rrise.calibrate(poor, uniform[:500], held_out, base=half_space, failure=0.01)


def test_a_useful_certifier_gets_no_advice(certifier: SurrogateCertifier) -> None:
    assert advice_on(certifier) is None


def test_fit_warns_too(half_space: HalfSpace, uniform: np.ndarray) -> None:
    with pytest.warns(LittleIssuedWarning):
        rrise.fit(half_space, uniform, sigma=25.0, input_range=None, calibration_votes=100, failure=0.05)
