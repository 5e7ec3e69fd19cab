"""Deciding one radius: its level over all paths and in simulations, its votes, and its refusals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from rrise.certifiers.sequential import Sequential
from rrise.certifiers.sequential_rules import Decision
from rrise.statistics import anytime_lower
from rrise.votes.noise import Gaussian
from rrise.votes.sequence import StoredVotes
from tests.certifiers.drawn_votes import SMOOTHING, DrawnVotes, stored_votes
from tests.closed_forms import HalfSpace

NOISE = Gaussian(0.5)


def decision(n: int, alpha: float, radius: float, step: int | None = None) -> Decision:
    return Decision(n, alpha, NOISE, radius, 10, step)


def chance_of_a_wrong_bound(rule: Decision, p: float) -> float:
    """Return P[a bound of any look exceeds p], exactly, from the counts of all undecided paths."""
    chance, at, wrong = np.array([1.0]), 0, 0.0
    for look, trials in enumerate(rule.looks):
        for _ in range(trials - at):
            chance = p * np.append(0, chance) + (1 - p) * np.append(chance, 0)
        at, agreeing = trials, np.arange(trials + 1)
        bound = rule.bound(agreeing, look)
        exceeds = bound > p
        wrong += float(chance[exceeds].sum())
        chance = np.where(~exceeds & rule.goes_on(bound, agreeing, look), chance, 0.0)
    return wrong


@pytest.mark.parametrize("alpha", [0.001, 0.1])
@pytest.mark.parametrize(("radius", "step"), [(0.5, None), (0.5, 1), (0.05, None), (0.7, 7)])
def test_a_bound_of_any_look_is_wrong_with_at_most_alpha(
    alpha: float, radius: float, step: int | None
) -> None:
    """Not only the last bound: whoever stops earlier, with whatever aim, gains nothing."""
    rule = decision(210, alpha, radius, step)
    just_below = rule.p0 - 1e-9
    at_p0 = chance_of_a_wrong_bound(rule, just_below)
    assert 0.5 * alpha < at_p0 <= alpha
    for p in (0.5, (0.5 + rule.cap) / 2, rule.cap - 1e-9, rule.cap + 1e-6, (rule.cap + rule.p0) / 2):
        assert chance_of_a_wrong_bound(rule, p) <= alpha
    assert chance_of_a_wrong_bound(rule, rule.p0) == 0


def test_a_cap_that_is_too_high_and_a_line_that_is_too_low_are_found() -> None:
    """The same sum sees both mistakes; what keeps the level is therefore what it tests."""
    high, low = decision(210, 0.1, 0.5), decision(210, 0.1, 0.5)
    p = high.p0 - 1e-3
    assert chance_of_a_wrong_bound(high, p) <= 0.1
    high.__dict__["cap"] = high.p0
    high.__dict__["alpha"] = 0.2
    assert chance_of_a_wrong_bound(high, p) > 0.1
    low.__dict__["test"] = replace(low.test, accept=low.test.accept - 1)
    assert chance_of_a_wrong_bound(low, low.p0 - 1e-9) > 0.1


@pytest.mark.parametrize("alpha", [0.001, 0.1])
@pytest.mark.parametrize("probability", [0.55, 0.8413, 0.98])
def test_simulated_error_rates_just_below_the_wanted_radius(probability: float, alpha: float) -> None:
    """40,000 inputs whose radius is a millionth too small."""
    radius = float(NOISE.radius(probability)) * (1 + 1e-6)
    votes = DrawnVotes((probability, 1 - probability), 40_000, 1500)
    certificates = Sequential(1500, alpha, radius=radius).certify_votes(votes)
    wrong = (certificates.label == 0) & (certificates.lower_bound > probability)
    assert wrong.sum() <= stats.binom.isf(1e-6, 40_000, alpha)
    np.testing.assert_array_equal(votes.drawn, certificates.passes)


def test_counting_the_selection_votes_again_would_break_the_level() -> None:
    """Near one half, the votes that choose the class agree with it too often."""
    rng, alpha = np.random.default_rng(0), 0.1
    rule = Sequential(120, alpha, radius=1e-6, selection=20).rule(NOISE)
    trials = rng.random((20_000, 120)) < 0.5
    chosen = trials[:, :20].mean(axis=1) >= 0.5
    agrees = trials == chosen[:, None]

    def wrong(counted: np.ndarray) -> float:
        accepted = np.zeros(len(counted), dtype=np.bool_)
        going = ~accepted
        for look, votes in enumerate(rule.looks):
            agreeing = counted[:, :votes].sum(axis=1)
            bound = rule.bound(agreeing, look)
            accepted |= going & (bound > 0.5)
            going &= rule.goes_on(bound, agreeing, look)
        return float(accepted.mean())

    assert wrong(agrees[:, 20:]) <= alpha + 0.01
    assert wrong(agrees[:, :100]) > 1.3 * alpha


@pytest.mark.parametrize("settings", [{}, {"selection": 40, "step": 9}, {"step": 3}])
def test_follows_the_lines_of_the_test_for_each_input(settings: dict[str, int]) -> None:
    votes = stored_votes(np.linspace(0.5, 1.0, 40), 503, classes=4)
    method = Sequential(503, 0.01, radius=0.4, **settings)
    rule = method.rule(SMOOTHING.noise)
    certificates = method.certify_votes(votes)
    assert isinstance(rule, Decision)
    for row, answers in enumerate(votes.answers):
        label = np.bincount(answers[: rule.selection]).argmax()
        bound = 0.0
        for look, counted in enumerate(rule.looks):
            agreeing = int((answers[rule.selection : rule.selection + counted] == label).sum())
            bound = max(bound, min(float(anytime_lower(agreeing, counted, 0.009)), rule.cap))
            if agreeing >= rule.test.accept[look]:
                bound = rule.p0
                break
            if agreeing <= rule.test.hopeless[look]:
                break
        assert certificates.label[row] == label
        assert certificates.lower_bound[row] == pytest.approx(bound, rel=1e-12)
        assert certificates.passes[row] == rule.selection + counted
    assert 5 < (certificates.radius >= 0.4).sum() < 25


def test_most_inputs_take_few_votes() -> None:
    """At sigma 0.5 the radius 0.5 needs a probability of 0.8413."""
    method = Sequential(10_000, radius=0.5)
    taken, certified = {}, {}
    for probability in (1.0, 0.97, 0.9, 0.8, 0.6):
        votes = DrawnVotes((probability, 1 - probability), 2000, 10_000)
        found = method.certify_votes(votes)
        taken[probability], certified[probability] = found.mean_passes, (found.radius >= 0.5).mean()
    assert taken[1.0] == 63
    assert taken[0.97] < 120
    assert taken[0.9] < 700
    assert taken[0.8] < 900
    assert taken[0.6] < 60
    assert certified == {1.0: 1.0, 0.97: 1.0, 0.9: pytest.approx(1.0, abs=0.01), 0.8: 0.0, 0.6: 0.0}


def test_live_votes_are_drawn_only_where_they_are_needed(half_space: HalfSpace, uniform: np.ndarray) -> None:
    method = Sequential(400, 0.01, radius=0.2)
    votes = method.bind(half_space, sigma=0.25, seed=3).live(uniform[:150])
    passes = method.certify_votes(votes).passes
    assert votes.drawn == passes.sum()
    assert len(np.unique(passes)) > 5
    assert passes.mean() < 150


def test_an_estimate_certifies_hardly_more_and_takes_many_more_votes() -> None:
    for probability in (0.85, 0.86, 0.87):
        votes = [DrawnVotes((probability, 1 - probability), 2000, 10_000) for _ in range(2)]
        decided = Sequential(10_000, radius=0.5).certify_votes(votes[0])
        estimated = Sequential(10_000, radius=0.5, tolerance=1e-9).certify_votes(votes[1])
        share = [(one.radius >= 0.5).mean() for one in (decided, estimated)]
        assert share[0] > share[1] - 0.06
        assert decided.mean_passes < 1.1 * estimated.mean_passes


@pytest.mark.parametrize("sigma", [0.12, 0.25, 1.0, 3.3])
@pytest.mark.parametrize("radius_in_sigma", [1e-12, 0.1, 0.5, 1.0, 1.7, 2.5])
def test_the_bound_proves_the_radius_and_the_next_smaller_number_does_not(
    sigma: float, radius_in_sigma: float
) -> None:
    noise = Gaussian(sigma)
    rule = Decision(10_000, 0.001, noise, radius_in_sigma * sigma, None, None)
    assert noise.radius(rule.p0) >= rule.radius
    assert noise.radius(np.nextafter(rule.p0, 0)) < rule.radius * (1 + 1e-12)


def test_enough_votes_choose_the_class() -> None:
    found = [Decision(10_000, 0.001, NOISE, r * 0.5, None, None).selection for r in (0.01, 0.5, 1.0, 2.0)]
    assert found == [100, 61, 15, 15]
    for p, votes in ((0.6915, 61), (0.8413, 15), (0.9772, 15)):
        assert stats.binom.cdf(votes // 2, votes, p) <= 0.001
    assert stats.binom.cdf(29, 59, 0.6915) > 0.001


def test_the_label_comes_from_the_first_votes_and_the_bound_from_the_others() -> None:
    answers = np.concatenate([np.ones((1, 15), int), np.zeros((1, 485), int)], axis=1)
    certificates = Sequential(500, 0.01, radius=0.5).certify_votes(StoredVotes(answers, 2, SMOOTHING))
    assert certificates.label.tolist() == [1]
    assert certificates.lower_bound.tolist() == [0.0]
    assert certificates.passes.tolist() == [23]


def test_inputs_that_miss_the_radius_may_get_a_smaller_one() -> None:
    certificates = Sequential(10_000, radius=0.5).certify_votes(DrawnVotes((0.8, 0.2), 500, 10_000))
    assert certificates.issued.mean() > 0.8
    assert np.all(certificates.lower_bound < 0.8413)
    assert np.median(certificates.radius) > 0.2
    assert certificates.mean_passes < 900


def test_says_what_it_is_and_promises() -> None:
    method = Sequential(1000, 0.01, radius=0.5)
    guarantee = method.guarantee(SMOOTHING)
    assert method.name == "sequential (anytime-valid), n=1000, radius=0.5, failure=0.01"
    assert guarantee.failure_text == "0.01"
    assert guarantee.settings == {
        "largest_budget": 1000,
        "selection_votes": 15,
        "looks": len(method.rule(SMOOTHING.noise).looks),
        "tolerance": None,
        "wanted_radius": 0.5,
    }


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"n": 54, "radius": 0.5},
            "54 votes, 15 of them for selection, can never certify a radius of 0.5 at",
        ),
        ({"n": 54, "radius": 0.5}, "sigma=0.5 and failure=0.001: use at least 55"),
        ({"n": 500, "radius": 0.5, "selection": 480}, "500 votes, 480 of them .* use at least 520"),
        ({"n": 1000, "radius": 50}, "no number of votes can certify a radius of 50"),
    ],
)
def test_refuses_a_radius_that_the_votes_can_never_certify(settings: dict[str, float], sentence: str) -> None:
    method = Sequential(**settings)
    for ask in (method.guarantee, lambda _: method.certify_votes(DrawnVotes((1.0, 0.0), 1, 1000))):
        with pytest.raises(ValueError, match=sentence):
            ask(SMOOTHING)


def test_the_fewest_votes_it_asks_for_do_certify_if_all_agree() -> None:
    certificates = Sequential(55, radius=0.5).certify_votes(DrawnVotes((1.0, 0.0), 1, 55))
    assert certificates.radius[0] >= 0.5


def test_no_input_gives_no_certificate() -> None:
    nothing = StoredVotes(np.zeros((0, 500), dtype=np.uint8), 10, SMOOTHING)
    assert len(Sequential(500, 0.01, radius=0.1).certify_votes(nothing)) == 0
