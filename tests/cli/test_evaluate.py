"""`rrise evaluate`, `compare`, `report` and `certificates` on a small finished run."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rrise.certifiers.methods import JENSEN_SHANNON, METHODS, RRISE, TWO_STAGE
from rrise.files import STEP_MANIFEST


@pytest.fixture(scope="module")
def finished(quick_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose evaluation the tests of this file may change."""
    return Path(shutil.copytree(quick_demo, tmp_path_factory.mktemp("evaluate") / "run"))


def results(run: Path) -> dict:
    return json.loads((run / "evaluation" / "results.json").read_text())


def methods(run: Path) -> set[str]:
    return {result["method"] for result in results(run)["results"]}


def test_every_method_that_votes_is_evaluated_at_every_level(quick_demo: Path) -> None:
    found = results(quick_demo)
    assert methods(quick_demo) == set(METHODS) - {JENSEN_SHANNON.name}
    levels = {result["failure"] for result in found["results"] if result["method"] == RRISE.name}
    assert levels == {"0.25", "0.1", "0.05", "0.01"}
    assert {result["failure"] for result in found["results"] if result["method"] == TWO_STAGE.name} == {
        "0.25",
        "0.1",
        "0.05",
        "0.01",
    }


def test_more_surrogates_are_trained_once_and_compared(run, finished: Path) -> None:
    code, output, _ = run(
        "evaluate", finished, "--surrogate", "jensen-shannon", "--surrogate", "jensen-shannon@200"
    )
    assert code == 0
    assert output.count("surrogates/init0_n200: written") == 1
    code, output, _ = run("evaluate", finished, "--surrogate", "head@50")  # one more: the other one stays
    variants = {
        result["variant"] for result in results(finished)["results"] if result["method"] == RRISE.name
    }
    assert variants == {"trainhead_initbase_n200", "trainhead_initbase_n50"}
    scores = {r["score"] for r in results(finished)["results"] if r["method"] == JENSEN_SHANNON.name}
    assert scores == {"additive", "probit", "tapered", "none"}
    assert "Baseline 4" in output
    again = run("evaluate", finished)[1]
    assert again.count("up to date") == 10
    assert "written" not in again


def test_what_could_not_be_had_is_named(run, finished: Path) -> None:
    assert run("evaluate", finished, "--set", "evaluation.failures=[0.005]")[0] == 0
    output = " ".join(run("report", finished)[1].split())
    assert "left out: budgets 1000, 5000, 10000: 500 votes are stored" in output
    assert "left out: RRISE at failure 0.005: it takes 249 calibration inputs, not 150" in output


def test_a_repeated_level_counts_once(run, finished: Path) -> None:
    assert run("evaluate", finished, "--set", "evaluation.failures=[0.1, 0.10, 0.05]")[0] == 0
    assert {result["failure"] for result in results(finished)["results"]} == {"0.01", "0.05", "0.1"}


def test_the_papers_protocol_reports_on_the_calibration_inputs_too(run, finished: Path) -> None:
    code, output, _ = run("evaluate", finished, "--protocol", "paper", "--paper")
    assert code == 0
    assert "protocol paper" in output
    found = results(finished)
    assert (found["test_inputs"], found["protocol"]) == (250, "paper")
    assert TWO_STAGE.name in methods(finished)
    assert {path.name for path in (finished / "votes").iterdir()} >= {"calibration-reported"}
    splits = json.loads((finished / "splits.json").read_text())
    table = pq.read_table(finished / "evaluation" / "certificates.parquet").to_pydict()
    ours = [
        index for index, method in zip(table["index"], table["method"], strict=True) if method == RRISE.name
    ]
    assert ours == sorted(splits["calibration"] + splits["test"])
    assert run("evaluate", finished, "--protocol", "held-out", "--no-paper")[0] == 0
    assert results(finished)["test_inputs"] == 100


def test_runs_are_compared_over_seeds(run, finished: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(finished, tmp_path / "other"))
    found = results(other)
    seeds = {**found["seeds"], "votes.seed": 200}
    (other / "evaluation" / "results.json").write_text(json.dumps({**found, "seed": 200, "seeds": seeds}))
    (other / "evaluation" / STEP_MANIFEST).unlink()  # it has the checksum of the former results
    out = tmp_path / "comparison"
    code, output, _ = run("compare", finished, other, "--out", out)
    assert code == 0
    assert "±" in output
    assert {path.name for path in out.iterdir()} == {"tables", "figures", "comparison.md"}
    assert run("compare", finished, "--out", out)[0] == 0
    code, _, errors = run("compare", finished, finished, "--out", out)
    assert code == 2
    assert "both have seed 100" in errors
    (other / "evaluation" / "results.json").write_text(
        json.dumps({**found, "seed": 300, "settings": {**found["settings"], "surrogate.epochs": 1}})
    )
    code, _, errors = run("compare", finished, other, "--out", out)
    assert code == 2
    assert "surrogate.epochs is 40 in the first and 1 in the second" in " ".join(errors.split())
    code, _, errors = run("compare", tmp_path, "--out", out)
    assert code == 2
    assert "expected an evaluated run" in " ".join(errors.split())
    code, _, errors = run("compare", finished, "--out", finished)
    assert code == 2
    assert "holds other things than a comparison" in " ".join(errors.split())


def test_the_report_is_brought_up_to_date_and_copied(run, quick_demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, output, _ = run("report", quick_demo, "--out", page)
    assert code == 0
    assert "report:" in output
    assert page.read_text() == (quick_demo / "evaluation" / "report.html").read_text()


def test_certificates_are_shown_and_exported(run, quick_demo: Path, tmp_path: Path) -> None:
    code, output, _ = run("certificates", quick_demo, "--where", "method == 'RRISE' and issued")
    assert code == 0
    assert "match method == 'RRISE' and issued" in output
    file = tmp_path / "some.parquet"
    assert run("certificates", quick_demo, "--where", "radius > 0.3", "--out", file)[0] == 0
    assert min(pq.read_table(file).to_pydict()["radius"]) > 0.3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("evaluate", "nowhere"), "expected a run folder"),
        (
            ("evaluate", "RUN", "--set", "votes.seed=3"),
            "expected a setting of the tables evaluation or audit",
        ),
        (
            ("report", "RUN", "--out", "nowhere/page.html"),
            "expected a file name in an existing folder",
        ),
        (("certificates", "RUN", "--where", "label == '3'"), "write label == 3"),
        (("evaluate", "RUN", "--surrogate", "hed"), "did you mean head?"),
        (("evaluate", "RUN", "--surrogate", "head@0"), "expected a number of votes from 1 to"),
        (("evaluate", "RUN", "--protocol", "papr"), "did you mean paper?"),
        (
            ("evaluate", "RUN", "--set", "evaluation.budgets=[0]"),
            "each of evaluation.budgets to be at least 1, got 0",
        ),
        (("evaluate", "RUN", "--set", "evaluation.failures=[2.0]"), "failure"),
        (
            ("evaluate", "RUN", "--set", "evaluation.thresholds=[-1]"),
            "each of evaluation.thresholds to be at least 0, got -1",
        ),
        (("certificates", "RUN", "--where", "radios > 1"), "did you mean radius?"),
        (("certificates", "RUN", "--out", "some.xlsx"), ".csv"),
        (("certificates", "nowhere"), "nowhere"),
    ],
)
def test_wrong_arguments_are_sentences(run, quick_demo: Path, arguments: tuple, sentence: str) -> None:
    code, _, errors = run(*(quick_demo if argument == "RUN" else argument for argument in arguments))
    assert code == 2
    assert sentence in " ".join(errors.split())
