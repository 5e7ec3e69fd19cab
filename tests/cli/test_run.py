"""`rrise run`, `rrise train-base`, `rrise train-surrogate` and `rrise recipes`."""

import json
import sys
import types
from pathlib import Path

import pytest

import rrise
from rrise.runs.recipe import read_recipe
from rrise.runs.settings import TABLES

QUICK = ["digits", "--profile", "quick"]


def test_a_finished_run_shows_its_results_again(run, quick_demo: Path) -> None:
    code, output, _ = run("run", *QUICK, "--out", quick_demo)
    assert code == 0
    assert output.count("up to date") == 8
    for words in ("the scikit-learn package", "certified", "Monte Carlo", "report.html", "try it:"):
        assert words in output
    assert run("demo", "--quick", "--out", quick_demo)[1].split("data:")[1] == output.split("data:")[1]
    again = run("run", quick_demo / "recipe.toml", "--out", quick_demo)[1]
    assert again.count("up to date") == 8


@pytest.mark.parametrize(("command", "steps"), [("train-base", 1), ("train-surrogate", 3)])
def test_training_commands_do_the_first_steps(run, quick_demo: Path, command: str, steps: int) -> None:
    code, output, _ = run(command, *QUICK, "--out", quick_demo)
    assert code == 0
    assert output.count("up to date") == steps
    assert "epoch" in output
    assert "report" not in output


def test_the_run_folder_is_named_after_the_recipe(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    changes = ["--set", "base.epochs=1", "--set", "base.epochs=2", "--set", "data.validation=0.2"]
    code, output, _ = run("train-base", *QUICK, *changes, "--device", "cpu")
    assert code == 0
    recipe = read_recipe(tmp_path / "runs" / "digits" / "recipe.toml")
    assert (recipe.base.epochs, recipe.data.validation) == (2, 0.2)
    assert "of 2: training loss" in output
    again = run("train-base", *QUICK, *changes, "--fresh")[1]
    assert "base: written" in again


@pytest.mark.parametrize("command", ["run", "train-base", "train-surrogate"])
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["digit"], "a recipe out of cifar-10, cifar-100, digits"),
        (["nowhere.toml"], "nowhere.toml is not a readable recipe"),
        (["digits", "--profile", "fast"], "the recipe digits has no profile 'fast'; it has: quick"),
        (["digits", "--set", "base.epoch=3"], "a recipe has no base.epoch: did you mean base.epochs?"),
        (["digits", "--set", "base.epochs=three"], "expected base.epochs to be a whole number"),
        (["digits", "--set", "epochs"], "expected --set TABLE.KEY=VALUE"),
    ],
)
def test_wrong_arguments_are_refused_before_torch_is_loaded(
    run, command: str, arguments: list[str], sentence: str
) -> None:
    code, output, errors = run(command, *arguments)
    assert code == 2
    assert sentence in " ".join(errors.split())
    assert output == ""


def test_wrong_devices_and_missing_data_are_sentences(run, tmp_path: Path) -> None:
    code, _, errors = run("run", *QUICK, "--device", "abacus", "--out", tmp_path / "run")
    assert code == 2
    assert "cannot compute on abacus" in errors
    code, _, errors = run("run", "digits", "--set", "data.source=npz:no.npz", "--out", tmp_path / "run")
    assert code == 2
    assert "no.npz" in errors
    assert not (tmp_path / "run").exists()


def test_recipes_are_listed_and_printed(run) -> None:
    code, output, _ = run("recipes")
    assert code == 0
    for words in ("fashion-mnist", "mlp-mixer-tiny", "tiny-imagenet", "vit-tiny", "quick"):
        assert words in output
    text = (Path(rrise.__file__).parent / "recipes" / "cifar-10.toml").read_text()
    assert run("recipes", "cifar-10") == (0, text, "")
    code, _, errors = run("recipes", "cifar")
    assert code == 2
    assert "did you mean cifar-10" in " ".join(errors.split())


def test_the_settings_of_a_recipe_are_listed_with_default_and_meaning(run) -> None:
    code, output, _ = run("recipes", "--settings")
    assert code == 0
    assert all(f"[{name}]" in output for name in TABLES)
    code, output, _ = run("recipes", "--settings", "evaluation")
    assert code == 0
    words = " ".join(output.split())
    assert "budgets [500, 1_000, 5_000, 10_000] a list of whole numbers, each at least 1 Votes per" in words
    assert "[base]" not in output
    code, _, errors = run("recipes", "--settings", "bse")
    assert code == 2
    assert "surrogate, calibration, evaluation, audit; got 'bse'" in errors


def test_tensorboard_that_is_not_installed_is_a_sentence(run, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, errors = run("run", *QUICK, "--tensorboard", "--out", tmp_path / "run")
    assert code == 2
    assert "pip install 'rrise[tensorboard]'" in errors
    assert not (tmp_path / "run").exists()


def test_tensorboard_gets_every_measurement_of_every_epoch(run, monkeypatch, tmp_path: Path) -> None:
    written: dict[str, list[tuple[float, int]]] = {}

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            Path(folder).mkdir(parents=True)

        def __enter__(self) -> "SummaryWriter":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def add_scalar(self, name: str, value: float, epoch: int) -> None:
            written.setdefault(name, []).append((value, epoch))

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    out = tmp_path / "run"
    assert run("train-base", *QUICK, "--set", "base.epochs=3", "--tensorboard", "--out", out)[0] == 0
    history = json.loads((out / "base" / "manifest.json").read_text())["result"]["history"]["epochs"]
    expected = [(epoch["training_loss"], number) for number, epoch in enumerate(history, 1)]
    assert written["base/training_loss"] == expected
    assert len(written["base/noisy_validation_error"]) == 3
    assert (out / "tensorboard" / "base").is_dir()
