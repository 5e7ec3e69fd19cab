from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import rrise
from rrise.certifiers.monte_carlo import MonteCarlo
from rrise.votes.array import digest_array
from rrise.votes.noise import Gaussian
from rrise.votes.sequence import StoredVotes
from rrise.votes.smoothing import Smoothing
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

        certificates = rrise.monte_carlo_certificates(votes(n), votes(100), failure=alpha)
        truth = np.where(certificates.label == 0, p, 1 - p)
        wrong = certificates.issued & (certificates.lower_bound > truth)
        assert wrong.mean() <= alpha + 4 * (alpha / trials) ** 0.5


def test_radii_approach_the_exact_distance(half_space: HalfSpace, uniform: np.ndarray) -> None:
    plan = {"sigma": 0.25, "input_range": None}
    votes = rrise.collect_votes(half_space, uniform[:150], n=4000, seed=1, **plan)
    selection = rrise.collect_votes(half_space, uniform[:150], n=100, seed=2, **plan)
    certificates = rrise.monte_carlo_certificates(votes, selection, failure=0.001)
    distance = half_space.distances(uniform[:150])
    issued = certificates.issued
    assert np.all(certificates.radius[issued] <= np.abs(distance[issued]))
    close = np.abs(distance) < 0.4
    np.testing.assert_allclose(
        certificates.radius[issued & close], np.abs(distance)[issued & close], atol=0.05
    )
    assert (certificates.passes == 4100).all()
    assert "whatever it is" in certificates.guarantee.words.promise


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
    with pytest.raises(ValueError, match="100 votes can never certify at failure=1e-40"):
        rrise.monte_carlo_certificates(votes, selection, failure=1e-40)


def test_votes_that_share_their_noise_are_refused(half_space: HalfSpace, uniform: np.ndarray) -> None:
    """By default a small collection is a part of a large one, and selecting with it would be optimistic."""
    votes = rrise.collect_votes(half_space, uniform[:5], sigma=0.25, n=100)
    part = rrise.collect_votes(half_space, uniform[:5], sigma=0.25, n=10)
    assert np.all(part <= votes)
    with pytest.raises(ValueError, match="the selection votes and the votes share their noise"):
        rrise.monte_carlo_certificates(votes, part)
    of_others = rrise.collect_votes(half_space, uniform[1:6], sigma=0.25, n=10, split="selection")
    with pytest.raises(ValueError, match="the votes are of other inputs"):
        rrise.monte_carlo_certificates(votes, of_others)
    other = rrise.collect_votes(half_space, uniform[:5], sigma=0.25, n=10, split="selection")
    rrise.monte_carlo_certificates(votes, other)


def sampled(probabilities: list[float], trials: int, n: int, seed: int) -> StoredVotes:
    """Draw the votes of many inputs with the same class probabilities, one by one."""
    edges = np.cumsum(probabilities[:-1])
    drawn = np.random.default_rng(seed).random((trials, n), dtype=np.float32)
    answers = sum((drawn > edge).astype(np.uint8) for edge in edges)
    return StoredVotes(np.asarray(answers), len(probabilities), SMOOTHING)


def wrong(certificates: rrise.Certificates, probabilities: list[float]) -> float:
    truth = np.asarray(probabilities)[certificates.label]
    return float((certificates.issued & (certificates.lower_bound > truth)).mean())


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("probabilities", [[0.5, 0.5], [0.48, 0.52], [0.2, 0.7, 0.1]])
def test_two_stages_keep_the_level(alpha: float, probabilities: list[float]) -> None:
    trials = 100_000
    votes, selection = sampled(probabilities, trials, 200, 1), sampled(probabilities, trials, 20, 2)
    certificates = MonteCarlo(200, alpha).certify_votes(votes, selection)
    assert wrong(certificates, probabilities) <= alpha + 3 * (alpha / trials) ** 0.5
    assert certificates.guarantee.failure_text == str(alpha)


@pytest.mark.parametrize(("alpha", "trials"), [(0.001, 200_000), (0.01, 100_000), (0.1, 100_000)])
def test_one_stage_is_wrong_about_twice_as_often_between_two_classes(alpha: float, trials: int) -> None:
    """Where two classes are equal, either being bounded above 1/2 is wrong."""
    n = 201
    certificates = MonteCarlo(n, alpha, two_stage=False).certify_votes(sampled([0.5, 0.5], trials, n, 3))
    rate = wrong(certificates, [0.5, 0.5])
    enough = stats.binom.isf(alpha, n, 0.5) + 1
    exact = 2 * stats.binom.sf(enough - 1, n, 0.5)
    assert rate == pytest.approx(exact, abs=4 * (exact / trials) ** 0.5)
    assert 1.3 * alpha < rate <= 2 * alpha + 3 * (2 * alpha / trials) ** 0.5
    guarantee = certificates.guarantee
    assert float(guarantee.failure) == 2 * alpha
    assert f"the nominal failure {alpha}" in guarantee.words.not_promised[0]
    assert "not valid" in guarantee.words.not_promised[0]
    assert "about twice" in guarantee.words.not_promised[0]


