import numpy as np
import pytest

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import monte_carlo_guarantee
from rrise.evaluation.costs import Costs
from rrise.evaluation.metrics import (
    average_certified_radius,
    certified_accuracy,
    observed_violations,
    summarise,
    vote_share_of_label,
)
from rrise.evaluation.report import percent
from rrise.statistics import exact_level
from rrise.votes.array import Smoothing

GUARANTEE = monte_carlo_guarantee(
    exact_level(0.1, "alpha"), 100, 10, Smoothing("f" * 64, 0.5, None, "float32")
)


@pytest.fixture
def four() -> Certificates:
    """By hand: right at 0.84, right but abstained, wrong at 0.42, right at 0.26 (all with sigma 0.5)."""
    return Certificates.from_bound(
        np.array([0, 1, 2, 0]),
        np.array([0.9535, 0.45, 0.8, 0.7]),
        sigma=0.5,
        guarantee=GUARANTEE,
        passes=110,
    )


LABELS = np.array([0, 1, 0, 0])


def test_certified_accuracy_by_hand(four: Certificates) -> None:
    radii = [0, 0.2622, 0.2623, 0.5, 0.8398, 0.9]
    assert certified_accuracy(four, LABELS, radii).tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0]


def test_certified_accuracy_against_its_definition() -> None:
    rng = np.random.default_rng(0)
    bound = rng.random(200)
    some = Certificates.from_bound(rng.integers(0, 3, 200), bound, sigma=0.3, guarantee=GUARANTEE, passes=1)
    labels = rng.integers(0, 3, 200)
    for r in [0, 0.05, 0.1, float(some.radius[7])]:
        rows = zip(some.label, labels, bound, some.radius, strict=True)
        by_definition = np.mean([y == t and p > 0.5 and radius >= r for y, t, p, radius in rows])
        assert certified_accuracy(some, labels, r) == by_definition


def test_summary_by_hand(four: Certificates) -> None:
    summary = summarise(four, LABELS)
    assert summary["accuracy"] == 0.75
    assert summary["issued"] == 0.75
    assert summary["certified_accuracy"] == 0.5
    assert average_certified_radius(four, LABELS) == pytest.approx((four.radius[0] + four.radius[3]) / 4)
    assert summary["passes_per_input"] == 110


def test_violations_by_hand(four: Certificates) -> None:
    votes = np.array([[94, 6, 0], [50, 50, 0], [10, 10, 80], [69, 31, 0]])
    np.testing.assert_array_equal(vote_share_of_label(four, votes), [0.94, 0.5, 0.8, 0.69])
    assert observed_violations(four, votes) == {"rate": 0.5, "rate_among_issued": pytest.approx(2 / 3)}


def test_all_abstained_has_sensible_numbers() -> None:
    none = Certificates.from_bound(
        np.array([0, 1]), np.array([0.5, 0.1]), sigma=1, guarantee=GUARANTEE, passes=1
    )
    summary = summarise(none, np.array([0, 1]))
    assert summary["accuracy"] == 1
    assert summary["certified_accuracy"] == summary["average_certified_radius"] == summary["issued"] == 0
    assert observed_violations(none, np.array([[60, 40], [40, 60]]))["rate_among_issued"] == 0


def test_labels_must_fit(four: Certificates) -> None:
    with pytest.raises(ValueError, match=r"one true label per certificate \(4\), got 3"):
        summarise(four, LABELS[:3])


def test_break_even() -> None:
    costs = Costs(1000 * 500, 1000, 200 * 1000, 1, 1101)
    assert costs.offline == 701_000
    assert costs.break_even == 638  # 701,000 / 1,100 = 637.27
    assert costs.offline + 638 * 1 <= 638 * 1101
    assert costs.offline + 637 * 1 > 637 * 1101
    assert Costs(1, 1, 1, 1, 1).break_even is None


def test_percentages_of_counts_round_down_and_keep_whole_counts() -> None:
    for count in range(1001):
        assert percent(count / 1000) == f"{count / 10:.1f} %"
    assert percent(2 / 3) == "66.6 %"
