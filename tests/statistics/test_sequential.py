"""The exact sequential test against all sequences, the lattice of all paths, and its own proofs."""

import itertools
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from rrise.statistics import SequentialTest, clopper_pearson_upper, fewest_trials, sequential_test
from rrise.statistics.sequential import GIVING_UP, HOPE, SPENDING

CASES = [
    (0.84, (*range(8, 80, 4), *range(80, 601, 20)), 0.001),
    (0.5, tuple(range(1, 301)), 0.01),
    (0.6, (50, 100, 400), 0.1),
    (0.97, (100, 500), 1e-6),
    (0.841, (1000,), 0.001),
]


def on_the_lattice(test: SequentialTest, p: float) -> tuple[list[float], float]:
    """Pass probability along the lattice, trial by trial: accepted at each look, and ever given up."""
    chance, at, accepted, given_up = np.array([1.0]), 0, [], 0.0
    for look, fewest, most in zip(test.looks, test.accept, test.hopeless, strict=True):
        for _ in range(look - at):
            chance = p * np.append(0, chance) + (1 - p) * np.append(chance, 0)
        at = look
        accepted.append(float(chance[fewest:].sum()))
        chance[fewest:] = 0
        given_up += float(chance[: most + 1].sum())
        chance[: most + 1] = 0
    return accepted, given_up


@pytest.mark.parametrize(("p0", "looks", "alpha"), CASES)
def test_the_level_is_kept_and_used_up(p0: float, looks: tuple[int, ...], alpha: float) -> None:
    test = sequential_test(p0, looks, alpha)
    at_p0 = sum(on_the_lattice(test, p0)[0])
    assert at_p0 <= alpha
    assert at_p0 > alpha / 5
    for p in (p0, p0 - 1e-6, 0.9 * p0, p0 / 2, 0.1):
        accepted = sum(on_the_lattice(test, p)[0])
        assert accepted <= at_p0
        assert test.acceptance(p) == pytest.approx(accepted, rel=1e-9, abs=1e-300)


def test_all_sequences_of_twelve_trials_in_exact_fractions() -> None:
    p0, alpha = Fraction(3, 5), Fraction(1, 10)
    test = sequential_test(float(p0), (4, 7, 9, 12), float(alpha))
    for p in (p0, Fraction(1, 2), Fraction(599, 1000)):
        chance = Fraction(0)
        for trials in itertools.product((0, 1), repeat=12):
            successes = itertools.accumulate(trials)
            seen = [k for t, k in enumerate(successes, start=1) if t in test.looks]
            accepted = [k >= fewest for k, fewest in zip(seen, test.accept, strict=True)]
            given_up = [k <= most for k, most in zip(seen, test.hopeless, strict=True)]
            first = accepted.index(True) if any(accepted) else 12
            if any(accepted) and not any(given_up[:first]):
                chance += p ** sum(trials) * (1 - p) ** (12 - sum(trials))
        assert chance <= alpha
        assert test.acceptance(float(p)) == pytest.approx(float(chance), rel=1e-12)


@pytest.mark.parametrize(("p0", "looks", "alpha"), CASES)
def test_one_success_fewer_at_any_look_would_spend_too_much(
    p0: float, looks: tuple[int, ...], alpha: float
) -> None:
    test, reachable, before = sequential_test(p0, looks, alpha), 0, 0
    for place, look in enumerate(looks):
        reachable, before = reachable + look - before, look
        fewer = test.accept.copy()
        fewer[place] = reachable = min(fewer[place] - 1, reachable)
        lower = SequentialTest(p0, looks, fewer, test.hopeless, test.accepted_at, test.chances)
        spent = sum(on_the_lattice(lower, p0)[0][: place + 1])
        assert spent > 0.999999 * alpha * (look / looks[-1]) ** SPENDING


