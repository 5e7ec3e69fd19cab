"""One protocol for every certifier, and one policy for values that are no numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.certifiers.certifier import Certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.certifiers.voting import VoteMethod
from rrise.errors import InputError, MismatchError, SettingError
from tests.closed_forms import HalfSpace

METHODS = [
    rrise.MonteCarlo(60, 0.01),
    rrise.MonteCarlo(60, 0.01, two_stage=False),
    rrise.InputSpecificBudget(220, 0.05, 0.01),
    rrise.EarlyStopping(60, 0.05, 0.01),
    rrise.Sequential(150, 0.01, selection=30),
]


@pytest.fixture(scope="module")
def exported(
    certifier: SurrogateCertifier,
    half_space: HalfSpace,
    uniform: np.ndarray,
    tmp_path_factory: pytest.TempPathFactory,
) -> Certifier:
    folder: Path = tmp_path_factory.mktemp("exported") / "certifier"
    settings = {"sigma": 0.25, "n": 400, "seed": 1}
    votes = rrise.collect_votes(half_space, uniform[300:500], split="calibration", **settings)
    return rrise.export_certifier(certifier, uniform[300:500], votes, folder)


@pytest.fixture(params=["surrogate", "exported", *METHODS], ids=lambda kind: getattr(kind, "name", kind))
def any_certifier(
    request: pytest.FixtureRequest, certifier: SurrogateCertifier, exported: Certifier, half_space: HalfSpace
) -> Certifier:
    if isinstance(request.param, VoteMethod):
        return request.param.bind_like(half_space, certifier)
    return certifier if request.param == "surrogate" else exported


def test_every_certifier_certifies_inputs_and_says_what_it_promises(
    any_certifier: Certifier, uniform: np.ndarray
) -> None:
    assert isinstance(any_certifier, Certifier)
    found = any_certifier.certify(uniform[500:510])
    assert len(found) == 10
    assert found.guarantee == any_certifier.guarantee
    assert found.probabilities is not None
    assert found.probabilities.shape == (10, len(any_certifier.class_names))
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, atol=1e-5)
    assert (found.passes >= 1).all()
    np.testing.assert_array_equal(found.issued, found.lower_bound > 0.5)
    np.testing.assert_array_equal(found.radius > 0, found.issued)
    assert any_certifier.input_shape == (4,)
    assert any_certifier.smoothing.sigma == 0.25
    assert any_certifier.runtime


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda x: x.__setitem__((3, 0), np.nan), "NaN or infinity in input 3"),
        (lambda x: x.__setitem__((3, 0), 1.5), "got values from"),
    ],
)
def test_a_bad_input_is_an_error_for_every_certifier(
    any_certifier: Certifier, uniform: np.ndarray, spoil: Callable[[np.ndarray], None], sentence: str
) -> None:
    inputs = uniform[:5].copy()
    spoil(inputs)
    with pytest.raises(InputError, match=sentence):
        any_certifier.certify(inputs)
    with pytest.raises(InputError, match="shape"):
        any_certifier.certify(uniform[:5, :3])


def test_the_noise_of_a_voting_certifier_is_fresh_unless_seeded(half_space: HalfSpace) -> None:
    close = np.full((40, 4), 0.5, dtype=np.float32)
    method = rrise.MonteCarlo(50, 0.1, two_stage=False)
    fresh = method.bind(half_space, sigma=0.25)
    assert (fresh.certify(close).lower_bound != fresh.certify(close).lower_bound).any()
    seeded = method.bind(half_space, sigma=0.25, seed=3)
    np.testing.assert_array_equal(seeded.certify(close).lower_bound, seeded.certify(close).lower_bound)


def test_another_base_classifier_is_refused_by_every_way_to_bind_one(certifier: SurrogateCertifier) -> None:
    other = HalfSpace(torch.tensor([3.0, -2.0, 1.0, 0.6]), -1.0)
    for check in (certifier.check_base, lambda base: rrise.MonteCarlo(50, 0.1).bind_like(base, certifier)):
        with pytest.raises(MismatchError, match="was made for the base classifier"):
            check(other)


def test_a_voting_certifier_says_when_it_does_not_know_the_shape_yet(half_space: HalfSpace) -> None:
    certifier = rrise.MonteCarlo(50, 0.1).bind(half_space, sigma=0.25)
    with pytest.raises(SettingError, match="pass input_shape= to bind, or certify once"):
        _ = certifier.guarantee
    certifier.certify(np.full((1, 4), 0.5))
    assert certifier.class_names == ("0", "1")


def test_on_another_device_the_probe_is_checked(certifier: SurrogateCertifier, uniform: np.ndarray) -> None:
    there = certifier.to("cpu")
    assert there is not certifier
    np.testing.assert_array_equal(there.certify(uniform).radius, certifier.certify(uniform).radius)
    with pytest.raises(SettingError, match="cannot compute on cuda:77"):
        certifier.to("cuda:77")


def test_elsewhere_the_guarantee_says_so_and_the_folder_is_of_the_cpu(
    certifier: SurrogateCertifier, uniform: np.ndarray, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another device is simulated: its name is all that differs."""
    with monkeypatch.context() as patched:
        patched.setattr("rrise.certifiers.surrogate.device_of", lambda _: torch.device("cuda"))
        there = certifier.to("cpu")
        assert there.runtime == "torch-cuda"
        assert there.guarantee.id != certifier.guarantee.id
        assert "computes in torch-cuda what it was calibrated with" in there.guarantee.words.assumptions[-1]
        assert there.certify(uniform[:3]).guarantee == there.guarantee
    back = there.to("cpu")
    assert back.guarantee == certifier.guarantee
    back.save(tmp_path / "certifier")
    assert rrise.load_certifier(tmp_path / "certifier").guarantee == certifier.guarantee


