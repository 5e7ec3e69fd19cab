"""The promise for attacked inputs, by simulation where the truth is known, and the arithmetic of its levels.

All inputs are 0 on a line. The base classifier answers 1 above `-MARGIN`, so that class 1 has the smoothed
probability `Phi(MARGIN / SIGMA)`. What the surrogate says grows with what it sees, so that certificates are
wrong beyond a point. Moving the input by `r` towards it is the worst attack, and attains the bound.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from rrise.errors import SettingError
from rrise.statistics import Calibration, Terms, Threat, fit_calibration, level_text, threat_of

SIGMA, MARGIN, VOTES = 0.5, 0.6, 10**7
TRUTH = stats.norm.cdf(MARGIN / SIGMA)
"""The smoothed probability of class 1 at the natural input."""
QUERIES = 3_000


def says(seen: np.ndarray) -> np.ndarray:
    """What the surrogate says about class 1."""
    return stats.norm.cdf(MARGIN / SIGMA + 0.5 * seen)


def calibrated(threat: Threat, failure: float, rng: np.random.Generator, **how: object) -> Calibration:
    size = 10 * (Terms(failure, 0.02, threat=threat, **how).smallest_size + 1) - 1  # a tight rank
    noise = threat.query_noise * rng.standard_normal(size)
    votes = rng.binomial(VOTES, TRUTH, size)
    settings = {"failure": failure, "beta": 0.02, "score": "probit", "threat": threat, **how}
    return fit_calibration(says(noise), votes, VOTES, **settings)[0]  # type: ignore[arg-type]


def before(bound: np.ndarray, threat: Threat) -> np.ndarray:
    """The bound before it was shortened, at the natural input."""
    return np.where(bound > 0.5, stats.norm.cdf(stats.norm.ppf(bound) + threat.radius / SIGMA), 0.0)


def failures(
    threat: Threat, failure: float, *, move: float, tries: int = 1, repeats: int = 80, **how: object
) -> np.ndarray:
    """Return the failure rate of each of many calibrations, if inputs are moved by `move` before."""
    rng, found = np.random.default_rng(7), []
    for _ in range(repeats):
        fitted = calibrated(threat, failure, rng, **how)
        seen = move + threat.query_noise * rng.standard_normal((tries, QUERIES))
        wrong = before(fitted.lower_bound(says(seen)), threat) > TRUTH
        found.append(wrong.any(axis=0).mean())
    return np.array(found)


CASES = [
    (Threat(0.125, 0.25, SIGMA), 0.05),
    (Threat(0.25, 0.25, SIGMA), 0.1),
    (Threat(0.1, 0.2, SIGMA), 0.02),
]


@pytest.mark.parametrize(("threat", "failure"), CASES)
def test_the_worst_attack_fails_as_often_as_promised_and_not_more(threat: Threat, failure: float) -> None:
    attacked = failures(threat, failure, move=threat.radius)
    error = 4 * attacked.std() / np.sqrt(len(attacked))
    assert 0.85 * failure < attacked.mean() < failure + error
    natural = failures(threat, failure, move=0.0)
    assert natural.mean() < float(threat.natural(failure)) + 4 * natural.std() / np.sqrt(len(natural))


def test_an_attack_beyond_the_radius_exceeds_the_promise() -> None:
    threat, failure = CASES[0]
    assert failures(threat, failure, move=2.5 * threat.radius).mean() > 1.5 * failure


def test_the_best_of_several_tries_fails_as_often_as_promised_and_not_more() -> None:
    threat = Threat(0.125, 0.25, SIGMA, tries=10)
    attacked = failures(threat, 0.1, move=0.125, tries=10)
    assert 0.85 * 0.1 < attacked.mean() < 0.1 + 4 * attacked.std() / np.sqrt(len(attacked))
    once = Threat(0.125, 0.25, SIGMA)
    assert failures(once, 0.1, move=0.125, tries=10).mean() > 0.3, "ten tries against a promise for one"


def test_the_pac_promise_carries_over() -> None:
    threat = Threat(0.125, 0.25, SIGMA)
    rates = failures(threat, 0.05, move=0.125, promise="pac", confidence=0.9, repeats=120)
    above = (rates > 0.05 + 3 * np.sqrt(0.05 * 0.95 / QUERIES)).mean()
    assert above < 0.1
    assert rates.mean() > 0.01


@pytest.mark.parametrize("shift", [0.25, 1.0, 3.0])
def test_the_failure_under_attack_is_concave(shift: float) -> None:
    """So the average over inputs is at most its value at the average."""
    rate = np.linspace(0, 1, 100_001)
    attacked = special.ndtr(special.ndtri(rate) + shift)
    assert np.all(np.diff(attacked, 2) <= 1e-12)
    for tries in (2, 50):
        assert np.all(np.diff(1 - (1 - attacked) ** tries, 2) <= 1e-12)
    rng = np.random.default_rng(0)
    for _ in range(50):
        inputs = rng.beta(0.2, 3.0, 400)
        mean = special.ndtr(special.ndtri(inputs.mean()) + shift)
        assert special.ndtr(special.ndtri(inputs) + shift).mean() <= mean + 1e-12


def test_noise_that_the_attacker_knows_is_noticed() -> None:
    """In 50 dimensions, what the surrogate says grows with the length of what it sees."""
    threat, failure, size = Threat(0.25, 0.25, SIGMA), 0.05, 50
    rng, secret, known = np.random.default_rng(3), [], []

    def drawn(number: int) -> np.ndarray:
        return threat.query_noise * rng.standard_normal((number, size))

    def says_of_length(seen: np.ndarray) -> np.ndarray:
        return says(np.linalg.norm(seen, axis=1) - threat.query_noise * np.sqrt(size))

    settings: dict[str, Any] = {"failure": failure, "beta": 0.02, "score": "probit", "threat": threat}
    for _ in range(40):
        votes = rng.binomial(VOTES, TRUTH, 1_000)
        fitted, _ = fit_calibration(says_of_length(drawn(1_000)), votes, VOTES, **settings)
        noise = drawn(QUERIES)
        along = threat.radius * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        anywhere = threat.radius * np.eye(size)[0]
        for move, rates in ((anywhere, secret), (along, known)):
            bound = before(fitted.lower_bound(says_of_length(noise + move)), threat)
            rates.append((bound > TRUTH).mean())
    assert np.mean(secret) < failure
    assert np.mean(known) > 1.5 * failure


def test_a_radius_that_is_not_shortened_is_noticed() -> None:
    """Moved towards the boundary, the input has less room than the natural one had."""
    threat, failure = Threat(0.25, 0.25, SIGMA), 0.05
    rng = np.random.default_rng(5)
    there = stats.norm.cdf((MARGIN - threat.radius) / SIGMA)
    shortened, as_before = [], []
    for _ in range(60):
        fitted = calibrated(threat, failure, rng)
        bound = fitted.lower_bound(says(threat.query_noise * rng.standard_normal(QUERIES) - threat.radius))
        shortened.append((bound > there).mean())
        as_before.append((before(bound, threat) > there).mean())
    assert np.mean(shortened) < failure
    assert np.mean(as_before) > 2 * failure


def test_comparing_with_the_moved_input_is_noticed() -> None:
    """Calibration at the level promised under attack, as if nobody moved inputs, fails too often."""
    threat, failure = CASES[0]
    naive = Threat(0.0, threat.query_noise, SIGMA)
    assert failures(naive, failure, move=threat.radius).mean() > 1.5 * failure


def test_levels_are_those_of_the_formula() -> None:
    for radius, noise, failure, natural in (
        (0.125, 0.25, 0.05, 0.0160),
        (0.25, 0.25, 0.05, 0.0041),
        (0.25, 0.25, 0.01, 0.00044),
    ):
        threat = Threat(radius, noise, 0.25)
        assert float(threat.natural(failure)) == pytest.approx(natural, rel=0.02)
        exact = stats.norm.cdf(stats.norm.ppf(failure) - radius / noise)
        assert float(threat.natural(failure)) < exact
        assert float(threat.natural(failure)) == pytest.approx(exact, rel=1e-8)
        assert threat.under_attack(threat.natural(failure)) == Fraction(str(failure))


def test_the_number_of_calibration_inputs_follows() -> None:
    threat = Threat(0.25, 0.25, 0.25)
    for beta, size in ((0.1, 2525), (0.2, 2841), (0.3, 3247)):
        assert Terms(0.01, beta, threat=threat).smallest_size == size
    assert Terms(0.01, 0.2, promise="pac", threat=threat).smallest_size == 8510
    with pytest.raises(SettingError, match=r"1000 calibration inputs are too few for .*: use at least 2841"):
        fit_calibration([0.9] * 1000, [900] * 1000, 1000, failure=0.01, threat=threat)


def test_no_bound_up_to_the_attack_radius_is_issued() -> None:
    threat = Threat(0.25, 0.25, 0.25)
    rng = np.random.default_rng(0)
    q = rng.uniform(0.5, 1, 800)
    fitted, _ = fit_calibration(q, rng.binomial(1000, q), 1000, failure=0.05, score="probit", threat=threat)
    top = np.linspace(0.5, 1, 5001)
    plain = fitted.score.bound(top, fitted.offset, fitted.ceiling)
    bound = fitted.lower_bound(top)
    np.testing.assert_array_equal(bound > 0, plain > fitted.floor)
    assert fitted.floor == stats.norm.cdf(1.0)
    assert np.all((bound == 0) | (bound > 0.5))
    issued = bound > 0
    np.testing.assert_allclose(stats.norm.ppf(bound[issued]), stats.norm.ppf(plain[issued]) - 1.0, atol=1e-9)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (
            {"promise": "issued"},
            "an attack radius, or several tries, go with the promises 'marginal' and 'pac'",
        ),
        ({"groups": (0, 1)}, "an attack radius, or several tries, go with the promises 'marginal' and 'pac'"),
        ({"rule": "paper", "beta": 0.001}, "the rule 'paper' knows no query noise"),
        ({"failure": 0.0123456789}, "write failure with at most 6 significant digits; got 0.0123456789"),
    ],
)
def test_what_does_not_carry_over_is_refused(how: dict[str, object], sentence: str) -> None:
    for threat in (Threat(0.1, 0.25, 0.25), Threat(0.0, 0.25, 0.25, tries=3)):
        with pytest.raises(SettingError, match=sentence):
            Terms(**{"failure": 0.05, **how}, threat=threat)  # type: ignore[arg-type]


def test_votes_that_can_issue_nothing_at_the_attack_radius_are_refused() -> None:
    threat = Threat(0.75, 1.5, 0.25)
    with pytest.raises(SettingError, match=r"attack radius 0\.75, which is 3 sigma.* at least 1,192 votes"):
        Terms(0.1, threat=threat).check_votes(200)
    with pytest.raises(SettingError, match="can never certify at attack radius"):
        fit_calibration([0.999] * 500, [200] * 500, n=200, failure=0.1, threat=threat)
    Terms(0.1, threat=threat).check_votes(1192)
    with pytest.raises(SettingError, match="can never certify"):
        Terms(0.1, threat=threat).check_votes(1191)
    with pytest.raises(SettingError, match="use a smaller attack radius"):
        Terms(0.1, threat=Threat(5.0, 10.0, 0.25)).check_votes(10**6)


def test_query_noise_without_an_attack_radius_keeps_every_promise() -> None:
    threat = Threat(0.0, 0.25, 0.25)
    assert Terms(0.0123456789, promise="issued", groups=(0, 1), threat=threat).natural == Fraction(
        "0.0123456789"
    )
    assert threat.floor == 0.5


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ((-0.1, 0.25, 0.25), "an attack radius of at least 0, got -0.1"),
        ((float("nan"), 0.25, 0.25), "an attack radius of at least 0"),
        ((0.1, 0.0, 0.25), "sigma"),
        ((0.1, 0.25, 0.25, 0), "a whole number of tries, at least 1; got 0"),
        ((0.1, 0.25, 0.25, 1.5), "a whole number of tries"),
        ((0.1, 0.25, 0.25, float("inf")), "a whole number of tries"),
        ((0.1, 0.25, 0.25, float("nan")), "a whole number of tries"),
    ],
)
def test_impossible_threats_are_refused(numbers: tuple[float, ...], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        Threat(*numbers)  # type: ignore[arg-type]


def test_an_attack_radius_needs_query_noise() -> None:
    assert threat_of(0.0, None, 1, 0.25) is None
    for radius, tries in ((0.1, 1), (0.0, 2)):
        with pytest.raises(SettingError, match="need query noise: pass query_noise"):
            threat_of(radius, None, tries, 0.25)
    with pytest.raises(SettingError, match=r"failure 0\.01 cannot be kept at attack radius 20"):
        Threat(20.0, 0.25, 0.25).natural(0.01)


def test_a_promised_failure_is_rounded_up_and_the_natural_one_down() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        threat = Threat(
            float(rng.uniform(0, 0.6)), float(rng.uniform(0.1, 0.5)), 0.25, int(rng.integers(1, 9))
        )
        natural = Fraction(f"{rng.uniform(1e-4, 0.1):.8f}")
        one = stats.norm.cdf(stats.norm.ppf(float(natural)) + threat.radius / threat.query_noise)
        promised = threat.under_attack(natural)
        if threat.matters:
            assert float(promised) >= 1 - (1 - one) ** threat.tries - 1e-15
            assert float(promised) <= (1 - (1 - one) ** threat.tries) * (1 + 2e-5)
            assert len(level_text(promised).lstrip("0.")) <= 6
