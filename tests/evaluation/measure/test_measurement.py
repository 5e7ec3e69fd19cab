import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.methods import (
    EARLY_STOPPING,
    INPUT_SPECIFIC,
    JENSEN_SHANNON,
    ONE_STAGE,
    RRISE,
    SEQUENTIAL,
    TWO_STAGE,
)
from rrise.errors import InputError, SettingError
from rrise.evaluation.measure.all_metrics import METRICS
from rrise.evaluation.measure.measurement import measure
from rrise.evaluation.measure.outcomes import MethodSetting, Offline, Outcome
from rrise.votes.noise import Gaussian
from tests.evaluation.measure.naive_metrics import (
    GUARANTEE,
    THRESHOLDS,
    naive_metrics,
    random_certificates,
    random_votes,
)

MAIN = {"main_budget": 100, "main_failure": "0.25"}


def certificates(bound: list[float], passes: Any = 1) -> Certificates:
    label = np.zeros(len(bound), dtype=np.int64)
    return Certificates.from_bound(label, np.array(bound), guarantee=GUARANTEE, passes=passes)


def voting(method: str, variant: str, budget: int = 100, failure: str = "0.25", passes: Any = 100) -> Outcome:
    return Outcome(MethodSetting(method, variant, budget, failure), certificates([0.9, 0.6, 0.4], passes))


def surrogate(
    method: str = RRISE.name,
    variant: str = "trainhead_initbase_n100",
    score: str = "additive",
    budget: int = 100,
) -> Outcome:
    offline = Offline(5_000, 1_500, 330, training_inputs=50, batch_size=16, epoch=10)
    setting = MethodSetting(method, variant, budget, "0.25", score)
    return Outcome(setting, certificates([0.8, 0.55, 0.3]), 0.1, offline, 2.5)


def measured(*outcomes: Outcome, **settings: Any) -> list[dict[str, Any]]:
    votes = np.array([[80, 20], [54, 46], [30, 70]])
    results = measure(outcomes, [0, 1, 1], votes, THRESHOLDS, **{**MAIN, **settings})
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    return results


def test_a_result_has_its_setting_and_every_metric() -> None:
    first, second = measured(surrogate(), voting(ONE_STAGE.name, "n100"))
    for result, method in ((first, RRISE.name), (second, ONE_STAGE.name)):
        assert result["method"] == method
        assert list(result["metrics"]) == list(METRICS)
        assert {*result} == {"method", "variant", "budget", "failure", "score", "main", "metrics"}


def test_a_surrogate_by_hand() -> None:
    ours, theirs = surrogate(), voting(ONE_STAGE.name, "n100")
    result = measured(ours, theirs)[0]["metrics"]
    assert result["accuracy"] == pytest.approx(1 / 3)
    assert result["agreement"] == pytest.approx(2 / 3)
    assert result["violation_rate"] == pytest.approx(1 / 3)  # 0.55 against 54 of 100
    assert result["issued_violation_rate"] == pytest.approx(1 / 3)
    assert result["violation_rate_among_issued"] == 1 / 2
    assert result["boundary_violation_rate"] == 1
    assert result["radius_ratio"] == pytest.approx(
        ours.certificates.radius.sum() / theirs.certificates.radius.sum()
    )
    assert result["radius_drop"] == pytest.approx(1 - result["radius_ratio"])
    assert (result["offset"], result["epoch"], result["seconds"]) == (0.1, 10, 2.5)
    assert (result["targets"], result["training"], result["calibration"]) == (5_000, 1_500, 330)
    assert result["training_paper"] == 4 * 3 * 10
    assert result["sample_reduction"] is None
    assert result["break_even"] == {"Baseline 1 n100": 69}  # 6,830 / 99 = 68.99


def test_a_method_that_votes_has_no_break_even_and_no_cost_before() -> None:
    result = measured(voting(EARLY_STOPPING.name, "n100_tol0.01", passes=[10, 20, 60]))[0]["metrics"]
    assert (result["mean_passes"], result["median_passes"]) == (30, 20)
    assert result["sample_reduction"] == pytest.approx(100 / 30)
    assert result["targets"] == result["training"] == result["calibration"] == result["training_paper"] == 0
    for name in ("break_even", "epoch", "offset", "seconds", "radius_ratio", "radius_drop"):
        assert result[name] is None


def test_break_evens_are_against_realised_passes_at_the_same_failure() -> None:
    others = [
        voting(ONE_STAGE.name, "n100"),
        voting(ONE_STAGE.name, "n500", budget=500, passes=500),
        voting(ONE_STAGE.name, "n100", failure="0.1", passes=50),
        voting(EARLY_STOPPING.name, "n100_tol0.05", passes=[10, 20, 61]),
        voting(INPUT_SPECIFIC.name, "k100_decline0.05", passes=1),
        surrogate(JENSEN_SHANNON.name, "init0_n100"),
    ]
    honest = measured(surrogate(), *others)[0]["metrics"]["break_even"]
    assert honest == {
        "Baseline 1 n100": 69,
        "Baseline 1 n500": 14,  # 6,830 / 499 = 13.7
        "Baseline 3 n100_tol0.05": 233,  # 6,830 / (91 / 3 - 1) = 232.8
        "Baseline 2 k100_decline0.05": None,
    }
    paper = measured(surrogate(), *others, paper_counting=True)[0]["metrics"]["break_even"]
    assert paper["Baseline 1 n100"] == 52  # 5,120 / 99 = 51.7


