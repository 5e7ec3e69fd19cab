import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rrise.data.splits import plan_splits, split_indices, stratified_holdout


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


SIZES = st.one_of(st.integers(1, 60), st.floats(0.02, 0.9))
LIMITS = st.one_of(st.none(), st.integers(1, 200))
PARTS = ("train", "validation", "calibration", "test")


def number(size: int | float, total: int) -> int:
    return round(size * total) if isinstance(size, float) else size


@given(
    train=st.integers(2, 120),
    test=st.integers(2, 120),
    validation=SIZES,
    calibration=SIZES,
    train_limit=LIMITS,
    test_limit=LIMITS,
    seed=st.integers(0, 5),
)
def test_planned_splits_keep_their_promises(
    *,
    train: int,
    test: int,
    validation: int | float,
    calibration: int | float,
    train_limit: int | None,
    test_limit: int | None,
    seed: int,
) -> None:
    kept = min(train, train_limit or train), min(test, test_limit or test)
    assume(1 <= number(validation, kept[0]) < kept[0] and 1 <= number(calibration, kept[1]) < kept[1])
    settings: dict[str, Any] = {
        "seed": seed,
        "validation": validation,
        "calibration": calibration,
        "train_limit": train_limit,
        "test_limit": test_limit,
    }
    held_out = plan_splits(train, test, **settings)
    paper = plan_splits(train, test, **settings, protocol="paper")
    assert (held_out.protocol, paper.protocol) == ("held-out", "paper")
    for splits in (held_out, paper):
        for name in PARTS:
            part = getattr(splits, name)
            assert part.dtype == np.int64
            assert (np.diff(part) > 0).all()
            assert 0 <= part[0] <= part[-1] < (train if name in PARTS[:2] else test)
        assert not set(splits.train) & set(splits.validation)
        assert len(splits.validation) == number(validation, kept[0])
        assert len(splits.train) + len(splits.validation) == kept[0]
        assert len(splits.calibration) == number(calibration, kept[1])
    assert not set(held_out.calibration) & set(held_out.test)
    assert set(paper.calibration) < set(paper.test)
    assert set(paper.test) == set(held_out.test) | set(held_out.calibration)
    assert len(paper.test) == kept[1]
    assert paper.calibration.tolist() == held_out.calibration.tolist()
    assert plan_splits(train, test, **settings).to_json() == held_out.to_json()


@given(st.integers(2, 60), SIZES, LIMITS, st.sampled_from(["held-out", "paper"]))
def test_the_train_part_is_split_the_same_whatever_happens_to_the_test_part(
    test: int, calibration: int | float, limit: int | None, protocol: str
) -> None:
    kept = min(test, limit or test)
    assume(1 <= number(calibration, kept) < kept)
    first = plan_splits(100, 50, seed=1, validation=0.1, calibration=0.1)
    other = plan_splits(
        100, test, seed=1, validation=0.1, calibration=calibration, test_limit=limit, protocol=protocol
    )
    assert first.train.tolist() == other.train.tolist()
    assert first.validation.tolist() == other.validation.tolist()


def test_parts_and_seeds_are_dealt_independently() -> None:
    splits = plan_splits(1000, 1000, seed=0, validation=500, calibration=500)
    other = plan_splits(1000, 1000, seed=1, validation=500, calibration=500)
    for one, two in ((splits.validation, splits.calibration), (splits.validation, other.validation)):
        assert 200 < len(np.intersect1d(one, two)) < 300  # 250 expected, 8 of deviation


def test_splits_are_recorded_by_index() -> None:
    splits = plan_splits(6, 5, seed=0, validation=2, calibration=0.2, protocol="paper")
    record = json.loads(json.dumps(splits.to_json()))
    assert record["protocol"] == "paper"
    assert [len(record[name]) for name in PARTS] == [4, 2, 1, 5]
    assert record["test"] == [0, 1, 2, 3, 4]
    assert record["validation"] == splits.validation.tolist()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"validation": 100}, r"validation to take .* leave at least 1 of the 100 inputs of the train part"),
        ({"validation": 0}, r"validation to take at least 1 .*, got 0 \(0 inputs\)"),
        ({"validation": 0.001}, r"got 0\.001 \(0 inputs\)"),
        ({"calibration": 60}, r"calibration to take .* of the 50 inputs of the test part, got 60"),
        ({"calibration": 1.5}, r"calibration as a count such as 1000 or as a share such as 0\.1; got 1\.5"),
        ({"calibration": -0.1}, r"got -0\.1"),
        ({"calibration": float("nan")}, "got nan"),
        ({"calibration": -5}, "got -5"),
        ({"calibration": 10, "test_limit": 10}, "leave at least 1 of the 10 inputs of the test part"),
        ({"train_limit": 0}, "train_limit to be at least 1, got 0"),
        ({"protocol": "papers"}, "a protocol out of held-out, paper; got 'papers'"),
    ],
)
def test_plans_that_do_not_fit_are_refused(changes: dict[str, Any], sentence: str) -> None:
    settings: dict[str, Any] = {"seed": 0, "validation": 0.1, "calibration": 0.1}
    with pytest.raises(ValueError, match=sentence):
        plan_splits(100, 50, **(settings | changes))
