import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.certifiers import folder as folder_module
from rrise.certifiers.held_out import HELD_OUT
from rrise.models.weights import load_tensors, save_tensors
from tests.closed_forms import HalfSpace
from tests.signing import sign

SEEN = "calibration_inputs_seen_in_training"
FILES = [
    "certifier.json",
    "surrogate.safetensors",
    "program.json",
    "probe.safetensors",
    "calibration.parquet",
    "README.md",
]


@pytest.fixture
def saved(certifier: rrise.Certifier, tmp_path: Path) -> Path:
    certifier.save(tmp_path / "certifier")
    return tmp_path / "certifier"


def test_holds_everything_and_nothing_half_written(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == sorted([*FILES, HELD_OUT])
    assert [path.name for path in saved.parent.iterdir()] == ["certifier"]


def test_a_fresh_process_without_the_model_class_gives_identical_certificates(
    certifier: rrise.Certifier, saved: Path, uniform: np.ndarray, tmp_path: Path
) -> None:
    np.save(tmp_path / "inputs.npy", uniform)
    code = (
        "import sys, numpy as np, rrise\n"
        "c = rrise.load_certifier(sys.argv[1])(np.load(sys.argv[2]))\n"
        "np.savez(sys.argv[3], label=c.label, radius=c.radius, lower_bound=c.lower_bound, issued=c.issued)\n"
        "assert 'tests' not in sys.modules\n"
    )
    arguments = [str(saved), str(tmp_path / "inputs.npy"), str(tmp_path / "out.npz")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=tmp_path)
    fresh, here = np.load(tmp_path / "out.npz"), certifier(uniform)
    for name in ("label", "radius", "lower_bound", "issued"):
        np.testing.assert_array_equal(fresh[name], getattr(here, name))


def test_loading_gives_the_same_numbers_and_words(certifier: rrise.Certifier, saved: Path) -> None:
    loaded = rrise.load_certifier(saved)
    assert loaded.calibration == certifier.calibration
    assert loaded.guarantee == certifier.guarantee
    assert loaded.guarantee.id == certifier.guarantee.id
    assert loaded.smoothing == certifier.smoothing
    assert loaded.input_shape == (4,)
    loaded.save(saved.parent / "again")
    assert (saved.parent / "again" / "README.md").read_text() == (saved / "README.md").read_text()


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_an_edited_or_a_missing_file_is_refused_and_named(saved: Path, name: str) -> None:
    path = saved / name
    content = path.read_bytes()
    for damaged in (
        content[: len(content) // 2],
        b"",
        content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            rrise.load_certifier(saved)
    path.unlink()
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        rrise.load_certifier(saved)


def test_an_edited_number_is_refused(saved: Path) -> None:
    path = saved / "certifier.json"
    manifest = json.loads(path.read_text())
    manifest["calibration"]["offset"] /= 2
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="was edited"):
        rrise.load_certifier(saved)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m["calibration"].update(offset=m["calibration"]["offset"] / 2), "contradicts itself"),
        (lambda m: m["calibration"].update(rank=m["calibration"]["rank"] - 1), "contradicts itself"),
        (lambda m: m["calibration"].update(size=10**6), "contradicts itself"),
        (lambda m: m["calibration"].update(beta="0.01"), "contradicts itself"),
        (
            lambda m: m["guarantee"]["facts"].update(failure="0.000001"),
            "its guarantee does not follow from its calibration",
        ),
        (lambda m: m["smoothing"].update(sigma=9.0), "of another smoothed classifier than its file"),
        (lambda m: m["class_names"].pop(), "its probe does not match"),
        (lambda m: m.update(input_shape=[4, 4]), "its probe does not match"),
        (lambda m: m["calibration"].update(offset="abc"), "is missing or invalid"),
        (
            lambda m: m["guarantee"]["facts"]["calibration"].update(seen_in_training=-5),
            "its guarantee does not follow",
        ),
        (lambda m: m.pop("files"), "does not list the files"),
        (lambda m: m.update(files=["a"]), "does not list the files"),
        (lambda m: m.pop("calibration"), "field 'calibration' is missing or invalid"),
        (lambda m: m.update(calibration=7), "is missing or invalid"),
        (lambda m: m["smoothing"].update(sigma="wide"), "expected a positive noise level sigma"),
        (lambda m: m["guarantee"]["facts"]["calibration"].update(surprise=1), "is missing or invalid"),
        (lambda m: m.update(input_shape=None), "is missing or invalid"),
    ],
)
def test_a_folder_that_contradicts_itself_is_refused_whatever_its_checksums(
    saved: Path, change: Callable[[dict], object], sentence: str
) -> None:
    sign(saved, dict.copy)
    rrise.load_certifier(saved)
    sign(saved, change)
    with pytest.raises(ValueError, match=sentence):
        rrise.load_certifier(saved)


def test_another_surrogate_with_right_checksums_is_refused(saved: Path) -> None:
    weights = load_tensors(saved / "surrogate.safetensors")
    save_tensors(saved / "surrogate.safetensors", {name: 5 * tensor for name, tensor in weights.items()})
    sign(saved, dict.copy)
    with pytest.raises(ValueError, match="does not compute here what it computed when it was saved"):
        rrise.load_certifier(saved)


@pytest.mark.parametrize(
    "text", ['{"format": 1, "sha256": NaN}', "[" * 100_000, '{"format": 1}', "", "[]", "null"]
)
def test_nonsense_in_the_manifest_is_a_sentence(saved: Path, text: str) -> None:
    (saved / "certifier.json").write_text(text)
    with pytest.raises(ValueError, match=r"certifier\.json"):
        rrise.load_certifier(saved)


