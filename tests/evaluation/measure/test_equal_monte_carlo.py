"""Monte Carlo with few votes, drawn from many, is what Monte Carlo with few votes would be."""

from itertools import pairwise

import numpy as np
import pytest

from rrise.evaluation.measure import equal_monte_carlo
from rrise.evaluation.measure.equal_monte_carlo import BUDGETS, SELECTIONS, Rivals
from rrise.statistics import certified_radius, clopper_pearson_lower
from rrise.votes.noise import Gaussian

SIGMA, MANY = 0.5, 11_000


def votes_of(probabilities: np.ndarray, n: int = MANY, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(n, probabilities)


def skewed(inputs: int, classes: int) -> np.ndarray:
    return np.random.default_rng(5).dirichlet(np.full(classes, 0.3), inputs)


def test_certifies_what_freshly_collected_votes_would() -> None:
    p = skewed(4_000, 5)
    labels = p.argmax(axis=1)
    found = Rivals(votes_of(p), labels, Gaussian(SIGMA)).at(0.05)
    assert len(found) == len(SELECTIONS) * len(BUDGETS)
    rng = np.random.default_rng(1)
    for selection, n in ((1, BUDGETS[8]), (10, BUDGETS[17]), (SELECTIONS[19], BUDGETS[29])):
        label = rng.multinomial(selection, p).argmax(axis=1)
        agreeing = rng.multinomial(n, p)[np.arange(len(p)), label]
        bound = clopper_pearson_lower(agreeing, n, 0.05)
        right = label == labels
        rival = found[SELECTIONS.index(selection) * len(BUDGETS) + BUDGETS.index(n)]
        assert rival.passes == selection + n
        assert rival.certified_accuracy == pytest.approx((right & (bound > 0.5)).mean(), abs=0.03)
        radius = np.where(right, certified_radius(bound, SIGMA), 0).mean()
        assert rival.average_certified_radius == pytest.approx(radius, abs=0.015)


def test_stages_share_no_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two classes at 1/2 a bound exceeds 1/2 as often as alpha says at most; with shared votes, more."""
    monkeypatch.setattr(equal_monte_carlo, "SELECTIONS", (1,))  # one vote chooses: most is shared there
    inputs, alpha = 20_000, 0.2
    votes = np.full((inputs, 2), MANY // 2)
    found = Rivals(votes, np.zeros(inputs, dtype=np.int64), Gaussian(SIGMA)).at(alpha)
    for n, rival in zip(BUDGETS, found, strict=True):  # the label is 0 for half of them
        assert rival.passes == 1 + n
        assert rival.certified_accuracy <= alpha / 2 + 4 * np.sqrt(alpha / 2 / inputs)


def test_the_cheapest_that_certifies_enough() -> None:
    p = skewed(500, 4)
    rivals = Rivals(votes_of(p), p.argmax(axis=1), Gaussian(SIGMA))
    for accuracy, radius in ((0.3, 0.05), (0.5, 0.2), (0.6, 0.1)):
        found = rivals.cheapest(0.1, accuracy, radius)
        assert found is not None
        assert found.certified_accuracy >= accuracy
        assert found.average_certified_radius >= radius
        cheaper = [rival for rival in rivals.at(0.1) if rival.passes < found.passes]
        assert not any(
            rival.certified_accuracy >= accuracy and rival.average_certified_radius >= radius
            for rival in cheaper
        )
    assert rivals.cheapest(0.1, 1.0, 0.1) is None
    assert rivals.cheapest(0.1, 0.1, 100.0) is None
    assert rivals.cheapest(0.1, 0.0, 0.0) is None


@pytest.mark.parametrize("numbers", [SELECTIONS, BUDGETS])
def test_numbers_of_votes_leave_no_wider_gap_than_a_fifth(numbers: tuple[int, ...]) -> None:
    assert all(after <= max(before + 1, 1.2 * before) for before, after in pairwise(numbers))
    assert numbers[0] <= 5
    assert numbers[-1] >= 1_000


def test_is_at_most_about_a_fifth_dearer_than_any_other_number_of_votes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, numbers in (("SELECTIONS", SELECTIONS), ("BUDGETS", BUDGETS)):  # any with more are dearer
        monkeypatch.setattr(equal_monte_carlo, name, tuple(n for n in numbers if n <= 60))
    p, share = skewed(10_000, 3), 0.7
    labels = p.argmax(axis=1)
    found = Rivals(votes_of(p), labels, Gaussian(SIGMA)).cheapest(0.1, share, 0.1)
    assert found is not None
    assert found.passes <= 60
    rng, rows, cheapest = np.random.default_rng(1), np.arange(len(p)), found.passes
    for selection in range(1, found.passes):
        label = rng.multinomial(selection, p).argmax(axis=1)
        right = label == labels
        for n in range(1, cheapest - selection):
            bound = clopper_pearson_lower(np.arange(n + 1), n, 0.1)[rng.binomial(n, p[rows, label])]
            radius = np.where(right, certified_radius(bound, SIGMA), 0).mean()
            if (right & (bound > 0.5)).mean() >= share and radius >= 0.1:
                cheapest = selection + n
    assert found.passes <= 1.2 * cheapest + 1


def test_takes_no_more_votes_than_there_are() -> None:
    p = skewed(50, 3)
    found = Rivals(votes_of(p, n=60), p.argmax(axis=1), Gaussian(SIGMA)).at(0.25)
    assert found
    assert max(rival.passes for rival in found) == 60
    assert Rivals(votes_of(p, n=1), p.argmax(axis=1), Gaussian(SIGMA)).at(0.25) == []


def test_the_same_votes_give_the_same_rivals() -> None:
    p = skewed(100, 3)
    first, second = (Rivals(votes_of(p), p.argmax(axis=1), Gaussian(SIGMA)).at(0.1) for _ in range(2))
    assert first == second