@pytest.mark.parametrize("probabilities", [[0.51, 0.49], [0.45, 0.45, 0.1], [0.3, 0.3, 0.4], [0.8, 0.2]])
def test_one_stage_is_never_wrong_more_than_twice_as_often(probabilities: list[float]) -> None:
    trials = 100_000
    certificates = MonteCarlo(101, 0.1, two_stage=False).certify_votes(sampled(probabilities, trials, 101, 4))
    assert wrong(certificates, probabilities) <= 0.2 + 3 * (0.2 / trials) ** 0.5


def test_one_stage_promises_nothing_where_twice_the_level_is_one() -> None:
    certificates = MonteCarlo(50, 0.5, two_stage=False).certify_votes(sampled([0.9, 0.1], 3, 50, 0))
    assert (certificates.guarantee.failure, certificates.guarantee.level) == (None, 0.0)
    assert "Nothing is promised" in certificates.guarantee.words.promise


def test_each_form_counts_what_it_says() -> None:
    votes, selection = sampled([0.3, 0.5, 0.2], 40, 300, 5), sampled([0.3, 0.5, 0.2], 40, 30, 6)
    two, one = (MonteCarlo(n, 0.05, two_stage=two) for n, two in ((200, True), (250, False)))
    by_two, by_one = two.certify_votes(votes, selection), one.certify_votes(votes)
    for i in range(40):
        label = np.bincount(selection.answers[i], minlength=3).argmax()
        assert by_two.label[i] == label
        agreeing = (votes.answers[i, :200] == label).sum()
        assert by_two.lower_bound[i] == pytest.approx(stats.beta.ppf(0.05, agreeing, 201 - agreeing))
        counts = np.bincount(votes.answers[i, :250], minlength=3)
        assert by_one.label[i] == counts.argmax()
        assert by_one.lower_bound[i] == pytest.approx(stats.beta.ppf(0.05, counts.max(), 251 - counts.max()))
    assert (by_two.passes == 230).all()
    assert (by_one.passes == 250).all()
    counted = rrise.monte_carlo_certificates(votes.votes(200), selection.votes(30), failure=0.05)
    np.testing.assert_array_equal(counted.radius, by_two.radius)
    assert counted.guarantee == by_two.guarantee
    assert two.name == "Monte Carlo, two-stage, n=200, failure=0.05"
    assert (two.n, one.n) == (200, 250)


def test_selection_votes_that_do_not_belong_are_refused() -> None:
    def votes(inputs: int = 3, classes: int = 2, **origin: Any) -> StoredVotes:
        return StoredVotes(
            np.zeros((inputs, 50), dtype=np.uint8), classes, **{"smoothing": SMOOTHING, **origin}
        )

    certifier = MonteCarlo(50, 0.01)
    with pytest.raises(ValueError, match="expected selection votes with separate noise"):
        certifier.certify_votes(votes())
    same = votes(stream=(0, "test"))
    for selection in (same, votes(stream=(0, "test"))):
        with pytest.raises(ValueError, match="the selection votes and the votes share their noise"):
            certifier.certify_votes(same, selection)
    unnamed = votes()
    with pytest.raises(ValueError, match="the selection votes and the votes share their noise"):
        certifier.certify_votes(unnamed, unnamed)
    first, second = (digest_array([bytes([i, k] * 6) for i in range(3)]) for k in (0, 1))
    with pytest.raises(ValueError, match="differ in 3 of 3 places"):
        certifier.certify_votes(votes(digests=first), votes(digests=second))
    certifier.certify_votes(votes(digests=first), votes(digests=first))
    for other, sentence in [
        (votes(inputs=2), "selection votes for the same 3 inputs, got 2"),
        (votes(classes=3), "selection votes for the same 2 classes, got 3"),
        (
            votes(smoothing=replace(SMOOTHING, noise=Gaussian(0.3))),
            "do not belong together: sigma 0.5 here, 0.3 there",
        ),
    ]:
        with pytest.raises(ValueError, match=sentence):
            certifier.certify_votes(votes(), other)
    with pytest.raises(ValueError, match="expected at least 60 votes of each input, got 50"):
        MonteCarlo(60, 0.01).certify_votes(votes(), votes())


def test_budgets_that_can_never_certify_are_refused() -> None:
    with pytest.raises(ValueError, match="9 votes can never certify at failure"):
        MonteCarlo(9, 0.001)
    with pytest.raises(ValueError, match="expected a whole number for n"):
        MonteCarlo(10.0)  # type: ignore[arg-type]
