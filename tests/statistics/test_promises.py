"""The promises `pac`, `issued` and those per group, over thousands of calibration sets."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from rrise.statistics import Promise, Terms, fit_calibration, tapered_by
from rrise.statistics.promises import issued_offset, pac_rank, smallest_pac_size, smallest_size, tuning_part
from tests.statistics.populations import JUDGES, WORST, half_space, within, worst_votes, wrong_rates

FAILURE, BETA, DOUBT = 0.05, 0.2, 0.05
GAMMA = Fraction(1, 25)


@pytest.mark.parametrize("size", [74, 150, 400])
def test_pac_breaks_its_level_for_few_calibration_sets(size: int) -> None:
    """On the population that attains the bound, the failure of each calibration set is known exactly."""
    rng = np.random.default_rng(size)
    broken = []
    for _ in range(3_000):
        votes = worst_votes(rng, (size,), 4, BETA)
        fitted, _ = fit_calibration(
            rng.random(size), votes, 4, failure=FAILURE, beta=BETA, score=WORST, promise="pac"
        )
        broken.append(1 - fitted.offset > FAILURE)
    assert within(np.array(broken, dtype=float), DOUBT)
    exact = stats.binom.cdf(size - pac_rank(size, GAMMA, Fraction(1, 20)), size, float(GAMMA))
    assert np.mean(broken) == pytest.approx(exact, abs=4 * (exact / 3_000) ** 0.5)


def test_a_marginal_offset_would_break_it_for_many() -> None:
    rng, broken = np.random.default_rng(1), []
    for _ in range(1_000):
        votes = worst_votes(rng, (150,), 4, BETA)
        fitted, _ = fit_calibration(rng.random(150), votes, 4, failure=FAILURE, beta=BETA, score=WORST)
        broken.append(1 - fitted.offset > FAILURE)
    assert np.mean(broken) > 0.3


@pytest.mark.parametrize("size", [299, 300, 1000, 4000])
def test_the_rank_of_pac_is_the_smallest_that_holds(size: int) -> None:
    gamma, doubt = Fraction(1, 100), Fraction(1, 20)
    rank = pac_rank(size, gamma, doubt)
    assert stats.binom.cdf(size - rank, size, 0.01) <= 0.05
    assert rank == 1 or stats.binom.cdf(size - rank + 1, size, 0.01) > 0.05


def test_the_smallest_sizes_are_the_smallest() -> None:
    gamma, doubt = Fraction(8, 1000), Fraction(1, 20)
    size = smallest_pac_size(gamma, doubt)
    assert 0.992**size <= 0.05 < 0.992 ** (size - 1)
    assert size == smallest_size(Promise.PAC, gamma, doubt) == 373
    issued = smallest_size(Promise.ISSUED, gamma, doubt)
    assert np.count_nonzero(~tuning_part(issued)) >= size
    assert np.count_nonzero(~tuning_part(issued - 1)) < size


def issued_sets(times: int, size: int, **more: Any) -> np.ndarray:
    """Return the error among issued radii of each calibration set, and the issued share."""
    rng, found = np.random.default_rng(size), []
    for _ in range(times):
        inputs = half_space(rng, size)
        agreeing = rng.binomial(1_000, inputs.true_probability)
        fitted, _ = fit_calibration(
            inputs.top_probability, agreeing, 1_000, failure=FAILURE, beta=BETA, promise="issued", **more
        )
        share = np.mean(fitted.lower_bound(JUDGES.top_probability) > 0)
        found.append((wrong_rates(fitted)[1], share))
    return np.array(found)


@pytest.mark.parametrize("score", ["additive", "probit", "tapered"])
def test_issued_breaks_its_level_for_few_calibration_sets(score: str) -> None:
    among, share = issued_sets(400, 500, score=score).T
    assert within((among > FAILURE).astype(float), DOUBT)
    if score == "probit":  # here a surrogate errs alike at all probits
        assert np.mean(share > 0.3) > 0.95


def flat(rng: np.random.Generator, size: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores and limits with the same error among issued inputs at every offset."""
    limits = rng.random(size)
    return np.where(rng.random(size) < rate, limits, -10.0), limits


def test_issued_stops_at_the_first_test_that_fails() -> None:
    """Where every offset is a little too bold, few calibration sets pass any; taking the best passes more."""
    rng, passed, best = np.random.default_rng(2), [], []
    for _ in range(2_000):
        scores, limits = flat(rng, 400, 0.041)
        passed.append(issued_offset(scores, limits, GAMMA, Fraction(1, 20)).offset is not None)
        grid = np.linspace(0, 0.7, 30)
        wrong = np.array([np.sum(scores > t) for t in grid])
        upper = stats.beta.ppf(
            0.95, wrong + 1, [np.sum(limits > t) - k for t, k in zip(grid, wrong, strict=True)]
        )
        best.append(np.any(upper <= 0.04))
    assert within(np.array(passed, dtype=float), DOUBT)
    assert np.mean(best) > 2 * DOUBT


def test_nothing_is_issued_if_the_first_test_fails() -> None:
    inputs = half_space(np.random.default_rng(3), 400)
    fitted, _ = fit_calibration(
        inputs.top_probability, np.zeros(400, int), 1_000, failure=FAILURE, promise="issued"
    )
    assert np.all(fitted.lower_bound(np.linspace(0, 1, 1001)) == 0)


