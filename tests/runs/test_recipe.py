"""Recipes: what is read, what is refused, and that the packaged ones hold the paper's numbers."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from rrise.data.splits import PROTOCOLS
from rrise.errors import SettingError
from rrise.models.precision import PRECISIONS
from rrise.runs.recipe import (
    BaseSettings,
    CalibrationSettings,
    DataSettings,
    RecipeFile,
    SurrogateSettings,
    VoteSettings,
    packaged_recipes,
    parse_changes,
    read_recipe,
)
from rrise.training.objectives import OBJECTIVES
from rrise.training.strategies import STRATEGIES

TABLES = {
    "data": DataSettings,
    "base": BaseSettings,
    "votes": VoteSettings,
    "surrogate": SurrogateSettings,
    "calibration": CalibrationSettings,
}
SMALLEST = """
[data]
source = "digits"
[base]
architecture = "small-convnet"
sigma = 0.5
[votes]
sigma = 0.25
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


COMMON = {
    "data.calibration": 0.1,  # Appendix A.8: 10 % of the test set
    "data.protocol": "held-out",
    "base.batch_size": 512,  # Appendix A.3
    "base.weight_decay": 5e-4,
    "base.label_smoothing": 0.1,
    "base.gradient_clip": 1.0,
    "base.warmup_epochs": 5,
    "base.seed": 0,
    "votes.seed": 100,  # Appendix A.4
    "votes.train": 10_000,
    "votes.calibration": 10_000,
    "votes.test": 10_000,
    "votes.selection": 100,
    "surrogate.strategy": "head",  # Appendix A.5
    "surrogate.objective": "cross-entropy",
    "surrogate.batch_size": 512,
    "surrogate.weight_decay": 5e-4,
    "surrogate.gradient_clip": 1.0,
    "surrogate.warmup_epochs": 5,
    "surrogate.validation_share": 0.1,  # Appendix A.7
    "calibration.failure": 0.25,  # Appendix A.8
    "calibration.beta": 0.001,
    "calibration.score": "additive",
}
NAMES = (
    "base.architecture",
    "base.options",
    "base.sigma",
    "base.epochs",
    "base.learning_rate",
    "base.augmentations",
    "votes.sigma",
    "surrogate.epochs",
    "surrogate.learning_rate",
)
CROP, FLIP, RANDOM = "crop-4", "flip", "randaugment"
PAPER = {
    "fashion-mnist": (
        *("mlp-mixer-tiny", {"image_size": 32, "classes": 10}),
        *(0.5, 200, 1e-3, ("crop-2",), 0.25, 200, 5e-4),
    ),
    "cifar-10": ("resnet-18", {"classes": 10}, 0.5, 200, 1e-3, (CROP, FLIP), 0.25, 200, 5e-4),
    "cifar-100": ("efficientnet-b0", {"classes": 100}, 0.25, 500, 1e-3, (CROP, FLIP, RANDOM), 0.1, 500, 5e-4),
    "tiny-imagenet": (
        *("vit-tiny", {"image_size": 64, "classes": 200}),
        *(0.25, 500, 2e-3, ("resized-crop", FLIP, RANDOM, "erasing"), 0.1, 500, 1e-3),
    ),
}
"""Typed from the tables of Appendix A.1 to A.5."""


@pytest.mark.parametrize("name", PAPER)
def test_the_packaged_recipes_hold_the_papers_hyper_parameters(name: str) -> None:
    recipe = read_recipe(name, "paper").settings()
    expected = {**COMMON, "data.source": name, **dict(zip(NAMES, PAPER[name], strict=True))}
    assert {key: recipe[key] for key in expected} == expected


@pytest.mark.parametrize("name", PAPER)
def test_the_packaged_recipes_use_the_strongest_certificates_unless_told_otherwise(name: str) -> None:
    ours, papers = read_recipe(name), read_recipe(name, "paper")
    assert ours.surrogate.strategy == "distill"
    assert ours.calibration == CalibrationSettings(beta=0.2)
    assert not ours.evaluation.paper
    assert papers.evaluation.paper
    assert ours.votes == papers.votes


