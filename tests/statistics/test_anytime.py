"""The anytime-valid bound against integrals, lattices of all paths, and simulated optional stopping."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate

from rrise.statistics import anytime_lower, clopper_pearson_lower

LEVELS = (0.001, 0.01, 0.1)


def floor(alpha: float) -> float:
    return 1 / (2 * math.log(1 / alpha)) ** 2


def capital(k: int, n: int, p0: float) -> float:
    """M(p0) by quadrature: with p = sin(t)^2 the arcsine weights become uniform in the angle t."""
    start, end = math.asin(math.sqrt(p0)), math.pi / 2
    peak, width = math.asin(math.sqrt(k / n)), 1 / (2 * math.sqrt(n))

    def ratio(t: float) -> float:
        p = math.sin(t) ** 2
        success = k * math.log(p / p0) if k else 0.0
        failure = (n - k) * math.log((1 - p) / (1 - p0)) if k < n else 0.0
        return math.exp(success + failure)

    last = min(end, max(start, peak) + 12 * width)
    around = [t for t in (peak - 3 * width, peak, peak + 3 * width) if start < t < last]
    area = integrate.quad(ratio, start, last, points=around or None, limit=400, epsabs=0, epsrel=1e-10)[0]
    return area / (end - start)


@pytest.mark.parametrize(
    ("k", "n"),
    [(1, 1), (5, 5), (9, 10), (7, 10), (60, 100), (99, 100), (550, 1000), (9000, 10_000), (999_000, 10**6)]
    + [(n, n) for n in (20, 1000, 10**6)],
)
@pytest.mark.parametrize("alpha", [0.001, 0.1, 0.25, 0.45])
def test_the_bound_is_where_the_capital_falls_below_one_over_alpha(k: int, n: int, alpha: float) -> None:
    bound = float(anytime_lower(k, n, alpha))
    if bound == 0:
        assert capital(k, n, floor(alpha)) < (1 + 1e-8) / alpha
    else:
        assert floor(alpha) <= bound < k / n
        assert capital(k, n, bound) >= (1 - 1e-8) / alpha
        assert capital(k, n, bound + min(1e-6, (1 - bound) / 100)) < 1 / alpha


@pytest.mark.parametrize("alpha", [0.01, 0.25])
def test_inverting_on_a_grid_gives_the_same(alpha: float) -> None:
    grid = np.arange(floor(alpha), 1, 0.002)
    for k, n in [(3, 3), (8, 10), (18, 30), (49, 50)]:
        rejected = np.array([capital(k, n, p0) >= 1 / alpha for p0 in grid])
        end = grid[: np.argmin(rejected)]
        expected = end[-1] if end.size else 0.0
        assert expected <= anytime_lower(k, n, alpha) < expected + 0.002


@pytest.mark.parametrize("alpha", [0.001, 0.1, 0.45])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_above_the_floor_the_capital_falls_wherever_it_rejects(n: int, alpha: float) -> None:
    """What the rejected set being an interval rests on; the sum stands for the integral."""
    angle = np.arcsin(np.sqrt(np.linspace(floor(alpha), 0.9999, 300)))
    share = (np.arange(4000) + 0.5) / 4000
    for k in range(n + 1):
        p0 = np.sin(angle) ** 2
        p = np.sin(angle[:, None] + (math.pi / 2 - angle[:, None]) * share) ** 2
        ratio = (p / p0[:, None]) ** k * ((1 - p) / (1 - p0[:, None])) ** (n - k)
        m = ratio.mean(axis=1)
        rejecting = m[:-1] >= 1 / alpha
        assert np.all(np.diff(m)[rejecting] < 0)


def test_a_bound_below_the_floor_is_given_as_zero() -> None:
    assert floor(0.001) > 0.005 > clopper_pearson_lower(4500, 10**6, 0.001)
    assert anytime_lower(4500, 10**6, 0.001) == 0
    assert anytime_lower(6500, 10**6, 0.001) > floor(0.001)


def chance_of_ever_exceeding(p: float, bounds: list[NDArray[np.float64]], looks: range) -> float:
    """Return P[some look's bound > p], exactly, by passing probability along the lattice of all paths."""
    alive, gone, at = np.array([1.0]), 0.0, 0
    for look, bound in zip(looks, bounds, strict=True):
        for _ in range(look - at):
            alive = p * np.append(0, alive) + (1 - p) * np.append(alive, 0)
        at = look
        exceeds = bound > p
        gone += float(alive[exceeds].sum())
        alive = np.where(exceeds, 0.0, alive)
    return gone


@pytest.mark.parametrize("alpha", LEVELS)
def test_looking_after_every_trial_the_bound_ever_fails_with_at_most_alpha(alpha: float) -> None:
    looks = range(1, 601)
    valid = [anytime_lower(np.arange(n + 1), n, alpha) for n in looks]
    fixed = [clopper_pearson_lower(np.arange(n + 1), n, alpha) for n in looks]
    for p in (0.005, 0.1, 0.5, 0.51, 0.9, 0.99):
        assert chance_of_ever_exceeding(p, valid, looks) <= alpha
    assert chance_of_ever_exceeding(0.5, valid, looks) > alpha / 20
    assert chance_of_ever_exceeding(0.5, fixed, looks) > 3 * alpha


@pytest.mark.parametrize("p", [0.5, 0.52, 0.9])
def test_simulated_optional_stopping_keeps_the_level_and_a_fixed_bound_does_not(p: float) -> None:
    """100,000 paths, looked at every 50 trials up to 5,000."""
    paths, step, looks = 100_000, 50, 100
    rng = np.random.default_rng(0)
    k = np.zeros(paths, dtype=np.int64)
    failed = np.zeros((2, len(LEVELS), paths), dtype=np.bool_)
    for look in range(1, looks + 1):
        n = look * step
        k += rng.binomial(step, p, paths)
        seen = np.arange(k.min(), k.max() + 1)
        for i, alpha in enumerate(LEVELS):
            failed[0, i] |= (anytime_lower(seen, n, alpha) > p)[k - seen[0]]
            failed[1, i] |= (clopper_pearson_lower(seen, n, alpha) > p)[k - seen[0]]
    valid, fixed = failed.mean(axis=2)
    assert np.all(valid <= LEVELS)
    assert np.all(fixed > 2 * np.array(LEVELS))


@given(st.integers(1, 3000), st.floats(0, 1), st.floats(1e-6, 0.49))
def test_one_more_success_raises_the_bound_and_one_more_failure_lowers_it(
    n: int, share: float, alpha: float
) -> None:
    k = round(share * n)
    now = anytime_lower(k, n, alpha)
    assert anytime_lower(k + 1, n + 1, alpha) >= now - 1e-9
    assert anytime_lower(k, n + 1, alpha) <= now + 1e-9
    assert now <= clopper_pearson_lower(k, n, alpha) + 1e-12


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.25])
@pytest.mark.parametrize("n", [100, 1000, 10_000, 10**6])
def test_the_price_of_looking_at_any_time_is_moderate(n: int, alpha: float) -> None:
    """A normal bound would be sqrt(2 log(1/alpha)) standard errors wide at most; the mixture adds log n."""
    p = np.array([0.55, 0.7, 0.9, 0.99])
    k = np.round(p * n)
    bound = anytime_lower(k, n, alpha)
    wide = 2 * math.log(1 / alpha) + math.log(n) + 3
    assert np.all(k / n - bound <= np.sqrt(wide * bound * (1 - bound) / n))
    assert anytime_lower(n, n, alpha) >= 1 - (math.log(1 / alpha) + math.log(n) / 2 + 1) / n