def test_no_folder_another_folder_and_another_format_are_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="but there is none"):
        rrise.load_certifier(tmp_path / "absent")
    with pytest.raises(ValueError, match="is not a certifier folder"):
        rrise.load_certifier(tmp_path)
    path = saved / "certifier.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 99', 1))
    with pytest.raises(ValueError, match=r"expected format 1 in .*, got 99: this version"):
        rrise.load_certifier(saved)


def test_a_failed_save_leaves_nothing_and_keeps_the_former(
    certifier: rrise.Certifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certifier.save(tmp_path / "former")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_module, "model_card", full_disk)
    for name in ("new", "former"):
        with pytest.raises(OSError, match="No space left"):
            certifier.save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["former"]
    rrise.load_certifier(tmp_path / "former")


def test_never_overwrites_what_is_not_a_certifier(certifier: rrise.Certifier, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    (tmp_path / "file").touch()
    for name in ("thesis", "file"):
        with pytest.raises(ValueError, match=r"is not a certifier folder, or also holds other files"):
            certifier.save(tmp_path / name)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"
    certifier.save(tmp_path / "certifier")
    (tmp_path / "certifier" / "my-notes.txt").touch()
    with pytest.raises(ValueError, match="also holds other files"):
        certifier.save(tmp_path / "certifier")
    (tmp_path / "thesis" / "certifier.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a certifier folder"):
        certifier.save(tmp_path / "thesis")


def test_a_false_promise_in_the_folder_is_not_passed_on(certifier: rrise.Certifier, saved: Path) -> None:
    sign(saved, lambda manifest: manifest["guarantee"].update(promise="Never wrong.", not_promised=[]))
    assert rrise.load_certifier(saved).guarantee == certifier.guarantee


class OfPositive(nn.Module):
    """For spectra: takes the logarithm of its input, and has a NaN in its graph."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs.log().masked_fill(inputs < 0, float("nan")))


def test_a_surrogate_for_positive_inputs_without_a_range_can_be_loaded(tmp_path: Path) -> None:
    spectra = np.random.default_rng(0).random((100, 4), dtype=np.float32) + 5
    net = OfPositive()
    votes = rrise.collect_votes(net, spectra, sigma=0.1, n=50, input_range=None)
    certifier = rrise.calibrate(net, spectra, votes, sigma=0.1, failure=0.2, input_range=None)
    certifier.save(tmp_path / "c")
    loaded = rrise.load_certifier(tmp_path / "c")
    np.testing.assert_array_equal(loaded(spectra).lower_bound, certifier(spectra).lower_bound)


def test_saving_again_replaces_the_former(certifier: rrise.Certifier, saved: Path) -> None:
    certifier.save(saved)
    shutil.copytree(saved, saved.parent / "copy")
    rrise.load_certifier(saved.parent / "copy")


class Branching(nn.Module):
    """Python control flow on values: no program can be made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits = self.linear(inputs)
        return logits if bool(logits.sum() > 1e6) else 2 * logits


class Bolder(Branching):
    """The same weights, another function."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return 50 * super().forward(inputs)


def test_a_surrogate_that_is_no_program_is_loaded_into_its_class(
    half_space: HalfSpace, uniform: np.ndarray, tmp_path: Path
) -> None:
    votes = rrise.collect_votes(half_space, uniform, sigma=0.25, n=100)
    with pytest.warns(UserWarning, match="cannot be written as a program"):
        certifier = rrise.calibrate(Branching(), uniform, votes, sigma=0.25)
    certifier.save(tmp_path / "c")
    with pytest.raises(ValueError, match=r"Branching that could not be saved as a program"):
        rrise.load_certifier(tmp_path / "c")
    loaded = rrise.load_certifier(tmp_path / "c", surrogate=Branching())
    np.testing.assert_array_equal(loaded(uniform).lower_bound, certifier(uniform).lower_bound)
    with pytest.raises(ValueError, match="do not fit Linear"):
        rrise.load_certifier(tmp_path / "c", surrogate=nn.Linear(3, 2))
    with pytest.raises(ValueError, match="does not compute here what it computed"):
        rrise.load_certifier(tmp_path / "c", surrogate=Bolder())
    module = Branching()
    before = rrise.fingerprint(module)
    loaded = rrise.load_certifier(tmp_path / "c", surrogate=module)
    assert rrise.fingerprint(module) == before
    assert module.linear.weight.requires_grad


def test_attention_gives_identical_certificates_after_loading(uniform: np.ndarray, tmp_path: Path) -> None:
    """Its module takes a fast path that its program does not: calibrated is what is saved."""
    net = nn.Sequential(
        nn.Unflatten(1, (2, 2)),
        nn.TransformerEncoderLayer(2, 1, 8, batch_first=True),
        nn.Flatten(),
        nn.Linear(4, 2),
    ).eval()
    votes = rrise.collect_votes(net, uniform[:200], sigma=0.25, n=100)
    certifier = rrise.calibrate(net, uniform[:200], votes, sigma=0.25, base=net)
    certifier.save(tmp_path / "c")
    loaded = rrise.load_certifier(tmp_path / "c")
    np.testing.assert_array_equal(loaded(uniform).lower_bound, certifier(uniform).lower_bound)
    with pytest.raises(ValueError, match="load it without surrogate="):
        rrise.load_certifier(tmp_path / "c", surrogate=net)
