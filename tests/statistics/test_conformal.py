from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rrise.statistics import conformal_rank, conformal_share, exact_level, smallest_calibration_size
from rrise.statistics.conformal import level_text

MILLIONTHS = st.integers(1, 999_999)


@given(st.integers(1, 10**7), MILLIONTHS)
@example(999, 249_000)
@example(99, 100_000)
@example(10**7, 9_000)
def test_rank_is_what_integer_arithmetic_gives(m: int, millionths: int) -> None:
    exact = -(-(m + 1) * (10**6 - millionths) // 10**6)
    gamma = millionths / 10**6
    if exact <= m:
        assert conformal_rank(m, gamma) == exact
        assert conformal_rank(np.int64(m), np.float64(gamma)) == exact
    else:
        with pytest.raises(ValueError, match=f"{m} calibration inputs are too few"):
            conformal_rank(m, gamma)


@pytest.mark.parametrize("gamma", [0.249, 0.1, 0.009, 0.099, 0.049])
def test_rank_of_the_papers_levels_for_every_size(gamma: float) -> None:
    thousandths = round(gamma * 1000)
    for m in [*range(smallest_calibration_size(gamma), 20_000), *range(9_999_000, 10_000_001)]:
        assert conformal_rank(m, gamma) == -(-(m + 1) * (1000 - thousandths) // 1000)


def test_exact_where_floating_point_is_off_by_one() -> None:
    assert int(np.ceil((124 + 1) * (1 - 0.176))) == 104
    assert conformal_rank(124, 0.176) == 103  # 125 * 0.824 is 103 exactly


@given(MILLIONTHS)
def test_smallest_size_is_the_smallest(millionths: int) -> None:
    gamma = Fraction(millionths, 10**6)
    m = smallest_calibration_size(gamma)
    assert m == 0 or conformal_rank(m, gamma) <= m
    if m > 1:
        with pytest.raises(ValueError, match=f"use at least {m}$"):
            conformal_rank(m - 1, gamma)


@pytest.mark.parametrize("size", [1000.0, "many", None])
def test_sizes_that_are_no_whole_numbers_are_refused(size: object) -> None:
    with pytest.raises(ValueError, match="a whole number of calibration inputs"):
        conformal_rank(size, 0.1)  # type: ignore[arg-type]


def test_empty_calibration_set_is_refused() -> None:
    with pytest.raises(ValueError, match="calibration set is empty"):
        conformal_rank(0, 0.1)


@pytest.mark.parametrize("gamma", [0.0, 1.0, -0.1, 1.5, float("nan"), float("inf"), "much", "1/0", None])
def test_levels_outside_the_open_interval_are_refused(gamma: object) -> None:
    with pytest.raises(ValueError, match="expected gamma"):
        conformal_rank(100, gamma)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), np.float32(0.1), np.float64(0.1)]
)
def test_every_way_of_writing_a_tenth_is_a_tenth(value: object) -> None:
    assert exact_level(value, "gamma") == Fraction(1, 10)  # type: ignore[arg-type]


def test_failure_is_split_exactly() -> None:
    assert 0.01 - 0.001 != 0.009
    assert conformal_share(0.01, 0.001) == Fraction(9, 1000)
    with pytest.raises(ValueError, match="expected beta below the total failure"):
        conformal_share(0.05, 0.05)


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=Fraction(999, 1000)))
def test_levels_survive_being_written(level: Fraction) -> None:
    assert exact_level(level_text(level), "level") == level
