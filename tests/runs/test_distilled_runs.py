"""Runs whose surrogates are distilled."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rrise.errors import InputError, SettingError
from rrise.files import read_signed_json
from rrise.models.folder import load_model
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import read_recipe
from rrise.training import distillation
from tests.runs.test_pipeline import listening, run_quick, said, with_its_base_alone

FEW = {"surrogate__epochs": 3, "surrogate__averaging": 0.9, "surrogate__augmentations": ["crop-1"]}
HELD_OUT, KEPT = 30, 270


@pytest.fixture
def based(quick_demo: Path, tmp_path: Path) -> Path:
    """A run that has nothing but its base classifier."""
    return with_its_base_alone(quick_demo, tmp_path / "run")


def costs(folder: Path, variant: str) -> dict[str, Any]:
    results = json.loads((folder / "evaluation" / "results.json").read_text())["results"]
    found = next(result for result in results if result["variant"] == variant)
    return {name: found["metrics"][name] for name in ("targets", "training", "calibration", "epoch")}


def expected_costs(epoch: int) -> dict[str, int]:
    return {
        "targets": 4 * KEPT * epoch + distillation.VALIDATION_VOTES * HELD_OUT,
        "training": (3 * KEPT + HELD_OUT) * epoch,
        "calibration": 150 * 501,
        "epoch": epoch,
    }


def test_no_votes_of_training_inputs_are_collected(based: Path) -> None:
    run_quick(based, surrogate__strategy="distill", **FEW)
    votes = {path.name for path in (based / "votes").iterdir()}
    assert votes == {"calibration", "test", "test-selection"}
    found = costs(based, "distill_n12")
    assert found == expected_costs(found["epoch"])
    console = listening()
    run_quick(based, console, surrogate__strategy="distill", **FEW)
    assert "surrogate: up to date" in said(console)
    assert "evaluation: up to date" in said(console)


def test_votes_alone_can_be_collected_before(based: Path) -> None:
    recipe = read_recipe("digits", "quick", {"surrogate.strategy": "distill"})
    run_recipe(based, recipe, Console(quiet=True), until="votes")
    assert not (based / "votes" / "train").exists()


def test_other_surrogates_get_the_votes_they_need(based: Path) -> None:
    run_quick(based, surrogate__strategy="distill", evaluation__surrogates=["head@50"], **FEW)
    assert (based / "votes" / "train").is_dir()
    assert costs(based, "trainhead_initbase_n50")["targets"] == 300 * 50
    found = costs(based, "distill_n12")
    assert found == expected_costs(found["epoch"])


def test_a_distilled_surrogate_can_be_compared_with_the_runs_own(based: Path) -> None:
    run_quick(based, evaluation__surrogates=["distill"], **FEW)
    assert (based / "surrogates" / "distill_n12").is_dir()
    found = costs(based, "distill_n12")
    assert found == expected_costs(found["epoch"])
    assert costs(based, "trainhead_initbase_n200")["targets"] == 300 * 200


def test_settings_of_distill_concern_no_other_surrogate(based: Path) -> None:
    run_quick(based, surrogate__epochs=3)
    settings = read_signed_json(based / "surrogate" / "manifest.json")["inputs"]["settings"]
    assert "mixed" not in settings
    assert settings["epochs"] == 3
    console = listening()
    run_quick(based, console, surrogate__epochs=3, surrogate__mixed=0.25)
    assert "surrogate: up to date" in said(console)
    run_quick(based, surrogate__strategy="distill", **FEW)
    console = listening()
    run_quick(based, console, surrogate__strategy="distill", surrogate__mixed=0.25, **FEW)
    assert "surrogate: written" in said(console)


def test_a_distilled_surrogate_may_have_an_architecture_of_its_own(based: Path) -> None:
    own = {"surrogate__architecture": "small-convnet", "surrogate__options": {"width": 4}}
    run_quick(based, surrogate__strategy="distill", **own, **FEW)
    assert load_model(based / "surrogate").head.in_features == 16


def test_augmentations_that_do_not_fit_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    changes = {"surrogate.strategy": "distill", "surrogate.augmentations": ["crop"]}
    with pytest.raises(SettingError, match="augmentations among"):
        run_recipe(tmp_path / "run", read_recipe("digits", "quick", changes), Console(quiet=True))
    random, classes = np.random.default_rng(0), np.arange(400) % 10
    values = {f"x_{part}": random.random((400, 16), dtype=np.float32) for part in ("train", "test")}
    np.savez(tmp_path / "vectors.npz", y_train=classes, y_test=classes, **values)
    changes |= {
        "surrogate.augmentations": ["flip"],
        "data.source": f"npz:{tmp_path / 'vectors.npz'}",
        "base.architecture": "torch.nn:Linear",
        "base.options": {"in_features": 16, "out_features": 10},
        "base.augmentations": [],
    }
    with pytest.raises(InputError, match=r"images \[channels, height, width\] in \[0, 1\]"):
        run_recipe(tmp_path / "run", read_recipe("digits", "quick", changes), Console(quiet=True))
    assert not (tmp_path / "run" / "base").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"surrogate.objective": "jensen-shannon"}, "needs surrogate.objective 'cross-entropy'"),
        ({"surrogate.head": "head"}, "surrogate.head needs surrogate.strategy 'head'"),
        ({"surrogate.fresh_votes": 0}, "expected surrogate.fresh_votes to be at least 1, got 0"),
        ({"surrogate.mixed": 2.0}, "expected surrogate.mixed to be at least 0 and at most 1, got 2.0"),
        ({"evaluation.surrogates": ["distill@4"]}, "distill draws its own votes"),
    ],
    ids=str,
)
def test_what_would_fail_late_is_refused_at_once(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError) as refused:
        read_recipe("digits", changes={"surrogate.strategy": "distill", **changes})
    assert sentence in str(refused.value)
