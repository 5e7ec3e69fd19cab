"""The data of a run, and networks of all kinds through the pipeline."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import rrise
from rrise.data.catalogue import load_dataset
from rrise.data.sources import Pixels
from rrise.errors import RriseError
from rrise.models.folder import load_model
from rrise.runs.data import RunData
from rrise.runs.pipeline import run_recipe
from rrise.runs.recipe import read_recipe
from rrise.runs.settings import DataSettings

QUIET = Console(quiet=True)


def digits(**settings: Any) -> RunData:
    return RunData(DataSettings("digits", train=200, test=100, **settings))


def test_inputs_are_those_of_the_dataset_at_the_recorded_places() -> None:
    data, dataset = digits(), load_dataset("digits")
    for split, part in (("train", dataset.train), ("validation", dataset.train), ("test", dataset.test)):
        places = data.splits.to_json()[split]
        assert np.array_equal(data.values(split)[:], part.inputs(np.array(places)).numpy())
        assert data.labels(split).tolist() == part.labels[places].tolist()


def test_the_fingerprint_sees_inputs_and_labels() -> None:
    data, same, other = digits(), digits(), digits(seed=1)
    assert data.fingerprint("train") == same.fingerprint("train") != other.fingerprint("train")
    same.dataset.train.labels[same.indices("train")[0]] += 1
    assert data.fingerprint("train") != same.fingerprint("train")
    assert data.fingerprint("calibration") == same.fingerprint("calibration")


def test_normalisation_is_that_of_the_training_inputs() -> None:
    data = digits()
    pixels = data.values("train")[:].astype(np.float64)
    assert data.normalisation == {"mean": [round(pixels.mean(), 4)], "std": [round(pixels.std(), 4)]}


def test_copies_are_augmented_training_inputs_and_always_the_same() -> None:
    data, again = (digits(copies=2, copies_augmentations=("flip",)) for _ in range(2))
    assert data.for_surrogate == ["train", "copies"]
    clean, copies = data.values("train").images, data.values("copies").images
    assert np.array_equal(copies, again.values("copies").images)
    assert copies.dtype == np.uint8
    flipped = clean[..., ::-1]
    for half in np.split(copies, 2):
        as_they_are = (half == clean).all(axis=(1, 2, 3))
        assert ((half == flipped).all(axis=(1, 2, 3)) | as_they_are).all()
        assert 0.2 < as_they_are.mean() < 0.8
    assert not np.array_equal(*np.split(copies, 2))
    assert len(data.training_values()) == len(data.training_labels()) == 3 * len(clean)
    assert data.training_labels().tolist() == 3 * data.labels("train").tolist()


def test_unlabelled_inputs_have_no_labels_and_must_fit(tmp_path: Path) -> None:
    extra = np.random.default_rng(0).integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "extra.npy", extra)
    data = digits(unlabelled=(str(tmp_path / "extra.npy"),))
    assert data.for_surrogate == ["train", "unlabelled"]
    assert isinstance(data.training_values(), Pixels)
    assert np.array_equal(data.training_values().images[-40:], extra)
    assert data.training_labels() is None
    data.check_held_out()
    np.save(tmp_path / "extra.npy", extra[..., :6])
    with pytest.raises(
        RriseError, match=r"expected unlabelled inputs of shape \(1, 8, 8\), as in digits, or images of a"
    ):
        digits(unlabelled=(str(tmp_path / "extra.npy"),)).training_values()


def test_unlabelled_images_of_several_sources_are_joined_and_larger_ones_reduced(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    large = random.integers(0, 256, (5, 1, 16, 16), dtype=np.uint8)
    np.save(tmp_path / "large.npy", large)
    np.save(tmp_path / "small.npy", random.integers(0, 256, (3, 1, 8, 8), dtype=np.uint8))
    data = digits(unlabelled=tuple(str(tmp_path / name) for name in ("small.npy", "large.npy")))
    found = data.values("unlabelled").images
    assert found.shape == (8, 1, 8, 8)
    assert np.array_equal(found[:3], np.load(tmp_path / "small.npy"))
    for row, column in ((0, 0), (3, 7)):
        square = large[4, 0, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert abs(int(found[7, 0, row, column]) - square.mean()) <= 0.5
    np.save(tmp_path / "large.npy", large[..., :12])
    with pytest.raises(RriseError, match=r"got \(1, 16, 12\) in .*large\.npy"):
        digits(unlabelled=(str(tmp_path / "large.npy"),)).values("unlabelled")


def test_calibration_inputs_among_the_unlabelled_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "test.npy", load_dataset("digits").test.images)
    with pytest.raises(RriseError, match=r"10 of 10 calibration inputs also train the surrogate"):
        digits(unlabelled=(str(tmp_path / "test.npy"),)).check_held_out()


def test_a_few_held_out_inputs_among_the_unlabelled_are_kept(tmp_path: Path) -> None:
    """To leave out calibration inputs alone would break exchangeability with new inputs."""
    sizes = {"calibration": 50, "validation": 50}
    repeated = [digits(**sizes).values(split).images[:1] for split in ("calibration", "test")]
    others = np.random.default_rng(0).integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "extra.npy", np.concatenate([others, *repeated]))
    data = digits(**sizes, unlabelled=(str(tmp_path / "extra.npy"),))
    data.check_held_out()
    assert len(data.values("unlabelled")) == 42


def test_too_many_calibration_inputs_among_the_unlabelled_are_refused(tmp_path: Path) -> None:
    one = digits().values("calibration").images[:1]
    others = np.random.default_rng(0).integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "extra.npy", np.concatenate([others, one]))
    with pytest.raises(RriseError, match=r"1 of 10 calibration inputs .* check .*extra\.npy"):
        digits(unlabelled=(str(tmp_path / "extra.npy"),)).check_held_out()


OWN = """
from torch import nn

