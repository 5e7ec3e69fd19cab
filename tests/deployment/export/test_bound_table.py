from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from rrise.deployment.export.bound_table import BOUND_STEP, MARGIN, RADIUS_STEP, BoundTable, is_issued
from rrise.errors import SettingError
from rrise.statistics import FLOORED, PAPER, Calibration, Rule, Threat, score_by_name, tapered_by
from rrise.votes.noise import Gaussian

ROUNDING = 2e-7


def calibration(score: str, offset: float, n: int, rule: Rule = PAPER) -> Calibration:
    levels = Fraction(1, 1000), Fraction(49, 1000)
    return Calibration(score_by_name(score), (offset,), (95,), (100,), n, *levels, rule)


def exact(score: str, offset: float, n: int, sigma: float, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound and radius by the formulas of the guarantee, from scipy.stats alone."""
    ceiling = 0.001 ** (1 / n)
    q = q.astype(np.float64)
    if score == "additive":
        bound = np.minimum(np.maximum(q - offset, 0), ceiling)
    elif score == "probit":
        probit = np.maximum(stats.norm.ppf(np.minimum(q, ceiling)), -8.0) - offset
        bound = np.where(probit <= -8, 0.0, stats.norm.cdf(probit))
    else:
        probit = np.clip(stats.norm.ppf(q), -8.0, 8.0)
        spread = np.interp(probit, [0, 1, 2, 3, 4], [0.3, 0.9, 1, 0.5, 0.35])
        bound = np.minimum(stats.norm.cdf(probit - offset * spread), ceiling)
    return bound, np.where(bound > 0.5, sigma * stats.norm.ppf(bound), 0.0)


def probabilities(table: BoundTable) -> np.ndarray:
    """Top probabilities all over [0, 1], dense near 1, with every knot and its neighbours in float32."""
    random = np.random.default_rng(0)
    knots = table.knots.ravel()[table.knots.ravel() <= 1]
    found = [random.random(50_000), 1 - 10 ** random.uniform(-8, 0, 50_000), [0.0, 0.5, 1.0], knots]
    single = np.concatenate(found).astype(np.float32)
    beside = [np.nextafter(single, np.float32(end)) for end in (0, 1)]
    return np.concatenate([single, *beside])


@pytest.mark.parametrize("rule", [PAPER, FLOORED])
@pytest.mark.parametrize("score", ["additive", "probit", "tapered"])
@pytest.mark.parametrize(
    ("offset", "n", "sigma"),
    [(0.0, 10_000, 0.25), (0.05, 10_000, 0.5), (0.3, 100, 0.12), (0.01, 10**6, 1.0), (0.2, 1000, 4.0)],
)
def test_is_never_above_the_exact_bound_and_radius_and_hardly_below(
    score: str, offset: float, n: int, sigma: float, rule: Rule
) -> None:
    table = BoundTable.of(calibration(score, offset, n, rule), Gaussian(sigma))
    q = probabilities(table)
    bound, radius = table.look_up(q)
    exact_bound, exact_radius = exact(score, offset, n, sigma, q)
    exact_bound = np.where(exact_bound > rule.floor, exact_bound, 0.0)
    assert (bound <= exact_bound).all()
    assert (radius <= exact_radius).all()
    near = (exact_bound > 0.5 + 2 * BOUND_STEP) | (exact_bound <= rule.floor) | (rule is PAPER)
    assert (exact_bound - bound)[near].max() <= BOUND_STEP + MARGIN + ROUNDING
    assert (exact_radius - radius).max() <= max(1, sigma) * (RADIUS_STEP + MARGIN + 4 * ROUNDING)
    assert radius.max() > 0.5 * sigma


def test_a_radius_and_a_bound_above_one_half_come_together() -> None:
    table = BoundTable.of(calibration("probit", 0.4, 1000), Gaussian(0.25))
    bound, radius = table.look_up(probabilities(table))
    np.testing.assert_array_equal(radius > 0, bound > 0.5)


@pytest.mark.parametrize("attack_radius", [0.0, 0.1])
@pytest.mark.parametrize("score", ["additive", "probit", "tapered"])
def test_the_table_issues_for_the_same_inputs_as_the_calibration(score: str, attack_radius: float) -> None:
    """The promise `issued` is about a share of the issued ones: more abstentions would void it."""
    threat = Threat(attack_radius, query_noise=0.25, sigma=0.25)
    terms = replace(calibration(score, 0.05, 10_000, FLOORED), threat=threat)
    table = BoundTable.of(terms, Gaussian(0.25))
    issuing = table.knots.ravel()[np.flatnonzero(is_issued(table.lower_bound.ravel()))[0]]
    beside = issuing + np.arange(-2000, 2000) * np.spacing(issuing)  # every number near the first that issues
    q = np.concatenate([probabilities(table), beside.astype(np.float32)])
    bound, _ = table.look_up(q)
    np.testing.assert_array_equal(is_issued(bound), terms.lower_bound(np.minimum(q, 1)) > 0.5)
    assert 0 < is_issued(bound).mean() < 1


def test_nan_gives_nothing_and_more_than_one_counts_as_one() -> None:
    table = BoundTable.of(calibration("probit", 0.1, 1000), Gaussian(0.25))
    bound, radius = table.look_up(np.array([np.nan, -1.0, 1.0, 1.0000001], dtype=np.float32))
    assert bound[:2].tolist() == radius[:2].tolist() == [0, 0]
    assert radius[2] == radius[3] > 0


@pytest.mark.parametrize(
    ("score", "offset"), [("additive", 0.6), ("probit", 9.0), ("probit", 30.0), ("tapered", 30.0)]
)
def test_an_offset_that_certifies_nothing_gives_no_radius(score: str, offset: float) -> None:
    rule = FLOORED if score == "tapered" else PAPER
    table = BoundTable.of(calibration(score, offset, 1000, rule), Gaussian(0.25))
    bound, radius = table.look_up(np.linspace(0, 1, 1001, dtype=np.float32))
    assert not radius.any()
    assert bound.max() <= 0.5


FALLING = tapered_by({0: 0.3, 1: 0.9, 2: 1, 3: 0.5, 4: 0.35}, "falling")


@pytest.mark.parametrize(
    ("offset", "n", "rule"), [(3.0, 1_000, PAPER), (-2.0013, 10**6, FLOORED), (-2.0005, 10**6, FLOORED)]
)
def test_a_bound_that_falls_where_the_probability_grows_is_not_exported(
    offset: float, n: int, rule: Rule
) -> None:
    """Without the floor, its bounds do so below 1/2; at offsets below -2, by little and near 1."""
    fitted = replace(calibration("probit", offset, n, rule), score=FALLING)
    with pytest.raises(SettingError, match="the score 'falling' cannot be exported: its bound falls"):
        BoundTable.of(fitted, Gaussian(0.25))


@pytest.mark.parametrize("offset", [-1.99, -0.5, 0.7, 1.7, 2.1, 6.0])
def test_no_offset_of_tapered_gives_more_than_the_exact_bound(offset: float) -> None:
    table = BoundTable.of(calibration("tapered", offset, 10**6, FLOORED), Gaussian(0.25))
    q = probabilities(table)
    bound, radius = table.look_up(q)
    exact_bound = calibration("tapered", offset, 10**6, FLOORED).lower_bound(q.astype(np.float64))
    assert (bound <= exact_bound).all()
    assert (radius <= Gaussian(0.25).radius(exact_bound)).all()


def test_each_group_of_classes_has_its_own_rows() -> None:
    alone = [calibration("probit", offset, 1000, FLOORED) for offset in (0.2, 3.0, 9.0)]
    offsets = tuple(one.offset for one in alone)
    joint = replace(alone[0], offsets=offsets, ranks=(95,) * 3, sizes=(100,) * 3, groups=(2, 0, 1, 0))
    table = BoundTable.of(joint, Gaussian(0.25))
    random = np.random.default_rng(1)
    q, label = random.random(5_000).astype(np.float32) ** 0.1, random.integers(0, 4, 5_000)
    bound, radius = table.look_up(q, label)
    for group, one in enumerate(alone):
        mine = np.asarray(joint.groups)[label] == group
        single = BoundTable.of(one, Gaussian(0.25)).look_up(q[mine])
        np.testing.assert_array_equal(bound[mine], single[0])
        np.testing.assert_array_equal(radius[mine], single[1])
    assert radius[np.asarray(joint.groups)[label] == 0].max() > 0


def test_what_is_no_number_gets_nothing_at_any_offset() -> None:
    for rule in (PAPER, FLOORED):
        table = BoundTable.of(calibration("additive", -0.675, 1000, rule), Gaussian(0.25))
        bound, radius = table.look_up(np.array([np.nan, -1.0, 1e-6], dtype=np.float32))
        assert bound[:2].tolist() == radius[:2].tolist() == [0, 0]
        assert radius[2] > 0
