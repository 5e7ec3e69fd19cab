import math

import numpy as np
import pytest

from rrise.certifiers.sequential import Sequential
from rrise.statistics import anytime_lower, certified_radius
from rrise.votes.noise import Gaussian
from rrise.votes.sequence import StoredVotes
from tests.certifiers.drawn_votes import SMOOTHING, DrawnVotes, stored_votes


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("probabilities", [(0.5, 0.5), (0.53, 0.47), (0.9, 0.06, 0.04)])
def test_error_rate_stays_below_alpha_however_it_stops(
    probabilities: tuple[float, ...], alpha: float
) -> None:
    """100,000 inputs that stop at once when any radius is certified, and as many that stop by prediction."""
    for stop in ({"radius": 1e-9, "tolerance": 1e-12}, {"tolerance": 0.05}):
        votes = DrawnVotes(probabilities, 100_000, 2000)
        certificates = Sequential(2000, alpha, step=100, **stop).certify_votes(votes)
        wrong = certificates.issued & (certificates.lower_bound > np.array(probabilities)[certificates.label])
        assert wrong.mean() <= alpha
        np.testing.assert_array_equal(votes.drawn, certificates.passes)


def by_hand(answers: np.ndarray, certifier: Sequential) -> tuple[int, float, int]:
    """Follow the rules for one input, vote by vote: label, bound and votes taken."""
    alpha, tolerance, sigma = float(certifier.failure), certifier.tolerance, SMOOTHING.sigma
    label = int(np.bincount(answers[: certifier.selection]).argmax())
    step = certifier.step or math.ceil(certifier.n / 100)
    best, agreeing, final = 0.0, 0, certifier.n - certifier.selection
    for taken in range(certifier.selection + 1, certifier.n + 1):
        agreeing += int(answers[taken - 1] == label)
        seen = taken - certifier.selection
        if seen % step and taken < certifier.n:
            continue
        best = max(best, float(anytime_lower(agreeing, seen, alpha)))
        radius = float(certified_radius(best, sigma))
        if certifier.radius is not None and radius >= certifier.radius:
            return label, best, taken
        if tolerance is not None:
            p = agreeing / seen
            if best <= 0.5:
                p = min(1.0, p + 2 * math.sqrt(p * (1 - p) / seen))
            predicted = float(certified_radius(anytime_lower(math.floor(p * final), final, alpha), sigma))
            if predicted == 0 or (predicted - radius) / predicted < tolerance:
                return label, best, taken
    return label, best, certifier.n


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tolerance": 0.05},
        {"tolerance": 0.2, "step": 7},
        {"radius": 0.2, "tolerance": 1e-12},
        {"radius": 0.4, "tolerance": 0.1, "selection": 20, "step": 33},
    ],
)
def test_follows_the_rules_for_each_input(settings: dict[str, float]) -> None:
    p = np.linspace(0.3, 1.0, 40)
    votes = stored_votes(p, 1003, classes=4)
    certifier = Sequential(1003, 0.01, **settings)
    certificates = certifier.certify_votes(votes)
    expected = [by_hand(row, certifier) for row in votes.answers]
    np.testing.assert_array_equal(certificates.label, [label for label, _, _ in expected])
    np.testing.assert_allclose(certificates.lower_bound, [bound for _, bound, _ in expected], rtol=1e-12)
    np.testing.assert_array_equal(certificates.passes, [taken for _, _, taken in expected])


def test_stops_at_the_wanted_radius_and_not_before_it() -> None:
    certificates = Sequential(2000, 0.001, radius=0.3).certify_votes(DrawnVotes((0.9, 0.1), 500, 2000))
    stopped = certificates.passes < 2000
    assert stopped.mean() > 0.9
    assert np.all(certificates.radius[stopped] >= 0.3)
    assert certificates.radius.mean() < 0.36
    assert certificates.mean_passes < 1000


