"""Starter recipes: what is read from data and model, and that a run takes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from torch import nn

from rrise.errors import InputError, SettingError
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import Recipe, read_recipe
from rrise.runs.starter import Starter


def vectors(folder: Path, *, scale: float = 1.0, test: int = 300) -> str:
    """Write a table of two separable classes, and return its name."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for name, size in (("train", 200), ("test", test)):
        labels = rng.integers(0, 2, size)
        values = 0.2 + 0.6 * labels[:, None] + rng.normal(0, 0.05, (size, 5))
        arrays[f"x_{name}"] = scale * values.clip(0, 1)
        arrays[f"y_{name}"] = labels
    np.savez(folder / "table.npz", **arrays)
    return str(folder / "table.npz")


def coloured(folder: Path) -> str:
    """Write a folder of coloured images of 9 x 7 pixels in three classes."""
    rng = np.random.default_rng(0)
    for part, size in (("train", 20), ("test", 50)):
        for place, name in enumerate(("blue", "green", "red")):
            (inside := folder / "pictures" / part / name).mkdir(parents=True)
            for number in range(size):
                pixels = rng.integers(0, 60, (7, 9, 3))
                pixels[:, :, 2 - place] += 180
                Image.fromarray(pixels.astype(np.uint8)).save(inside / f"{number}.png")
    return str(folder / "pictures")


class OfFive(nn.Linear):
    """A model of vectors of length five."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(5, num_classes)


def read(sources: list[str], folder: Path, profile: str | None = None) -> Recipe:
    """Return the recipe as `rrise run` reads it."""
    (folder / "recipe.toml").write_text(Starter.read(sources).to_toml())
    return read_recipe(folder / "recipe.toml", profile)


def test_a_folder_of_coloured_images_becomes_a_run(tmp_path: Path) -> None:
    recipe = read([coloured(tmp_path)], tmp_path, "quick")
    assert (recipe.base.architecture, recipe.base.options) == (
        "small-convnet",
        {"image_size": [7, 9], "channels": 3, "classes": 3},
    )
    evaluation = run_recipe(tmp_path / "run", recipe, Console(quiet=True))
    assert evaluation is not None
    assert evaluation.own["accuracy"] > 0.9


def test_a_table_becomes_a_run(tmp_path: Path) -> None:
    recipe = read([vectors(tmp_path)], tmp_path, "quick")
    assert recipe.base.options == {"inputs": 5, "classes": 2}
    evaluation = run_recipe(tmp_path / "run", recipe, Console(quiet=True))
    assert evaluation is not None
    assert evaluation.own["accuracy"] > 0.9
    assert evaluation.own["issued"] > 0.5


def test_a_model_gets_the_classes_of_the_data(tmp_path: Path) -> None:
    recipe = read([f"{__name__}:OfFive", vectors(tmp_path)], tmp_path)
    assert (recipe.base.architecture, recipe.base.options) == (f"{__name__}:OfFive", {"num_classes": 2})


def test_a_model_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"does not fit table: it has 5 classes, the data has 2"):
        Starter.read(["torch.nn:Identity", vectors(tmp_path)])


def test_a_model_alone_leaves_the_data_to_fill_in(tmp_path: Path) -> None:
    assert read([f"{__name__}:OfFive"], tmp_path).data.source == "npz:data.npz"


def test_without_anything_it_is_about_the_digits(tmp_path: Path) -> None:
    recipe = read([], tmp_path, "quick")
    assert (recipe.data.source, recipe.base.architecture) == ("digits", "small-convnet")


def test_values_beyond_0_and_1_are_refused_with_their_range(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\[0, 1\], and x_train of npz:.* goes from 0.* to 2"):
        Starter.read([vectors(tmp_path, scale=3)])


@pytest.mark.parametrize(
    ("test", "calibration", "failure"),
    [(10_000, 999, 0.01), (300, 124, 0.01), (248, 124, 0.01), (247, 62, 0.02), (60, 24, 0.05), (20, 6, 0.2)],
)
def test_few_test_inputs_allow_a_larger_failure(
    test: int, calibration: int, failure: float, tmp_path: Path
) -> None:
    recipe = read([vectors(tmp_path, test=test)], tmp_path)
    assert (recipe.data.calibration, recipe.calibration.failure) == (calibration, failure)


def test_too_few_test_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="9 test inputs are too few"):
        Starter.read([vectors(tmp_path, test=9)]).to_toml()


def test_two_datasets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="expected one dataset, one model"):
        Starter.read(["a", "b"])
