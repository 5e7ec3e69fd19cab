from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.early_stopping import EarlyStopping, predicted_bound
from rrise.statistics import certified_radius
from rrise.votes.sequence import StoredVotes
from tests.certifiers.drawn_votes import SMOOTHING, DrawnVotes

SIGMA = SMOOTHING.sigma


def votes_of(probabilities: list[list[float]], n: int, seed: int = 0) -> StoredVotes:
    rng = np.random.default_rng(seed)
    classes = len(probabilities[0])
    answers = np.stack([rng.choice(classes, n, p=p) for p in probabilities])
    return StoredVotes(answers, classes, SMOOTHING)


def one_input(answers: NDArray[np.int64], n: int, tolerance: float, alpha: float) -> tuple[int, float, int]:
    """Follow the paper's description for a single input, with SciPy's own functions."""
    now = 0
    while True:
        now = min(n, now + -(-n // 10))
        counts = np.bincount(answers[:now])
        top = int(counts.argmax())
        k = int(counts[top])
        bound = stats.binomtest(k, now, alternative="greater").proportion_ci(1 - alpha, "exact").low
        radius = max(0.0, SIGMA * stats.norm.ppf(bound))
        p = k / now
        normal = p - stats.norm.ppf(1 - alpha) * np.sqrt(p * (1 - p) / n)
        predicted = max(0.0, SIGMA * stats.norm.ppf(min(normal, alpha ** (1 / n))))
        if now == n or predicted == 0 or (predicted - radius) / predicted < tolerance:
            return top, bound, now


def wrong(certificates: Certificates, probabilities: list[float]) -> float:
    truth = np.asarray(probabilities)[certificates.label]
    return float((certificates.issued & (certificates.lower_bound > truth)).mean())


@pytest.mark.parametrize(
    ("n", "tolerance", "alpha"), [(500, 0.05, 0.25), (500, 0.01, 0.001), (203, 0.2, 0.1), (15, 0.3, 0.25)]
)
def test_every_input_is_treated_as_the_paper_says(n: int, tolerance: float, alpha: float) -> None:
    mixtures = [[p, (1 - p) * 0.7, (1 - p) * 0.3] for p in np.linspace(0.3, 1, 60)]
    stored = votes_of(mixtures, n)
    certificates = EarlyStopping(n, tolerance, alpha).certify_votes(stored)
    expected = [one_input(answers, n, tolerance, alpha) for answers in stored.answers]
    label, bound, passes = (np.array(values) for values in zip(*expected, strict=True))
    np.testing.assert_array_equal(certificates.label, label)
    np.testing.assert_allclose(certificates.lower_bound, bound, rtol=1e-9)
    np.testing.assert_array_equal(certificates.passes, passes)
    np.testing.assert_array_equal(certificates.issued, bound > 0.5)
    assert len(np.unique(passes)) > 2


def test_inputs_that_have_stopped_are_not_asked_for_more() -> None:
    votes = DrawnVotes([0.7, 0.2, 0.1], 500, 1000)
    certificates = EarlyStopping(1000, 0.05, 0.1).certify_votes(votes)
    np.testing.assert_array_equal(votes.drawn, certificates.passes)
    assert certificates.mean_passes < 900


def test_an_input_without_a_radius_in_sight_stops_at_once_and_a_unanimous_one_goes_on() -> None:
    answers = np.zeros((2, 1000), dtype=np.uint8)
    answers[0, ::2] = 1
    certificates = EarlyStopping(1000, 0.01, 0.001).certify_votes(StoredVotes(answers, 2, SMOOTHING))
    assert certificates.passes.tolist() == [100, 1000]
    assert certificates.issued.tolist() == [False, True]
    assert certificates.lower_bound[1] == pytest.approx(0.001 ** (1 / 1000))


@pytest.mark.parametrize(
    ("alpha", "tolerance", "p", "trials"),
    [
        (0.001, 0.3, 0.55, 400_000),
        (0.01, 0.3, 0.52, 100_000),
        (0.1, 0.3, 0.52, 100_000),
        (0.25, 0.05, 0.52, 100_000),
    ],
)
def test_more_certificates_are_wrong_than_the_level_says(
    alpha: float, tolerance: float, p: float, trials: int
) -> None:
    """The last is a setting of the paper. A valid method would be this far above with probability 0.001."""
    votes = DrawnVotes([p, 1 - p], trials, 10_000)
    rate = wrong(EarlyStopping(10_000, tolerance, alpha).certify_votes(votes), [p, 1 - p])
    error = (alpha * (1 - alpha) / trials) ** 0.5
    assert alpha + 3 * error < rate < 20 * alpha


def test_the_guarantee_says_that_it_is_none() -> None:
    guarantee = EarlyStopping(500, 0.05, 0.25).certify_votes(votes_of([[0.9, 0.1]], 500)).guarantee
    for text in (guarantee.words.promise, guarantee.words.not_promised[0]):
        assert "not valid under optional stopping" in text
    assert (guarantee.failure, guarantee.level) == (None, 0.0)
    assert guarantee.nominal == Fraction(1, 4)
    assert "not valid" in EarlyStopping(500, 0.05, 0.25).name


def test_the_predicted_radius_is_close_to_the_one_that_comes() -> None:
    for p in (0.6, 0.8, 0.95):
        predicted = certified_radius(predicted_bound(round(1000 * p), 1000, 10_000, 0.01), SIGMA)
        bound = stats.binomtest(round(10_000 * p), 10_000, alternative="greater").proportion_ci(0.99, "exact")
        assert predicted == pytest.approx(SIGMA * stats.norm.ppf(bound.low), rel=0.02)
    assert certified_radius(predicted_bound([0, 500], 1000, 10_000, 0.01), SIGMA).tolist() == [0.0, 0.0]
    assert predicted_bound(1000, 1000, 10_000, 0.01) < 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ((9, 0.05, 0.001), "9 votes can never certify at failure=0.001"),
        ((100, 0.0, 0.001), "expected a tolerance strictly between 0 and 1, got 0.0"),
        ((100, float("nan"), 0.001), "expected a tolerance strictly between 0 and 1, got nan"),
        ((100.5, 0.05, 0.001), "expected a whole number for n, got 100.5"),
        ((100, 0.05, 2), "expected failure strictly between 0 and 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: tuple[int, float, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        EarlyStopping(*settings)


def test_too_few_votes_are_refused() -> None:
    with pytest.raises(ValueError, match="expected at least 1000 votes of each input, got 500"):
        EarlyStopping(1000, 0.05, 0.25).certify_votes(votes_of([[0.9, 0.1]], 500))
