"""Every certifier that votes gives the same certificates from stored votes and from votes drawn live."""

from pathlib import Path

import numpy as np
import pytest

import rrise
from rrise.certifiers.voting import VoteMethod
from tests.closed_forms import HalfSpace

N = 400


@pytest.mark.parametrize(
    "certifier",
    [
        rrise.MonteCarlo(N, 0.01),
        rrise.MonteCarlo(N, 0.01, two_stage=False),
        rrise.InputSpecificBudget(N, 0.05, 0.01),
        rrise.EarlyStopping(N, 0.05, 0.01),
        rrise.Sequential(N, 0.01, tolerance=0.05),
        rrise.Sequential(N, 0.01, radius=0.1),
    ],
    ids=lambda certifier: certifier.name,
)
def test_live_and_stored_agree(
    certifier: VoteMethod, half_space: HalfSpace, uniform: np.ndarray, tmp_path: Path
) -> None:
    inputs = uniform[:150]
    live = certifier.bind(half_space, sigma=0.25, seed=3).certify(inputs)
    sequences = []
    for split, n in (("inputs", N), ("inputs-selection", 100)):
        plan = rrise.VotePlan(0.25, n, 3, split)
        rrise.VoteStore(tmp_path / split, half_space, inputs, plan).collect()
        sequences.append(rrise.read_sequence(tmp_path / split))
    stored = certifier.certify_votes(*sequences)
    for name in ("label", "radius", "lower_bound", "issued", "passes"):
        np.testing.assert_array_equal(getattr(live, name), getattr(stored, name))
    assert stored.issued.any()
    assert stored.passes.max() <= N + 100