@pytest.mark.parametrize("name", PAPER)
def test_every_hyper_parameter_is_written_out_in_the_file(name: str) -> None:
    written = RecipeFile.find(name).tables
    optional = {
        *("train", "test", "unlabelled", "copies", "copies_augmentations"),
        *("weights", "compile", "head", "votes", "promise", "confidence", "per"),
        *("fresh_votes", "mixed", "jitter", "averaging"),
        *("query_noise", "attack_radius", "tries", "stored_statistics"),
        *("clip", "objective_options"),
    }
    for table, kind in TABLES.items():
        expected = {part.name for part in fields(kind)} - optional
        expected -= {"objective"} if table == "base" else set()
        assert expected - set(written[table]) <= (
            {"architecture", "options", "augmentations"} if table == "surrogate" else set()
        )


def test_a_text_is_a_list_of_one_text() -> None:
    changed = read_recipe("digits", None, {"base.augmentations": "flip", "data.unlabelled": "more.npy"})
    assert (changed.base.augmentations, changed.data.unlabelled) == (("flip",), ("more.npy",))


def test_the_digits_recipe_is_the_demo() -> None:
    recipe = read_recipe("digits")
    assert (recipe.data.validation, recipe.data.calibration) == (150, 374)
    assert (recipe.votes.train, recipe.votes.calibration, recipe.votes.test) == (1_000, 10_000, 10_000)
    assert (recipe.calibration.failure, recipe.calibration.score) == (0.01, "tapered")
    assert {recipe.data.seed, recipe.base.seed, recipe.votes.seed, recipe.surrogate.seed} == {100}


@pytest.mark.parametrize("name", packaged_recipes())
def test_the_quick_profile_does_less_of_the_same(name: str) -> None:
    full, quick = read_recipe(name), read_recipe(name, "quick")
    assert quick.base.epochs < full.base.epochs
    assert quick.votes.train < full.votes.train
    assert quick.base.architecture == full.base.architecture
    assert quick.calibration == full.calibration


@pytest.mark.parametrize(
    ("name", "profile"),
    [(name, profile) for name in packaged_recipes() for profile in (None, *RecipeFile.find(name).profiles)],
)
def test_a_written_recipe_reads_as_the_same_one(name: str, profile: str | None, tmp_path: Path) -> None:
    recipe = read_recipe(name, profile)
    assert read_recipe(write(tmp_path, recipe.to_toml())) == recipe


def test_odd_texts_and_options_survive_writing(tmp_path: Path) -> None:
    odd = {"a": [1, 2.5], "b c": 'quote " and \\ and ü', "deep": {"x": True}}
    recipe = read_recipe(write(tmp_path, SMALLEST), changes={"base.options": odd})
    again = read_recipe(write(tmp_path, recipe.to_toml()))
    assert again.base.options == odd


