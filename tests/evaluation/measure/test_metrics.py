from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrise.certifiers.certificates import Certificates
from rrise.evaluation.measure import metrics
from tests.evaluation.measure.naive_metrics import (
    GUARANTEE,
    THRESHOLDS,
    naive_metrics,
    random_certificates,
    random_votes,
)


@pytest.fixture
def four() -> Certificates:
    """By hand: right at 0.84, right but abstained, wrong at 0.42, right at 0.26 (all with sigma 0.5)."""
    return Certificates.from_bound(
        np.array([0, 1, 2, 0]),
        np.array([0.9535, 0.45, 0.8, 0.7]),
        guarantee=GUARANTEE,
        passes=[110, 110, 50, 130],
    )


@pytest.fixture
def edges() -> Certificates:
    """Bounds at the edges of the boundary set; radii set by hand to lie at and beside thresholds."""
    bound = np.array([0.5, np.nextafter(0.5, 1), 0.6, 0.7, np.nextafter(0.75, 0), 0.75, 0.99, 0.2])
    radius = np.array([0.0, 0.001, 0.05, 0.1, 0.15, 0.2, 0.5, 0.0])
    label = np.array([0, 1, 0, 1, 0, 1, 0, 1])
    return Certificates(label, radius, bound, bound > 0.5, GUARANTEE, np.full(8, 100))


LABELS = np.array([0, 1, 0, 0])
EDGE_LABELS = np.array([0, 1, 1, 1, 0, 1, 1, 0])


def test_certified_accuracy_by_hand(four: Certificates) -> None:
    radii = [0, 0.2622, 0.2623, 0.5, 0.8398, 0.9]
    assert metrics.certified_accuracy(four, LABELS, radii).tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0]


def test_certified_accuracy_counts_a_radius_at_the_threshold(edges: Certificates) -> None:
    at = metrics.certified_accuracy(edges, EDGE_LABELS, [0, 0.1, 0.15, 0.2, 0.2001])
    assert at.tolist() == [4 / 8, 3 / 8, 2 / 8, 1 / 8, 0]  # of 0.001, 0.1, 0.15 and 0.2, which are right


def test_boundary_by_hand(edges: Certificates) -> None:
    inside = [False, True, True, True, True, False, False, False]
    assert metrics.in_boundary(edges).tolist() == inside
    assert metrics.boundary_mass(edges) == 0.5
    assert metrics.boundary_accuracy(edges, EDGE_LABELS) == 3 / 4
    assert metrics.boundary_radius(edges) == pytest.approx((0.001 + 0.05 + 0.1 + 0.15) / 4)


def test_radius_distributions_leave_out_a_radius_at_the_threshold(edges: Certificates) -> None:
    thresholds = [0, 0.05, 0.1, 0.15, 0.3, 0.5]
    boundary = metrics.boundary_crd(edges, thresholds)
    assert boundary.tolist() == [4 / 8, 2 / 8, 1 / 8, 0, 0, 0]
    certified = metrics.certified_crd(edges, thresholds)
    assert certified is not None
    assert certified.tolist() == [1, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0]


def test_average_radii_by_hand(four: Certificates) -> None:
    one, two, three = four.radius[[0, 2, 3]]
    assert metrics.average_certified_radius(four, LABELS) == pytest.approx((one + three) / 4)
    assert metrics.mean_issued_radius(four) == pytest.approx((one + two + three) / 3)


def test_radius_ratio_by_hand(four: Certificates, edges: Certificates) -> None:
    less_noise = replace(GUARANTEE, smoothing=replace(GUARANTEE.smoothing, noise=0.25))
    half = Certificates.from_bound(four.label, four.lower_bound, guarantee=less_noise, passes=1)
    assert metrics.radius_ratio(half, four) == pytest.approx(0.5)
    assert metrics.radius_ratio(four, four) == 1
    nothing = Certificates.from_bound(four.label, np.full(4, 0.5), guarantee=GUARANTEE, passes=1)
    assert metrics.radius_ratio(nothing, four) == 0
    assert metrics.radius_ratio(four, nothing) is None
    with pytest.raises(ValueError, match="the same inputs, got 4 and 8"):
        metrics.radius_ratio(four, edges)


def test_passes_by_hand(four: Certificates) -> None:
    assert metrics.median_passes(four) == 110
    assert metrics.sample_reduction(four, 150) == 1.5