def make(width=4, classes=3):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, width), nn.ReLU(), nn.Linear(width, classes))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe for a dataset and an architecture of one's own, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(OWN)
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 400)
    images = random.random((400, 1, 4, 4)).astype(np.float32) * 0.5
    images[np.arange(400), 0, labels] += 0.5
    np.savez("data.npz", x_train=images[:200], y_train=labels[:200], x_test=images[200:], y_test=labels[200:])
    (tmp_path / "mine.toml").write_text(
        f"""
        [data]
        source = "npz:data.npz"
        calibration = 100
        [calibration]
        failure = 0.05
        [base]
        architecture = "{name}:make"
        sigma = 0.25
        epochs = 20
        learning_rate = 0.05
        batch_size = 50
        [votes]
        sigma = 0.25
        train = 50
        calibration = 100
        test = 100
        [surrogate]
        epochs = 10
        learning_rate = 0.02
        """
    )
    return tmp_path / "mine.toml"


def test_own_data_and_an_own_module_make_a_certifier(own: Path) -> None:
    evaluation = run_recipe(Path("run"), read_recipe(own), QUIET)
    assert evaluation is not None
    assert evaluation.metrics("Baseline 1")["accuracy"] > 0.8
    assert len(rrise.load_certifier("run/certifier")(np.full((2, 1, 4, 4), 0.5))) == 2


def test_a_given_base_is_not_trained(own: Path) -> None:
    run_recipe(Path("first"), read_recipe(own), QUIET, until="base")
    unnamed = own.parent / "unnamed.toml"
    unnamed.write_text(own.read_text().replace("architecture =", "#"))
    for recipe, weights in ((unnamed, "first/base"), (own, "first/base/weights.safetensors")):
        given = read_recipe(recipe, changes={"base.weights": weights, "base.epochs": 1})
        run_recipe(Path("second"), given, QUIET, until="base")
        first, second = (load_model(Path(run) / "base").state_dict() for run in ("first", "second"))
        assert all(torch.equal(first[name], second[name]) for name in first)
    other = read_recipe(own, changes={"base.weights": "first/base", "base.options": {"width": 5}})
    with pytest.raises(RriseError, match=r"remove base.architecture and base.options"):
        run_recipe(Path("third"), other, QUIET, until="base")
    with pytest.raises(
        RriseError, match=r"expected base.weights to be a model folder or a safetensors file, got"
    ):
        run_recipe(Path("third"), read_recipe(own, changes={"base.weights": "nowhere"}), QUIET)