def test_the_tuning_part_depends_on_the_number_of_inputs_alone() -> None:
    """Permuting inputs within their part changes nothing; tuning inputs never enter a test."""
    rng = np.random.default_rng(4)
    inputs = half_space(rng, 500)
    agreeing = rng.binomial(1_000, inputs.true_probability)
    tuning = np.flatnonzero(tuning_part(500))
    tested = np.flatnonzero(~tuning_part(500))
    order = np.arange(500)
    order[tuning], order[tested] = rng.permutation(tuning), rng.permutation(tested)
    fits = [
        fit_calibration(
            inputs.top_probability[rows], agreeing[rows], 1_000, failure=FAILURE, promise="issued"
        )[0]
        for rows in (np.arange(500), order)
    ]
    assert fits[0] == fits[1]
    assert len(tuning) == 50


@pytest.mark.parametrize("promise", ["marginal", "pac"])
def test_each_group_has_its_own_promise(promise: str) -> None:
    """Class 1 is harder. One offset for all breaks its level there; an offset per class keeps it."""
    rng, apart, together = np.random.default_rng(5), [], []
    for _ in range(300):
        label = (rng.random(600) < 0.25).astype(int)
        inputs = half_space(rng, 600)
        truth = np.where(label == 1, np.clip(inputs.true_probability - 0.25, 0, 1), inputs.true_probability)
        agreeing = rng.binomial(500, truth)
        how: dict[str, Any] = {"failure": 0.1, "promise": promise, "label": label}
        for groups, found in (((0, 1), apart), (None, together)):
            fitted, _ = fit_calibration(inputs.top_probability, agreeing, 500, **how, groups=groups)
            fresh = half_space(rng, 2_000)
            bound = fitted.lower_bound(fresh.top_probability, np.ones(2_000, int))
            hard = np.clip(fresh.true_probability - 0.25, 0, 1)
            found.append(np.mean((bound > 0.5) & (bound > hard)))
    assert within(np.array(apart), 0.1)
    assert not within(np.array(together), 0.1)


def test_groups_that_are_too_small_are_named() -> None:
    label = np.array([0] * 300 + [1] * 20 + [2] * 3)
    with pytest.raises(ValueError, match=r"23 .* group 1 \(classes 1, 2\) are too few .* use at least 124"):
        fit_calibration([0.9] * 323, [900] * 323, 1000, failure=0.01, label=label, groups=(0, 1, 1))


def test_a_calibration_with_groups_asks_for_the_class() -> None:
    fitted, _ = fit_calibration([0.9] * 80, [900] * 80, 1000, failure=0.1, label=[0, 1] * 40, groups=(0, 1))
    with pytest.raises(ValueError, match="pass the classes"):
        fitted.lower_bound([0.9])
    assert fitted.of_group(0).groups is None


def test_issued_works_where_many_inputs_reach_the_ceiling() -> None:
    """Ties at the ceiling must not leave the first test without issued inputs."""
    q, agreeing = np.full(500, 0.9999), np.full(500, 299)
    fitted, _ = fit_calibration(q, agreeing, 300, failure=0.05, promise="issued")
    assert fitted.lower_bound([0.9999])[0] > 0.9


def test_inputs_that_fix_the_tests_are_not_tested() -> None:
    """Bad tuning inputs alone break nothing; bad tested inputs alone let nothing pass."""
    tuning = tuning_part(500)
    q = np.full(500, 0.99)
    for bad, issues in ((tuning, True), (~tuning, False)):
        fitted, _ = fit_calibration(q, np.where(bad, 0, 998), 1_000, failure=FAILURE, promise="issued")
        assert (fitted.lower_bound([0.99])[0] > 0) == issues


def test_the_confidence_is_for_all_groups_together() -> None:
    assert Terms(promise="pac", groups=(0, 1, 2, 3)).doubt == Fraction(1, 80)
    label = np.arange(800) % 2
    fitted, _ = fit_calibration(
        np.full(800, 0.9),
        np.full(800, 900),
        1_000,
        failure=FAILURE,
        promise="pac",
        label=label,
        groups=(0, 1),
    )
    assert fitted.ranks == (pac_rank(400, GAMMA, Fraction(1, 40)),) * 2


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({"promise": "pac", "rule": "paper"}, "the rule 'paper' keeps a marginal promise alone"),
        ({"confidence": 0.9}, "a marginal promise has no confidence"),
        ({"groups": ()}, "numbered from 0 without gaps"),
        ({"groups": (0, 2)}, "numbered from 0 without gaps"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Terms(**terms)


def test_dependent_inputs_break_pac_and_not_the_marginal_promise() -> None:
    """Inputs that share a difficulty are exchangeable and not independent: PAC then promises too much."""
    rng, rates = np.random.default_rng(9), {"marginal": [], "pac": []}
    for _ in range(2_000):
        hard = rng.random() < 0.1
        for promise, found in rates.items():
            u = rng.random(150) * (0.5 if not hard else 1.0)
            votes = worst_votes(rng, (150,), 4, BETA)
            fitted, _ = fit_calibration(u, votes, 4, failure=FAILURE, beta=BETA, score=WORST, promise=promise)
            new_is_hard = rng.random(20) < 0.1
            found.append(np.mean(np.where(new_is_hard, 1 - fitted.offset, max(0, 1 - 2 * fitted.offset))))
    assert np.mean(np.array(rates["pac"]) > FAILURE) > DOUBT


def test_nothing_is_issued_if_no_test_passes_whatever_the_family() -> None:
    """The offset at which nothing is issued is not that of the top probability 1 for every family."""

    q = np.where(np.arange(600) < 30, special.ndtr(1.0), 0.999)
    how = {
        "failure": 0.01,
        "promise": "issued",
        "score": tapered_by({0: 1, 1: 0.1, 2: 1, 3: 1, 4: 1}, "narrow"),
    }
    fitted, _ = fit_calibration(q, np.full(600, 100), 10_000, **how)
    assert not fitted.lower_bound(special.ndtr(np.linspace(-4, 4, 801))).any()
