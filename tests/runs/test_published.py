import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from rrise.data.catalogue import load_dataset
from rrise.errors import FolderError, MismatchError, RriseError, SettingError
from rrise.evaluation.measure.evidence_files import read_evidence, write_evidence
from rrise.models.folder import load_model
from rrise.models.inference import top_prediction
from rrise.runs.pipeline import run_recipe
from rrise.runs.published_results import rebuild
from rrise.runs.publishing import publish
from rrise.runs.recipe import read_recipe


@pytest.fixture(scope="module")
def by_the_paper(quick_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quick run, evaluated by the paper's protocol."""
    folder = Path(shutil.copytree(quick_demo, tmp_path_factory.mktemp("paper") / "demo"))
    run_recipe(folder, read_recipe("digits", "quick", {"evaluation.protocol": "paper"}), Console(quiet=True))
    return folder


@pytest.fixture(scope="module")
def published(by_the_paper: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("published") / "digits"
    publish([by_the_paper], out)
    return out


def stored_results(run: Path) -> dict:
    return json.loads((run / "evaluation" / "results.json").read_text())


def test_the_stored_evidence_gives_every_number_again(quick_demo: Path, by_the_paper: Path) -> None:
    for run in (quick_demo, by_the_paper):
        evidence = read_evidence(run / "evaluation" / "evidence")
        assert evidence.results(evidence.outcomes()) == stored_results(run)


def test_without_the_calibration_inputs_it_is_the_held_out_evaluation(
    quick_demo: Path, by_the_paper: Path
) -> None:
    evidence = read_evidence(by_the_paper / "evaluation" / "evidence").held_out()
    found, wanted = evidence.results(evidence.outcomes()), stored_results(quick_demo)
    for results in (found, wanted):
        for result in results["results"]:
            del result["metrics"]["seconds"]
    assert found["results"] == wanted["results"]
    assert found["protocol"] == wanted["protocol"] == "held-out"


def test_bounds_are_those_of_the_methods_rounded_down(quick_demo: Path) -> None:
    evidence = read_evidence(quick_demo / "evaluation" / "evidence")
    for outcome in evidence.voting:
        bound = outcome.certificates.lower_bound
        assert np.array_equal(bound, bound.astype(np.float32))
        assert np.array_equal(outcome.certificates.issued, bound > 0.5)


@pytest.mark.parametrize("name", ["reported.parquet", "calibration.parquet", "evidence.json"])
def test_changed_evidence_is_refused(published: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(published, tmp_path / "copy"))
    file = copy / next(copy.glob("seed-*")).name / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(FolderError, match=name):
        rebuild(copy)


@pytest.mark.figures
def test_everything_is_made_again_from_the_evidence_alone(published: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    rebuild(published, again)
    texts = {path.relative_to(again) for path in again.rglob("*") if path.suffix in (".csv", ".md", ".json")}
    assert {Path("metrics.json"), Path("steps.csv"), Path("held-out/tables/main_compute.md")} <= texts
    for name in texts:
        assert (again / name).read_text() == (published / name).read_text()
    figures = sorted(path.name for path in (again / "held-out" / "figures").iterdir())
    assert figures == sorted(path.name for path in (published / "held-out" / "figures").iterdir())
    with Image.open(again / "held-out" / "figures" / "calibration.png") as picture:
        assert min(picture.size) > 300


def test_a_folder_of_published_results_is_made_again_as_a_whole(published: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        shutil.copytree(published, tmp_path / "results" / name)
    (tmp_path / "results" / "README.md").write_text("mine")
    told: list[str] = []
    rebuild(tmp_path / "results", tmp_path / "again", on_made=told.append)
    assert [Path(line.split(": ")[1]).name for line in told] == ["first", "second"]
    tables = Path("held-out") / "tables" / "main_compute.md"
    for name in ("first", "second"):
        assert (tmp_path / "again" / name / tables).read_text() == (published / tables).read_text()


def test_a_run_folder_is_not_taken_for_published_results(quick_demo: Path, tmp_path: Path) -> None:
    for folder in (quick_demo, quick_demo / "evaluation", tmp_path / "missing"):
        with pytest.raises(FolderError, match="expected published results"):
            rebuild(folder)


def test_both_protocols_are_there_where_the_run_has_both(
    published: Path, quick_demo: Path, tmp_path: Path
) -> None:
    assert list(json.loads((published / "metrics.json").read_text())) == ["held-out", "paper"]
    publish([quick_demo], tmp_path / "one")
    assert list(json.loads((tmp_path / "one" / "metrics.json").read_text())) == ["held-out"]


def test_steps_tell_passes_and_times(published: Path) -> None:
    rows = [line.split(",") for line in (published / "steps.csv").read_text().splitlines()]
    passes = {row[1]: row[3] for row in rows[1:]}
    assert passes["votes/train"] == "60000"
    assert passes["base"] == ""


def test_runs_of_one_seed_and_foreign_folders_are_refused(by_the_paper: Path, tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match=r"have votes\.seed 100 and surrogate\.seed 100: publish each"):
        publish([by_the_paper, by_the_paper / ".." / "demo"], tmp_path / "twice")
    assert not (tmp_path / "twice").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(FolderError, match="holds files other than published results"):
        publish([by_the_paper], tmp_path / "other")
    with pytest.raises(FolderError, match="expected published results"):
        rebuild(tmp_path / "other")


def test_surrogates_of_several_seeds_may_share_their_votes(by_the_paper: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(by_the_paper, tmp_path / "other"))
    changes = {"evaluation.protocol": "paper", "surrogate.seed": 200}
    run_recipe(other, read_recipe("digits", "quick", changes), Console(quiet=True))
    out = tmp_path / "published"
    publish([by_the_paper, other], out)
    assert sorted(path.name for path in out.glob("seed-*")) == ["seed-100", "seed-100-200"]
    metrics = json.loads((out / "metrics.json").read_text())["held-out"]
    spread = {(one["method"], one["score"]): one["std"]["average_certified_radius"] for one in metrics}
    assert spread["RRISE", "tapered"] > 0
    assert spread["Monte Carlo, two-stage", ""] == 0
    shutil.rmtree(out)
    publish([other], out)
    assert [path.name for path in out.glob("seed-*")] == ["seed-100"]


def test_a_recipe_that_changed_after_the_evaluation_is_refused(by_the_paper: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(by_the_paper, tmp_path / "run"))
    recipe = run / "recipe.toml"
    changed = re.sub(r"(\[surrogate\][^\[]*?epochs = )\d+", r"\g<1>7", recipe.read_text())
    assert changed != recipe.read_text()
    recipe.write_text(changed)
    with pytest.raises(MismatchError, match=r"evaluated with surrogate\.epochs \d+, .* now has 7"):
        publish([run], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_published_is_named(by_the_paper: Path, published: Path, tmp_path: Path) -> None:
    started = Path(shutil.copytree(by_the_paper, tmp_path / "run"))
    shutil.rmtree(started / "evaluation")
    for runs, sentence in (
        ([started], "not evaluated yet"),
        ([tmp_path / "nowhere"], "expected a run folder"),
        ([by_the_paper, by_the_paper], "got one of them twice"),
    ):
        with pytest.raises(RriseError, match=sentence):
            publish(runs, tmp_path / "out")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="is a file"):
        publish([by_the_paper], tmp_path / "file")


def test_no_seed_of_an_earlier_publication_is_lost(
    by_the_paper: Path, published: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(published, tmp_path / "out"))
    (out / "seed-100").rename(out / "seed-200")
    with pytest.raises(FolderError, match="seed-200, but none of the runs does"):
        publish([by_the_paper], out)
    assert (out / "seed-200" / "evidence.json").is_file()
    publish([by_the_paper], Path(shutil.copytree(published, tmp_path / "again")))


def test_nothing_is_rebuilt_where_one_folder_is_damaged_or_in_the_way(
    published: Path, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        shutil.copytree(published, tmp_path / "results" / name)
    with pytest.raises(FolderError, match="holds files other than published results"):
        rebuild(tmp_path / "results" / "first", tmp_path / "results" / "first" / "seed-100")
    (tmp_path / "results" / "second" / "seed-100" / "reported.parquet").write_bytes(b"damaged")
    with pytest.raises(FolderError, match=r"reported\.parquet"):
        rebuild(tmp_path / "results", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_evidence_is_written_the_same_each_time(by_the_paper: Path, tmp_path: Path) -> None:
    source = by_the_paper / "evaluation" / "evidence"
    write_evidence(tmp_path, read_evidence(source))
    for file in source.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_predictions_of_heads_are_those_of_their_whole_networks(quick_demo: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(quick_demo, tmp_path / "demo"))
    run_recipe(
        folder,
        read_recipe("digits", "quick", {"evaluation.surrogates": ["head@10", "head@20"]}),
        Console(quiet=True),
    )
    splits = json.loads((folder / "splits.json").read_text())
    evidence = read_evidence(folder / "evaluation" / "evidence")
    images = load_dataset("digits").test.inputs(np.array(splits["calibration"]))
    assert [one.budget for one in evidence.surrogates[1:]] == [10, 20]
    for one in evidence.surrogates[1:]:
        label, top = top_prediction(load_model(folder / "surrogates" / one.variant).eval(), images, 512)
        assert np.array_equal(label, one.calibration.label)
        np.testing.assert_allclose(top, one.calibration.top_probability, rtol=1e-5)
    first, second = (one.calibration.top_probability for one in evidence.surrogates[1:])
    assert not np.allclose(first, second, rtol=1e-3)


def test_the_surrogate_can_be_trained_on_fewer_votes_than_are_collected(
    quick_demo: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(quick_demo, tmp_path / "demo"))
    before = read_evidence(folder / "evaluation" / "evidence").surrogates[0]
    stored = (folder / "votes" / "train" / "manifest.json").read_text()
    changes = {"surrogate.votes": 10, "evaluation.surrogates": ["head", f"head@{before.budget}"]}
    run_recipe(folder, read_recipe("digits", "quick", changes), Console(quiet=True))
    assert (folder / "votes" / "train" / "manifest.json").read_text() == stored
    evidence = read_evidence(folder / "evaluation" / "evidence")
    assert [one.budget for one in evidence.surrogates] == [10, before.budget]
    few, all_votes = evidence.surrogates
    assert few.offline.targets == 10 * few.offline.training_inputs
    assert few.variant == evidence.about["certifier"][1] == "trainhead_initbase_n10"
    assert before.variant == all_votes.variant
    np.testing.assert_array_equal(before.test.top_probability, all_votes.test.top_probability)
    assert not np.allclose(few.test.top_probability, all_votes.test.top_probability, rtol=1e-3)
    with pytest.raises(SettingError, match=r"surrogate.votes to be at most votes.train = 16, got 17"):
        read_recipe("digits", "quick", {"votes.train": 16, "surrogate.votes": 17})
