"""Folders that version 0.1 wrote still load, and give the certificates that they gave then.

They were made by rrise 0.1.0 before guarantees became data: a probit and an additive certifier, one that was
recalibrated, one exported for ONNX Runtime, and votes, each with what it answered.
"""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.certifiers.guarantee import Kind
from rrise.votes.plan import VotePlan

FOLDERS = Path(__file__).parent / "folders_of_0_1"


def check_certificates(certifier: rrise.Certifier, name: str) -> None:
    with np.load(FOLDERS / f"certificates-{name}.npz") as then:
        now = certifier.certify(then["inputs"])
        np.testing.assert_array_equal(now.label, then["label"])
        for field in ("radius", "lower_bound"):  # a network's last bits differ between processors
            np.testing.assert_allclose(getattr(now, field), then[field], rtol=0, atol=2e-7)
    assert now.issued.any()
    assert not now.issued.all()


@pytest.mark.parametrize("score", ["probit", "additive"])
def test_a_certifier_loads_and_certifies_as_before(score: str) -> None:
    certifier = rrise.load_certifier(FOLDERS / f"certifier-{score}")
    assert certifier.calibration.score.name == score
    assert certifier.class_names == ("a", "b", "c")
    check_certificates(certifier, score)
    guarantee = certifier.guarantee
    assert (guarantee.kind, guarantee.failure_text) == (Kind.MARGINAL, "0.1")
    assert guarantee.calibration is not None
    assert (guarantee.calibration.inputs, guarantee.calibration.votes) == (200, 200)
    assert guarantee.calibration.seen_in_training == 0


def test_a_recalibrated_certifier_keeps_saying_what_it_was_calibrated_on() -> None:
    facts = rrise.load_certifier(FOLDERS / "recalibrated").guarantee.calibration
    assert facts is not None
    assert facts.seen_in_training is None
    assert facts.source is not None
    assert facts.source.startswith("queries audited from 2026-11-15")


def test_saved_again_it_is_a_folder_of_today(tmp_path: Path) -> None:
    certifier = rrise.load_certifier(FOLDERS / "certifier-probit")
    certifier.save(tmp_path / "today")
    again = rrise.load_certifier(tmp_path / "today")
    assert again.guarantee == certifier.guarantee
    check_certificates(again, "probit")


def test_an_exported_certifier_loads_and_certifies_as_before() -> None:
    exported = rrise.load_deployed(FOLDERS / "exported-additive")
    assert exported.runtime == "onnxruntime-fp32"
    assert exported.guarantee.form is not None
    check_certificates(exported, "exported-additive")


def test_votes_are_read_and_go_on(tmp_path: Path) -> None:
    with np.load(FOLDERS / "votes.npz") as then:
        counts, inputs = then["counts"], then["inputs"]
        base = nn.Linear(4, 3)
        with torch.no_grad():
            base.weight.copy_(torch.from_numpy(then["weight"]))
            base.bias.copy_(torch.from_numpy(then["bias"]))
    np.testing.assert_array_equal(rrise.read_votes(FOLDERS / "votes"), counts)
    folder = tmp_path / "votes"
    shutil.copytree(FOLDERS / "votes", folder)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* were started with other versions")
        store = rrise.VoteStore(folder, base, inputs, VotePlan(rrise.Gaussian(0.25), 80, 1, "train"))
        grown = store.collect(batch_size=64, compiled=False)
    assert grown.sum(axis=1).tolist() == [80] * 70
    assert (np.asarray(grown) >= counts).all()
