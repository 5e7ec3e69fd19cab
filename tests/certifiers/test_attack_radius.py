"""Certifiers with query noise and an attack radius: what they compute, promise, keep secret and refuse."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import rrise
from rrise.certifiers.query_noise import QueryNoise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.errors import InputError, MismatchError, SettingError
from rrise.statistics import Threat

SIGMA, SIZE = 0.25, 6


class Half(nn.Module):
    """Class 0 where the first value is above 1/2; `sharpness` is what the surrogate believes of it."""

    def __init__(self, sharpness: float) -> None:
        super().__init__()
        self.linear = nn.Linear(SIZE, 2)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.weight[0, 0] = sharpness
            self.linear.bias[:] = torch.tensor([-sharpness / 2, 0.0])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs)


BASE, SURROGATE = Half(4.0), Half(8.0)


def inputs_of(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((count, SIZE), dtype=np.float32)


def truth(inputs: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The smoothed probability of a class, without clipping."""
    above = stats.norm.cdf((inputs[:, 0] - 0.5) / SIGMA)
    return np.where(label == 0, above, 1 - above)


def made(count: int = 1_000, **how: Any) -> SurrogateCertifier:
    inputs = inputs_of(count, 0)
    votes = rrise.collect_votes(BASE, inputs, sigma=SIGMA, n=500, seed=1, input_range=None)
    settings = {"failure": 0.05, "input_range": None, "base": BASE, "noise_seed": 3, "score": "probit", **how}
    return rrise.calibrate(SURROGATE, inputs, votes, **settings)


@pytest.fixture(scope="module")
def certifier() -> SurrogateCertifier:
    return made(attack_radius=0.1, query_noise=0.2)


def test_without_query_noise_it_is_the_plain_certifier() -> None:
    plain, same = made(), made(attack_radius=0.0, query_noise=None)
    fresh = inputs_of(200, 9)
    assert same.guarantee == plain.guarantee
    np.testing.assert_array_equal(same.certify(fresh).radius, plain.certify(fresh).radius)
    np.testing.assert_array_equal(plain.certify(fresh).radius, plain.certify(fresh).radius)
    assert "attacked inputs or after a shift" in str(plain.guarantee)


def test_under_attack_it_fails_at_most_as_promised_and_less_without(certifier: SurrogateCertifier) -> None:
    """The best attack moves the first value; the statement is about the moved input."""
    inputs = inputs_of(6_000, 5)
    for move, promised in (
        (0.0, float(certifier.calibration.natural_failure)),
        (0.1, 0.05),
        (-0.1, 0.05),
    ):
        moved = inputs.copy()
        moved[:, 0] += move
        found = certifier.certify(moved)
        wrong = found.issued & (found.lower_bound > truth(moved, found.label))
        assert wrong.mean() <= promised + 4 * np.sqrt(promised / 1_000)
        assert found.issued.mean() > 0.1


def test_radii_are_shorter_by_the_attack_radius(certifier: SurrogateCertifier) -> None:
    seen = torch.from_numpy(inputs_of(400, 2))
    found = certifier.answers(seen)
    calibration = certifier.calibration
    assert found.probabilities is not None
    plain = calibration.score.bound(
        found.probabilities.max(axis=1).astype(float), calibration.offset, calibration.ceiling
    )
    longer = SIGMA * stats.norm.ppf(np.maximum(plain, 0.5))
    np.testing.assert_array_equal(found.issued, longer > 0.1 + 1e-9)
    np.testing.assert_allclose(found.radius[found.issued], longer[found.issued] - 0.1, atol=1e-6)