def test_a_device_that_computes_something_else_is_refused(
    certifier: SurrogateCertifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(network: nn.Module, _: torch.device) -> nn.Module:
        for buffer in network.buffers():
            buffer.add_(0.1)
        return network

    monkeypatch.setattr(nn.Module, "to", spoiled)
    with pytest.raises(MismatchError, match="does not compute on cpu what it was calibrated with"):
        certifier.to("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_on_a_gpu_it_certifies_the_same_up_to_rounding(
    certifier: SurrogateCertifier, uniform: np.ndarray
) -> None:
    there = certifier.to("cuda")
    assert there.runtime == "torch-cuda"
    np.testing.assert_allclose(there.certify(uniform).radius, certifier.certify(uniform).radius, atol=1e-4)


def test_certificates_print_as_a_small_table(certifier: SurrogateCertifier, uniform: np.ndarray) -> None:
    text = repr(certifier.certify(uniform))
    lines = text.splitlines()
    assert lines[0].startswith("Certificates of 600 inputs: ")
    assert "failure 0.1, marginal guarantee" in lines[0]
    assert len(lines) == 2 + 10 + 1
    assert all(len(line) <= 80 for line in lines[1:])
    assert lines[-1].split()[0] == "599"
    assert "..." in lines
    assert len(repr(certifier.certify(uniform[:3])).splitlines()) == 2 + 3
    assert len(repr(certifier.certify(uniform[:0])).splitlines()) == 2


def test_certificates_are_picked_and_joined(
    certifier: SurrogateCertifier, half_space: HalfSpace, uniform: np.ndarray
) -> None:
    found = certifier.certify(uniform[:20])
    again = rrise.Certificates.joined([found[:7], found[7:]])
    for name in ("label", "radius", "lower_bound", "issued", "passes", "probabilities"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert len(found[found.issued]) == found.issued.sum()
    other = rrise.MonteCarlo(50, 0.4, two_stage=False).bind_like(half_space, certifier).certify(uniform[:2])
    with pytest.raises(MismatchError, match="under different guarantees"):
        rrise.Certificates.joined([found, other])


def test_no_input_gives_no_certificate(any_certifier: Certifier) -> None:
    found = any_certifier.certify(np.zeros((0, 4), dtype=np.float32))
    assert len(found) == 0
    assert found.guarantee == any_certifier.guarantee
    assert found.probabilities is not None
    assert found.probabilities.shape == (0, 2)


@pytest.mark.parametrize("votes", [0, -1])
def test_a_certifier_needs_selection_votes(half_space: HalfSpace, votes: int) -> None:
    with pytest.raises(SettingError, match="expected selection_votes to be at least 1"):
        rrise.MonteCarlo(50, 0.1).bind(half_space, sigma=0.25, selection_votes=votes)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_counts_are_no_votes_in_order(method: VoteMethod, half_space: HalfSpace, uniform: np.ndarray) -> None:
    counted = rrise.collect_votes(half_space, uniform[:3], sigma=0.25, n=300)
    with pytest.raises(InputError, match="from read_sequence; got a Votes"):
        method.certify_votes(counted, counted)  # type: ignore[arg-type]


def test_a_certifier_does_not_replace_an_exported_one(
    certifier: SurrogateCertifier, half_space: HalfSpace, uniform: np.ndarray, tmp_path: Path
) -> None:
    settings = {"sigma": 0.25, "n": 400, "seed": 1}
    votes = rrise.collect_votes(half_space, uniform[300:500], split="calibration", **settings)
    rrise.export_certifier(certifier, uniform[300:500], votes, tmp_path / "out")
    with pytest.raises(ValueError, match="is not a certifier folder"):
        certifier.save(tmp_path / "out")