def test_names_that_stand_in_the_types_are_those_that_exist() -> None:
    for kind, key, known in (
        (DataSettings, "protocol", PROTOCOLS),
        (VoteSettings, "precision", PRECISIONS),
        (SurrogateSettings, "strategy", STRATEGIES),
        (SurrogateSettings, "objective", OBJECTIVES),
    ):
        parts = get_args(get_type_hints(kind)[key])
        names = {name for part in parts for name in (get_args(part) or [part]) if isinstance(name, str)}
        assert names == set(known), key


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[base]\nepoch = 3", "a recipe has no base.epoch: did you mean base.epochs?"),
        ("[bse]\nepochs = 3", "a recipe has no bse: did you mean base?"),
        ("sigma = 0.25", "a recipe has no sigma: did you mean base.sigma or votes.sigma?"),
        ("[base]\nfailure = 0.1", "a recipe has no base.failure: did you mean calibration.failure?"),
        ("[votes]\nxyzzy = 1", "a recipe has no votes.xyzzy; it has votes.sigma, votes.seed"),
        ("base = 3", "expected base to be a table, got a whole number: 3"),
        ("[profile.quick.base]\nepoch = 3", "no profile.quick.base.epoch: did you mean base.epochs?"),
        ("[profile]\nquick = 3", "expected profiles as tables such as [profile.quick.base]"),
        ("[base]\nsigma = 0.5", "the recipe is missing data.source"),
        ("[base", "is not a readable recipe"),
    ],
)
def test_what_is_unknown_or_missing_is_named(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError) as refused:
        read_recipe(write(tmp_path, text))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("base.epochs=many", 'expected base.epochs to be a whole number, got a text: "many"'),
        ("base.epochs=1.5", "expected base.epochs to be a whole number, got a number: 1.5"),
        ("base.epochs=true", "expected base.epochs to be a whole number, got true or false: true"),
        ("base.sigma=true", "expected base.sigma to be a number, got true or false: true"),
        ("base.sigma=[1]", "expected base.sigma to be a number, got a list"),
        ("base.compile=1", "expected base.compile to be true or false, got a whole number: 1"),
        ("base.options=3", "expected base.options to be a table, got a whole number: 3"),
        ("base.augmentations=[1]", "expected base.augmentations to be a list of texts, got a list"),
        (
            "data.validation=all",
            'expected data.validation to be a whole number or a number, got a text: "all"',
        ),
        ("data.train=2024-01-01", "expected data.train to be a whole number, got date: "),
        (
            "data.protocol=papers",
            'expected data.protocol out of held-out, paper; got a text: "papers": did you',
        ),
        (
            "surrogate.strategy=tail",
            'expected surrogate.strategy out of head, all, all-random, distill; got a text: "ta',
        ),
        ("surrogate.objective=l2", "expected surrogate.objective out of cross-entropy, jensen-shannon"),
        ("votes.precision=int8", "expected votes.precision out of float32, tf32, bfloat16"),
        ("calibration.score=3", "expected calibration.score to be a text, got a whole number: 3"),
        ("calibration.score=probitt", "expected a score out of additive, probit, tapered; got 'probitt'"),
        ("base.epoch=3", "a recipe has no base.epoch: did you mean base.epochs?"),
        ("base.epochs.x=3", "cannot set base.epochs.x: base.epochs is not a table"),
        ("base.epochs", "expected --set TABLE.KEY=VALUE, such as base.epochs=3; got 'base.epochs'"),
        ("epochs=3", "expected --set TABLE.KEY=VALUE, such as base.epochs=3; got 'epochs=3'"),
    ],
)
def test_a_wrong_type_is_named_with_key_and_value(change: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refused:
        read_recipe("digits", changes=parse_changes([change]))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"base.epochs": 0}, "expected base.epochs to be at least 1, got 0"),
        ({"surrogate.batch_size": 0}, "expected surrogate.batch_size to be at least 1, got 0"),
        ({"base.weight_decay": -1.0}, "expected base.weight_decay to be at least 0, got -1.0"),
        ({"base.sigma": float("nan")}, "expected base.sigma to be at least 0, got nan"),
        ({"base.learning_rate": 0.0}, "expected base.learning_rate to be above 0, got 0.0"),
        (
            {"surrogate.gradient_clip": float("inf")},
            "expected surrogate.gradient_clip to be above 0, got inf",
        ),
        (
            {"base.label_smoothing": 1.0},
            "expected base.label_smoothing to be at least 0 and below 1, got 1.0",
        ),
        ({"surrogate.validation_share": 1.0}, "surrogate.validation_share to be a share strictly between"),
        ({"data.validation": 0}, "expected data.validation to be a count of at least 1, or a share; got 0"),
        (
            {"data.calibration": 1.5},
            "expected data.calibration to be a share strictly between 0 and 1, got 1.5",
        ),
        ({"data.copies": -1}, "expected data.copies to be at least 0, got -1"),
        ({"data.copies": 1}, "expected both data.copies and data.copies_augmentations"),
        ({"data.copies_augmentations": ["flip"]}, "expected both data.copies and data.copies_augmentations"),
        ({"votes.sigma": 0.0}, "expected votes.sigma to be above 0, got 0.0"),
        ({"votes.calibration": 2}, "2 votes can never certify at beta=0.2"),
        ({"votes.test": 6}, "6 votes can never certify at failure=0.01"),
        ({"data.calibration": 10}, "10 calibration inputs are too few for gamma=0.008"),
        ({"calibration.failure": 1.5}, "expected calibration.failure to be above 0 and below 1, got 1.5"),
        ({"calibration.beta": 0.05, "calibration.rule": "paper"}, "expected beta below the total failure"),
        (
            {"surrogate.architecture": "resnet-18", "surrogate.strategy": "head"},
            "expected surrogate.strategy 'all-random' or 'distill', got 'head'",
        ),
        (
            {"surrogate.options": {"classes": 3}},
            "surrogate.options need surrogate.architecture",
        ),
        (
            {"surrogate.head": "fc", "surrogate.strategy": "all"},
            "surrogate.head needs surrogate.strategy 'head', got 'all'",
        ),
    ],
    ids=str,
)
def test_what_would_fail_late_is_refused_at_once(changes: dict, sentence: str) -> None:
    with pytest.raises(SettingError) as refused:
        read_recipe("digits", changes=changes)
    assert sentence in str(refused.value)