def test_more_inputs_and_another_architecture_for_the_surrogate(own: Path) -> None:
    more = np.random.default_rng(1).random((30, 1, 4, 4)).astype(np.float32)
    np.save("more.npy", more)
    changes = {
        "data.unlabelled": "more.npy",
        "data.copies": 1,
        "data.copies_augmentations": ["flip"],
        "surrogate.architecture": read_recipe(own).base.architecture,
        "surrogate.options": {"width": 7},
        "surrogate.strategy": "all-random",
    }
    run_recipe(Path("run"), read_recipe(own, changes=changes), QUIET)
    assert {path.name for path in Path("run/votes").iterdir()} >= {"train", "copies", "unlabelled"}
    assert len(rrise.read_votes("run/votes/copies")) == 180
    assert len(rrise.read_votes("run/votes/unlabelled")) == 30
    assert load_model(Path("run/surrogate"))[1].out_features == 7
    held_out = json.loads(Path("run/surrogate/target_validation.json").read_text())["held_out"]
    assert len(held_out) == 39
    assert max(held_out) < 390


@pytest.mark.parametrize(
    ("strategy", "objective", "score"),
    [("all", "cross-entropy", "additive"), ("head", "jensen-shannon", "probit")],
)
def test_other_strategies_objectives_and_scores_work_too(
    own: Path, strategy: str, objective: str, score: str
) -> None:
    changes = {"surrogate.strategy": strategy, "surrogate.objective": objective, "calibration.score": score}
    evaluation = run_recipe(Path("run"), read_recipe(own, changes=changes), QUIET)
    assert evaluation is not None
    assert evaluation.results["certifier"][2] == score
    assert evaluation.own["issued"] >= 0
    same_start = torch.equal(*(load_model(Path("run") / step)[1].weight for step in ("base", "surrogate")))
    assert same_start == (strategy == "head")


def test_a_random_start_is_not_the_base(own: Path) -> None:
    changes = {"surrogate.strategy": "all-random", "surrogate.epochs": 1, "surrogate.learning_rate": 1e-9}
    run_recipe(Path("run"), read_recipe(own, changes=changes), QUIET, until="surrogate")
    base, surrogate = (load_model(Path("run") / step)[1].weight for step in ("base", "surrogate"))
    assert not torch.allclose(base, surrogate)


def test_a_network_that_does_not_fit_the_data_is_refused_before_training(own: Path) -> None:
    with pytest.raises(
        RriseError, match=r"has 3 classes, the network has 5: set base.options, such as \{ clas"
    ):
        run_recipe(Path("run"), read_recipe(own, changes={"base.options.classes": 5}), QUIET)
    architecture = read_recipe(own).base.architecture
    changes = {
        "surrogate.architecture": architecture,
        "surrogate.options": {"classes": 2},
        "surrogate.strategy": "all-random",
    }
    with pytest.raises(RriseError, match=r"3 classes, the network has 2: set surrogate.options"):
        run_recipe(Path("run"), read_recipe(own, changes=changes), QUIET)
    assert not Path("run/base").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"base.augmentations": ["flop"]}, "flop"),
        ({"data.calibration": 0.02}, "4 calibration inputs are too few"),
        ({"votes.precision": "tf32"}, "tf32 is a precision of NVIDIA GPUs"),
        ({"data.source": "digit"}, "digits"),
    ],
    ids=str,
)
def test_names_a_later_step_would_not_know_are_refused_first(own: Path, changes: dict, sentence: str) -> None:
    with pytest.raises(RriseError, match=sentence):
        run_recipe(Path("run"), read_recipe(own, changes=changes), QUIET, device="cpu")
    assert not Path("run").exists()


def test_the_papers_protocol_reports_on_calibration_inputs_too(own: Path) -> None:
    data = RunData(DataSettings("npz:data.npz", calibration=100, protocol="paper"))
    assert len(data.inputs("test")) == 200
    assert set(data.splits.calibration) < set(data.splits.test)