def test_extremes_are_finite_and_conservative() -> None:
    n = np.array([1, 2, 10, 1000, 10**6, 10**9, 10**12])
    for alpha in (1e-300, 1e-12, 0.001, 0.49):
        assert np.all(anytime_lower(np.zeros_like(n), n, alpha) == 0)
        for k in (n, n - 1, n // 2, np.ones_like(n)):
            bound = anytime_lower(k, n, alpha)
            assert np.all((bound >= 0) & (bound <= clopper_pearson_lower(k, n, alpha)))


def test_pairs_broadcast_and_repeat() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 300, (100, 50))
    k = rng.integers(0, n + 1)
    at_once = anytime_lower(k, n, 0.01)
    assert at_once.shape == (100, 50)
    one_by_one = [anytime_lower(k[i, 7], n[i, 7], 0.01) for i in range(100)]
    np.testing.assert_array_equal(at_once[:, 7], one_by_one)
    assert np.ndim(anytime_lower(3, 5, 0.1)) == 0
    assert anytime_lower([[1], [2]], [5, 6, 7], 0.1).shape == (2, 3)
    assert anytime_lower([], 5, 0.1).shape == (0,)


def test_ten_thousand_distinct_pairs_take_a_fraction_of_a_second() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(10**4, 10**6, 10_000)
    k = rng.integers(n // 2, n + 1)
    start = time.process_time()
    anytime_lower(k, n, 0.001)
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    ("k", "n", "alpha", "sentence"),
    [
        (3, 5, 0.5, "expected alpha below 0.493, got 0.5"),
        (3, 5, 0.0, "alpha strictly between 0 and 1, got 0.0"),
        (6, 5, 0.1, "0 <= k <= n, got k=6 and n=5"),
        (1.5, 5, 0.1, "whole numbers for k, got 1.5"),
        (0, 0, 0.1, "at least 1 trial, got n=0"),
    ],
)
def test_refuses_what_is_not_a_count_or_a_level(k: float, n: int, alpha: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        anytime_lower(k, n, alpha)
