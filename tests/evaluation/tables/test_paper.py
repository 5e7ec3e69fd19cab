"""The paper's numbers, as package data and beside ours."""

from importlib import resources

import pytest

from rrise.evaluation.tables.paper import paper_number, paper_numbers
from rrise.evaluation.tables.tables import build_tables
from rrise.evaluation.tables.values import Number
from tests.evaluation.tables.paper_results import THRESHOLDS, paper_results

MAIN = {
    "dataset": "CIFAR-100",
    "method": "RRISE",
    "variant": "trainhead_initbase_n10000",
    "budget": 10_000,
    "failure": "0.25",
    "score": "additive",
}


def looked_up(table: str, metric: str, varied: tuple[str, ...] = (), **changed: object) -> Number | None:
    setting = {**MAIN, **changed}
    family = str(setting["variant"]).removesuffix(f"_n{setting['budget']}")
    return paper_number(table, setting, metric, family=family, varied=frozenset(varied))


def test_has_every_number_of_the_paper_in_the_package() -> None:
    assert (resources.files("rrise.evaluation.tables") / "paper.csv").is_file()
    numbers = paper_numbers()
    assert len(numbers) == 3436
    assert len({key[0] for key in numbers}) == 23
    assert numbers["main_cert_boundary", "CIFAR-100", "Baseline 4", "", "", "", "OCA (%)"] == Number()


def test_finds_the_number_of_the_same_setting() -> None:
    assert looked_up("main_cert_boundary", "CertAcc@0 (%)") == Number(33.91, 0.02)
    assert looked_up("rrise_training_ablation", "delta", ("variant",)) == Number(0.16, 0.01)
    assert looked_up("calibration_ablation_cifar100", "delta", ("failure",), failure="0.1") is not None
    assert looked_up("calibration_ablation_cifar100", "delta", ("failure",), failure="0.10") is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "Baseline 1", "budget": 1_000, "variant": "n1000", "score": ""},
        {"failure": "0.1"},
        {"failure": "1/3"},
        {"score": "probit"},
        {"variant": "trainall_initbase_n10000"},
        {"dataset": "digits"},
        {"method": "Monte Carlo, two-stage", "variant": "n10000", "score": ""},
    ],
)
def test_has_none_for_another_setting(changed: dict[str, object]) -> None:
    assert looked_up("main_cert_boundary", "CertAcc@0 (%)", **changed) is None


def test_a_surrogate_on_fewer_votes_stands_beside_the_papers() -> None:
    fewer = {"budget": 1_000, "variant": "trainhead_initbase_n1000"}
    assert looked_up("main_cert_boundary", "CertAcc@0 (%)", **fewer) == Number(33.91, 0.02)
    assert looked_up("rrise_training_ablation", "delta", ("variant",), **fewer) == Number(0.16, 0.01)
    own = looked_up("budget_ablation_cifar100", "OCA (%)", ("budget",), **fewer)
    assert own is not None
    assert own != looked_up("budget_ablation_cifar100", "OCA (%)", ("budget",))
    results = [
        {**result, "budget": 1_000, "variant": result["variant"].replace("10000", "1000")}
        if result["method"] in ("RRISE", "Baseline 4")
        else result
        for result in paper_results()
        if result["main"]
    ]
    table = build_tables(results, THRESHOLDS, protocol="paper", paper=True)[0]
    assert any("votes per training input, ours here on 1000;" in note for note in table.notes)
    same = build_tables(paper_results(), THRESHOLDS, protocol="paper", paper=True)[0]
    assert not any("ours here on" in note for note in same.notes)


def test_stands_beside_ours_with_the_difference() -> None:
    results = paper_results()
    for result in results:
        if result["main"] and result["method"] == "RRISE":
            result["mean"]["accuracy"] = result["mean"]["certified_accuracy"] + 0.01
            result["mean"]["certified_accuracy"] -= 0.25
    table = build_tables(results, THRESHOLDS, protocol="held-out", paper=True)[0]
    assert table.header()[:8] == [
        *("Dataset", "Method"),
        *("Accuracy (%)", "paper", "difference"),
        *("CertAcc@0 (%)", "paper", "difference"),
    ]
    rrise, baseline = table.texts()[0][:2]
    assert rrise[2:8] == ["88.44", "87.44 ± 0.01", "+1.00", "62.44 ± 0.01", "87.44 ± 0.01", "−25.00"]
    assert baseline[2:5] == ["–", "", ""]
    assert any("comparable with Accuracy (%)" in note for note in table.notes)
    assert any("protocol paper does as it does" in note for note in table.notes)
    same = build_tables(results, THRESHOLDS, protocol="paper", paper=True)[0]
    assert not any("protocol paper does as it does" in note for note in same.notes)


def test_columns_of_the_paper_are_left_out_where_it_has_nothing() -> None:
    results = [
        {**result, "dataset": "digits"} for result in paper_results() if result["dataset"] == "CIFAR-10"
    ]
    thresholds = {"digits": THRESHOLDS["CIFAR-10"]}
    with_paper, without = (
        build_tables(results, thresholds, protocol="held-out", paper=paper) for paper in (True, False)
    )
    assert with_paper == without
