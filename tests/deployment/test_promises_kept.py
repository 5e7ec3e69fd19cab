"""Promises other than the default, from calibration through folder, export and recalibration."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.monitor.recalibration import recalibrate
from rrise.deployment.service.documents import card
from tests.deployment.audited import audited_calibration_inputs

PROMISES: dict[str, dict[str, Any]] = {
    "pac": {"promise": "pac"},
    "issued": {"promise": "issued", "confidence": 0.9},
    "per class": {"per": "class"},
    "pac per group": {"promise": "pac", "per": [["left", 2], ["middle"]]},
    "paper": {"rule": "paper", "score": "additive"},
}
NAMES = ("left", "middle", "right")


class Thirds(nn.Module):
    """Which third of a vector of nine has the largest mean, with a temperature."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(9, 3)
        with torch.no_grad():
            self.linear.weight.copy_(torch.eye(3).repeat_interleave(3, dim=1) * scale / 3)
            self.linear.bias.zero_()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.linear(inputs)


def inputs_of(count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = random.random((count, 9), dtype=np.float32) * 0.6
    third = random.integers(0, 3, count)
    values[np.arange(9) // 3 == third[:, None]] += 0.3
    return values


@pytest.fixture(scope="module", params=PROMISES, ids=list(PROMISES))
def certifier(request: pytest.FixtureRequest) -> SurrogateCertifier:
    base, images = Thirds(10.0), inputs_of(1_200, 0)
    votes = rrise.collect_votes(base, images, sigma=0.25, n=300, seed=1)
    how = {"failure": 0.1, "base": base, "class_names": NAMES, **PROMISES[request.param]}
    made = rrise.calibrate(Thirds(14.0), images, votes, **how)
    wanted = {"pac": 0.95, "issued": 0.9, "pac per group": 0.95}.get(request.param)
    assert (None if made.calibration.confidence is None else float(made.calibration.confidence)) == wanted
    return made


def test_the_guarantee_says_it_in_words_and_numbers(certifier: SurrogateCertifier) -> None:
    guarantee, calibration = certifier.guarantee, certifier.calibration
    words, facts = str(guarantee), guarantee.facts()["calibration"]
    assert guarantee.kind.value == calibration.promise.value
    assert guarantee.failure == calibration.failure
    if calibration.confidence is not None:
        assert f"with confidence {float(calibration.confidence):g}" in words
        assert "independent draws" in words
    assert ("Among issued radii" in words) == (guarantee.kind.value == "issued")
    assert ("separately" in words) == (calibration.groups is not None)
    assert facts.get("rule", "paper") == calibration.rule.name
    assert card(certifier)["guarantee"]["promise"] in words


def test_a_saved_certifier_keeps_it(certifier: SurrogateCertifier, tmp_path: Path) -> None:
    certifier.save(tmp_path / "certifier")
    loaded = rrise.load_certifier(tmp_path / "certifier")
    fresh = inputs_of(300, 2)
    assert loaded.guarantee == certifier.guarantee
    assert loaded.calibration == certifier.calibration
    np.testing.assert_array_equal(loaded.certify(fresh).radius, certifier.certify(fresh).radius)
    text = (tmp_path / "certifier" / "README.md").read_text()
    assert f"| rule | {certifier.calibration.rule.name}" in text
    assert f"| promise | {certifier.calibration.promise.value}" in text


@pytest.mark.parametrize("int8", [False, True])
def test_an_export_keeps_it_in_the_graph(certifier: SurrogateCertifier, int8: bool, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    images = inputs_of(1_200, 0)
    votes = rrise.collect_votes(Thirds(10.0), images, sigma=0.25, n=300, seed=1)
    exported = rrise.export_certifier(certifier, images, votes, tmp_path / "exported", int8=int8)
    assert exported.guarantee.kind == certifier.guarantee.kind
    assert exported.guarantee.failure == certifier.guarantee.failure
    assert exported.calibration.groups == certifier.calibration.groups
    assert exported.calibration.confidence == certifier.calibration.confidence
    fresh = inputs_of(500, 3)
    found = exported.certify(fresh)
    assert found.probabilities is not None
    exact = exported.calibration.lower_bound(found.probabilities.max(axis=1).astype(float), found.label)
    assert (found.lower_bound <= exact).all()
    assert found.issued.any()
    if not int8:
        here = certifier.certify(fresh)
        assert np.mean(np.abs(here.radius - found.radius) < 1e-3) > 0.99


def test_recalibration_keeps_it(certifier: SurrogateCertifier) -> None:
    new = recalibrate(certifier, audited_calibration_inputs(certifier))
    assert new.guarantee.kind == certifier.guarantee.kind
    assert new.calibration.groups == certifier.calibration.groups
    assert new.calibration.rule == certifier.calibration.rule
    assert new.calibration.confidence == certifier.calibration.confidence


def test_groups_that_make_no_sense_are_refused() -> None:
    base, images = Thirds(10.0), inputs_of(200, 0)
    votes = rrise.collect_votes(base, images, sigma=0.25, n=100, seed=1)
    for per, sentence in (
        ("classes", "expected per to be 'class' or lists of classes"),
        ([["left"], ["middle"]], "right are in none"),
        ([["left", "middle", "right"], ["left"]], "'left', which is in two groups"),
        ([["left", "middle", "rihgt"]], "'rihgt', which is no class"),
    ):
        with pytest.raises(ValueError, match=sentence):
            rrise.calibrate(base, images, votes, failure=0.2, per=per, class_names=NAMES, base=base)  # type: ignore[arg-type]
