"""Commands name the file for which there is no space, and leave nothing half-written."""

import re
from pathlib import Path

import pytest

from tests.small_disk import fill, small_disk


def test_a_run_names_the_file(run, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "32k") as disk:
        arguments = ("digits", "--profile", "quick", "--set", "base.epochs=1", "--out", disk / "run")
        code, _, errors = run("train-base", *arguments, "--device", "cpu")
        assert code == 2
        assert re.search(rf"\S+ could not be written to {disk}/run\S*: No space left on device", errors), (
            errors
        )
        assert not (disk / "run" / "base").exists()


def test_an_export_names_the_file(run, quick_demo: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    with small_disk(tmp_path / "disk", "32k") as disk:
        code, _, errors = run("export", quick_demo / "certifier", "--out", disk / "exported")
        assert code == 2
        assert (
            f"certifier.onnx could not be written to {disk / 'exported'}: No space left on device" in errors
        )
        assert not list(disk.iterdir())


def test_a_run_folder_that_cannot_be_made_is_named(run, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "32k") as disk:
        fill(disk)
        code, _, errors = run("train-base", "digits", "--profile", "quick", "--out", disk / "run")
        assert code == 2
        assert str(disk / "run") in errors
        assert "No space left on device" in errors
