import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import rrise
from rrise.files import TEMPORARY
from rrise.runs.demo import run_demo
from rrise.runs.settings import DemoSettings
from rrise.runs.steps import open_run, run_step


def test_writes_the_run_folder_of_the_design(quick_demo: Path) -> None:
    names = {path.name for path in quick_demo.iterdir() if not path.name.startswith(".")}
    assert names == {
        "recipe.toml",
        "splits.json",
        "base",
        "votes",
        "surrogate",
        "certifier",
        "evaluation",
    }
    assert {path.name for path in (quick_demo / "votes").iterdir()} == {
        "train",
        "calibration",
        "test",
        "test-selection",
    }
    recipe = tomllib.loads((quick_demo / "recipe.toml").read_text())
    assert recipe["sigma"] == 0.25
    assert recipe["strategy"] == "head"


def test_splits_never_overlap(quick_demo: Path) -> None:
    splits = json.loads((quick_demo / "splits.json").read_text())
    assert set(splits) == {"train", "validation", "calibration", "test"}
    together = [index for part in splits.values() for index in part]
    assert len(set(together)) == len(together)


def test_is_worth_looking_at(quick_demo: Path) -> None:
    metrics = json.loads((quick_demo / "evaluation" / "metrics.json").read_text())
    assert metrics["monte_carlo"]["accuracy"] > 0.75
    assert metrics["surrogate"]["certified_accuracy"] > 0.5
    assert metrics["surrogate"]["average_certified_radius"] > 0.1
    assert metrics["surrogate"]["passes_per_input"] == 1
    assert metrics["break_even_queries"] > 0


def test_certificates_on_disk_are_those_of_the_loaded_certifier(quick_demo: Path) -> None:
    from rrise.data.catalogue import load_digits

    table = pq.read_table(quick_demo / "evaluation" / "certificates.parquet").to_pydict()
    certificates = rrise.load_certifier(quick_demo / "certifier")(
        load_digits().inputs(np.array(table["index"]))
    )
    np.testing.assert_array_equal(certificates.label, table["surrogate_label"])
    np.testing.assert_array_equal(certificates.radius, table["surrogate_radius"])
    np.testing.assert_array_equal(certificates.issued, table["surrogate_issued"])


def test_a_second_run_does_nothing_again(quick_demo: Path) -> None:
    def stamps() -> dict[str, int]:
        files = [path for path in quick_demo.rglob("*") if path.is_file() and path.parent != quick_demo]
        return {str(path): path.stat().st_mtime_ns for path in files}

    before = stamps()
    console = Console(file=io.StringIO())
    run_demo(quick_demo, DemoSettings.quick(), console)
    assert stamps() == before
    assert console.file.getvalue().count("up to date") == 8  # type: ignore[attr-defined]


def test_a_changed_level_redoes_only_what_depends_on_it(quick_demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(quick_demo, folder)
    console = Console(file=io.StringIO(), width=200)
    evaluation = run_demo(folder, DemoSettings.quick(failure=0.2), console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "surrogate: up to date" in said
    assert "certifier: written" in said
    assert evaluation.surrogate.guarantee.failure == "0.2"
    run_demo(folder, DemoSettings.quick(failure=0.2, sigma=0.3), console)
    assert "votes/train: collecting again" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_damaged_step_is_done_again(quick_demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(quick_demo, folder)
    before = rrise.load_certifier(folder / "certifier").calibration
    (folder / "certifier" / "surrogate.safetensors").write_bytes(b"damaged")
    run_demo(folder, DemoSettings.quick(), Console(quiet=True))
    assert rrise.load_certifier(folder / "certifier").calibration == before


def test_training_all_weights_and_the_papers_score_work_too(tmp_path: Path) -> None:
    settings = DemoSettings.quick(strategy="all", score="additive", base_epochs=4, surrogate_epochs=5)
    evaluation = run_demo(tmp_path / "demo", settings, Console(quiet=True))
    assert evaluation.surrogate.guarantee.numbers["score"] == "additive"


def test_interrupted_it_leaves_a_run_that_is_continued(quick_demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
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
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from here" in errors
    assert "Traceback" not in errors
    assert not list(folder.rglob(f"{TEMPORARY}*"))
    assert not (folder / "evaluation").exists()
    run_demo(folder, DemoSettings.quick(), Console(quiet=True))
    name = Path("evaluation") / "metrics.json"
    assert (folder / name).read_text() == (quick_demo / name).read_text()


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
    with pytest.raises(ValueError, match="holds other things than a run"), open_run(tmp_path, fresh=True):
        pass
    with pytest.raises(ValueError, match="is a file"), open_run(tmp_path / "notes.txt"):
        pass
    assert (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize(
    "name", ["votes/calibration/manifest.json", "base/manifest.json", "surrogate/manifest.json"]
)
@pytest.mark.parametrize("content", ["{", "{}", None])
def test_a_damaged_or_lost_manifest_means_doing_it_again(
    quick_demo: Path, tmp_path: Path, name: str, content: str | None
) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(quick_demo, folder)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    run_demo(folder, DemoSettings.quick(), Console(quiet=True))
    metrics = Path("evaluation") / "metrics.json"
    assert (folder / metrics).read_text() == (quick_demo / metrics).read_text()


def test_votes_of_another_sigma_are_never_taken_over(quick_demo: Path, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(quick_demo, folder)
    (folder / "votes" / "calibration" / "manifest.json").unlink()
    console = Console(file=io.StringIO(), width=200)
    run_demo(folder, DemoSettings.quick(sigma=0.5), console)
    assert "votes/calibration: up to date" not in console.file.getvalue()  # type: ignore[attr-defined]
    fresh = run_demo(tmp_path / "fresh", DemoSettings.quick(sigma=0.5), Console(quiet=True))
    metrics = json.loads((folder / "evaluation" / "metrics.json").read_text())
    assert metrics == fresh.metrics()


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