def test_violations_by_hand(four: Certificates) -> None:
    votes = np.array([[94, 6, 0], [50, 50, 0], [10, 10, 80], [69, 31, 0]])
    share = metrics.vote_share_of_label(four, votes)
    np.testing.assert_array_equal(share, [0.94, 0.5, 0.8, 0.69])
    assert metrics.violations(four, share) == (0.5, 0.5, pytest.approx(2 / 3), 1)


@pytest.mark.parametrize("classes", [1, 2, 10, 1000])
@given(seed=st.integers(0, 2**32 - 1), inputs=st.integers(1, 60))
def test_every_metric_against_its_definition(classes: int, seed: int, inputs: int) -> None:
    rng = np.random.default_rng(seed)
    certificates, votes = random_certificates(rng, inputs, classes), random_votes(rng, inputs, classes)
    labels = np.where(rng.random(inputs) < 0.7, certificates.label, rng.integers(0, classes, inputs))
    naive = naive_metrics(certificates, labels.tolist(), votes, THRESHOLDS)
    rates = metrics.violations(certificates, metrics.vote_share_of_label(certificates, votes))
    crd = metrics.certified_crd(certificates, THRESHOLDS)
    found = {
        "accuracy": metrics.accuracy(certificates, labels),
        "issued": float(certificates.issued.mean()),
        "certified_accuracy": float(metrics.certified_accuracy(certificates, labels, 0)),
        "certified_accuracy_at": metrics.certified_accuracy(certificates, labels, THRESHOLDS).tolist(),
        "average_certified_radius": metrics.average_certified_radius(certificates, labels),
        "mean_issued_radius": metrics.mean_issued_radius(certificates),
        "boundary_mass": metrics.boundary_mass(certificates),
        "boundary_accuracy": metrics.boundary_accuracy(certificates, labels),
        "boundary_radius": metrics.boundary_radius(certificates),
        "boundary_crd": metrics.boundary_crd(certificates, THRESHOLDS).tolist(),
        "certified_crd": None if crd is None else crd.tolist(),
        "agreement": metrics.agreement(certificates, votes.argmax(axis=1)),
        "violation_rate": rates.rate,
        "issued_violation_rate": rates.issued,
        "violation_rate_among_issued": rates.among_issued,
        "boundary_violation_rate": rates.in_boundary,
        "mean_passes": certificates.mean_passes,
        "median_passes": metrics.median_passes(certificates),
    }
    assert found.keys() == naive.keys()
    for name, value in naive.items():
        assert found[name] == (None if value is None else pytest.approx(value)), name


def test_all_abstained_has_sensible_numbers() -> None:
    none = Certificates.from_bound(np.array([0, 1]), np.array([0.5, 0.1]), guarantee=GUARANTEE, passes=1)
    labels = np.array([0, 1])
    assert metrics.accuracy(none, labels) == 1
    assert metrics.certified_accuracy(none, labels, 0.0) == 0
    assert metrics.average_certified_radius(none, labels) == 0
    assert metrics.mean_issued_radius(none) is None
    assert metrics.certified_crd(none, THRESHOLDS) is None
    assert metrics.violations(none, np.array([0.6, 0.6])) == (0, 0, None, None)
    assert metrics.violations(none, np.array([0.4, 0.6])) == (0.5, 0, None, None)


def test_an_empty_boundary_set_has_mass_zero_and_nothing_else() -> None:
    confident = Certificates.from_bound(
        np.array([0, 1]), np.array([0.75, 0.999]), guarantee=GUARANTEE, passes=1
    )
    assert metrics.boundary_mass(confident) == 0
    assert metrics.boundary_accuracy(confident, np.array([0, 1])) is None
    assert metrics.boundary_radius(confident) is None
    assert metrics.boundary_crd(confident, THRESHOLDS).tolist() == [0] * len(THRESHOLDS)


def test_labels_must_fit(four: Certificates) -> None:
    for metric in (metrics.average_certified_radius, metrics.accuracy, metrics.boundary_accuracy):
        with pytest.raises(ValueError, match=r"one true label per certificate \(4\), got 3"):
            metric(four, LABELS[:3])


def test_percentages_of_counts_round_down_and_keep_whole_counts() -> None:
    from rrise.evaluation.measure.number_text import percent

    for count in range(1001):
        assert percent(count / 1000) == f"{count / 10:.1f} %"
    assert percent(2 / 3) == "66.6 %"
