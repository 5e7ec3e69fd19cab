"""A text, a dict or a loader where an object is expected gives a sentence, never a raw Python error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rrise
from rrise.certifiers.surrogate import SurrogateCertifier
from tests.closed_forms import HalfSpace

WRONG = {
    "text": "folder",
    "dict": {},
    "None": None,
    "loader": DataLoader(TensorDataset(torch.rand(8, 4), torch.zeros(8)), batch_size=4),
    "dataset": TensorDataset(torch.rand(8, 4), torch.zeros(8)),
}
PLAN = rrise.VotePlan(0.25, 10, 0)


@pytest.fixture(params=WRONG)
def wrong(request: pytest.FixtureRequest) -> Any:
    return WRONG[request.param]


def test_where_a_certifier_is_expected(wrong: Any, half_space: HalfSpace, tmp_path: Path) -> None:
    for call in (
        lambda: rrise.create_app(wrong),
        lambda: rrise.Monitor(wrong, tmp_path / "m.db"),
        lambda: rrise.export_certifier(wrong, np.zeros((1, 4)), np.zeros((1, 2)), tmp_path / "e"),
        lambda: rrise.Cascade(wrong, half_space, radius=0.1),
    ):
        with pytest.raises(rrise.RriseError, match=r"^expected a certifier, got "):
            call()
    with pytest.raises(rrise.RriseError, match=r"load it first, rrise\.load_deployed\('runs/x/certifier'\)$"):
        rrise.create_app("runs/x/certifier")


def test_where_inputs_are_expected(
    wrong: Any, half_space: HalfSpace, certifier: SurrogateCertifier, uniform: np.ndarray
) -> None:
    votes = rrise.collect_votes(half_space, uniform[:20], sigma=0.25, n=10)
    advice = {
        "DataLoader": r"torch\.cat\(\[batch\[0\] for batch in loader\]\)",
        "TensorDataset": r"torch\.stack",
    }
    words = advice.get(type(wrong).__name__, "array")
    calls: list[Callable[[], object]] = [
        lambda: rrise.fit(half_space, wrong, sigma=0.25),
        lambda: rrise.collect_votes(half_space, wrong, sigma=0.25, n=10),
        lambda: rrise.train_surrogate(half_space, wrong, votes),
        lambda: rrise.calibrate(half_space, wrong, votes, sigma=0.25),
        lambda: certifier.certify(wrong),
        lambda: rrise.MonteCarlo(100).bind(half_space, sigma=0.25, input_shape=(4,)).certify(wrong),
    ]
    for call in calls:
        with pytest.raises(rrise.RriseError, match=f"^expected inputs as one array, got .*{words}"):
            call()


def test_the_advice_about_loaders_works(half_space: HalfSpace) -> None:
    loader, dataset = WRONG["loader"], WRONG["dataset"]
    joined = torch.cat([batch[0] for batch in loader])
    assert torch.equal(joined, dataset.tensors[0]) or joined.shape == (8, 4)
    assert rrise.collect_votes(half_space, joined, sigma=0.25, n=10).shape == (8, 2)
    stacked = torch.stack([one[0] for one in dataset])
    assert rrise.collect_votes(half_space, stacked, sigma=0.25, n=10).shape == (8, 2)


def test_where_a_base_classifier_is_expected(
    wrong: Any, certifier: SurrogateCertifier, uniform: np.ndarray, tmp_path: Path
) -> None:
    calls: list[Callable[[], object]] = [
        lambda: rrise.fit(wrong, uniform, sigma=0.25, failure=0.1),
        lambda: rrise.collect_votes(wrong, uniform, sigma=0.25, n=10),
        lambda: rrise.VoteStore(tmp_path / "v", wrong, uniform, PLAN),
        lambda: rrise.MonteCarlo(100).bind(wrong, sigma=0.25),
        lambda: rrise.Cascade(certifier, wrong, radius=0.1),
    ]
    if wrong is not None:
        calls.append(lambda: rrise.create_app(certifier, base=wrong))
        calls.append(lambda: rrise.Monitor(certifier, tmp_path / "m.db", base=wrong))
    for call in calls:
        with pytest.raises(rrise.RriseError, match=r"the base classifier to be a torch\.nn\.Module, got "):
            call()


def test_where_a_path_is_expected(certifier: SurrogateCertifier, tmp_path: Path) -> None:
    for wrong in ({}, None, 3, nn.Linear(1, 1)):
        for call in (
            lambda wrong=wrong: rrise.load_certifier(wrong),
            lambda wrong=wrong: rrise.load_deployed(wrong),
            lambda wrong=wrong: rrise.read_votes(wrong),
            lambda wrong=wrong: rrise.Monitor(certifier, wrong),
            lambda wrong=wrong: certifier.save(wrong),
        ):
            with pytest.raises(rrise.RriseError, match=r"^expected the (path|folder or URL) of .*, got "):
                call()


def test_the_parts_of_a_service(certifier: SurrogateCertifier) -> None:
    for part in ("settings", "monitor", "samples"):
        for wrong in ("folder", {"a": 1} if part == "samples" else {"max_body": 1}):
            with pytest.raises(rrise.RriseError, match=f"expected (a )?{part}"):
                rrise.create_app(certifier, **{part: wrong})


def test_a_plan_of_votes(half_space: HalfSpace, uniform: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(rrise.RriseError, match=r"expected a rrise\.VotePlan, got a dict"):
        rrise.VoteStore(tmp_path / "v", half_space, uniform, {})
    with pytest.raises(rrise.RriseError, match="training"):
        rrise.fit(half_space, uniform, sigma=0.25, failure=0.1, training={"epochs": 3})
