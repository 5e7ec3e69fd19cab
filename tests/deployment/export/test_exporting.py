"""Exporting: calibrated again in the exported form, from the certifier's own data and no other."""

import subprocess
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import rrise
from rrise.deployment.export import quantisation, runtimes
from rrise.deployment.export.exported import ExportedCertifier
from rrise.deployment.export.exporting import RANGE_INPUTS, export_certifier
from rrise.deployment.export.folder import read_cost
from rrise.deployment.loading import load_deployed
from rrise.models.catalogue import build_model
from rrise.statistics import fit_calibration
from rrise.votes.array import Votes
from tests.deployment.export.small_exports import Calibrated, calibrated, rrise_digests

SHAPE = (1, 8, 8)


@pytest.fixture(scope="module")
def exported(made: Calibrated, tmp_path_factory: pytest.TempPathFactory) -> ExportedCertifier:
    return export_certifier(
        made.certifier, made.images, made.votes, tmp_path_factory.mktemp("export") / "fp32"
    )


@pytest.fixture(scope="module")
def int8(made: Calibrated, tmp_path_factory: pytest.TempPathFactory) -> ExportedCertifier:
    folder = tmp_path_factory.mktemp("export") / "int8"
    return export_certifier(made.certifier, made.images, made.votes, folder, int8=True)


def check_parity(made: Calibrated, exported: ExportedCertifier) -> None:
    """The same labels, and radii at most rounding above torch's and at most 1e-4 below."""
    inputs = np.concatenate([made.fresh, made.images])
    here, there = made.certifier(inputs), exported.certify(inputs)
    np.testing.assert_array_equal(there.label, here.label)
    assert (there.radius <= here.radius + 1e-5).all()
    assert (there.radius >= here.radius - 1e-4).all()
    np.testing.assert_allclose(there.lower_bound, here.lower_bound, atol=1.2e-4)
    assert np.array_equal(there.issued, there.lower_bound > 0.5)
    assert 0.2 < there.issued.mean() < 1


def test_fp32_gives_torchs_certificates(made: Calibrated, exported: ExportedCertifier) -> None:
    check_parity(made, exported)
    assert exported.runtime == "onnxruntime-fp32"
    assert (exported.input_shape, exported.smoothing.input_range) == (SHAPE, (0.0, 1.0))
    assert exported.class_names == made.certifier.class_names


