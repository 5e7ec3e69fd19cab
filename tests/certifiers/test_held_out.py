"""The calibration inputs that a certifier keeps for an export."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import rrise
from rrise.certifiers import held_out
from rrise.certifiers.held_out import HELD_OUT, HeldOut
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.errors import FolderError
from rrise.models.weights import load_tensors, save_tensors

VOTES = np.array([[3, 1], [0, 4]])


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_inputs_are_read_back_exactly(kind: torch.dtype, tmp_path: Path) -> None:
    pixels = np.arange(2 * 128, dtype=np.uint8).reshape(2, 128)
    inputs = pixels.astype(np.float32) / np.float32(255)
    inputs += np.float32(0 if kind == torch.uint8 else 1e-7)
    HeldOut(inputs, VOTES).save(tmp_path)
    assert load_tensors(tmp_path / HELD_OUT)["inputs"].dtype == kind
    found = HeldOut.load(tmp_path)
    assert found is not None
    np.testing.assert_array_equal(found.inputs, inputs)
    np.testing.assert_array_equal(found.votes, VOTES)


def test_a_certifier_works_after_its_inputs_were_deleted(
    certifier: SurrogateCertifier, uniform: np.ndarray, tmp_path: Path
) -> None:
    certifier.save(tmp_path / "saved")
    (tmp_path / "saved" / HELD_OUT).unlink()
    again = rrise.load_certifier(tmp_path / "saved")
    np.testing.assert_array_equal(again(uniform[500:]).radius, certifier(uniform[500:]).radius)


def test_a_folder_with_its_inputs_can_be_overwritten(certifier: SurrogateCertifier, tmp_path: Path) -> None:
    certifier.save(tmp_path / "saved")
    certifier.save(tmp_path / "saved", inputs=False)
    assert not (tmp_path / "saved" / HELD_OUT).exists()


def test_large_inputs_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HeldOut.kept(torch.zeros(2, 4), VOTES) is not None
    monkeypatch.setattr(held_out, "MOST_BYTES", 31)
    assert HeldOut.kept(torch.zeros(2, 4), VOTES) is None


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    save_tensors(tmp_path / HELD_OUT, {"inputs": torch.zeros(1)})
    with pytest.raises(FolderError, match="does not hold calibration inputs and votes: delete it"):
        HeldOut.load(tmp_path)
    shutil.copy(__file__, tmp_path / HELD_OUT)
    with pytest.raises(FolderError, match="not a readable safetensors file"):
        HeldOut.load(tmp_path)
