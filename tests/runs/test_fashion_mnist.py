"""The pipeline on real data: the quick profile of FashionMNIST, minutes on two CPU cores."""

from pathlib import Path

import pytest
from rich.console import Console

from rrise.data.catalogue import load_dataset
from rrise.errors import InputError
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import read_recipe


@pytest.mark.slow
def test_quick_fashion_mnist_is_far_above_chance_and_agrees_with_monte_carlo(tmp_path: Path) -> None:
    try:
        load_dataset("fashion-mnist", download=False)
    except InputError as error:
        pytest.skip(str(error))
    recipe = read_recipe("fashion-mnist", "quick")
    evaluation = run_recipe(tmp_path / "run", recipe, Console(quiet=True), device="cpu")
    assert evaluation is not None
    assert evaluation.metrics("Baseline 1")["accuracy"] > 0.5
    assert evaluation.own["agreement"] >= 0.85
