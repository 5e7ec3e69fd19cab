"""The floored rule by simulation: `P[issued and wrong] <= gamma / (1 - beta)`, and what breaks it.

Each test of a broken calibration shows that the simulations would notice that error.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrise.statistics import FLOORED, PAPER, SCORES, Score, Terms, clopper_pearson_lower, fit_calibration
from rrise.statistics import calibration as calibration_module
from rrise.statistics import promises as promises_module
from tests.statistics.populations import JUDGES, WORST, Inputs, half_space, within, worst_votes, wrong_rates

CALIBRATIONS = 400
# (M + 1) * gamma is a whole number: the rank is tight
TIGHT = [(0.05, 0.2, 24), (0.05, 0.5, 39), (0.1, 0.1, 99), (0.01, 0.2, 124)]


def rates(
    failure: float,
    beta: float,
    size: int,
    score: str | Score,
    *,
    votes: int = 2_000,
    hard: float = 0,
) -> np.ndarray:
    """Return the failure of each calibration; a share `hard` of the inputs has a wrong, sure surrogate."""
    rng = np.random.default_rng([size, votes])
    judges, found = with_hard(np.random.default_rng(1), JUDGES, hard), []
    for _ in range(CALIBRATIONS):
        inputs = with_hard(rng, half_space(rng, size), hard)
        agreeing = rng.binomial(votes, inputs.true_probability)
        how = {"failure": failure, "beta": beta, "score": score}
        fitted, _ = fit_calibration(inputs.top_probability, agreeing, votes, **how)
        found.append(wrong_rates(fitted, judges)[0])
    return np.array(found)


def with_hard(rng: np.random.Generator, inputs: Inputs, share: float) -> Inputs:
    """Let the surrogate be sure of a class with probability 0.1 for some inputs."""
    chosen = rng.random(len(inputs.top_probability)) < share
    sure = np.where(chosen, np.maximum(inputs.top_probability, 0.9), inputs.top_probability)
    return Inputs(sure, np.where(chosen, 0.1, inputs.true_probability))


@pytest.mark.parametrize("score", ["additive", "probit", "tapered"])
@pytest.mark.parametrize(("failure", "beta", "size"), TIGHT)
@pytest.mark.parametrize("hard", [0, 0.03])
def test_the_promise_holds(failure: float, beta: float, size: int, score: str, hard: float) -> None:
    assert within(rates(failure, beta, size, score, hard=hard), failure)


@pytest.mark.parametrize("score", ["probit", "tapered"])
@pytest.mark.parametrize("votes", [3, 5, 20])
def test_the_promise_holds_with_few_votes(votes: int, score: str) -> None:
    assert within(rates(0.05, 0.2, 24, score, votes=votes), 0.05)


def worst_rates(
    failure: float, beta: float, size: int, n: int, times: int = 2_000, **more: Any
) -> np.ndarray:
    """Return the exact failure of each calibration on the population that attains the bound."""
    rng = np.random.default_rng([size, n])
    numbers, agreeing = rng.random((times, size)), worst_votes(rng, (times, size), n, beta)
    how = {"failure": failure, "beta": beta, "score": WORST, **more}
    offsets = [
        fit_calibration(u, votes, n, **how)[0].offset for u, votes in zip(numbers, agreeing, strict=True)
    ]
    return np.clip(1 - np.array(offsets), 0, 1)


@pytest.mark.parametrize(("failure", "beta", "size"), TIGHT)
def test_the_bound_is_attained_so_nothing_is_left_to_spend(failure: float, beta: float, size: int) -> None:
    n = 2 if beta >= 0.5 else 4
    observed = worst_rates(failure, beta, size, n)
    error = observed.std() / len(observed) ** 0.5
    assert observed.mean() == pytest.approx(failure, abs=4 * error)
    assert error < 0.03 * failure


def test_a_rank_one_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = promises_module.conformal_rank
    monkeypatch.setattr(promises_module, "conformal_rank", lambda m, gamma: exact(m, gamma) - 1)
    assert not within(worst_rates(0.05, 0.2, 24, 4), 0.05)


def test_a_failure_that_is_spent_twice_is_noticed() -> None:
    """The conformal step must not get the whole failure if votes are bounded at `beta` too."""
    greedy = replace(FLOORED, gamma=lambda failure, _: failure)
    assert not within(worst_rates(0.05, 0.5, 39, 2, rule=greedy), 0.05)


def test_a_floor_in_the_wrong_place_is_refused_and_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgiving inputs whose votes prove nothing is no floor: a bold bound there is issued and wrong."""
    probit = SCORES["probit"]
    forgiving = replace(
        probit,
        name="forgiving",
        residual=lambda q, allowed, ceiling: np.where(
            allowed <= 0.5, -10, probit.residual(q, allowed, ceiling)
        ),
    )
    with pytest.raises(ValueError, match="'forgiving' is not valid"):
        rates(0.05, 0.2, 24, forgiving)
    monkeypatch.setattr(calibration_module, "check_family", lambda *_: None)
    monkeypatch.setattr(calibration_module, "abstaining_offset", lambda *_: 10.0)
    assert not within(rates(0.01, 0.2, 124, forgiving, hard=0.1), 0.01)


