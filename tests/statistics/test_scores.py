from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rrise.statistics import SCORES, Score, clopper_pearson_lower, fit_calibration, score_by_name, tapered_by

PROBABILITY = st.floats(0, 1)


@pytest.mark.parametrize("name", sorted(SCORES))
@given(q=PROBABILITY, k=st.integers(0, 500), slack=st.floats(0, 3))
def test_a_score_within_the_offset_means_a_bound_below_the_evidence(
    name: str, q: float, k: int, slack: float
) -> None:
    """The implication on which the whole calibration rests."""
    score, n, beta = SCORES[name], 500, 0.001
    ceiling = float(clopper_pearson_lower(n, n, beta))
    lower = np.array([float(clopper_pearson_lower(k, n, beta))])
    residual = score.residual(np.array([q]), lower, ceiling)
    offset = max(0.0, float(residual[0])) + slack
    assert score.bound(np.array([q]), offset, ceiling)[0] <= lower[0] + 1e-12


@pytest.mark.parametrize("name", sorted(SCORES))
def test_bounds_never_exceed_what_unanimous_votes_prove(name: str) -> None:
    q = np.linspace(0, 1, 1001)
    for n in range(10, 400):
        ceiling = float(clopper_pearson_lower(n, n, 0.001))
        bound = SCORES[name].bound(q, 0.0, ceiling)
        assert np.all(bound <= ceiling)
        assert np.all(np.isfinite(bound))
        if name != "tapered":
            assert np.all(bound <= q + 1e-15)


def test_probit_offset_shortens_every_radius_by_the_same_length() -> None:
    from rrise.statistics import certified_radius

    q = np.array([0.8, 0.9, 0.99])
    before = certified_radius(q, 0.5)
    after = certified_radius(SCORES["probit"].bound(q, 0.4, 0.9999), 0.5)
    np.testing.assert_allclose(before - after, 0.5 * 0.4, rtol=1e-9)


def test_tapered_bounds_fall_by_the_spread_at_their_probit() -> None:
    score = tapered_by({0: 0.5, 1: 1, 2: 2}, "tried")
    probit = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
    spread = np.array([0.5, 0.5, 0.75, 1.0, 1.5, 2.0, 2.0])
    bound = score.bound(stats.norm.cdf(probit), 0.4, 0.9999)
    np.testing.assert_allclose(stats.norm.ppf(bound), probit - 0.4 * spread, rtol=1e-9)


def test_tapered_bounds_are_cut_at_the_ceiling_after_the_offset() -> None:
    """Where all votes agree no bound is above what they prove, so the score is the lowest."""
    score, ceiling = SCORES["tapered"], 0.99
    q = stats.norm.cdf(np.array([2.0, 4.0, 8.0]))
    assert score.bound(q, 0.5, ceiling).tolist() == pytest.approx(
        [stats.norm.cdf(1.5), 0.99, 0.99], abs=1e-12
    )
    assert score.residual(q, np.full(3, ceiling), ceiling).tolist() == [-1.0, -1.0, -1.0]
    almost = score.residual(q, np.full(3, ceiling - 1e-12), ceiling)
    np.testing.assert_allclose(
        almost, (stats.norm.ppf(q) - stats.norm.ppf(0.99)) / [1, 0.35, 0.35], rtol=1e-6
    )


def test_an_offset_of_tapered_is_never_so_bold_that_bounds_fall() -> None:
    """Where nearly all votes of a task are unanimous, the offset is the lowest score."""
    fitted, _ = fit_calibration([0.6] * 200, [1000] * 200, 1000, failure=0.05, score="tapered")
    assert fitted.offset == pytest.approx(-1.0, abs=1e-9)
    assert fitted.lower_bound([0.6])[0] < fitted.lower_bound([0.9])[0] <= fitted.ceiling


@pytest.mark.parametrize("n", [5, 30, 1_000, 100_000])
def test_tapered_bounds_that_are_issued_grow_with_the_top_probability(n: int) -> None:
    """An export needs this, and so does the offset at which nothing is issued."""
    ceiling = 0.2 ** (1 / n)
    q = np.linspace(0.3, 1, 200_001)
    for offset in np.linspace(-1, 14, 151):
        bound = SCORES["tapered"].bound(q, offset, ceiling)
        issued = np.where(bound > 0.5, bound, 0)
        assert np.all(np.diff(issued) >= -1e-12)