def test_a_base_needs_an_architecture_and_a_noise_level_or_weights(tmp_path: Path) -> None:
    text = '[data]\nsource = "digits"\n[votes]\nsigma = 0.25\n'
    with pytest.raises(SettingError, match=r"needs base.architecture and base.sigma, or base.weights"):
        read_recipe(write(tmp_path, text))
    assert read_recipe(write(tmp_path, f'{text}[base]\nweights = "a/folder"\n')).base.sigma is None


def test_changes_are_toml_and_the_last_one_counts() -> None:
    changes = parse_changes(
        [
            "base.epochs=3",
            "base.epochs = 1_0",
            "base.learning_rate=1",
            "base.augmentations=['flip', 'crop-1']",
            "base.options.classes=12",
            "base.weights=runs/a b/base",
            'data.source="digits"',
            "base.compile=false",
        ]
    )
    recipe = read_recipe("digits", "quick", changes)
    assert recipe.base.epochs == 10
    assert recipe.base.learning_rate == 1.0
    assert isinstance(recipe.base.learning_rate, float)
    assert recipe.base.augmentations == ("flip", "crop-1")
    assert recipe.base.options == {"classes": 12}
    assert recipe.base.weights == "runs/a b/base"
    assert recipe.base.compile is False


def test_changes_do_not_leak_into_the_next_reading() -> None:
    file = RecipeFile.find("fashion-mnist")
    assert file.recipe(changes={"base.options.classes": 3}).base.options["classes"] == 3
    assert file.recipe().base.options["classes"] == 10


def test_a_profile_goes_before_the_recipe_and_changes_before_both() -> None:
    assert read_recipe("digits").base.epochs == 60
    assert read_recipe("digits", "quick").base.epochs == 15
    assert read_recipe("digits", "quick", {"base.epochs": 2}).base.epochs == 2
    assert read_recipe("digits", "quick").base.batch_size == 64


def test_an_unknown_profile_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"the recipe digits has no profile 'fast'; it has: quick"):
        read_recipe("digits", "fast")
    with pytest.raises(SettingError, match=r"the recipe mine has no profile 'fast'; it has: none"):
        read_recipe(write(tmp_path, SMALLEST), "fast")


def test_a_recipe_is_found_by_path_or_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(packaged_recipes()) == ["cifar-10", "cifar-100", "digits", "fashion-mnist", "tiny-imagenet"]
    assert RecipeFile.find(write(tmp_path, SMALLEST)).name == "mine"
    run = tmp_path / "my-run"
    run.mkdir()
    (run / "recipe.toml").write_text(SMALLEST)
    assert RecipeFile.find(run / "recipe.toml").name == "my-run"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert RecipeFile.find("digits").tables["data"]["source"] == "digits"
    with pytest.raises(SettingError, match=r"a recipe out of .*got 'cifar10': did you mean cifar-10"):
        read_recipe("cifar10")
    with pytest.raises(SettingError, match=r"no-such.toml is not a readable recipe"):
        read_recipe("no-such.toml")


def test_reading_a_recipe_needs_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, rrise.runs.recipe as r; r.read_recipe('digits'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_run_folder_keeps_the_recipe(quick_demo: Path) -> None:
    text = (quick_demo / "recipe.toml").read_text()
    assert text.startswith("# rrise ")
    assert tomllib.loads(text)["votes"]["sigma"] == 0.25
    assert read_recipe(quick_demo / "recipe.toml") == read_recipe("digits", "quick")
