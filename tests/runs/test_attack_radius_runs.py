"""Runs whose certifier has an attack radius."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import rrise
from rrise.errors import SettingError
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import read_recipe
from rrise.statistics import Threat


def test_surrogate_calibration_and_evaluation_have_the_noise(attacked_run: Path) -> None:
    certifier = rrise.load_certifier(attacked_run / "certifier")
    assert certifier.calibration.threat == Threat(0.05, 0.15, 0.25)
    evidence = read_evidence(attacked_run / "evaluation" / "evidence")
    own = evidence.surrogates[0]
    np.testing.assert_allclose(own.calibration.top_probability, certifier.evidence.top_probability, atol=1e-5)
    results = json.loads((attacked_run / "evaluation" / "results.json").read_text())
    assert "somebody moved the input by up to 0.05" in results["promise"]
    found = next(
        outcome
        for outcome in evidence.outcomes()
        if (outcome.setting.method, outcome.setting.score, outcome.setting.failure)
        == ("RRISE", "tapered", "0.2")
    )
    assert found.offset == pytest.approx(certifier.calibration.offset, abs=1e-6)
    assert found.certificates.issued.any()
    curve = [one for one in results["passes_curve"] if one["method"] == "RRISE"]
    assert [one["passes"] for one in curve] == [1.0], "no votes are added to a noisy query"


def test_noise_of_calibration_and_test_inputs_is_not_the_same(attacked_run: Path) -> None:
    from rrise.runs.run import Run

    recipe = read_recipe(attacked_run / "recipe.toml")
    run = Run(attacked_run, recipe, Console(quiet=True), device=torch.device("cpu"))
    assert run.noise_seed("calibration") != run.noise_seed("test")


def test_too_few_calibration_inputs_are_said_before_anything_is_done(tmp_path: Path) -> None:
    changes = {
        "surrogate.query_noise": 0.1,
        "surrogate.strategy": "distill",
        "calibration.attack_radius": 0.1,
        "calibration.failure": 0.05,
    }
    with pytest.raises(SettingError, match=r"150 calibration inputs are too few .* use at least 305"):
        run_recipe(tmp_path / "run", read_recipe("digits", "quick", changes), Console(quiet=True))
    with pytest.raises(SettingError, match="need query noise"):
        read_recipe("digits", "quick", {"calibration.attack_radius": 0.1})
    with pytest.raises(SettingError, match="'marginal' and 'pac'"):
        run_recipe(
            tmp_path / "run",
            read_recipe("digits", None, {**changes, "calibration.per": "class"}),
            Console(quiet=True),
        )
    assert not (tmp_path / "run").exists()