def test_additive_offset_is_the_papers() -> None:
    q, agreeing, n = np.linspace(0.5, 0.95, 50), np.arange(450, 950, 10), 1000
    calibration, evidence = fit_calibration(
        q, agreeing, n, failure=0.25, beta=0.001, score="additive", rule="paper"
    )
    residual = np.sort(q - clopper_pearson_lower(agreeing, n, 0.001))
    assert calibration.rank == 39  # ceil(51 * 0.751)
    assert calibration.offset == residual[38]
    np.testing.assert_array_equal(np.sort(evidence.score), residual)
    np.testing.assert_allclose(calibration.lower_bound([0.9]), 0.9 - calibration.offset)


def test_the_papers_offset_is_never_negative() -> None:
    for rule, negative in (("paper", False), ("floored", True)):
        calibration, _ = fit_calibration([0.6] * 30, [990] * 30, 1000, failure=0.2, rule=rule)
        assert (calibration.offset < 0) == negative


def test_inputs_without_a_single_agreeing_vote_make_the_certifier_abstain_and_not_fail() -> None:
    for rule, top in (("paper", 0.999), ("floored", 0.9)):
        calibration, _ = fit_calibration([0.9] * 40, [0] * 40, 1000, failure=0.1, rule=rule)
        assert calibration.lower_bound([top])[0] < 0.5


def test_a_score_that_is_not_finite_never_becomes_an_offset_of_zero() -> None:
    broken = replace(SCORES["probit"], residual=lambda q, *_: np.full_like(q, np.nan))
    with pytest.raises(ValueError, match="a calibration score is not finite"):
        fit_calibration([0.9] * 40, [900] * 40, 1000, failure=0.1, score=broken)


def test_hardly_any_agreement_is_never_certified_at_any_level() -> None:
    calibration, _ = fit_calibration([0.6] * 40, [5] * 40, 1000, failure=0.1, beta=1e-190)
    assert calibration.lower_bound([0.6])[0] == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"failure": 0.0}, "failure strictly between 0 and 1"),
        ({"failure": 1.0}, "failure strictly between 0 and 1"),
        ({"beta": 0.0}, "beta strictly between 0 and 1"),
        ({"beta": 0.2}, "beta below the total failure"),
        ({"failure": 0.01}, "40 calibration inputs are too few for gamma=0.009: use at least 111"),
        ({"n": 9}, "9 votes can never certify at beta=0.001"),
        ({"score": "median"}, "a score out of additive, probit, tapered; got 'median'"),
        ({"top_probability": [0.9] * 39 + [np.nan]}, "got NaN at position 39"),
        ({"top_probability": [0.9] * 39 + [1.2]}, r"top probabilities in \[0, 1\]"),
        ({"top_probability": [0.9] * 39}, r"got arrays of shape \(39,\) and \(40,\)"),
        ({"top_probability": [], "agreeing": []}, "calibration set is empty"),
        ({"agreeing": [1001] * 40}, "0 <= k <= n"),
    ],
)
def test_impossible_calibrations_are_refused_in_a_sentence(changes: dict[str, object], sentence: str) -> None:
    arguments: dict[str, object] = {"top_probability": [0.9] * 40, "agreeing": [9] * 40, "n": 1000}
    with pytest.raises(ValueError, match=sentence):
        fit_calibration(**{**arguments, "failure": 0.1, "rule": "paper", **changes})  # type: ignore[arg-type]


def test_names_the_scores_it_knows() -> None:
    with pytest.raises(ValueError, match="expected a score out of additive, probit, tapered; got 'logit'"):
        score_by_name("logit")


def test_a_score_whose_bounds_do_not_hold_is_refused() -> None:
    lying = Score(
        "lying",
        lambda q, allowed, _: np.where(allowed <= 0.5, 1, 0) * q,
        lambda q, t, _: np.where(t < 1, q, 0),
    )
    with pytest.raises(ValueError, match="the score 'lying' is not valid: its bounds hold for 0 of 40"):
        fit_calibration([0.9] * 40, [600] * 40, 1000, failure=0.1, score=lying)
