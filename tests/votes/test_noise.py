"""Noise is one object: whoever votes, certifies, calibrates or exports asks it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats

import rrise
from rrise.deployment.export.bound_table import BoundTable
from rrise.errors import FolderError, InputError, MismatchError, SettingError
from rrise.statistics import certified_radius
from rrise.votes.noise import NOISES, Noise, as_noise, noise_from_json
from rrise.votes.philox import key_of, standard_normal
from rrise.votes.smoothing import Smoothing
from tests.closed_forms import HalfSpace


@dataclass(frozen=True)
class Halved(Noise):
    """A toy: Gaussian noise whose certificates claim half the radius, in a norm of its own."""

    sigma: float
    name: ClassVar[str] = "halved"
    norm: ClassVar[str] = "half-L2"

    def sample(self, key: torch.Tensor, draw: torch.Tensor, owner: torch.Tensor, size: int) -> torch.Tensor:
        return self.sigma * standard_normal(key, draw, owner, size)

    def radius(self, bound: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(certified_radius(bound, self.sigma) / 2)

    def radius_in_sigma(self, bound: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(stats.norm.ppf(bound) / 2)

    def bound(self, radius_in_sigma: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(stats.norm.cdf(2 * np.asarray(radius_in_sigma)))


@pytest.fixture
def halved() -> Iterator[Halved]:
    NOISES[Halved.name] = Halved
    yield Halved(0.25)
    del NOISES[Halved.name]


def test_gaussian_noise_has_its_level_and_its_radius() -> None:
    noise = rrise.Gaussian(0.25)
    draw = torch.arange(4000)
    sample = noise.sample(key_of(7, torch.device("cpu")), draw, torch.zeros_like(draw), 3)
    assert stats.kstest(sample.numpy().ravel() / 0.25, "norm").pvalue > 1e-3
    bounds = np.array([0.3, 0.5, 0.7, 0.99])
    np.testing.assert_array_equal(noise.radius(bounds), certified_radius(bounds, 0.25))
    np.testing.assert_allclose(noise.bound(noise.radius_in_sigma(bounds)), bounds)


def test_a_number_is_the_level_of_gaussian_noise() -> None:
    assert as_noise(0.25) == rrise.Gaussian(0.25)
    assert Smoothing("b", 0.25, None, "float32") == Smoothing("b", rrise.Gaussian(0.25), None, "float32")
    with pytest.raises(SettingError, match="positive noise level"):
        rrise.Gaussian(-1)


def test_files_of_gaussian_noise_say_sigma_alone_and_others_name_themselves(halved: Halved) -> None:
    gaussian = Smoothing("b", rrise.Gaussian(0.5), (0.0, 1.0), "float32")
    assert gaussian.to_json() == {
        "base": "b",
        "sigma": 0.5,
        "input_range": [0.0, 1.0],
        "precision": "float32",
    }
    other = Smoothing("b", halved, None, "float32")
    for smoothing in (gaussian, other):
        assert Smoothing.from_json(smoothing.to_json()) == smoothing
    with pytest.raises(ValueError, match="noise gaussian here, halved there"):
        Smoothing("b", rrise.Gaussian(0.25), None, "float32").check_same(other, "these", "those")
    with pytest.raises(FolderError, match="out of gaussian, unclipped-gaussian, halved; got 'cauchy'"):
        noise_from_json({"noise": "cauchy", "sigma": 1})


def test_another_noise_travels_from_votes_to_certificates_folder_and_export(
    halved: Halved, half_space: HalfSpace, uniform: np.ndarray, tmp_path: Path
) -> None:
    votes = rrise.collect_votes(half_space, uniform[:400], sigma=halved, n=200, seed=1)
    gaussian = rrise.collect_votes(half_space, uniform[:400], sigma=0.25, n=200, seed=1)
    np.testing.assert_array_equal(votes, gaussian)
    surrogate = rrise.train_surrogate(
        half_space, uniform[:200], votes[:200], epochs=20, learning_rate=0.05, batch_size=64
    )
    certifier = rrise.calibrate(surrogate, uniform[200:400], votes[200:], failure=0.1)
    found = certifier.certify(uniform[400:])
    assert found.issued.any()
    np.testing.assert_allclose(found.radius, certified_radius(found.lower_bound, 0.25) / 2)
    assert "half-L2 radius" in certifier.guarantee.words.promise
    certifier.save(tmp_path / "certifier")
    np.testing.assert_array_equal(
        rrise.load_certifier(tmp_path / "certifier").certify(uniform[400:]).radius, found.radius
    )
    table = BoundTable.of(certifier.calibration, halved)
    _, radius = table.look_up(found.probabilities.max(axis=1))  # type: ignore[union-attr]
    assert (radius <= found.radius + 1e-7).all()
    assert (radius >= found.radius - 1e-4).all()
    voted = rrise.MonteCarlo(200, failure=0.01).bind_like(half_space, certifier).certify(uniform[:5])
    np.testing.assert_allclose(voted.radius, certified_radius(voted.lower_bound, 0.25) / 2)


def test_a_store_of_another_noise_is_refused_both_ways(
    halved: Halved, half_space: HalfSpace, uniform: np.ndarray, tmp_path: Path
) -> None:
    for first, second in ((halved, rrise.Gaussian(0.25)), (rrise.Gaussian(0.25), halved)):
        folder = tmp_path / first.name
        rrise.VoteStore(folder, half_space, uniform[:5], rrise.VotePlan(first, 20, 1)).collect()
        with pytest.raises(ValueError, match="have noise = "):
            rrise.VoteStore(folder, half_space, uniform[:5], rrise.VotePlan(second, 20, 1)).collect()


def test_a_kind_of_gaussian_noise_does_not_pass_for_gaussian() -> None:
    class Doubled(rrise.Gaussian):
        name: ClassVar[str] = "doubled"

    assert Doubled(0.25).to_json() == {"noise": "doubled", "sigma": 0.25}


def test_unclipped_noise_may_leave_the_range_and_inputs_may_not(
    half_space: HalfSpace, uniform: np.ndarray
) -> None:
    settings = {"n": 200, "seed": 3}
    noise = rrise.UnclippedGaussian(0.5)
    votes = rrise.collect_votes(half_space, uniform[:100], sigma=noise, **settings)
    same = rrise.collect_votes(half_space, uniform[:100], sigma=0.5, input_range=None, **settings)
    clipped = rrise.collect_votes(half_space, uniform[:100], sigma=0.5, **settings)
    np.testing.assert_array_equal(votes, same)
    assert (np.asarray(votes) != np.asarray(clipped)).any()
    exact = half_space.probabilities(uniform[:100], 0.5)[:, 1]
    assert stats.binomtest(int(votes[:, 1].sum()), 200 * 100, exact.mean()).pvalue > 1e-3
    with pytest.raises(InputError, match=r"expected inputs in \[0, 1\], got values from"):
        rrise.collect_votes(half_space, uniform[:100] + 1, sigma=noise, **settings)


def test_unclipped_noise_is_another_noise_to_everybody() -> None:
    noise = rrise.UnclippedGaussian(0.5)
    smoothing = Smoothing("b", noise, (0.0, 1.0), "float32")
    assert smoothing.noise_range is None
    assert Smoothing("b", 0.5, (0.0, 1.0), "float32").noise_range == (0.0, 1.0)
    assert Smoothing.from_json(smoothing.to_json()) == smoothing != Smoothing("b", 0.5, (0.0, 1.0), "float32")
    with pytest.raises(MismatchError, match="noise unclipped-gaussian here, gaussian there"):
        smoothing.check_same(Smoothing("b", 0.5, (0.0, 1.0), "float32"), "these", "those")
    with pytest.raises(SettingError, match="positive noise level"):
        rrise.UnclippedGaussian(0)