def test_radius_ratio_is_against_baseline_1_at_the_same_budget_and_failure() -> None:
    at_other_budget = voting(ONE_STAGE.name, "n500", budget=500)
    at_other_level = voting(ONE_STAGE.name, "n100", failure="0.1")
    two_stage = voting(TWO_STAGE.name, "n100")
    results = measured(surrogate(), at_other_budget, at_other_level, two_stage)
    assert [result["metrics"]["radius_ratio"] for result in results] == [None, 1, 1, None]


def test_the_main_comparison_has_one_of_each_method() -> None:
    main = [
        surrogate(),
        voting(ONE_STAGE.name, "n100"),
        voting(INPUT_SPECIFIC.name, "k100_decline0.01"),
        voting(EARLY_STOPPING.name, "n100_tol0.01"),
        surrogate(JENSEN_SHANNON.name, "init0_n100"),
        voting(TWO_STAGE.name, "n100"),
        voting(SEQUENTIAL.name, "n100_tol0.01"),
    ]
    others = [
        surrogate(score="probit"),
        surrogate(variant="trainall_initbase_n100"),
        surrogate(variant="trainhead_initbase_n50", budget=50),
        voting(ONE_STAGE.name, "n50", budget=50),
        voting(ONE_STAGE.name, "n100", failure="0.1"),
        voting(INPUT_SPECIFIC.name, "k100_decline0.05"),
        voting(EARLY_STOPPING.name, "n100_tol0.05"),
        surrogate(JENSEN_SHANNON.name, "init1_n100"),
        surrogate(JENSEN_SHANNON.name, "init0_n100", "none"),
        voting(SEQUENTIAL.name, "n100_tol0.05"),
    ]
    results = measured(*main, *others)
    assert [result["main"] for result in results] == [True] * len(main) + [False] * len(others)


def test_the_runs_own_surrogate_is_main_before_the_papers() -> None:
    outcomes = [
        surrogate(),
        surrogate(variant="trainall_initbase_n50", budget=50, score="probit"),
        surrogate(variant="trainall_initbase_n50", budget=50),
        surrogate(JENSEN_SHANNON.name, "init0_n50", "probit", budget=50),
        surrogate(JENSEN_SHANNON.name, "init0_n50", budget=50),
        voting(ONE_STAGE.name, "n100"),
    ]
    named = measured(*outcomes, main_surrogate=(RRISE.name, "trainall_initbase_n50", "probit"))
    assert [result["main"] for result in named] == [False, True, False, True, False, True]
    unnamed = measured(*outcomes)
    assert [result["main"] for result in unnamed] == [True, False, False, False, False, True]
    own = measured(*outcomes, main_surrogate=(JENSEN_SHANNON.name, "init0_n50", "additive"))
    assert [result["main"] for result in own] == [False, False, False, False, True, True]


@pytest.mark.parametrize("classes", [1, 2, 1000])
@pytest.mark.parametrize("inputs", [1, 100])
def test_numbers_against_their_definitions(inputs: int, classes: int) -> None:
    rng = np.random.default_rng(inputs + classes)
    votes, labels = random_votes(rng, inputs, classes), rng.integers(0, min(classes, 3), inputs)
    some = [random_certificates(rng, inputs, min(classes, 3)) for _ in range(5)]
    outcomes = [Outcome(MethodSetting(RRISE.name, f"n{i}", 100, "0.1"), part) for i, part in enumerate(some)]
    for result, part in zip(measure(outcomes, labels, votes, THRESHOLDS, **MAIN), some, strict=True):
        for name, value in naive_metrics(part, labels.tolist(), votes, THRESHOLDS).items():
            assert result["metrics"][name] == (None if value is None else pytest.approx(value)), name


def test_all_abstained_is_undefined_where_it_must_be() -> None:
    nothing = replace(voting(ONE_STAGE.name, "n100"), certificates=certificates([0.5, 0.2, 0.1], 100))
    ours, theirs = (result["metrics"] for result in measured(surrogate(), nothing))
    assert theirs["issued"] == theirs["boundary_mass"] == theirs["average_certified_radius"] == 0
    assert theirs["certified_accuracy_at"] == theirs["boundary_crd"] == [0] * len(THRESHOLDS)
    undefined = [
        "mean_issued_radius",
        "boundary_accuracy",
        "boundary_radius",
        "certified_crd",
        "radius_ratio",
    ]
    assert [theirs[name] for name in [*undefined, "violation_rate_among_issued"]] == [None] * 6
    assert ours["radius_ratio"] is ours["radius_drop"] is None


