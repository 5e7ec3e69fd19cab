import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rrise.statistics import certified_radius, format_down, format_up, round_down


@given(st.floats(0.5, 0.9999999), st.floats(0.01, 2))
def test_radius_is_the_probit_in_units_of_sigma(p: float, sigma: float) -> None:
    assert certified_radius(p, sigma) == pytest.approx(sigma * stats.norm.ppf(p), rel=1e-12, abs=1e-15)


@given(st.floats(0, 0.5))
def test_no_radius_at_or_below_one_half(p: float) -> None:
    assert certified_radius(p, 0.5) == 0


@pytest.mark.parametrize(
    ("p", "sigma", "sentence"),
    [
        (float("nan"), 1, "got NaN"),
        (1.2, 1, r"probabilities in \[0, 1\], got values from 1.2 to 1.2"),
        (0.7, 0, "positive noise level sigma, got 0"),
        (0.7, -1, "positive noise level sigma, got -1"),
        (0.7, float("nan"), "positive noise level sigma, got nan"),
    ],
)
def test_refuses_what_is_not_a_probability_or_a_noise_level(p: float, sigma: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        certified_radius(p, sigma)


@given(st.floats(0, 1e6), st.integers(0, 8))
def test_rounding_never_raises_a_number(value: float, decimals: int) -> None:
    step = 10.0**-decimals
    assert value - step * 1.001 - 1e-9 <= round_down(value, decimals) <= value
    assert float(format_down(value, decimals)) <= value or format_down(value, decimals) == repr(value)
    assert float(format_up(value, decimals)) >= value


def test_rounding_down_where_plain_formatting_rounds_up() -> None:
    assert f"{0.12996:.4f}" == "0.1300"
    assert format_down(0.12996) == "0.1299"
    assert format_down(-0.00001) == "-0.0001"
    assert format_down(0.0) == "0.0000"
    assert format_down(float("inf")) == "inf"
    assert format_down(1e25, 0) == "10000000000000000905969664"
    assert round_down(np.nextafter(0.3, 0), 1) == 0.2