def test_a_family_chosen_by_the_calibration_inputs_is_noticed() -> None:
    """Choosing the boldest of several families on the calibration inputs breaks the promise."""
    rng, found = np.random.default_rng(5), []
    for _ in range(1_000):
        votes = worst_votes(rng, (24,), 4, 0.2)
        offsets = [
            fit_calibration(rng.random(24), votes, 4, failure=0.05, beta=0.2, score=WORST)[0].offset
            for _ in range(5)
        ]
        found.append(1 - min(offsets))
    assert not within(np.clip(found, 0, 1), 0.05)


def test_noise_shared_between_inputs_is_noticed() -> None:
    """With one noise for all inputs the votes fail together: only the union bound survives that."""

    def observed(rule: str, failure: float) -> np.ndarray:
        rng, found = np.random.default_rng(6), []
        for _ in range(2_000):
            votes = np.full(24, worst_votes(rng, (), 4, 0.3))
            how = {"failure": failure, "beta": 0.3, "score": WORST, "rule": rule}
            fitted, _ = fit_calibration(rng.random(24), votes, 4, **how)
            found.append(np.clip(1 - fitted.offset, 0, 1))
        return np.array(found)

    assert not within(observed("floored", 0.0572), 0.0572)
    assert within(observed("paper", 0.3401), 0.3401)


def test_issued_means_strictly_above_one_half() -> None:
    """The input that sets the offset at the floor is itself not issued, by any rounding."""
    rng = np.random.default_rng(7)
    for name in SCORES:
        for _ in range(300):
            q = rng.uniform(0.5, 1, 24)
            fitted, evidence = fit_calibration(q, np.zeros(24, int), 100, failure=0.05, beta=0.2, score=name)
            assert fitted.lower_bound(q).max() == 0
            assert evidence.score.max() <= fitted.offset


def test_rounding_of_a_scaled_family_issues_nothing_at_the_floor() -> None:
    """`mu - (mu / tau) * tau` may exceed 0 by rounding; the margin of the offset prevents its issue."""
    rng, probit = np.random.default_rng(8), SCORES["probit"]
    for _ in range(300):
        tau = rng.uniform(0.1, 3)
        scaled = Score(
            "tapered",
            residual=lambda q, allowed, ceiling, tau=tau: probit.residual(q, allowed, ceiling) / tau,
            bound=lambda q, offset, ceiling, tau=tau: probit.bound(q, offset * tau, ceiling),
        )
        q = rng.uniform(0.5, 1, 24)
        fitted, _ = fit_calibration(q, np.zeros(24, int), 100, failure=0.05, beta=0.2, score=scaled)
        assert not np.any(fitted.lower_bound(q) > 0)


