"""A runtime is one object: registered once, it is found by exports, folders, cards and the command line."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import rrise
from rrise.deployment.export import runtimes
from rrise.deployment.export.runtimes import ONNX_RUNTIME, RUNTIMES, Runtime, register_runtime
from rrise.errors import SettingError

from .small_exports import Calibrated

pytest.importorskip("onnxruntime")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """ONNX Runtime under another name."""

    def found(name: str) -> str:
        return version("onnxruntime" if name == "toy" else name)

    monkeypatch.setattr(runtimes, "version", found)
    usage = "answers = toy.run('certifier.onnx', images)"
    yield register_runtime(Runtime("toy", "Toy", "toys", ONNX_RUNTIME.open, usage))
    del RUNTIMES["toy"]


def test_a_registered_runtime_is_exported_for_loaded_and_described(
    toy: Runtime, made: Calibrated, tmp_path: Path
) -> None:
    exported = rrise.export_certifier(
        made.certifier, made.images, made.votes, tmp_path / "out", runtime=toy.name
    )
    assert exported.runtime == "toy-fp32"
    again = rrise.load_deployed(tmp_path / "out")
    assert (again.certify(made.fresh).radius == exported.certify(made.fresh).radius).all()
    card = (tmp_path / "out" / "README.md").read_text()
    assert "exported for toy as fp32" in card
    assert toy.usage in card
    assert "runs in toy as fp32" in again.guarantee.words.assumptions[-1]


def test_names_are_unique_and_unknown_ones_are_refused_with_those_there_are(
    made: Calibrated, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match="a runtime named 'openvino' is registered already"):
        register_runtime(RUNTIMES["openvino"])
    with pytest.raises(SettingError, match="expected a runtime out of onnxruntime, openvino; got 'openvin'"):
        rrise.export_certifier(made.certifier, made.images, made.votes, tmp_path / "out", runtime="openvin")
