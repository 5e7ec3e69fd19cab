"""`rrise export`: the data of a run is found; otherwise it says what to pass."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.cli.export import export
from rrise.deployment.loading import load_deployed
from rrise.runs.data import RunData
from rrise.runs.recipe import read_recipe

app = typer.Typer()
app.command()(export)


def run(*arguments: object) -> str:
    """Run the command, and return what it says; its errors are raised."""
    result = CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_certifier_in_a_run_finds_its_data_and_is_written_beside_it(quick_demo: Path) -> None:
    said = run(quick_demo / "certifier", "--int8")
    folder = quick_demo / "certifier-onnxruntime-int8"
    assert "calibrated in onnxruntime-int8" in said
    assert "the mean radius is" in said
    loaded = load_deployed(folder)
    certifier = rrise.load_certifier(quick_demo / "certifier")
    assert loaded.calibration.size == certifier.calibration.size
    assert "128 inputs apart from the calibration inputs" in loaded.guarantee.words.assumptions[-1]
    shutil.rmtree(folder)


def test_a_certifier_alone_needs_its_inputs_and_votes(quick_demo: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(quick_demo / "certifier", tmp_path / "alone"))
    with pytest.raises(ValueError, match="pass --inputs FILE and --votes FOLDER"):
        run(alone)
    with pytest.raises(ValueError, match="expected both --inputs and --votes"):
        run(alone, "--votes", quick_demo / "votes" / "calibration")
    data = RunData(read_recipe(quick_demo / "recipe.toml").data)
    np.save(tmp_path / "inputs.npy", data.values("calibration")[:])
    votes = quick_demo / "votes" / "calibration"
    run(alone, "--inputs", tmp_path / "inputs.npy", "--votes", votes, "--out", tmp_path / "out")
    test = data.values("test")[:200]
    here, there = rrise.load_certifier(alone)(test), load_deployed(tmp_path / "out").certify(test)
    np.testing.assert_array_equal(there.label, here.label)
    np.testing.assert_allclose(there.radius, here.radius, atol=1e-4)
    assert (there.radius <= here.radius + 1e-5).all()


def test_a_certifier_that_was_saved_needs_nothing_else(
    certifier: SurrogateCertifier, uniform: np.ndarray, tmp_path: Path
) -> None:
    certifier.save(tmp_path / "saved")
    run(tmp_path / "saved", "--int8", "--out", tmp_path / "int8")
    run(tmp_path / "saved", "--out", tmp_path / "out")
    here, there = certifier(uniform[500:]), load_deployed(tmp_path / "out").certify(uniform[500:])
    np.testing.assert_allclose(there.radius, here.radius, atol=1e-4)
    certifier.save(tmp_path / "without", inputs=False)
    with pytest.raises(ValueError, match=r"holds no held-out.safetensors and is not in a run folder"):
        run(tmp_path / "without")


def test_inputs_of_another_certifier_are_refused(certifier: SurrogateCertifier, tmp_path: Path) -> None:
    assert certifier.held_out is not None
    certifier.save(tmp_path / "saved")
    replace(certifier.held_out, inputs=certifier.held_out.inputs[::-1].copy()).save(tmp_path / "saved")
    with pytest.raises(ValueError, match="expected the inputs and votes that the certifier was calibrated"):
        run(tmp_path / "saved")


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected the format onnx, got 'pickle'"):
        run(tmp_path, "--format", "pickle")
