"""The cascade: surrogate first, votes where the wanted radius is not reached."""

import numpy as np
import pytest

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.errors import SettingError
from tests.closed_forms import HalfSpace


@pytest.fixture(scope="module")
def fresh() -> np.ndarray:
    return np.random.default_rng(8).random((300, 4), dtype=np.float32)


def test_inputs_below_the_wanted_radius_are_voted_on(
    certifier: SurrogateCertifier, half_space: HalfSpace, fresh: np.ndarray
) -> None:
    first = certifier.certify(fresh)
    method = rrise.MonteCarlo(20_000, failure=0.01, two_stage=False)
    cascade = rrise.Cascade(certifier, half_space, radius=0.2, method=method)
    found = cascade.certify(fresh)
    enough = first.issued & (first.radius >= 0.2)
    assert 0 < enough.sum() < len(fresh)
    assert found.methods is not None
    assert (found.methods[enough] == "surrogate").all()
    np.testing.assert_array_equal(found.radius[enough], first.radius[enough])
    assert (found.radius >= first.radius).all()
    assert (found.methods[~enough] == "monte-carlo-one-stage").any()
    assert (found.lower_bound[~found.issued] == 0).all()
    assert (found.passes[enough] == 1).all()
    assert (found.passes[~enough] == 20_001).all()
    share = rrise.collect_votes(half_space, fresh, sigma=0.25, n=20_000, seed=3).max(axis=1) / 20_000
    clear = share > 0.53  # where twenty thousand fresh votes do not fail to certify
    assert (clear & ~first.issued).any()
    assert found.issued[clear].all()


def test_the_promise_of_the_whole_is_the_sum(certifier: SurrogateCertifier, half_space: HalfSpace) -> None:
    cascade = rrise.Cascade(certifier, half_space, radius=0.2, method=rrise.MonteCarlo(1_000, failure=0.01))
    first = certifier.guarantee.failure
    assert first is not None
    assert (
        cascade.guarantee.failure
        == first + rrise.MonteCarlo(1_000, failure=0.01).bind_like(half_space, certifier).guarantee.failure
    )
    assert cascade.guarantee.kind.value == "marginal"
    words = str(cascade.guarantee)
    assert "the failure above is the sum of both" in words
    assert "the best of several certificates" in words
    assert "fresh" in words
    assert "exchangeable" in words


def test_it_is_wrong_no_more_often_than_promised(half_space: HalfSpace) -> None:
    inputs = np.random.default_rng(5).random((2_500, 4), dtype=np.float32)
    training = rrise.SurrogateTraining(epochs=30, learning_rate=0.05, batch_size=64)
    certifier = rrise.fit(
        half_space, inputs[:800], sigma=0.25, failure=0.05, input_range=None, training=training
    )
    cascade = rrise.Cascade(certifier, half_space, radius=0.15, method=rrise.MonteCarlo(200, failure=0.05))
    found = cascade.certify(inputs[800:])
    truth = half_space.probabilities(inputs[800:], 0.25)[np.arange(1_700), found.label]
    assert np.mean(found.issued & (found.lower_bound > truth)) <= 0.1


def test_certificates_say_which_method_made_them(
    certifier: SurrogateCertifier, half_space: HalfSpace, fresh: np.ndarray
) -> None:
    found = rrise.Cascade(certifier, half_space, radius=0.2, method=rrise.MonteCarlo(500)).certify(fresh[:50])
    assert {record["method"] for record in found.records()} == {"surrogate", "monte-carlo"}
    assert len(found[:3].records()) == 3


@pytest.mark.parametrize("promise", ["issued"])
def test_promises_that_do_not_add_up_are_refused(
    half_space: HalfSpace, uniform: np.ndarray, promise: str
) -> None:
    training = rrise.SurrogateTraining(epochs=5)
    certifier = rrise.fit(
        half_space, uniform, sigma=0.25, failure=0.2, calibration=300, promise=promise, training=training
    )
    with pytest.raises(SettingError, match="does not carry over"):
        rrise.Cascade(certifier, half_space, radius=0.2)


def test_other_settings_that_cannot_work_are_refused(
    certifier: SurrogateCertifier, half_space: HalfSpace
) -> None:
    with pytest.raises(SettingError, match="positive radius"):
        rrise.Cascade(certifier, half_space, radius=0)
    with pytest.raises(SettingError, match="method or failure, got both"):
        rrise.Cascade(certifier, half_space, radius=0.2, method=rrise.MonteCarlo(500), failure=0.1)
    with pytest.raises(SettingError, match="keeps its promise for each input"):
        rrise.Cascade(certifier, half_space, radius=0.2, method=rrise.EarlyStopping(1_000, tolerance=0.01))