def test_the_additive_score_is_exported_too(made: Calibrated, tmp_path: Path) -> None:
    certifier = rrise.calibrate(
        made.certifier.network, made.images, made.votes, sigma=0.25, failure=0.1, score="additive"
    )
    additive = made._replace(certifier=certifier)
    check_parity(additive, export_certifier(certifier, made.images, made.votes, tmp_path / "out"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet-18", "mlp-mixer-tiny"])
def test_the_papers_networks_give_torchs_certificates(name: str, tmp_path: Path) -> None:
    network = build_model(name, seed=0)
    for weight in network.parameters():
        if not weight.any():  # timm begins some with zeros, which answer the same for every input
            nn.init.normal_(weight, std=0.1)
    made = calibrated(network, (3, 32, 32), inputs=60)
    check_parity(made, export_certifier(made.certifier, made.images, made.votes, tmp_path / "out"))


def test_any_batch_size_and_none(made: Calibrated, exported: ExportedCertifier) -> None:
    together = exported.certify(made.fresh)
    single = [exported.certify(image[None]) for image in made.fresh]
    np.testing.assert_allclose([answer.radius[0] for answer in single], together.radius, atol=3e-5)
    empty = exported.certify(made.fresh[:0])
    assert len(empty) == 0
    assert empty.probabilities.shape == (0, 10)


def test_the_offset_is_fitted_to_what_the_exported_surrogate_answers(
    made: Calibrated, exported: ExportedCertifier, int8: ExportedCertifier
) -> None:
    for found in (exported, int8):
        answers = found.certify(made.images)
        top = answers.probabilities.max(axis=1).astype(np.float64)
        agreeing = np.take_along_axis(np.asarray(made.votes), answers.label[:, None], axis=1)[:, 0]
        used = np.isin(top, found.evidence.top_probability)
        assert used.sum() >= found.calibration.size
        rows = [int(np.flatnonzero(top == value)[0]) for value in found.evidence.top_probability]
        how = {"failure": "0.1", "score": "probit", "label": answers.label[rows]}
        again, _ = fit_calibration(top[rows], agreeing[rows], 400, **how)
        assert again == found.calibration
    assert exported.calibration.size == 200
    assert int8.calibration.offset != exported.calibration.offset
    assert not np.allclose(
        exported.certify(made.fresh).probabilities, int8.certify(made.fresh).probabilities, atol=1e-5
    )


def test_int8_ranges_come_from_inputs_that_do_not_fit_the_offset(
    made: Calibrated, int8: ExportedCertifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert int8.calibration.size == 200 - RANGE_INPUTS
    assert f"{RANGE_INPUTS} of the certifier's calibration inputs" in int8.guarantee.words.assumptions[-1]
    seen = []
    monkeypatch.setattr(
        quantisation, "quantised", lambda model, inputs: seen.extend(rrise_digests(inputs)) or model
    )
    other = export_certifier(made.certifier, made.images, made.votes, tmp_path / "out", int8=True)
    chosen = np.isin(np.array(rrise_digests(made.images)), np.array(seen))
    assert chosen.sum() == RANGE_INPUTS
    top = other.certify(made.images[~chosen]).probabilities.max(axis=1)
    np.testing.assert_allclose(np.sort(other.evidence.top_probability), np.sort(top), atol=1e-6)


def test_int8_with_range_inputs_of_its_own_keeps_every_calibration_input(
    made: Calibrated, tmp_path: Path
) -> None:
    data = (made.certifier, made.images, made.votes, tmp_path / "out")
    with pytest.raises(ValueError, match=r"2 of 5 range inputs are calibration inputs"):
        export_certifier(*data, int8=True, range_inputs=np.concatenate([made.fresh[:3], made.images[:2]]))
    with pytest.raises(ValueError, match="expected range inputs of shape"):
        export_certifier(*data, int8=True, range_inputs=made.fresh[:, 0])
    found = export_certifier(*data, int8=True, range_inputs=made.fresh[:40])
    assert found.calibration.size == 200
    assert found.guarantee.form.range_inputs == 40


def test_int8_changes_little(made: Calibrated, int8: ExportedCertifier) -> None:
    here, there = made.certifier(made.fresh), int8.certify(made.fresh)
    assert (here.label == there.label).mean() > 0.9
    assert abs(here.radius.mean() - there.radius.mean()) < 0.05
    assert int8.runtime == "onnxruntime-int8"


@pytest.mark.parametrize("numbers", ["fp32", "int8"])
def test_openvino_is_calibrated_in_its_own_form(made: Calibrated, numbers: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    found = export_certifier(
        made.certifier, made.images, made.votes, tmp_path / "out", runtime="openvino", int8=numbers == "int8"
    )
    assert found.runtime == f"openvino-{numbers}"
    if numbers == "fp32":
        check_parity(made, found)
    assert load_deployed(tmp_path / "out").calibration == found.calibration


def test_a_runtime_that_is_missing_is_named(
    made: Calibrated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(runtimes, "version", missing)
    with pytest.raises(ValueError, match="openvino is not installed"):
        export_certifier(made.certifier, made.images, made.votes, tmp_path / "out", runtime="openvino")
    assert not (tmp_path / "out").exists()


def of_other(made: Calibrated, **changes: object) -> Votes:
    assert made.votes.smoothing is not None
    return Votes(np.asarray(made.votes), replace(made.votes.smoothing, **changes), digests=made.votes.digests)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (lambda m: (m.images[::-1], m.votes), "the votes are of other inputs than those given"),
        (lambda m: (m.images, m.votes[::-1]), "the votes are of other inputs than those given"),
        (
            lambda m: (m.images[::-1], np.array(m.votes[::-1])),
            "expected the inputs and votes that the certifier",
        ),
        (
            lambda m: (m.images, np.array(m.votes)[:, ::-1]),
            "expected the inputs and votes that the certifier",
        ),
        (
            lambda m: (m.fresh, np.array(m.votes)[:100]),
            "200 calibration inputs of the certifier with 400 votes each, got 100",
        ),
        (lambda m: (m.images, 2 * np.array(m.votes)), "got 200 with 800"),
        (lambda m: (m.images, np.array(m.votes)[:, :9]), "expected votes over 10 classes"),
        (lambda m: (m.images[:, 0], m.votes), "expected inputs of shape"),
        (lambda m: (m.images + 1, m.votes), r"expected inputs in \[0, 1\]"),
        (lambda m: (m.images, of_other(m, noise=rrise.Gaussian(0.5))), "sigma 0.25 here, 0.5 there"),
        (lambda m: (m.images, of_other(m, base="1" * 64)), "base classifier 000000000000 here"),
        (lambda m: (m.images, of_other(m, precision="bfloat16")), "precision float32 here, bfloat16 there"),
    ],
)
def test_other_data_than_the_certifiers_own_is_refused(
    made: Calibrated, data: object, sentence: str, tmp_path: Path
) -> None:
    images, votes = data(made)
    with pytest.raises(ValueError, match=sentence):
        export_certifier(made.certifier, images, votes, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_too_few_calibration_inputs_for_int8_are_refused_with_what_to_do(tmp_path: Path) -> None:
    made = calibrated(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), SHAPE, inputs=130)
    with pytest.raises(ValueError, match=r"2 calibration inputs are too few for gamma=0\.08"):
        export_certifier(made.certifier, made.images, made.votes, tmp_path / "out", int8=True)
    made = calibrated(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), SHAPE, inputs=100)
    with pytest.raises(ValueError, match=r"too few: .* choose the int8 ranges, .* pass range_inputs"):
        export_certifier(made.certifier, made.images, made.votes, tmp_path / "out", int8=True)


class Branching(nn.Module):
    """Looks at the values of its input, which no graph can."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = images.flatten(1)
        return self.layer(flat) if flat.max() > 0 else self.layer(-flat)


@pytest.mark.skipif(
    int(torch.__version__.split(".")[1]) < 9, reason="before PyTorch 2.9 the exporter traces one branch"
)
def test_a_surrogate_without_a_graph_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="cannot be written as a program"):
        made = calibrated(Branching(), SHAPE)
    with pytest.raises(ValueError, match="the surrogate cannot be written as an ONNX graph: "):
        export_certifier(made.certifier, made.images, made.votes, tmp_path / "out")


def test_says_what_it_cost(
    made: Calibrated, exported: ExportedCertifier, int8: ExportedCertifier, tmp_path: Path
) -> None:
    export_certifier(made.certifier, made.images, made.votes, tmp_path / "out")
    cost = read_cost(tmp_path / "out")
    here, there = made.certifier(made.images), exported.certify(made.images)
    assert cost["torch"]["mean_radius"] == pytest.approx(here.radius.mean())
    assert cost["exported"]["mean_radius"] == pytest.approx(there.radius.mean())
    assert cost["mean_radius_lost"] == pytest.approx(here.radius.mean() - there.radius.mean(), abs=1e-9)
    assert cost["labels_changed"] == 0
    assert "the mean radius is" in (tmp_path / "out" / "README.md").read_text()


def test_a_fresh_process_with_onnx_runtime_and_numpy_alone_gives_the_same_certificates(
    made: Calibrated, tmp_path: Path
) -> None:
    exported = export_certifier(made.certifier, made.images, made.votes, tmp_path / "out")
    np.save(tmp_path / "inputs.npy", made.fresh)
    code = (
        "import sys\n"
        "for name in ('torch', 'rrise', 'scipy', 'onnx', 'pyarrow'): sys.modules[name] = None\n"
        "import numpy as np, onnxruntime\n"
        "session = onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])\n"
        "names = [output.name for output in session.get_outputs()]\n"
        "found = session.run(names, {'images': np.load(sys.argv[2])})\n"
        "np.savez(sys.argv[3], **dict(zip(names, found)))\n"
    )
    arguments = [str(tmp_path / name) for name in ("out/certifier.onnx", "inputs.npy", "found.npz")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=tmp_path)
    fresh, here = np.load(tmp_path / "found.npz"), exported.certify(made.fresh)
    for name in ("label", "radius", "lower_bound", "issued", "probabilities"):
        np.testing.assert_array_equal(fresh[name], getattr(here, name))
