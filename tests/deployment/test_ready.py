"""The ready certifiers of the repository: what they rest on, and how they are found."""

from pathlib import Path

import numpy as np
import pytest

import rrise
from rrise.data.files import find_files, read_inputs
from rrise.deployment import loading
from rrise.deployment.loading import READY, find_certifier, find_samples
from rrise.errors import FolderError
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.models.folder import load_model
from rrise.votes.array import votes_for
from tests.test_results import ROOT

EVIDENCE = {name: ROOT / "results" / f"{name}-distilled" / "seed-100" for name in READY}
OWN = ("fashion-mnist", "cifar-100")
"""Those whose surrogate is that of the evidence; the others share its base classifier and votes."""
RIGHT = {"fashion-mnist": 0.8, "cifar-10": 0.5, "cifar-100": 0.2}
"""The least share of true classes among issued samples: a third of CIFAR-100 is classified rightly."""


def test_every_ready_certifier_is_named() -> None:
    assert sorted(READY) == sorted(path.name for path in (ROOT / "results" / "ready").iterdir())


@pytest.mark.parametrize("name", READY)
def test_a_ready_certifier_is_calibrated_with_the_published_votes(name: str) -> None:
    certifier, evidence = rrise.load_deployed(name), read_evidence(EVIDENCE[name])
    published, votes = evidence.surrogates[0].calibration, evidence.calibration_votes
    agreeing, counts = certifier.evidence.agreeing, np.asarray(votes)
    assert (counts == agreeing[:, None]).any(axis=1).all()
    assert (counts.max(axis=1) == agreeing).mean() > 0.8
    if name in OWN:
        assert np.array_equal(agreeing, votes_for(votes, published.label))
        assert np.allclose(certifier.evidence.top_probability, published.top_probability, rtol=0, atol=1e-4)
    assert certifier.smoothing == votes.smoothing
    assert (certifier.calibration.n, certifier.guarantee.failure_text) == (10_000, "0.01")


@pytest.mark.parametrize("name", READY)
def test_its_samples_did_not_calibrate_it_and_get_answers_that_published_votes_confirm(name: str) -> None:
    folder, certifier = find_samples(name), rrise.load_deployed(name)
    assert folder is not None
    files = list(find_files([folder]))
    evidence = read_evidence(EVIDENCE[name]).held_out()
    places = [int(np.flatnonzero(evidence.indices == int(file.name[:5]))[0]) for file in files]
    shape, limits = certifier.input_shape, certifier.smoothing.input_range
    found = [certifier.certify(read_inputs(file, shape, limits)) for file in files]
    label, issued = (np.concatenate([getattr(one, field) for one in found]) for field in ("label", "issued"))
    bound, votes = np.concatenate([one.lower_bound for one in found]), np.asarray(evidence.reference)[places]
    assert set(issued.tolist()) == {True, False}
    assert (bound <= votes[np.arange(len(label)), label] / votes.sum(axis=1))[issued].all()
    assert (label == evidence.labels[places])[issued].mean() > RIGHT[name]
    if name in OWN:
        published = evidence.surrogates[0].test[np.array(places)]
        top = [float(one.probabilities.max()) for one in found if one.probabilities is not None]
        assert label.tolist() == published.label.tolist()
        assert np.allclose(top, published.top_probability, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", READY)
def test_its_base_classifier_is_the_one_that_voted(name: str) -> None:
    rrise.load_certifier(find_certifier(name)).check_base(load_model(find_certifier(name).parent / "base"))


def test_an_installed_package_says_where_ready_certifiers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_READY", tmp_path)
    with pytest.raises(FolderError, match=r"in the repository of rrise, which is not here: clone it"):
        rrise.load_deployed("fashion-mnist")


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        FolderError,
        match=r"ready certifier \(fashion-mnist, cifar-10, cifar-100\).*did you mean fashion-mnist",
    ):
        rrise.load_deployed("fashion-mnst")


def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fashion-mnist").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_certifier("fashion-mnist") == Path("fashion-mnist")
    assert find_samples("fashion-mnist") is None