def test_gives_hopeless_inputs_up_and_saves_votes_on_clear_ones() -> None:
    full = Sequential(10_000, 0.001).certify_votes(DrawnVotes((0.9, 0.1), 200, 10_000))
    early = Sequential(10_000, 0.001, tolerance=0.05).certify_votes(DrawnVotes((0.9, 0.1), 200, 10_000))
    assert np.all(full.passes == 10_000)
    assert early.mean_passes < 6000
    assert 0.93 < early.radius.mean() / full.radius.mean() < 1
    hopeless = Sequential(10_000, 0.001, tolerance=0.05).certify_votes(
        DrawnVotes((0.4, 0.3, 0.3), 200, 10_000)
    )
    assert not hopeless.issued.any()
    assert hopeless.mean_passes < 1000
    borderline = Sequential(10_000, 0.001, tolerance=0.05).certify_votes(
        DrawnVotes((0.55, 0.45), 200, 10_000)
    )
    assert borderline.issued.mean() > 0.75


def test_the_label_comes_from_the_first_votes_and_the_bound_from_the_others() -> None:
    answers = np.concatenate([np.ones((1, 100), int), np.zeros((1, 400), int)], axis=1)
    certificates = Sequential(500, 0.01).certify_votes(StoredVotes(answers, 2, SMOOTHING))
    assert certificates.label.tolist() == [1]
    assert certificates.lower_bound.tolist() == [0.0]
    assert not certificates.issued[0]


def test_one_unanimous_input_of_two_classes() -> None:
    answers = np.ones((1, 1000), dtype=np.uint8)
    certifier = Sequential(1000, 0.001, tolerance=0.01)
    certificates = certifier.certify_votes(StoredVotes(answers, 2, SMOOTHING))
    taken = int(certificates.passes[0])
    assert certificates.label.tolist() == [1]
    assert certificates.lower_bound[0] == anytime_lower(taken - 100, taken - 100, 0.001)
    assert taken - 100 in certifier.rule(SMOOTHING.noise).looks


def test_no_input_gives_no_certificate() -> None:
    nothing = StoredVotes(np.zeros((0, 500), dtype=np.uint8), 10, SMOOTHING)
    assert len(Sequential(500, 0.01, tolerance=0.1).certify_votes(nothing)) == 0


def test_says_what_it_is_and_promises() -> None:
    certifier = Sequential(1000, 0.01, tolerance=0.05, radius=0.5)
    assert certifier.name == "sequential (anytime-valid), n=1000, tolerance=0.05, radius=0.5, failure=0.01"
    assert certifier.n == 100 + certifier.rule(SMOOTHING.noise).looks[-1] == 1000
    guarantee = certifier.certify_votes(DrawnVotes((1.0, 0.0), 3, 1000)).guarantee
    assert guarantee.failure_text == "0.01"
    assert "whenever and for whatever reason the voting stops" in guarantee.words.promise
    assert guarantee.settings["selection_votes"] == 100


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n": 111, "failure": 0.001}, "can never certify at failure=0.001: use at least 112"),
        ({"n": 100, "failure": 0.001}, "100 votes, 100 of them for selection, can never certify"),
        ({"n": 1000.5}, "expected a whole number for n, got 1000.5"),
        ({"n": 1000, "selection": 0}, "expected selection to be at least 1 vote, got 0"),
        ({"n": 1000, "step": 0}, "expected step to be at least 1 vote, got 0"),
        ({"n": 1000, "tolerance": 0}, "expected tolerance strictly between 0 and 1, got 0"),
        ({"n": 1000, "radius": -1}, "expected a positive radius to stop at, got -1"),
        ({"n": 1000, "failure": 0.5}, "expected failure below 0.493, got 0.5"),
        ({"n": 1000, "failure": 2}, "expected failure strictly between 0 and 1, got 2"),
    ],
)
def test_refuses_settings_that_make_no_sense(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Sequential(**settings)


def test_the_fewest_votes_it_asks_for_do_certify_if_all_agree() -> None:
    certificates = Sequential(112, 0.001).certify_votes(DrawnVotes((1.0, 0.0), 1, 112))
    assert certificates.issued.all()


def test_refuses_too_few_votes() -> None:
    with pytest.raises(ValueError, match="expected at least 1000 votes of each input, got 500"):
        Sequential(1000, 0.01).certify_votes(DrawnVotes((0.9, 0.1), 5, 500))


def test_a_radius_in_single_precision_is_decided_as_in_double() -> None:
    rule = Sequential(10_000, 0.001, radius=np.float32(0.3)).rule(Gaussian(0.3))
    assert rule.radius == float(np.float32(0.3))  # type: ignore[union-attr]
    assert rule.p0 == pytest.approx(0.8413, abs=1e-4)  # type: ignore[union-attr]
