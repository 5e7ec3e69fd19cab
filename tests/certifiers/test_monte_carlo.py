import numpy as np
import pytest
import torch

import rrise
from rrise.votes.array import Smoothing
from tests.closed_forms import HalfSpace

SMOOTHING = Smoothing("f" * 64, 0.5, None, "float32")


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1])
def test_error_rate_stays_below_alpha_where_it_is_hardest(alpha: float) -> None:
    """Two classes, 200,000 simulated inputs at each probability."""
    rng = np.random.default_rng(0)
    for p in (0.5, 0.51, 0.9):
        n, trials = 1000, 200_000

        def votes(size: int, p: float = p, trials: int = trials) -> rrise.Votes:
            first = rng.binomial(size, p, trials)
            return rrise.Votes(np.stack([first, size - first], axis=1), SMOOTHING)

        certificates = rrise.monte_carlo_certificates(votes(n), votes(100), alpha=alpha)
        truth = np.where(certificates.label == 0, p, 1 - p)
        wrong = certificates.issued & (certificates.lower_bound > truth)
        assert wrong.mean() <= alpha + 4 * (alpha / trials) ** 0.5


def test_radii_approach_the_exact_distance(half_space: HalfSpace, uniform: np.ndarray) -> None:
    plan = {"sigma": 0.25, "input_range": None}
    votes = rrise.collect_votes(half_space, uniform[:150], n=4000, seed=1, **plan)
    selection = rrise.collect_votes(half_space, uniform[:150], n=100, seed=2, **plan)
    certificates = rrise.monte_carlo_certificates(votes, selection, alpha=0.001)
    distance = half_space.distances(uniform[:150])
    issued = certificates.issued
    assert np.all(certificates.radius[issued] <= np.abs(distance[issued]))
    close = np.abs(distance) < 0.4
    np.testing.assert_allclose(
        certificates.radius[issued & close], np.abs(distance)[issued & close], atol=0.05
    )
    assert (certificates.passes == 4100).all()
    assert "whatever it is" in certificates.guarantee.promise


def test_votes_that_do_not_belong_together_are_refused(half_space: HalfSpace, uniform: np.ndarray) -> None:
    votes = rrise.collect_votes(half_space, uniform[:5], sigma=0.25, n=100)
    for other, sentence in [
        (rrise.collect_votes(half_space, uniform[:5], sigma=0.5, n=10), "do not belong together: sigma"),
        (rrise.collect_votes(half_space, uniform[:4], sigma=0.25, n=10), "each of the 5 inputs, got 4 rows"),
        (rrise.collect_votes(HalfSpace(torch.ones(4), 0), uniform[:5], sigma=0.25, n=10), "base classifier"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            rrise.monte_carlo_certificates(votes, other)
    with pytest.raises(ValueError, match="got a plain array"):
        rrise.monte_carlo_certificates(np.asarray(votes), votes)  # type: ignore[arg-type]
    selection = rrise.collect_votes(half_space, uniform[:5], sigma=0.25, n=10, seed=1)
    with pytest.raises(ValueError, match="100 votes can never certify at alpha=1e-40"):
        rrise.monte_carlo_certificates(votes, selection, alpha=1e-40)


def test_votes_that_share_their_noise_are_refused(half_space: HalfSpace, uniform: np.ndarray) -> None:
    """By default a small collection is a part of a large one, and selecting with it would be optimistic."""
    votes = rrise.collect_votes(half_space, uniform[:5], sigma=0.25, n=100)
    part = rrise.collect_votes(half_space, uniform[:5], sigma=0.25, n=10)
    assert np.all(part <= votes)
    with pytest.raises(ValueError, match="the selection votes share their noise with the votes"):
        rrise.monte_carlo_certificates(votes, part)
    of_others = rrise.collect_votes(half_space, uniform[1:6], sigma=0.25, n=10, split="selection")
    with pytest.raises(ValueError, match="the votes are of other inputs"):
        rrise.monte_carlo_certificates(votes, of_others)
    other = rrise.collect_votes(half_space, uniform[:5], sigma=0.25, n=10, split="selection")
    rrise.monte_carlo_certificates(votes, other)
