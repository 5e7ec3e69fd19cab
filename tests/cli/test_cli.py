import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import rrise


@pytest.fixture
def certifier(quick_demo: Path) -> Path:
    return quick_demo / "certifier"


@pytest.fixture
def samples(quick_demo: Path) -> Path:
    return quick_demo / "evaluation" / "samples"


def test_version(run) -> None:
    assert run("--version") == (0, f"rrise {rrise.__version__}\n", "")


def test_certifies_a_folder_as_a_table(run, certifier: Path, samples: Path) -> None:
    code, output, _ = run("certify", certifier, samples)
    assert code == 0
    assert output.count(".png") == 12
    assert "The probability of issuing a wrong radius is at most 0.01" in output
    assert "P[issued]" in output


def test_votes_and_a_wanted_radius_need_the_base(
    run, quick_demo: Path, certifier: Path, samples: Path
) -> None:
    base = quick_demo / "base"
    code, output, _ = run("certify", certifier, samples, "--votes", 64, "--base", base, "--json")
    assert code == 0
    facts = json.loads(output)["guarantee"]["facts"]
    assert (facts["method"], facts["settings"]["votes"]) == ("surrogate-with-votes", 64)
    code, output, _ = run("certify", certifier, samples, "--radius", 0.4, "--base", base)
    assert code == 0
    assert "monte-carlo" in output
    assert "the failure above is the sum of both" in " ".join(output.split())
    for arguments, sentence in (
        (("--votes", 64), "--votes has no effect without --base"),
        (("--base", base), "--base has no effect without --votes or --radius"),
        (("--base", base, "--votes", 7), "expected votes out of"),
    ):
        code, _, errors = run("certify", certifier, samples, *arguments)
        assert code == 2
        assert sentence in " ".join(errors.split())


def test_certifies_images_and_arrays_as_json(run, certifier: Path, samples: Path, tmp_path: Path) -> None:
    image = sorted(samples.iterdir())[0]
    pixels = np.asarray(Image.open(image), dtype=np.float32)[None] / 255
    np.save(tmp_path / "one.npy", pixels)
    np.save(tmp_path / "two.npy", np.stack([pixels, pixels]))
    code, output, _ = run("certify", certifier, image, tmp_path / "one.npy", tmp_path / "two.npy", "--json")
    assert code == 0
    answer = json.loads(output)
    certificates = answer["certificates"]
    assert [(Path(c["file"]).name, c["index"]) for c in certificates] == [
        (image.name, 0),
        ("one.npy", 0),
        ("two.npy", 0),
        ("two.npy", 1),
    ]
    assert len({(c["label"], c["radius"], c["lower_bound"], c["issued"]) for c in certificates}) == 1
    direct = rrise.load_certifier(certifier)(pixels[None])
    assert certificates[0]["label"] == direct.label[0]
    assert direct.radius[0] - 2e-6 <= certificates[0]["radius"] <= direct.radius[0]
    assert answer["guarantee"]["failure"] == "0.01"
    assert answer["guarantee"]["id"]


def bad_inputs(folder: Path) -> dict[str, str]:
    """Files that must be refused, and a part of the sentence that says why."""
    Image.new("L", (9, 9)).save(folder / "large.png")
    Image.new("RGBA", (8, 8)).save(folder / "alpha.png")
    (folder / "text.png").write_text("not an image")
    (folder / "notes.txt").write_text("notes")
    np.save(folder / "bytes.npy", np.zeros((1, 8, 8), np.uint8))
    np.save(folder / "shape.npy", np.zeros((3, 8, 8)))
    np.save(folder / "range.npy", np.full((1, 8, 8), 16.0))
    np.save(folder / "nan.npy", np.full((1, 8, 8), np.nan))
    (folder / "empty").mkdir()
    return {
        "large.png": "expected an image of 8 x 8 pixels, got 9 x 9",
        "alpha.png": "got mode RGBA",
        "text.png": "cannot be read",
        "notes.txt": "expected a file of kind",
        "bytes.npy": "got uint8: divide 8-bit images by 255",
        "shape.npy": "expected inputs of shape (inputs, 1, 8, 8), got (3, 8, 8)",
        "range.npy": "expected inputs in [0, 1], got values from 16 to 16",
        "nan.npy": "NaN or infinity",
        "absent.png": "there is no file or folder",
        "empty": "holds no",
    }


def test_bad_inputs_exit_with_2_and_a_sentence(run, certifier: Path, tmp_path: Path) -> None:
    for name, sentence in bad_inputs(tmp_path).items():
        code, output, errors = run("certify", certifier, tmp_path / name)
        assert code == 2, name
        assert sentence in errors
        assert name in errors
        assert output == ""


def test_bad_certifiers_exit_with_2_and_a_sentence(
    run, certifier: Path, samples: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(certifier, copy)
    (copy / "program.json").write_text("{}")
    for folder, sentence in [
        (tmp_path / "absent", "expected a certifier folder at"),
        (tmp_path, "is not a certifier folder"),
        (copy, "program.json is damaged or edited"),
    ]:
        code, _, errors = run("certify", folder, samples)
        assert code == 2
        assert sentence in errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("certify",),
        ("certify", "x"),
        ("demo", "--failure", "x"),
        ("demo", "--nonsense"),
        ("nonsense",),
        ("demo", "--failure", "1.5", "--quick"),
        ("demo", "--score", "median", "--quick"),
        ("demo", "--strategy", "tail", "--quick"),
    ],
    ids=" ".join,
)
def test_wrong_arguments_exit_with_2(run, arguments: tuple[str, ...], tmp_path: Path) -> None:
    if arguments[0] == "demo":
        arguments = (*arguments, "--out", str(tmp_path / "run"))
    code, output, errors = run(*arguments)
    assert code == 2
    assert errors.strip()
    assert "loading torch" not in output, "refused only after work had begun"


def test_an_unwritable_place_is_a_sentence(run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, errors = run("demo", "--quick", "--out", tmp_path / "file" / "run")
    assert code == 2
    assert "file" in errors


def test_an_unexpected_failure_is_a_sentence_too(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the cat sat on the keyboard")

    monkeypatch.setattr("rrise.deployment.loading.load_deployed", broken)
    code, _, errors = run("certify", "a", "b")
    assert code == 1
    assert "RuntimeError: the cat sat on the keyboard" in errors


def test_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rrise", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"rrise {rrise.__version__}\n"


@pytest.mark.parametrize(("given", "used"), [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")])
def test_threads_wait_without_work_unless_told_otherwise(given: dict[str, str], used: str) -> None:
    """The policy is read when torch is loaded: it must be set before."""
    code = "import rrise.cli, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    others = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    told = subprocess.run(
        [sys.executable, "-c", code], env=others | given, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [used, "False"]
