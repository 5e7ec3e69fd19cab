"""`rrise init` writes a recipe once, and says what is next."""

from pathlib import Path

import pytest

from rrise.runs.recipe import read_recipe
from tests.runs.test_starter import vectors


def test_the_recipe_is_named_after_the_data_and_never_overwritten(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vectors(tmp_path)
    code, output, _ = run("init", "table.npz")
    assert code == 0
    assert "200 inputs of shape 5 to train, 300 to calibrate and test" in output
    assert "rrise run table.toml --profile quick" in output
    assert read_recipe("table.toml").data.source == "npz:table.npz"
    code, _, errors = run("init", "table.npz")
    assert (code, "table.toml exists: choose another name with --out" in errors) == (2, True)
    assert run("init", "table.npz", "--out", "other.toml")[0] == 0


def test_data_that_is_not_there_is_named(run) -> None:
    code, _, errors = run("init", "no-such-folder")
    assert code == 2
    assert "got 'no-such-folder'" in errors