def test_unbounded_radii_at_face_value_are_left_undefined() -> None:
    certain = replace(
        surrogate(JENSEN_SHANNON.name, "init0_n100", "none"),
        certificates=certificates([1.0, 0.6, 0.1]),
        offset=None,
    )
    result = measured(certain, voting(ONE_STAGE.name, "n100"))[0]["metrics"]
    for name in ("average_certified_radius", "mean_issued_radius", "radius_ratio", "radius_drop", "offset"):
        assert result[name] is None
    assert result["certified_accuracy_at"][-1] == pytest.approx(1 / 3)
    assert result["boundary_radius"] == pytest.approx(certain.certificates.radius[1])


def test_nothing_to_measure_gives_no_results() -> None:
    assert measured() == []


def test_refuses_what_does_not_fit() -> None:
    short = replace(surrogate(), certificates=certificates([0.9, 0.8]))
    with pytest.raises(InputError, match="for each of the 3 test inputs, got 2"):
        measured(short)
    other = certificates([0.9, 0.8, 0.7])
    strange = replace(surrogate(), certificates=replace(other, label=np.array([0, 1, 2])))
    with pytest.raises(InputError, match="among the 2 classes of the reference votes, got 0 to 2"):
        measured(strange)
    with pytest.raises(InputError, match=r"got Baseline 1 n100 at failure 0.25 twice"):
        measured(voting(ONE_STAGE.name, "n100"), voting(ONE_STAGE.name, "n100"))
    with pytest.raises(InputError, match="votes for each of the 2 inputs, got 1 rows"):
        measure([], [0, 1], np.array([[1, 2]]), THRESHOLDS, **MAIN)


@pytest.mark.parametrize("thresholds", [[-0.1], [float("nan")], [[0.1]], [float("inf")]])
def test_refuses_thresholds_that_are_not_radii(thresholds: Any) -> None:
    with pytest.raises(SettingError, match="expected thresholds as a list of radii"):
        measure([], [0], np.array([[1, 2]]), thresholds, **MAIN)


def test_a_surrogate_has_the_monte_carlo_that_certifies_as_much_beside_it() -> None:
    votes = np.array([[990, 10], [60, 940], [800, 200], [300, 700]] * 25)
    labels = np.tile([0, 1, 0, 1], 25)
    bound = np.tile([0.9, 0.8, 0.6, 0.4], 25)
    setting = MethodSetting(RRISE.name, "trainhead_initbase_n100", 100, "0.25", "additive")
    part = Certificates.from_bound(labels, bound, guarantee=GUARANTEE, passes=1)
    offline = Offline(9_000, 900, 100)
    (found,) = measure(
        [Outcome(setting, part, 0.1, offline)], labels, votes, THRESHOLDS, noise=Gaussian(0.5), **MAIN
    )
    passes = found["metrics"]["rival_passes"]
    assert 5 < passes < 100
    assert found["metrics"]["rival_break_even"] == -(-10_000 // (passes - 1))
    without = measure([Outcome(setting, part, 0.1, offline)], labels, votes, THRESHOLDS, **MAIN)
    assert without[0]["metrics"]["rival_passes"] is None


def test_methods_that_vote_are_not_judged_by_their_own_votes() -> None:
    for result in measured(surrogate(), voting(ONE_STAGE.name, "n100"), voting(TWO_STAGE.name, "n100")):
        undefined = [name for name, value in result["metrics"].items() if value is None]
        judged = {"agreement", "violation_rate", "issued_violation_rate"}
        assert judged.isdisjoint(undefined) == (result["method"] == RRISE.name)


def test_inputs_that_were_calibrated_on_are_no_evidence() -> None:
    rng = np.random.default_rng(3)
    votes, labels = random_votes(rng, 40, 3), rng.integers(0, 3, 40)
    part, mask = random_certificates(rng, 40, 3), np.arange(40) < 15
    setting = MethodSetting(RRISE.name, "trainhead_initbase_n100", 100, "0.1", "additive")
    (found,) = measure([Outcome(setting, part)], labels, votes, THRESHOLDS, calibrated_on=mask, **MAIN)
    (rest,) = measure([Outcome(setting, part[~mask])], labels[~mask], votes[~mask], THRESHOLDS, **MAIN)
    judged = [name for name in found["metrics"] if name == "agreement" or "violation_rate" in name]
    assert len(judged) == 5
    for name in judged:
        assert found["metrics"][name] == rest["metrics"][name]
    assert found["metrics"]["accuracy"] != rest["metrics"]["accuracy"]


def test_a_surrogate_of_another_budget_is_compared_with_baseline_1_at_the_main_one() -> None:
    (ours, _) = measured(
        surrogate(variant="trainhead_initbase_n50", budget=50), voting(ONE_STAGE.name, "n100")
    )
    assert ours["metrics"]["radius_ratio"] is not None