@pytest.mark.parametrize(("p0", "looks", "alpha"), CASES)
def test_what_one_look_would_prove_is_seldom_given_up(
    p0: float, looks: tuple[int, ...], alpha: float
) -> None:
    """Ending at the last look without an acceptance is not giving up: there are no trials left."""
    test, last = sequential_test(p0, looks, alpha), looks[-1]
    needed = next(k for k in range(last + 1) if stats.binom.sf(k - 1, last, p0) <= alpha)
    hope = float(clopper_pearson_upper(needed - 1, last, 1 - HOPE))
    assert stats.binom.sf(needed - 1, last, hope) == pytest.approx(HOPE)
    for p in (hope, (1 + hope) / 2, 1 - (1 - hope) / 100):
        accepted, given_up = on_the_lattice(test, p)
        assert given_up <= GIVING_UP
        assert sum(accepted) >= 0.75


def test_hopeless_trials_end_early_and_clear_ones_too() -> None:
    looks = (*range(8, 100, 4), *range(100, 10_001, 50))
    test = sequential_test(0.8413, looks, 0.001)

    def trials_taken(p: float) -> float:
        undecided, at, chance = 0.0, 0, np.array([1.0])
        for look, fewest, most in zip(looks, test.accept, test.hopeless, strict=True):
            undecided += (look - at) * float(chance.sum())
            new = look - at
            chance, at = np.convolve(chance, stats.binom.pmf(np.arange(new + 1), new, p)), look
            chance[: most + 1] = chance[fewest:] = 0
        return undecided

    assert trials_taken(1.0) == 48
    assert trials_taken(0.95) < 180
    assert trials_taken(0.6) < 40
    assert trials_taken(0.8) < 700
    assert 1000 < trials_taken(0.85) < 8000


def test_smaller_proportions_are_accepted_less_often() -> None:
    test = sequential_test(0.8413, (20, 50, 100, 500, 2000), 0.001)
    for chance in (1e-3, 1e-4, 1e-8):
        p = test.proportion_accepted_with(chance)
        assert p < 0.8413
        assert test.acceptance(p) <= chance
        assert test.acceptance(p + 2e-6) > chance or p + 2e-6 > 0.8413
    assert test.proportion_accepted_with(1e-4) > 0.8


def test_a_hundred_thousand_trials_take_a_moment() -> None:
    looks = tuple(range(100, 100_001, 100))
    begin = time.process_time()
    test = sequential_test(0.8413, looks, 0.001)
    assert time.process_time() - begin < 5
    assert 0.99 * 0.001 < test.acceptance(0.8413) <= 0.001
    assert sequential_test(0.8413, looks, 0.001) is test


@pytest.mark.parametrize(
    ("p0", "looks", "alpha", "sentence"),
    [
        (1.0, (10,), 0.1, "expected p0 strictly between 0 and 1, got 1.0"),
        (0.5, (10,), 0.0, "expected alpha strictly between 0 and 1, got 0.0"),
        (0.5, (10_000,), 1e-250, "expected alpha of at least 1e-200, got 1e-250"),
        (0.5, (), 0.1, "expected increasing numbers of trials to look at"),
        (0.5, (0, 10), 0.1, "expected increasing numbers of trials to look at"),
        (0.5, (10, 10), 0.1, "expected increasing numbers of trials to look at"),
        (0.5, (9,), 0.001, "9 trials can never prove .* at alpha=0.001: use at least 10"),
    ],
)
def test_refuses_settings_that_make_no_sense(
    p0: float, looks: tuple[int, ...], alpha: float, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        sequential_test(p0, looks, alpha)


def test_the_fewest_trials_are_enough() -> None:
    for p0, alpha in [(0.5, 0.001), (0.8413, 0.001), (0.97, 0.1)]:
        enough = fewest_trials(p0, alpha)
        assert sequential_test(p0, (enough,), alpha).accept.tolist() == [enough]
        with pytest.raises(ValueError, match="can never prove"):
            sequential_test(p0, (enough - 1,), alpha)
