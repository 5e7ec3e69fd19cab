import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrise.data.catalogue import load_digits
from rrise.data.splits import split_indices, stratified_holdout


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(0, 100), st.integers(0, 10))
def test_splits_never_overlap_and_have_the_sizes_asked_for(sizes: list[int], spare: int, seed: int) -> None:
    wanted = {f"part {i}": size for i, size in enumerate(sizes)}
    parts = split_indices(sum(sizes) + spare, wanted, seed)
    together = np.concatenate(list(parts.values()))
    assert len(np.unique(together)) == len(together) == sum(sizes)
    assert {name: len(part) for name, part in parts.items()} == wanted
    again = split_indices(sum(sizes) + spare, wanted, seed)
    assert all(np.array_equal(parts[name], again[name]) for name in parts)


def test_splits_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="that fit into 10"):
        split_indices(10, {"train": 8, "test": 3}, seed=0)


@pytest.mark.parametrize("count", [2, 3, 10, 11, 997])
def test_holdout_follows_the_distribution_of_the_values(count: int) -> None:
    values = np.random.default_rng(0).random(count)
    kept, held_out = stratified_holdout(values, 0.1, seed=3)
    assert sorted([*kept, *held_out]) == list(range(count))
    assert len(held_out) == max(1, round(count / 10))
    if count > 100:
        np.testing.assert_allclose(
            np.quantile(values[held_out], [0.1, 0.5, 0.9]), np.quantile(values, [0.1, 0.5, 0.9]), atol=0.03
        )


def test_digits_are_complete_and_in_range() -> None:
    digits = load_digits()
    assert digits.images.shape == (1797, 1, 8, 8)
    assert digits.images.dtype == np.uint8
    assert digits.images.max() == 255
    assert np.bincount(digits.labels).min() > 170
    inputs = digits.inputs(np.arange(5))
    assert 0 <= float(inputs.min()) <= float(inputs.max()) <= 1