def test_a_family_that_grows_with_the_offset_is_refused() -> None:
    growing = Score("growing", lambda q, *_: 0 * q, lambda q, offset, _: np.clip(0.4 + 0 * q + offset, 0, 1))
    with pytest.raises(ValueError, match="'growing' is not valid"):
        fit_calibration([0.9] * 40, [900] * 40, 1000, failure=0.1, score=growing)


def test_a_family_without_a_member_that_abstains_is_refused() -> None:
    bold = Score("bold", lambda q, *_: 0 * q, lambda q, *_: 0.9 + 0 * q)
    with pytest.raises(ValueError, match="for the bound 1/2 it must abstain"):
        fit_calibration([0.95] * 40, [999] * 40, 1000, failure=0.1, score=bold)


@given(seed=st.integers(0, 2**32), score=st.sampled_from(["probit", "additive"]))
def test_the_floor_never_lowers_an_issued_bound(seed: int, score: str) -> None:
    """Compared with the paper's scores at the same beta and gamma."""
    rng = np.random.default_rng(seed)
    inputs = half_space(rng, 60)
    agreeing = rng.binomial(500, inputs.true_probability)
    same = replace(FLOORED, floor=PAPER.floor)
    with_floor, _ = fit_calibration(inputs.top_probability, agreeing, 500, failure=0.05, score=score)
    without, _ = fit_calibration(inputs.top_probability, agreeing, 500, failure=0.05, score=score, rule=same)
    bound, before = (
        with_floor.lower_bound(JUDGES.top_probability),
        without.lower_bound(JUDGES.top_probability),
    )
    assert np.all((bound >= before - 1e-9) | (before <= 0.5))


@given(order=st.permutations(range(40)))
def test_the_order_of_the_calibration_inputs_does_not_matter(order: list[int]) -> None:
    inputs = half_space(np.random.default_rng(3), 40)
    agreeing = np.random.default_rng(4).binomial(500, inputs.true_probability)
    fitted = [
        fit_calibration(inputs.top_probability[rows], agreeing[rows], 500, failure=0.1)[0]
        for rows in (np.arange(40), np.array(order))
    ]
    assert fitted[0] == fitted[1]


@given(failure=st.integers(1, 400), beta=st.integers(1, 500))
def test_the_split_is_exact_and_never_worse_than_the_papers(failure: int, beta: int) -> None:
    terms = Terms(f"0.{failure:04d}", f"0.{beta:03d}")
    assert FLOORED.failure(terms.exact_beta, terms.gamma) * 10_000 == failure
    if terms.exact_beta * 10_000 < failure:
        assert terms.gamma >= PAPER.share(terms.failure, terms.exact_beta)


def test_a_bound_that_is_not_issued_is_zero() -> None:
    fitted, _ = fit_calibration(np.linspace(0.3, 0.9, 200), np.full(200, 50), 100, failure=0.05)
    bound = fitted.lower_bound(np.linspace(0, 1, 500))
    assert set(np.unique(bound[bound <= 0.5])) == {0.0}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"failure": 0.01}, "40 calibration inputs are too few for gamma=0.008: use at least 124"),
        ({"n": 2}, "2 votes can never certify at beta=0.2"),
        ({"rule": "flored"}, "expected a rule out of floored, paper; got 'flored': did you mean floored"),
        ({"promise": "pack"}, "expected a promise out of marginal, pac, issued; got 'pack'"),
        ({"promise": "pac", "confidence": 1.0}, "confidence strictly between 0 and 1"),
    ],
)
def test_what_cannot_be_promised_is_refused(changes: dict[str, Any], sentence: str) -> None:
    arguments: dict[str, Any] = {
        "top_probability": [0.9] * 40,
        "agreeing": [2] * 40,
        "n": 1000,
        "failure": 0.1,
    }
    with pytest.raises(ValueError, match=sentence):
        fit_calibration(**{**arguments, **changes})


def test_votes_prove_more_at_a_larger_beta() -> None:
    assert clopper_pearson_lower(950, 1000, 0.2) > clopper_pearson_lower(950, 1000, 0.001)