def test_two_calls_differ_and_the_noise_has_its_level(
    certifier: SurrogateCertifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, seen = inputs_of(500, 4), []
    monkeypatch.setattr(SurrogateCertifier, "answers", lambda _, batch, **__: seen.append(batch.numpy()))
    for _ in range(2):
        certifier.certify(inputs)
    first, second = (batch - inputs for batch in seen)
    assert np.abs(first - second).min() > 0
    for noise in (first, second):
        assert abs(noise.std() / 0.2 - 1) < 0.05
        assert abs(noise.mean()) < 0.02
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.06
    assert abs(np.corrcoef(noise[:, 0], inputs[:, 0])[0, 1]) < 0.15


def test_nothing_that_is_kept_tells_the_noise(certifier: SurrogateCertifier) -> None:
    """No random state survives a call: neither NumPy's, nor torch's, nor anything in the certifier."""
    inputs = inputs_of(50, 4)
    kept = vars(certifier).copy()
    found = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
        found.append(certifier.certify(inputs))
        assert np.array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
        assert torch.equal(torch.get_rng_state(), before[1])
    once, again = found
    assert np.any(once.lower_bound != again.lower_bound), "the global generators decide nothing"
    assert vars(certifier) == kept
    assert set(vars(once)) == set(vars(made().certify(inputs)))


def test_a_forked_process_draws_other_noise(tmp_path: Path) -> None:
    threat, nothing = Threat(0.1, 0.2, SIGMA), torch.zeros(1, 4)
    here = QueryNoise(threat, None).seen(nothing).numpy()
    child = os.fork()
    if child == 0:
        np.save(tmp_path / "there.npy", QueryNoise(threat, None).seen(nothing).numpy())
        os._exit(0)
    os.waitpid(child, 0)
    there, again = np.load(tmp_path / "there.npy"), QueryNoise(threat, None).seen(nothing).numpy()
    assert not np.any((there == here) | (there == again) | (here == again))


def test_calibration_noise_can_be_repeated_and_batches_do_not_matter() -> None:
    threat, inputs = Threat(0.1, 0.2, SIGMA), torch.from_numpy(inputs_of(1_001, 0))
    whole = QueryNoise(threat, None, seed=5).seen(inputs)
    parts = QueryNoise(threat, None, seed=5)
    assert torch.equal(whole, torch.cat([parts.seen(part) for part in inputs.split(96)]))
    assert not torch.equal(whole, QueryNoise(threat, None, seed=6).seen(inputs))
    clipped = QueryNoise(threat, (0.0, 1.0), seed=5).seen(inputs)
    assert torch.equal(clipped, whole.clamp(0, 1))
    how: dict[str, Any] = {"attack_radius": 0.1, "query_noise": 0.2}
    assert made(**how).calibration == made(**how).calibration
    assert made(**how).calibration != made(**{**how, "noise_seed": 4}).calibration


def test_the_guarantee_says_what_holds_for_whom(certifier: SurrogateCertifier) -> None:
    words = str(certifier.guarantee)
    for sentence in (
        "The probability of issuing a wrong radius is at most 0.05, even if somebody moved the input by up "
        "to 0.1 before it was certified.",
        "For an input that nobody moved, one try fails with probability at most 0.01",
        "the noise of the votes and of the query together (marginal)",
        "draws new noise for each query, and nobody knows it before the query is in",
        "moves new inputs as they arrive, by at most 0.1 in L2, and asks for one certificate for each",
        "The attacker does not choose which inputs arrive.",
        "moved by more than 0.1, chosen freely or asked about more often",
    ):
        assert sentence in words
    facts = certifier.guarantee.facts()["calibration"]
    assert facts["threat"] == {"radius": 0.1, "query_noise": 0.2, "sigma": SIGMA, "tries": 1}
    several = made(attack_radius=0.1, query_noise=0.2, tries=5)
    assert "for the best of 5 tries." in str(several.guarantee)
    assert "asks for up to 5 certificates for each" in str(several.guarantee)
    assert several.calibration.natural_failure < certifier.calibration.natural_failure


def test_a_saved_certifier_keeps_it_and_stays_secret(certifier: SurrogateCertifier, tmp_path: Path) -> None:
    certifier.save(tmp_path / "certifier")
    loaded = rrise.load_certifier(tmp_path / "certifier")
    assert (loaded.guarantee, loaded.calibration) == (certifier.guarantee, certifier.calibration)
    seen = torch.from_numpy(inputs_of(100, 4))
    np.testing.assert_array_equal(loaded.answers(seen).radius, certifier.answers(seen).radius)
    inputs = inputs_of(100, 4)
    assert np.any(loaded.certify(inputs).radius != loaded.certify(inputs).radius)
    text = (tmp_path / "certifier" / "README.md").read_text()
    assert "| attack radius | 0.1, with one try per input |" in text
    assert "| query noise | 0.2, drawn in secret for each query |" in text


def test_one_calibration_serves_several_attack_radii(certifier: SurrogateCertifier) -> None:
    levels = certifier.attack_levels([0.0, 0.05, 0.1, 0.2])
    assert levels[0.1] == 0.05
    assert levels[0.0] == pytest.approx(float(certifier.calibration.natural_failure), rel=1e-5)
    assert levels[0.05] == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.05) - 0.25), rel=1e-4)
    assert list(levels.values()) == sorted(levels.values())
    nearer = certifier.against(0.05)
    assert float(nearer.guarantee.failure or 0) == levels[0.05]
    stricter = certifier.against(0.05, failure=0.02)
    assert stricter.guarantee.failure_text == "0.02"
    assert stricter.calibration == made(attack_radius=0.05, query_noise=0.2, failure=0.02).calibration
    assert certifier.against(0.1, failure=0.05).calibration == certifier.calibration
    with pytest.raises(SettingError, match=r"too few for .*: use at least \d+"):
        certifier.against(0.4, failure=0.01)
    with pytest.raises(SettingError, match="adds no noise to queries"):
        made().against(0.1)


