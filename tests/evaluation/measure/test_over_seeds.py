import math
from typing import Any

import numpy as np
import pytest

from rrise.errors import MismatchError
from rrise.evaluation.measure.over_seeds import over_seeds


def run(seed: int, *results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "dataset": "FashionMNIST",
        "run": f"run-{seed}",
        "seed": seed,
        "protocol": "held-out",
        "sigma": 0.25,
        "classes": 10,
        "test_inputs": 9000,
        "reference_votes": 10_000,
        "main_budget": 10_000,
        "main_failure": "0.25",
        "thresholds": [0, 0.1],
        "results": list(results),
        **changes,
    }


def result(variant: str = "n10000", main: bool = True, **metrics: Any) -> dict[str, Any]:
    setting = {
        "method": "RRISE",
        "variant": variant,
        "budget": 10_000,
        "failure": "0.25",
        "score": "additive",
    }
    return {**setting, "main": main, "metrics": metrics}


def test_mean_and_sample_deviation_by_hand() -> None:
    runs = [run(100 * i, result(accuracy=value)) for i, value in enumerate([0.7, 0.8, 0.9])]
    (only,) = over_seeds(runs)
    assert only["mean"]["accuracy"] == pytest.approx(0.8)
    assert only["std"]["accuracy"] == pytest.approx(0.1)
    assert only["runs"] == 3
    assert (only["dataset"], only["method"], only["variant"]) == ("FashionMNIST", "RRISE", "n10000")
    assert (only["budget"], only["failure"], only["score"], only["main"]) == (
        10_000,
        "0.25",
        "additive",
        True,
    )


def test_lists_and_break_evens_are_taken_element_by_element() -> None:
    crd = np.random.default_rng(0).random((3, 8))
    runs = [
        run(i, result(crd=row.tolist(), break_even={"Baseline 1 n10000": 10 * i, "Baseline 2 k": 4}))
        for i, row in enumerate(crd)
    ]
    (only,) = over_seeds(runs)
    assert only["mean"]["crd"] == pytest.approx(crd.mean(axis=0).tolist())
    assert only["std"]["crd"] == pytest.approx(crd.std(axis=0, ddof=1).tolist())
    assert only["mean"]["break_even"] == {"Baseline 1 n10000": 10, "Baseline 2 k": 4}
    assert only["std"]["break_even"] == {"Baseline 1 n10000": 10, "Baseline 2 k": 0}


def test_one_run_has_no_deviation() -> None:
    (only,) = over_seeds([run(100, result(accuracy=0.7, crd=[0.1, 0.2], offset=None))])
    assert only["mean"] == {"accuracy": 0.7, "crd": [0.1, 0.2], "offset": None}
    assert only["std"] == {"accuracy": None, "crd": [None, None], "offset": None}
    assert only["runs"] == 1


def test_undefined_in_some_runs_is_undefined_over_all() -> None:
    first = result(oca=0.5, crd=[1, 2], break_even={"a": 1, "b": 2}, never=None)
    second = result(oca=None, crd=None, break_even={"a": None, "b": 4, "c": 1}, never=None)
    (only,) = over_seeds([run(1, first), run(2, second)])
    expected = {"oca": None, "crd": None, "never": None}
    assert only["mean"] == {**expected, "break_even": {"a": None, "b": 3, "c": None}}
    assert only["std"] == {
        **expected,
        "break_even": {"a": None, "b": pytest.approx(math.sqrt(2)), "c": None},
    }


def test_datasets_and_settings_stay_apart_and_in_order() -> None:
    runs = [
        run(1, result("b", accuracy=0.1), result("a", accuracy=0.2)),
        run(1, result("b", accuracy=0.5), dataset="CIFAR-10", sigma=0.1, thresholds=[0, 0.05]),
        run(2, result("a", accuracy=0.4), result("c", main=False, accuracy=1)),
    ]
    found = [
        (entry["dataset"], entry["variant"], entry["runs"], entry["main"], entry["mean"]["accuracy"])
        for entry in over_seeds(runs)
    ]
    assert found == [
        ("FashionMNIST", "b", 1, True, 0.1),
        ("FashionMNIST", "a", 2, True, pytest.approx(0.3)),
        ("CIFAR-10", "b", 1, True, 0.5),
        ("FashionMNIST", "c", 1, False, 1),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"protocol": "paper"}, "protocol held-out in the first, paper in the second"),
        ({"sigma": 0.5}, "sigma 0.25 in the first, 0.5 in the second"),
        ({"thresholds": [0, 0.2]}, r"thresholds \[0, 0.1\] in the first"),
        ({"classes": 100}, "classes 10 in the first"),
        ({"main_failure": "0.1"}, "main failure 0.25 in the first"),
        ({"main_budget": 500}, "main budget 10000 in the first"),
    ],
)
def test_refuses_runs_that_were_not_evaluated_alike(change: dict[str, Any], words: str) -> None:
    with pytest.raises(MismatchError, match=f"runs run-1 and run-2 of FashionMNIST .*{words}"):
        over_seeds([run(1), run(2, **change)])
    assert over_seeds([run(1), run(2, dataset="CIFAR-10", **change)]) == []


def test_refuses_one_seed_twice() -> None:
    with pytest.raises(MismatchError, match=r"run-1 and again of FashionMNIST .* both have seed 1"):
        over_seeds([run(1), run(1, run="again")])


def test_no_runs_give_no_entries() -> None:
    assert over_seeds([]) == []
