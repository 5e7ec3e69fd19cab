"""Runs with another objective of the base classifier, and runs whose noise is not clipped."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import rrise
from rrise.data.catalogue import load_dataset
from rrise.errors import InputError, SettingError
from rrise.files import read_signed_json
from rrise.models.folder import load_model
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import Recipe, RecipeFile, read_recipe
from rrise.training.base_objectives import BASE_OBJECTIVES, register_base_objective
from rrise.votes.reading import read_votes
from tests.runs.test_pipeline import listening, run_quick, said
from tests.training.test_base_objectives import Brier

LITTLE = {
    "data.train": 150,
    "base.epochs": 2,
    "votes.train": 30,
    "votes.calibration": 300,
    "votes.test": 300,
    "surrogate.epochs": 3,
}


def little(**changes: object) -> Recipe:
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return read_recipe("digits", "quick", {**LITTLE, **named})


def base_of(folder: Path, **changes: object) -> tuple[str, str]:
    """Make the base classifier of a run; return its fingerprint, and what was said."""
    console = listening()
    run_recipe(folder, little(**changes), console, until="base")
    return rrise.fingerprint(load_model(folder / "base")), said(console)


def test_changed_options_train_again_and_written_defaults_do_not(tmp_path: Path) -> None:
    plain, _ = base_of(tmp_path)
    consistent, words = base_of(tmp_path, base__objective="consistency")
    assert "base: written" in words
    assert consistent != plain
    again, words = base_of(
        tmp_path, base__objective="consistency", base__objective_options={"weight": 20, "copies": 2}
    )
    assert "base: up to date" in words
    assert again == consistent
    other, words = base_of(tmp_path, base__objective="consistency", base__objective_options={"weight": 10})
    assert "base: written" in words
    assert other != consistent
    recorded = read_signed_json(tmp_path / "base" / "manifest.json")["inputs"]
    assert recorded["objective"] == {"weight": 10.0, "entropy": 0.5, "copies": 2}
    assert recorded["settings"]["objective"] == "consistency"
    assert base_of(tmp_path)[0] == plain


def test_the_default_objective_and_clipping_are_stored_nowhere(tmp_path: Path) -> None:
    """What was stored before they existed thus keeps its checksums."""
    base_of(tmp_path, base__objective="cross-entropy", votes__clip=True)
    recorded = read_signed_json(tmp_path / "base" / "manifest.json")["inputs"]
    assert set(recorded) == {"rrise", "train", "validation", "settings"}
    stored = (tmp_path / "recipe.toml").read_text() + json.dumps(recorded) + json.dumps(little().settings())
    assert "\nclip =" not in stored
    assert "votes.clip" not in stored
    assert "base.objective" not in stored
    assert "objective_options" not in stored


def test_published_recipes_read_as_before_and_say_nothing_new() -> None:
    published = sorted((Path(__file__).parents[2] / "results").glob("*/seed-*/recipe.toml"))
    assert len(published) > 5
    for path in published:
        recipe = read_recipe(path)
        assert not {"votes.clip", "base.objective", "base.objective_options"} & recipe.settings().keys()
        assert recipe.votes.clip
        assert recipe.base.objective == "cross-entropy"


def test_a_stored_recipe_differs_by_a_setting_that_only_one_of_them_names() -> None:
    new = little(votes__clip=False, base__objective="smoothmix")
    old, stored = (json.loads(json.dumps(recipe.settings())) for recipe in (little(), new))
    assert new.difference(old) == ("base.objective", "cross-entropy", "smoothmix")
    assert little().difference(stored) == ("base.objective", "smoothmix", "cross-entropy")
    assert new.difference(stored) is None
    assert little(votes__clip=False).difference(old) == ("votes.clip", True, False)
    assert little().difference(old) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"base__objective": "consistensy"},
            "expected base.objective out of cross-entropy, consistency, smoothmix.*; got 'consistensy': "
            "did you mean consistency",
        ),
        ({"base__objective_options": {"weight": 3}}, "objective cross-entropy has no options: remove base.o"),
        (
            {"base__objective": "smoothmix", "base__objective_options": {"step": 3}},
            "a recipe with smoothmix has no base.objective_options.step: did you mean .*options.steps",
        ),
        (
            {"base__objective": "consistency", "base__objective_options": {"weight": -3}},
            "expected base.objective_options.weight to be at least 0, got -3",
        ),
        (
            {"base__objective": "smoothmix", "base__objective_options": {"first_step": 1}},
            "expected base.objective_options.first_step to be true or false, got a whole number: 1",
        ),
        (
            {"base__objective": "smoothmix", "base__objective_options": {"steps": 1}},
            "need a second one for their mixtures",
        ),
    ],
)
def test_an_objective_that_cannot_be_is_refused_before_anything_is_written(
    changes: dict, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=sentence):
        run_recipe(tmp_path / "run", little(**changes), Console(quiet=True), until="base")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def brier() -> Iterator[str]:
    register_base_objective("brier", Brier)
    yield "brier"
    del BASE_OBJECTIVES["brier"]


def test_an_objective_of_ones_own_has_a_name_in_recipes(brier: str, tmp_path: Path) -> None:
    plain, _ = base_of(tmp_path)
    own, _ = base_of(tmp_path, base__objective=brier, base__objective_options={"scale": 2})
    assert own != plain
    assert read_signed_json(tmp_path / "base" / "manifest.json")["inputs"]["objective"] == {"scale": 2.0}


def test_the_strong_profile_trains_for_the_noise_that_it_certifies() -> None:
    recipe = read_recipe("cifar-10", "strong")
    assert recipe.base.sigma == recipe.votes.sigma == 0.25
    assert recipe.base.objective == "consistency"
    assert recipe.base.label_smoothing == 0
    assert "strong" in RecipeFile.find("cifar-10").profiles


def test_noise_that_is_not_clipped_stays_so_from_the_votes_to_the_export(tmp_path: Path) -> None:
    digits, folder = load_dataset("digits"), tmp_path / "run"
    clipped, _ = base_of(folder)
    run_quick(folder, **{name.replace(".", "__"): value for name, value in LITTLE.items()}, votes__clip=False)
    base, noise = load_model(folder / "base"), rrise.UnclippedGaussian(0.25)
    assert rrise.fingerprint(base) != clipped  # it is trained under the noise that is certified
    chosen = json.loads((folder / "splits.json").read_text())["calibration"]
    inputs = (digits.test.images[chosen] / np.float32(255)).astype(np.float32)
    stored = read_votes(folder / "votes" / "calibration")
    how = {"n": 300, "seed": 100, "split": "calibration"}
    unclipped = rrise.collect_votes(base, inputs, sigma=0.25, input_range=None, **how)
    np.testing.assert_array_equal(stored, unclipped)
    assert (np.asarray(stored) != np.asarray(rrise.collect_votes(base, inputs, sigma=0.25, **how))).any()
    certifier = rrise.load_certifier(folder / "certifier")
    assert (certifier.smoothing.noise, certifier.smoothing.input_range) == (noise, (0.0, 1.0))
    assert "| noise clipped to | nothing |" in (folder / "certifier" / "README.md").read_text()
    with pytest.raises(InputError, match=r"expected inputs in \[0, 1\]"):
        certifier.certify(inputs[:1] * 255)
    rrise.export_certifier(certifier, inputs, stored, tmp_path / "exported")
    deployed = rrise.load_deployed(tmp_path / "exported")
    assert deployed.smoothing == certifier.smoothing
    live = rrise.MonteCarlo(n=100).bind_like(base, deployed)
    assert live.smoothing.noise == noise


def test_a_distilled_surrogate_learns_from_noise_that_is_not_clipped(tmp_path: Path) -> None:
    recipe = little(votes__clip=False, surrogate__strategy="distill")
    run_recipe(tmp_path, recipe, Console(quiet=True), until="surrogate")
    smoothing = read_signed_json(tmp_path / "surrogate" / "manifest.json")["inputs"]["smoothing"]
    assert smoothing["noise"] == "unclipped-gaussian"