@pytest.mark.parametrize("how", [{"promise": "issued"}, {"per": "class"}])
def test_no_level_is_told_where_the_promise_does_not_carry_over(how: dict[str, Any]) -> None:
    plain = made(query_noise=0.2, **how)
    assert plain.attack_levels([0.0]) == {0.0: 0.05}
    with pytest.raises(SettingError, match="'marginal' and 'pac'"):
        plain.attack_levels([0.1])


def test_float32_must_hold_the_noise_beside_the_input(certifier: SurrogateCertifier) -> None:
    """At 1e7, float32 knows whole numbers alone: noise of level 0.2 would vanish or jump."""
    far = inputs_of(2, 5) + np.float32(1e7)
    with pytest.raises(InputError, match=r"float32 cannot hold query noise of level 0\.2"):
        certifier.certify(far)
    certifier.certify(inputs_of(2, 5) + np.float32(100))


def test_more_tries_than_calibrated_are_not_promised() -> None:
    several = made(query_noise=0.2, tries=3)
    assert any("asked about more than 3 times" in text for text in several.guarantee.words.not_promised)
    attacked = made(attack_radius=0.1, query_noise=0.2)
    assert not any("at the issued share" in text for text in attacked.guarantee.words.not_promised)


def test_a_cascade_adds_its_failure_for_each_try(certifier: SurrogateCertifier) -> None:
    several = made(attack_radius=0.1, query_noise=0.2, tries=3)
    for first, expected in ((certifier, "0.06"), (several, "0.08")):
        cascade = rrise.Cascade(first, BASE, radius=0.2, failure=0.01)
        assert cascade.guarantee.failure_text == expected
        assert "even if somebody moved the input by up to 0.1" in cascade.guarantee.words.promise
        assert cascade.certify(inputs_of(20, 3)).issued.any()
    with pytest.raises(SettingError, match=r"add up to 1\.25 for 3 tries, so nothing would be promised"):
        rrise.Cascade(several, BASE, radius=0.2, failure=0.4)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"attack_radius": 0.1}, "need query noise: pass query_noise"),
        ({"tries": 2}, "need query noise: pass query_noise"),
        ({"attack_radius": -0.1, "query_noise": 0.2}, "an attack radius of at least 0, got -0.1"),
        ({"attack_radius": 0.1, "query_noise": 0.2, "promise": "issued"}, "'marginal' and 'pac'"),
        ({"attack_radius": 0.1, "query_noise": 0.2, "per": "class"}, "'marginal' and 'pac'"),
        ({"attack_radius": 0.1, "query_noise": 0.02}, r"failure 0\.05 .*|too few"),
    ],
)
def test_what_cannot_be_promised_is_refused(how: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        made(**how)


def test_votes_at_query_time_are_refused(certifier: SurrogateCertifier) -> None:
    with pytest.raises(SettingError, match="takes no votes at query time"):
        certifier.with_votes(16, BASE)


def test_another_noise_or_sigma_is_refused(certifier: SurrogateCertifier) -> None:
    from rrise.certifiers.guarantee import surrogate_guarantee

    other = replace(certifier.smoothing, noise=rrise.Gaussian(0.5))
    with pytest.raises(MismatchError, match=r"an attack radius for votes with sigma 0\.5, got one for 0\.25"):
        surrogate_guarantee(certifier.calibration, certifier.evidence, other, 0)


def test_fit_refuses_what_does_not_carry_over_before_it_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrise.certifiers.fit.collect_votes", lambda *_, **__: pytest.fail("voted"))
    with pytest.raises(SettingError, match="'marginal' and 'pac'"):
        rrise.fit(BASE, inputs_of(800, 0), sigma=SIGMA, failure=0.05, attack_radius=0.1, per="class")


def test_fit_trains_and_calibrates_for_it() -> None:
    inputs = inputs_of(500, 1)
    how: dict[str, Any] = {"sigma": SIGMA, "failure": 0.1, "input_range": None, "calibration_votes": 200}
    training = rrise.SurrogateTraining(strategy="distill", epochs=3, query_noise=0.1)
    made_here = rrise.fit(BASE, inputs, attack_radius=0.05, training=training, **how)
    assert made_here.calibration.threat == Threat(0.05, 0.1, SIGMA)
    default = rrise.fit(BASE, inputs, attack_radius=0.05, training=training.changed(query_noise=0.0), **how)
    assert default.calibration.threat == Threat(0.05, SIGMA / 2, SIGMA)
    with pytest.raises(SettingError, match="100 calibration inputs are too few"):
        rrise.fit(BASE, inputs, attack_radius=0.25, query_noise=0.1, **how)


def test_a_surrogate_sees_noise_in_training_and_the_base_does_not() -> None:
    """The noise hides the first value: what is learned is nearer to the average, and still of clean votes."""
    inputs = inputs_of(2_000, 1)
    how: dict[str, Any] = {
        "strategy": "distill",
        "sigma": SIGMA,
        "epochs": 15,
        "learning_rate": 0.05,
        "batch_size": 128,
        "mixed": 0.0,
        "input_range": None,
    }
    plain, noisy = (rrise.train_surrogate(BASE, inputs, query_noise=s, **how) for s in (0.0, 0.5))
    assert (plain.query_noise, noisy.query_noise) == (0.0, 0.5)
    probe = torch.full((2, SIZE), 0.5)
    probe[0, 0], probe[1, 0] = 0.9, 0.1
    with torch.no_grad():
        sure, unsure = (s(probe).softmax(dim=1)[:, 0] for s in (plain, noisy))
    assert sure[0] - sure[1] > unsure[0] - unsure[1] + 0.15
    assert unsure[0] > unsure[1] + 0.1
    held = inputs_of(400, 8)
    votes = rrise.collect_votes(BASE, held, sigma=SIGMA, n=200, seed=1, input_range=None)
    by_default = rrise.calibrate(noisy, held, votes, failure=0.1, attack_radius=0.05, input_range=None)
    assert by_default.calibration.threat == Threat(0.05, 0.5, SIGMA)
    assert rrise.calibrate(noisy, held, votes, failure=0.1, input_range=None).calibration.threat is None
