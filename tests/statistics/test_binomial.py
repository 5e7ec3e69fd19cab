import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.stats.proportion import proportion_confint

from rrise.statistics import (
    check_budget,
    clopper_pearson_interval,
    clopper_pearson_lower,
    clopper_pearson_upper,
)

LEVELS = st.sampled_from([0.5, 0.25, 0.1, 0.05, 0.01, 0.001, 1e-6])


@given(st.integers(1, 100_000), st.floats(0, 1), LEVELS)
def test_agrees_with_statsmodels(n: int, share: float, alpha: float) -> None:
    k = round(share * n)
    low, high = proportion_confint(k, n, alpha, method="beta")
    ours = clopper_pearson_interval(k, n, alpha)
    np.testing.assert_allclose(ours, (0 if k == 0 else low, 1 if k == n else high), rtol=1e-9, atol=1e-15)


@given(st.integers(1, 5_000), st.floats(0, 1), LEVELS)
def test_bounds_solve_the_binomial_equation_they_are_defined_by(n: int, share: float, alpha: float) -> None:
    k = round(share * n)
    if k > 0:
        assert stats.binom.sf(k - 1, n, clopper_pearson_lower(k, n, alpha)) == pytest.approx(alpha, rel=1e-7)
    if k < n:
        assert stats.binom.cdf(k, n, clopper_pearson_upper(k, n, alpha)) == pytest.approx(alpha, rel=1e-7)


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.25])
@pytest.mark.parametrize("n", [1, 10, 137])
def test_lower_bound_fails_at_most_alpha_for_every_proportion(n: int, alpha: float) -> None:
    k = np.arange(n + 1)
    lower = clopper_pearson_lower(k, n, alpha)
    worst_cases = np.concatenate([np.linspace(0.001, 0.999, 500), lower[1:] - 1e-12])
    for p in worst_cases:
        assert stats.binom.pmf(k, n, p)[lower > p].sum() <= alpha + 1e-9


@pytest.mark.parametrize("n", [1, 7, 1000, 100_000])
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.5])
def test_no_and_all_successes_are_exact(n: int, alpha: float) -> None:
    assert clopper_pearson_lower(0, n, alpha) == 0
    assert clopper_pearson_lower(n, n, alpha) == alpha ** (1 / n)
    assert clopper_pearson_upper(n, n, alpha) == 1
    assert clopper_pearson_upper(0, n, alpha) == pytest.approx(1 - alpha ** (1 / n), rel=1e-12)


def test_large_arrays_give_the_same_as_small_ones() -> None:
    n = np.random.default_rng(0).integers(1, 300, 100_000)
    k = np.random.default_rng(1).integers(0, n + 1)
    at_once = clopper_pearson_lower(k, n, 0.01)
    one_by_one = [clopper_pearson_lower(k[i], n[i], 0.01) for i in range(0, 100_000, 5000)]
    np.testing.assert_array_equal(at_once[::5000], one_by_one)


@pytest.mark.parametrize("n", [10_000, 100_000])
def test_a_million_bounds_cost_no_more_than_their_quantiles(n: int) -> None:
    """In time of all threads, beside SciPy's quantiles alone: a busy machine slows both."""
    rng = np.random.default_rng(0)
    trials = rng.integers(n // 2, n + 1, 10**6)
    k = rng.integers(1, trials)
    ratios = []
    for _ in range(3):
        start = time.process_time()
        special.betaincinv(k, trials - k + 1, 0.001)
        between = time.process_time()
        clopper_pearson_lower(k, trials, 0.001)
        ratios.append((time.process_time() - between) / (between - start))
        if ratios[-1] < 1.5:
            break
    assert min(ratios) < 1.5, ratios


def test_broadcasts_and_keeps_scalars() -> None:
    assert clopper_pearson_lower([[1], [2]], [5, 6, 7], 0.1).shape == (2, 3)
    assert np.ndim(clopper_pearson_lower(3, 5, 0.1)) == 0


@pytest.mark.parametrize(
    ("k", "n", "alpha", "sentence"),
    [
        (3, 5, 0.0, "alpha strictly between 0 and 1, got 0.0"),
        (3, 5, 1.0, "alpha strictly between 0 and 1, got 1.0"),
        (3, 5, float("nan"), "alpha strictly between 0 and 1, got nan"),
        (6, 5, 0.1, "0 <= k <= n, got k=6 and n=5"),
        (-1, 5, 0.1, "0 <= k <= n, got k=-1 and n=5"),
        (1.5, 5, 0.1, "whole numbers for k, got 1.5"),
        (float("nan"), 5, 0.1, "whole numbers for k, got nan"),
        (0, 0, 0.1, "at least 1 trial, got n=0"),
        ("a", 5, 0.1, "whole numbers for k and n, got 'a' and 5"),
        (3, 5, "little", "alpha to be a number, got 'little'"),
    ],
)
def test_refuses_what_is_not_a_count_or_a_level(k: float, n: int, alpha: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        clopper_pearson_lower(k, n, alpha)


@given(st.integers(1, 60), st.floats(1e-9, 0.6))
def test_budget_is_refused_exactly_when_unanimous_votes_cannot_certify(n: int, alpha: float) -> None:
    if alpha ** (1 / n) > 0.5:
        check_budget(n, alpha)
    else:
        with pytest.raises(ValueError, match="can never certify") as error:
            check_budget(n, alpha)
        enough = int(str(error.value).split("at least ")[1].split()[0])
        assert alpha ** (1 / enough) > 0.5 >= alpha ** (1 / (enough - 1))


@pytest.mark.parametrize("alpha", [1e-100, 1e-145, 1e-190, 1e-300])
@pytest.mark.parametrize("n", [1000, 10**6])
def test_absurd_levels_give_vacuous_bounds_and_not_nan(n: int, alpha: float) -> None:
    k = np.array([1, 2, 3, 5, 20, n - 20, n - 2, n - 1])
    assert np.all(clopper_pearson_lower(k, n, alpha) <= k / n)
    assert np.all(clopper_pearson_upper(k, n, alpha) >= k / n)


def test_no_number_of_votes_proves_certainty() -> None:
    assert clopper_pearson_lower(10**18, 10**18, 0.9) < 1
