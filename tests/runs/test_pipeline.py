import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from rich.console import Console

import rrise
from rrise.certifiers.methods import RRISE, TWO_STAGE
from rrise.data.catalogue import load_dataset
from rrise.errors import RriseError
from rrise.evaluation.measure.results import Evaluation
from rrise.files import TEMPORARY
from rrise.models.folder import load_model
from rrise.runs import pipeline, run
from rrise.runs.data import RunData
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import read_recipe
from rrise.runs.steps import open_run, run_step
from tests.forking import with_torch

RESULTS = Path("evaluation") / "results.json"


def run_quick(folder: Path, console: Console | None = None, **changes: Any) -> Evaluation:
    """Run the quick digits with changes such as `votes__sigma=0.5`."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    evaluation = run_recipe(folder, read_recipe("digits", "quick", named), console or Console(quiet=True))
    assert evaluation is not None
    return evaluation


def listening() -> Console:
    return Console(file=io.StringIO(), width=200)


def said(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined]


def numbers(folder: Path) -> dict[str, Any]:
    """Everything an evaluation found, but for the time it took and the name of the folder."""
    found = json.loads((folder / RESULTS).read_text())
    for result in found["results"]:
        del result["metrics"]["seconds"]
    return {name: value for name, value in found.items() if name not in ("run", "evaluated", "pass_times")}


@pytest.fixture
def copied(quick_demo: Path, tmp_path: Path) -> Path:
    """A finished run of its own; new evaluations have blank figures."""
    return Path(shutil.copytree(quick_demo, tmp_path / "demo"))


def with_its_base_alone(finished: Path, folder: Path) -> Path:
    """Copy a run in which nothing but the base classifier is made."""
    folder.mkdir()
    for name in ("recipe.toml", "splits.json", "base"):
        copy = shutil.copytree if (finished / name).is_dir() else shutil.copy
        copy(finished / name, folder / name)
    return folder


def test_writes_the_run_folder_of_the_design(quick_demo: Path) -> None:
    names = {path.name for path in quick_demo.iterdir() if not path.name.startswith(".")}
    steps = {"base", "votes", "surrogate", "certifier", "predictions", "evaluation"}
    assert names == {"recipe.toml", "splits.json", "journal.jsonl", *steps}
    votes = {path.name for path in (quick_demo / "votes").iterdir()}
    assert votes == {"train", "calibration", "test", "test-selection"}


def test_splits_never_overlap(quick_demo: Path) -> None:
    splits = json.loads((quick_demo / "splits.json").read_text())
    assert splits["protocol"] == "held-out"
    for parts, sizes in (("train", "validation"), (300, 50)), (("calibration", "test"), (150, 100)):
        together = [index for part in parts for index in splits[part]]
        assert len(set(together)) == len(together) == sum(sizes)


def test_inputs_that_select_the_surrogates_epoch_are_recorded(quick_demo: Path) -> None:
    held_out = json.loads((quick_demo / "surrogate" / "target_validation.json").read_text())["held_out"]
    assert len(set(held_out)) == 30
    assert set(held_out) < set(range(300))


def test_the_surrogate_is_a_model_folder(quick_demo: Path) -> None:
    surrogate, base = (load_model(quick_demo / name) for name in ("surrogate", "base"))
    images = load_dataset("digits").test.inputs(np.arange(8))
    assert torch.equal(surrogate.features(images), base.features(images))
    assert not torch.equal(surrogate(images), base(images))


def test_is_worth_looking_at(quick_demo: Path) -> None:
    evaluation = Evaluation(json.loads((quick_demo / RESULTS).read_text()))
    assert evaluation.metrics(TWO_STAGE.name)["accuracy"] > 0.75
    assert evaluation.own["certified_accuracy"] > 0.5
    assert evaluation.own["average_certified_radius"] > 0.1
    assert evaluation.own["mean_passes"] == 1
    assert evaluation.own["break_even"][f"{TWO_STAGE.name} n500"] > 0


def test_certificates_on_disk_are_those_of_the_loaded_certifier(quick_demo: Path) -> None:
    stored = pq.read_table(quick_demo / "evaluation" / "certificates.parquet").to_pylist()
    rows = [row for row in stored if row["method"] == RRISE.name]
    table = {name: [row[name] for row in rows] for name in rows[0]}
    certificates = rrise.load_certifier(quick_demo / "certifier")(
        load_dataset("digits").test.inputs(np.array(table["index"]))
    )
    np.testing.assert_array_equal(certificates.label, table["label"])
    np.testing.assert_array_equal(certificates.radius, table["radius"])
    np.testing.assert_array_equal(certificates.issued, table["issued"])


def test_a_second_run_does_nothing_again(quick_demo: Path) -> None:
    def stamps() -> dict[str, int]:
        files = [path for path in quick_demo.rglob("*") if path.is_file() and path.parent != quick_demo]
        return {str(path): path.stat().st_mtime_ns for path in files}

    before = stamps()
    console = listening()
    evaluation = run_quick(quick_demo, console)
    assert stamps() == before
    assert said(console).count("up to date") == 8
    assert evaluation.results == json.loads((quick_demo / RESULTS).read_text())


@pytest.mark.parametrize(
    "changes",
    [
        {"base__architecture": "no_such_module:net"},
        {"base__options": {"classes": 10, "breadth": 3}},
        {"base__weights": "no-such-file.safetensors"},
        {"surrogate__architecture": "no_such_module:net"},
    ],
)
def test_what_is_refused_leaves_the_recipe_of_a_finished_run(copied: Path, changes: dict[str, Any]) -> None:
    before = (copied / "recipe.toml").read_text()
    with pytest.raises(RriseError):
        run_quick(copied, **changes)
    assert (copied / "recipe.toml").read_text() == before


def test_classes_may_be_renamed_to_anything(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ("T-shirt/top", "../up", "a\0b", "x" * 300, "\U0001f600" * 80, "C:\\", "line\nbreak", "", "é|*")
    names = (*odd, "<script>alert(1)</script>")
    monkeypatch.setattr(RunData, "class_names", names)
    run_quick(copied)
    assert rrise.load_certifier(copied / "certifier").class_names == names
    samples = [path.name for path in (copied / "evaluation" / "samples").iterdir()]
    assert samples
    assert all(re.fullmatch(r"\d{5}-[\w .-]{0,50}\.png", name) for name in samples)
    page = (copied / "evaluation" / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page


def test_features_and_the_epochs_after_them_have_a_bar_each(copied: Path) -> None:
    console = listening()
    run_quick(copied, console, surrogate__epochs=2, evaluation__surrogates=["head@20"])
    bars = [line.split(" ━")[0].rstrip() for line in said(console).splitlines() if "━" in line]
    assert bars[:3] == ["features for heads", "training the surrogate", "training trainhead_initbase_n20"]
    assert re.search(r"features for heads .* 300/300 inputs", said(console))


def test_a_changed_level_redoes_only_what_depends_on_it(copied: Path) -> None:
    console = listening()
    evaluation = run_quick(copied, console, calibration__failure=0.2)
    assert "surrogate: up to date" in said(console)
    assert "certifier: written" in said(console)
    assert evaluation.results["main_failure"] == "0.2"
    other_sigma = read_recipe("digits", "quick", {"calibration.failure": 0.2, "votes.sigma": 0.3})
    run_recipe(copied, other_sigma, console, until="surrogate")
    assert "votes/train: collecting again" in said(console)


def test_how_a_step_computes_is_no_reason_to_do_it_again(copied: Path) -> None:
    console = listening()
    run_quick(copied, console, base__compile=False, surrogate__compile=False)
    assert "base: up to date" in said(console)
    assert "surrogate: up to date" in said(console)


def test_a_certifier_that_issues_little_is_told_of_every_time(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rrise.certifiers.advice.LITTLE", 1.1)
    for failure in (0.2, 0.2):
        console = listening()
        run_quick(copied, console, calibration__failure=failure)
        assert said(console).count("warning: the certifier issues a radius for") == 1


def test_a_damaged_step_is_done_again(copied: Path) -> None:
    before, console = rrise.load_certifier(copied / "certifier").calibration, listening()
    (copied / "certifier" / "surrogate.safetensors").write_bytes(b"damaged")
    run_quick(copied, console)
    assert "certifier: once again, because surrogate.safetensors is damaged or edited" in said(console)
    assert said(console).count("once again") == 1
    assert rrise.load_certifier(copied / "certifier").calibration == before


def test_it_stops_where_it_is_told_to(copied: Path, tmp_path: Path) -> None:
    few, quiet = read_recipe("digits", "quick", {"base.epochs": 2, "votes.train": 20}), Console(quiet=True)
    folder = tmp_path / "part"
    assert run_recipe(folder, few, quiet, until="base") is None
    written = {".lock", "recipe.toml", "splits.json", "journal.jsonl", "base"}
    assert {path.name for path in folder.iterdir()} == written
    assert run_recipe(folder, few, quiet, until="surrogate") is None
    assert {path.name for path in (folder / "votes").iterdir()} == {"train"}
    assert (folder / "surrogate" / "model.json").exists()
    assert not (folder / "certifier").exists()
    assert run_recipe(folder, few, quiet, until="votes") is None
    assert {path.name for path in (folder / "votes").iterdir()} == {
        "train",
        "calibration",
        "test",
        "test-selection",
    }
    assert not (folder / "certifier").exists()
    with pytest.raises(ValueError, match="expected until out of base, votes, surrogate; got 'vote'"):
        run_recipe(folder, few, quiet, until="vote")


def run_until_killed(folder: Path, function: str) -> None:
    """Run the quick digits, and be killed in the ninth epoch of a training."""
    run.Checkpoint = partial(run.Checkpoint, seconds=0)  # type: ignore[assignment, misc]
    train = getattr(pipeline, function)

    def killed(*arguments: Any, on_epoch: Any, **settings: Any) -> Any:
        def watch(epoch: int, _: Any) -> None:
            if epoch == 8:
                os.kill(os.getpid(), signal.SIGKILL)

        return train(*arguments, on_epoch=watch, **settings)

    setattr(pipeline, function, killed)
    run_quick(folder)


@pytest.mark.parametrize(
    ("step", "function"),
    [
        ("base", "train_base"),
        pytest.param("surrogate", "train_surrogate", marks=pytest.mark.slow),
    ],
)
def test_killed_in_a_training_it_goes_on_at_the_epoch(
    quick_demo: Path, copied: Path, step: str, function: str
) -> None:
    shutil.rmtree(copied / step)
    killed = with_torch(run_until_killed, copied, function)
    killed.join(120)
    assert killed.exitcode == -signal.SIGKILL
    assert not (copied / step).exists()
    assert list((copied / "checkpoints" / step).iterdir())
    console = listening()
    run_quick(copied, console)
    weights = Path(step) / "weights.safetensors"
    assert (copied / weights).read_bytes() == (quick_demo / weights).read_bytes()
    assert numbers(copied) == numbers(quick_demo)
    assert not (copied / "checkpoints" / step).exists()


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interrupted_it_leaves_a_run_that_is_continued(
    quick_demo: Path, tmp_path: Path, how: signal.Signals
) -> None:
    folder = with_its_base_alone(quick_demo, tmp_path / "demo")
    command = [sys.executable, "-m", "rrise", "demo", "--quick", "--out", str(folder)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a background job ignores the signal, and its children with it
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    deadline = time.monotonic() + 120
    while not (folder / "votes" / "train" / "manifest.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + how
    assert "run the same command to resume" in errors
    assert "Traceback" not in errors
    assert not list(folder.rglob(f"{TEMPORARY}*"))
    assert not (folder / "evaluation").exists()
    run_quick(folder)
    assert numbers(folder) == numbers(quick_demo)


def test_what_an_interrupt_leaves_half_done_is_cleared(tmp_path: Path) -> None:
    claim = tmp_path / "votes" / "train" / f"{TEMPORARY}shard-00000.parquet.claim"

    def interrupted() -> None:
        claim.parent.mkdir(parents=True)
        claim.touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_run(tmp_path):
        interrupted()
    assert not list(tmp_path.rglob(f"{TEMPORARY}*"))


def test_leftovers_of_a_killed_process_are_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name in (".env", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "recipe.toml").write_text("# rrise demo")
    for name in (f"{TEMPORARY}a", ".git", "votes/train"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "votes" / "train" / f"{TEMPORARY}b").touch()
    with open_run(tmp_path):
        left = {path.name for path in tmp_path.rglob("*")}
        assert left == {".lock", "recipe.toml", ".env", "notes.txt", ".git", "votes", "train"}
    with open_run(tmp_path, fresh=True):
        assert {path.name for path in tmp_path.iterdir()} == {".lock", ".env", "notes.txt", ".git"}


def test_one_process_at_a_time_and_no_foreign_folder(tmp_path: Path) -> None:
    with (
        open_run(tmp_path / "run"),
        pytest.raises(ValueError, match="another process is working in"),
        open_run(tmp_path / "run"),
    ):
        pass
    (tmp_path / "notes.txt").touch()
    (tmp_path / "recipe.toml").write_text("flour = 500")
    (tmp_path / ".lock").touch()
    with pytest.raises(ValueError, match="holds files that are not of a run"), open_run(tmp_path, fresh=True):
        pass
    with pytest.raises(ValueError, match="is a file"), open_run(tmp_path / "notes.txt"):
        pass
    assert (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize(
    "name", ["votes/calibration/manifest.json", "base/manifest.json", "surrogate/manifest.json"]
)
@pytest.mark.parametrize("content", ["{", "{}", None])
def test_a_damaged_or_lost_manifest_means_doing_it_again(
    quick_demo: Path, copied: Path, name: str, content: str | None
) -> None:
    if content is None:
        (copied / name).unlink()
    else:
        (copied / name).write_text(content)
    run_quick(copied)
    assert numbers(copied) == numbers(quick_demo)


def test_votes_of_another_sigma_are_never_taken_over(copied: Path, tmp_path: Path) -> None:
    (copied / "votes" / "calibration" / "manifest.json").unlink()
    console = listening()
    run_quick(copied, console, votes__sigma=0.5)
    assert "votes/calibration: up to date" not in said(console)
    fresh = with_its_base_alone(copied, tmp_path / "fresh")
    run_quick(fresh, votes__sigma=0.5)
    assert numbers(copied) == numbers(fresh)


def test_a_failing_step_leaves_the_former_one(tmp_path: Path) -> None:
    def good(folder: Path) -> dict:
        (folder / "file").write_text("good")
        return {"value": 1}

    def bad(folder: Path) -> dict:
        (folder / "file").write_text("bad")
        raise RuntimeError

    step = tmp_path / "step"
    assert run_step(step, {"a": 1}, good) == ({"value": 1}, True)
    assert run_step(step, {"a": 1}, bad) == ({"value": 1}, False)
    with pytest.raises(RuntimeError):
        run_step(step, {"a": 2}, bad)
    assert (step / "file").read_text() == "good"
    assert [path.name for path in tmp_path.iterdir()] == ["step"]


def test_a_step_that_is_done_again_says_why(tmp_path: Path) -> None:
    step, reasons = tmp_path / "step", []

    def make(folder: Path) -> dict:
        (folder / "file").write_text("good")
        return {}

    def reason(inputs: dict) -> str | None:
        reasons.clear()
        run_step(step, inputs, make, reasons.append)
        return reasons[0] if reasons else None

    assert reason({"a": 1, "b": 1}) is None
    assert reason({"a": 1, "b": 1}) is None
    assert reason({"a": 2, "b": 1, "c": 0}) == "it was made from other inputs (a, c)"
    (step / "file").write_text("bad")
    assert reason({"a": 2, "b": 1, "c": 0}) == "file is damaged or edited"
    (step / "file").unlink()
    assert reason({"a": 2, "b": 1, "c": 0}) == "file is missing"
    (step / "manifest.json").write_text("{}")
    assert reason({"a": 2, "b": 1, "c": 0}) == "its manifest.json is missing or damaged"
    assert reason({"a": 2, "b": 1, "c": 0}) is None
