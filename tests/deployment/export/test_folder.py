"""The exported folder: whole, true to itself, and refused otherwise."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import onnxruntime
from torch import nn

import rrise
from rrise.deployment.export import folder as exported_folder
from rrise.deployment.export.bound_table import BoundTable
from rrise.deployment.export.exporting import export_certifier
from rrise.deployment.export.graph import surrogate_graph, with_certificates
from rrise.deployment.loading import load_deployed
from rrise.errors import InputError
from tests.deployment.export.small_exports import Calibrated
from tests.signing import sign

FILES = ["certifier.onnx", "certifier.json", "calibration.parquet", "probe.npz", "README.md"]


@pytest.fixture(scope="module")
def folders(made: Calibrated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported")
    for name in ("fp32", "int8"):
        export_certifier(made.certifier, made.images, made.votes, place / name, int8=name == "int8")
    return place


@pytest.fixture
def saved(folders: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders / "fp32", tmp_path / "saved"))


def test_holds_everything_and_nothing_half_written(folders: Path) -> None:
    assert sorted(path.name for path in (folders / "fp32").iterdir()) == sorted(FILES)
    assert sorted(path.name for path in folders.iterdir()) == ["fp32", "int8"]


def test_says_what_it_is(folders: Path, made: Calibrated) -> None:
    manifest = json.loads((folders / "int8" / "certifier.json").read_text())
    assert manifest["form"] == {
        "runtime": "onnxruntime",
        "version": manifest["form"]["version"],
        "numbers": "int8",
    }
    assert manifest["input_shape"] == [1, 8, 8]
    assert manifest["calibration"]["size"] == 72
    assert manifest["opset"] >= 18
    assert manifest["guarantee"]["failure"] == "0.1"
    assert manifest["guarantee"]["facts"]["form"]["numbers"] == "int8"
    card = (folders / "int8" / "README.md").read_text()
    assert "onnxruntime as int8" in card
    assert made.certifier.guarantee.words.promise in card


@pytest.mark.parametrize("name", FILES)
def test_one_changed_byte_and_a_missing_file_are_refused_and_named(saved: Path, name: str) -> None:
    path = saved / name
    content = path.read_bytes()
    for damaged in (
        content[:-40] + bytes([content[-40] ^ 1]) + content[-39:],
        content[: len(content) // 2],
        b"",
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            load_deployed(saved)
    path.unlink()
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        load_deployed(saved)


def test_a_graph_of_another_form_is_refused_even_with_new_checksums(saved: Path, folders: Path) -> None:
    shutil.copy(folders / "int8" / "certifier.onnx", saved / "certifier.onnx")
    with pytest.raises(ValueError, match=r"certifier\.onnx is damaged or edited"):
        load_deployed(saved)
    sign(saved)
    with pytest.raises(ValueError, match="was not calibrated in the form"):
        load_deployed(saved)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda m: m["form"].update(runtime="openvino"),
            "its guarantee does not follow from its calibration",
        ),
        (lambda m: m["form"].update(numbers="int8"), "its guarantee does not follow from its calibration"),
        (
            lambda m: (
                m["form"].update(numbers="int8"),
                m["guarantee"]["facts"]["form"].update(numbers="int8"),
            ),
            "was not calibrated in the form",
        ),
        (lambda m: m["calibration"].update(offset=0.0), "contradicts itself"),
        (lambda m: m["calibration"].update(rank=3), "contradicts itself"),
        (
            lambda m: m["guarantee"]["facts"].update(failure="0.001"),
            "its guarantee does not follow from its calibration",
        ),
        (lambda m: m["smoothing"].update(sigma=2.0), "of another smoothed classifier than its file"),
        (
            lambda m: (
                m["smoothing"].update(sigma=2.0),
                m["guarantee"]["facts"]["smoothing"].update(sigma=2.0),
            ),
            "was not calibrated in the form",
        ),
        (lambda m: m["class_names"].pop(), "was not calibrated in the form"),
        (lambda m: m.update(format=2), "expected format 1 in .*, got 2"),
        (lambda m: m.pop("smoothing"), "field 'smoothing' is missing or invalid"),
        (lambda m: m["files"].pop("probe.npz"), "does not list the files"),
    ],
)
def test_an_edited_manifest_is_refused_even_with_a_new_checksum(
    saved: Path, change: object, sentence: str
) -> None:
    sign(saved, change)
    with pytest.raises(ValueError, match=sentence):
        load_deployed(saved)


def test_a_graph_with_another_calibration_inside_is_refused(saved: Path, made: Calibrated) -> None:
    loaded = load_deployed(saved)
    surrogate = surrogate_graph(made.certifier.network, torch.from_numpy(made.images[:3]))
    table = BoundTable.of(loaded.calibration, rrise.Gaussian(5 * 0.25))
    forged = with_certificates(surrogate, (0.0, 1.0), table, loaded.export.identity)
    (saved / "certifier.onnx").write_bytes(forged.SerializeToString())
    sign(saved)
    with pytest.raises(ValueError, match="does not hold the calibration of its folder"):
        load_deployed(saved)


def test_a_graph_with_other_weights_is_refused(saved: Path) -> None:
    model = onnx.load(saved / "certifier.onnx")
    weight = next(part for part in model.graph.initializer if len(part.dims) == 4)
    values = onnx.numpy_helper.to_array(weight) * np.float32(1.01)
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, saved / "certifier.onnx")
    sign(saved)
    with pytest.raises(
        ValueError, match=r"in onnxruntime-fp32 .*, the surrogate in .* does not compute here"
    ):
        load_deployed(saved)


def test_a_graph_that_the_runtime_cannot_open_is_refused_in_a_sentence(saved: Path) -> None:
    identity = load_deployed(saved).export.identity
    (saved / "certifier.onnx").write_bytes(b"nonsense" + identity.encode())
    sign(saved)
    with pytest.raises(ValueError, match="onnxruntime cannot open the exported certifier"):
        load_deployed(saved)


def test_torch_and_the_exported_form_are_loaded_the_same_way(
    made: Calibrated, folders: Path, tmp_path: Path
) -> None:
    made.certifier.save(tmp_path / "certifier")
    here, there = load_deployed(tmp_path / "certifier"), load_deployed(folders / "fp32", threads=1)
    assert (here.runtime, there.runtime) == ("torch", "onnxruntime-fp32")
    exact, answers, others = made.certifier(made.fresh), here.certify(made.fresh), there.certify(made.fresh)
    for name in ("label", "radius", "lower_bound", "issued"):
        np.testing.assert_array_equal(getattr(answers, name), getattr(exact, name))
        assert getattr(answers, name).dtype == getattr(others, name).dtype
    assert answers.probabilities.dtype == others.probabilities.dtype == np.float32
    np.testing.assert_allclose(answers.probabilities, others.probabilities, atol=1e-5)
    assert len(here.certify(made.fresh[:0])) == 0


@pytest.mark.parametrize("value", [-1e-6, 1.5, np.inf, -np.inf, np.nan])
def test_both_forms_refuse_an_input_out_of_range_by_its_number(
    made: Calibrated, folders: Path, tmp_path: Path, value: float
) -> None:
    made.certifier.save(tmp_path / "certifier")
    inputs = made.fresh[:5].copy()
    inputs.reshape(len(inputs), -1)[3, 3] = value
    for folder in (tmp_path / "certifier", folders / "fp32"):
        with pytest.raises(InputError, match=r"expected (finite )?inputs"):
            load_deployed(folder).certify(inputs)


@pytest.mark.parametrize("value", [-1e-6, 1.5, np.inf, -np.inf, np.nan])
def test_the_graph_by_itself_issues_no_radius_out_of_range(
    made: Calibrated, folders: Path, value: float
) -> None:
    inputs = made.fresh[:20].copy()
    sure = made.certifier(inputs).issued
    assert sure.any()
    inputs.reshape(len(inputs), -1)[::2, 3] = value
    session = onnxruntime.InferenceSession(folders / "fp32" / "certifier.onnx")
    issued, radius = session.run(["issued", "radius"], {"images": inputs})
    assert not issued[::2].any()
    assert not radius[::2].any()
    np.testing.assert_array_equal(issued[1::2], sure[1::2])


def test_both_forms_abstain_where_the_surrogate_returns_nan(tmp_path: Path) -> None:
    class Breaks(nn.Module):
        """Returns NaN for inputs whose first value is above 0.9, where no calibration input is."""

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            first = inputs[:, :1]
            logits = 20 * torch.cat([first, 1 - first], dim=1)
            return logits + 0 * torch.log(0.9 - first)

    inputs = np.random.default_rng(0).random((200, 2), dtype=np.float32) * np.float32(0.9)
    votes = rrise.collect_votes(nn.Linear(2, 2), inputs, sigma=0.25, n=100)
    certifier = rrise.calibrate(Breaks(), inputs, votes, failure=0.1)
    exported = rrise.export_certifier(certifier, inputs, votes, tmp_path / "exported")
    asked = np.array([[0.1, 0.5], [0.95, 0.5], [0.2, 0.5]], dtype=np.float32)
    for form in (certifier, exported):
        found = form.certify(asked)
        assert found.probabilities is not None
        assert np.isnan(found.probabilities[1]).any()
        assert not found.issued[1]
        assert found.radius[1] == found.lower_bound[1] == 0
        np.testing.assert_array_equal(found.label[::2], certifier.certify(asked[::2]).label)


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a certifier folder at"):
        load_deployed(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is not a certifier folder"):
        load_deployed(tmp_path)


def test_an_exported_folder_is_replaced_and_any_other_is_not(
    made: Calibrated, saved: Path, tmp_path: Path
) -> None:
    data = (made.certifier, made.images, made.votes)
    made.certifier.save(tmp_path / "certifier")
    (tmp_path / "file").write_text("mine")
    other = Path(shutil.copytree(saved, tmp_path / "other"))
    (other / "mine.txt").write_text("mine")
    for name in ("certifier", "file", "other"):
        with pytest.raises(ValueError, match="exists and is not an exported certifier"):
            export_certifier(*data, tmp_path / name)
    assert rrise.load_certifier(tmp_path / "certifier").calibration == made.certifier.calibration
    export_certifier(*data, saved)
    assert load_deployed(saved).calibration.size == 200


def test_nothing_is_left_after_an_error(
    made: Calibrated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> str:
        raise OSError("no space left on device")

    monkeypatch.setattr(exported_folder, "card", full_disk)
    with pytest.raises(OSError, match="no space"):
        export_certifier(made.certifier, made.images, made.votes, tmp_path / "out")
    assert not any(tmp_path.iterdir())
