import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import rrise
from rrise.models.catalogue import build_model
from rrise.models.folder import save_model

DIGITS = Path(rrise.__file__).parent / "recipes" / "digits.toml"
SETTINGS = ["--sigma", "0.25", "--n", "50", "--seed", "3"]
SMALL = ["--base", "small-convnet", "--weights", "random", "--data", "digits", *SETTINGS]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    save_model(folder, "small-convnet", build_model("small-convnet", seed=4))
    return folder


@pytest.fixture
def images(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (70, 1, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "images.npy", pixels)
    return tmp_path / "images.npy"


def test_votes_are_those_of_the_library(run, base: Path, images: Path, tmp_path: Path) -> None:
    out = tmp_path / "votes"
    code, output, _ = run(
        "vote", "--base", base, "--data", images, *SETTINGS, "--split", "test", "--out", out
    )
    assert code == 0
    assert "2/2 shards" in output
    assert f"rrise.read_votes({str(out)!r})" in output
    pixels = torch.from_numpy(np.load(images)).float() / 255
    direct = rrise.collect_votes(
        build_model("small-convnet", seed=4), pixels, sigma=0.25, n=50, seed=3, split="test"
    )
    np.testing.assert_array_equal(rrise.read_votes(out), direct)


def test_called_again_it_goes_on(run, base: Path, images: Path, tmp_path: Path) -> None:
    command = [
        "vote",
        "--base",
        base,
        "--data",
        images,
        *SETTINGS,
        "--out",
        tmp_path / "votes",
        "--log",
        "json",
    ]
    assert run(*command)[0] == 0
    (tmp_path / "votes" / "shard-00001.parquet").unlink()
    code, output, _ = run(*command)
    events = [json.loads(line) for line in output.splitlines()]
    assert code == 0
    assert [event["event"] for event in events] == ["start", "stored", "stored", "end"]
    assert [event["shards"] for event in events] == [0, 1, 2, 2]
    assert events[-1]["passes"] == events[-1]["passes_in_all"] == 70 * 50


def test_a_recipe_and_options_that_go_before_it(run, base: Path, images: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'[votes]\nbase = "{base}"\ndata = "{images}"\nsigma = 0.25\nn = 50\nseed = 3\ninput_range = [0, 1]\n'
        f'out = "{tmp_path / "votes"}"\nprecision = "bfloat16"\n'
    )
    assert run("vote", recipe, "--n", "20")[0] == 0
    votes = rrise.read_votes(tmp_path / "votes")
    assert (votes.sum(axis=1) == 20).all()
    assert votes.smoothing.precision == "bfloat16"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[votes]\nsigme = 0.25", "a recipe of votes has no votes.sigme: did you mean votes.sigma?"),
        ("[vote]\nsigma = 0.25", "a recipe of votes has no vote: did you mean votes?"),
        ("sigma = 0.25", "a recipe of votes has no sigma: did you mean votes.sigma?"),
        ("votes = 3", "expected votes to be a table, got a whole number: 3"),
        ("[votes]\nn = 1.5", "expected votes.n to be a whole number, got a number: 1.5"),
        ("[votes]\nsplit = 3", "expected votes.split to be a text, got a whole number: 3"),
        ("[votes]\nn = 0", "expected votes.n to be at least 1, got 0"),
        ('[votes]\nprecision = "float3"', 'got a text: "float3": did you mean float32?'),
        ("[votes]\ninput_range = [1, 0]", "two finite numbers, low < high; got (1.0, 0.0)"),
        ("[votes]\ninput_range = true", "expected votes.input_range to be a list of numbers or a text"),
        ("[votes", "is not a readable recipe"),
        ("", "missing base, data, sigma, n: set it in the recipe's [votes], or pass an option"),
    ],
)
def test_a_wrong_recipe_gets_the_sentences_of_all_recipes(
    run, text: str, sentence: str, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.toml"
    rest = "base = 'torch.nn:Identity'\ndata = 'digits'\n"
    rest += "" if "sigm" in text else "sigma = 0.25\n"
    rest += "" if "\nn = " in text else "n = 5\n"
    recipe.write_text(f"{text}\n{rest}" if "[votes]" in text else text)
    code, _, errors = run("vote", recipe)
    assert code == 2
    assert sentence in " ".join(errors.split())


def test_a_dry_run_says_what_it_costs_and_writes_nothing(
    run, base: Path, images: Path, tmp_path: Path
) -> None:
    code, output, _ = run(
        "vote", "--base", base, "--data", images, *SETTINGS, "--out", tmp_path / "votes", "--dry-run"
    )
    assert code == 0
    for words in ("70 in 2 shards", "3,500", "passes/s", "expected time", "MB"):
        assert words in output
    assert not (tmp_path / "votes").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "missing base, data, sigma, n: set it in the recipe's [votes], or pass an option"),
        (["no-such.toml"], "no-such.toml is not a readable recipe"),
        ([DIGITS], "digits.toml is the recipe of a complete run: collect its votes with rrise run"),
        (["--base", "small-convnet", "--data", "digits", *SETTINGS], "expected weights for small-convnet"),
        (["--base", "vgg", "--weights", "random", "--data", "digits", *SETTINGS], "an architecture out of"),
        (["--base", "timm:no-such", "--weights", "random", "--data", "digits", *SETTINGS], "timm knows no"),
        (["--base", "no.such:thing", "--data", "digits", *SETTINGS], "no.such:thing cannot be imported"),
        (["--base", "os:getcwd", "--data", "digits", *SETTINGS], "to give a torch.nn.Module, got a str"),
        (
            ["--base", "torch.nn:Identity", "--data", "x.bin", *SETTINGS],
            "tiny-imagenet, FILE.npy, npz:FILE or a folder",
        ),
        (["--base", "torch.nn:Identity", "--data", "cifar-10", *SETTINGS], "--split train or --split test"),
        (["--base", "torch.nn:Identity", "--data", "npz:x.npz", *SETTINGS], "there is no file x.npz"),
        (["--base", "x", "--backend", "slurm"], "a back end out of local, ray; got 'slurm'"),
        (["--base", "x", "--workers", "2"], "--workers needs --backend ray"),
        (["--base", "x", "--log", "xml"], "a log out of bar, json; got 'xml'"),
        (["--base", "x", "--option", "classes"], "expected --option NAME=VALUE, got 'classes'"),
        (
            [
                "--base",
                "small-convnet",
                "--weights",
                "random",
                "--option",
                "depth=3",
                "--data",
                "digits",
                *SETTINGS,
            ],
            "small-convnet cannot be built with {'depth': 3}",
        ),
        (
            [
                "--base",
                "small-convnet",
                "--weights",
                "random",
                "--data",
                "digits",
                *SETTINGS,
                "--device",
                "cuda:7",
            ],
            "cannot compute on cuda:7",
        ),
        (
            ["--base", "x", "--weights", "random", "--data", "digits", "--sigma", "-1", "--n", "5"],
            "expected votes.sigma to be above 0, got -1.0",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(run, arguments: list[str], sentence: str) -> None:
    code, _, errors = run("vote", *arguments)
    assert code == 2
    assert sentence in " ".join(errors.split())


def test_a_store_of_other_votes_is_refused_naming_the_field(
    run, base: Path, images: Path, tmp_path: Path
) -> None:
    command = ["vote", "--base", base, "--data", images, *SETTINGS, "--out", tmp_path / "votes"]
    assert run(*command)[0] == 0
    code, _, errors = run(*command, "--sigma", "0.5")
    assert code == 2
    assert "have sigma = 0.25, not 0.5" in errors


def test_a_module_of_ones_own_from_the_working_directory(images: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n\n"
        "def make(classes=3):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    command = [sys.executable, "-m", "rrise", "vote", "--base", "mine:make", "--option", "classes=4"]
    subprocess.run(
        [*command, "--data", images, *SETTINGS, "--out", "votes"],
        check=True,
        cwd=tmp_path,
        capture_output=True,
    )
    assert rrise.read_votes(tmp_path / "votes").shape == (70, 4)


@pytest.mark.slow
def test_the_command_on_a_ray_cluster_of_its_own(base: Path, images: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is an extra")
    common = [
        sys.executable,
        "-m",
        "rrise",
        "vote",
        "--base",
        base,
        "--data",
        images,
        *SETTINGS,
        "--batch-size",
        "64",
    ]
    for folder, more in (("local", []), ("ray", ["--backend", "ray", "--workers", "1"])):
        subprocess.run([*common, "--out", tmp_path / folder, *more], check=True, capture_output=True)
    for path in (tmp_path / "local").glob("shard-*"):
        assert (tmp_path / "ray" / path.name).read_bytes() == path.read_bytes()


def test_datasets_are_looked_for_where_one_says(run, tmp_path: Path) -> None:
    (tmp_path / "cifar-10.npz").write_bytes(b"no archive")
    command = ["vote", "--base", "resnet-18", "--weights", "random", "--data", "cifar-10", *SETTINGS]
    code, _, error = run(*command, "--split", "test", "--data-root", tmp_path, "--out", tmp_path / "votes")
    assert code == 2
    assert str(tmp_path / "cifar-10.npz") in error.replace("\n", "")
