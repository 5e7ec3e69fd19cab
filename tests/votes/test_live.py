from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.certifiers.early_stopping import EarlyStopping
from rrise.certifiers.monte_carlo import MonteCarlo
from rrise.votes.engine import Execution
from rrise.votes.live import LiveVotes
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.reading import read_sequence
from rrise.votes.sequence import StoredVotes
from rrise.votes.store import VoteStore
from tests.closed_forms import HalfSpace

IMAGES = torch.rand(SHARD * 2 + 5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
PLAN = VotePlan(0.5, 60, 5, "inputs")


def network() -> nn.Module:
    """Return a small network that gives each of its five classes to some of the images."""
    torch.manual_seed(0)
    last = nn.Linear(32, 5)
    module = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Tanh(), nn.Flatten(), last)
    with torch.no_grad():
        last.bias -= module(IMAGES).mean(dim=0)
    return module


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredVotes:
    folder = tmp_path_factory.mktemp("votes")
    VoteStore(folder, network(), IMAGES, PLAN).collect(batch_size=100)
    return read_sequence(folder)


@pytest.fixture
def live() -> LiveVotes:
    return LiveVotes(network(), IMAGES, PLAN, batch_size=70)


def test_votes_are_the_stored_ones_one_by_one(stored: StoredVotes, live: LiveVotes) -> None:
    assert (len(live), live.length, live.classes) == (len(stored), 60, stored.classes)
    assert (stored.counts(0, 60).max(axis=1) < 60).mean() > 0.9
    for j in range(60):
        np.testing.assert_array_equal(live.counts(j, j + 1).argmax(axis=1), stored.answers[:, j])
    assert (live.smoothing, live.stream) == (stored.smoothing, stored.stream)
    assert live.digests.tolist() == stored.digests.tolist()


def test_votes_are_the_collected_ones() -> None:
    live = LiveVotes(network(), IMAGES, PLAN)
    collected = rrise.collect_votes(network(), IMAGES, sigma=0.5, n=60, seed=5)
    np.testing.assert_array_equal(live.votes(60), collected)
    assert live.drawn == 60 * len(IMAGES)


def test_only_what_is_asked_for_is_drawn_and_only_once(stored: StoredVotes, live: LiveVotes) -> None:
    rng = np.random.default_rng(0)
    wanted = np.zeros(stored.answers.shape, dtype=bool)
    for _ in range(20):
        rows = rng.integers(0, len(live), 9)
        start = rng.integers(0, 61, 9)
        stop = rng.integers(start, 61)
        np.testing.assert_array_equal(live.counts(start, stop, rows), stored.counts(start, stop, rows))
        for row, a, b in zip(rows, start, stop, strict=True):
            wanted[row, a:b] = True
        assert live.drawn == wanted.sum()
    live.counts(start, stop, rows)
    live.counts(5, 5)
    assert live.drawn == wanted.sum()
    np.testing.assert_array_equal(live.counts(0, 60), stored.counts(0, 60))
    assert live.drawn == wanted.size


def test_early_stopping_live_gives_the_stored_certificates_and_draws_no_vote_more(
    stored: StoredVotes, live: LiveVotes
) -> None:
    certifier = EarlyStopping(60, tolerance=0.2, failure=0.25)
    of_stored, of_live = certifier.certify_votes(stored), certifier.certify_votes(live)
    for field in ("label", "radius", "lower_bound", "issued", "passes"):
        np.testing.assert_array_equal(getattr(of_live, field), getattr(of_stored, field))
    assert of_live.guarantee == of_stored.guarantee
    assert len(np.unique(of_live.passes)) > 3
    assert live.drawn == of_live.passes.sum() < 60 * len(IMAGES)
    directly = certifier.bind(network(), sigma=0.5, seed=5).certify(IMAGES)
    np.testing.assert_array_equal(directly.radius, of_stored.radius)


def test_monte_carlo_of_inputs_is_that_of_their_collected_votes(
    half_space: HalfSpace, uniform: np.ndarray
) -> None:
    plan = {"sigma": 0.25, "seed": 3, "input_range": None}
    images = uniform[: SHARD + 6]
    votes = rrise.collect_votes(half_space, images, n=200, **plan)
    selection = rrise.collect_votes(half_space, images, n=40, split="inputs-selection", **plan)
    expected = rrise.monte_carlo_certificates(votes, selection, failure=0.01)
    got = MonteCarlo(200, 0.01).bind(half_space, selection_votes=40, **plan).certify(images)
    for field in ("label", "radius", "lower_bound", "issued", "passes"):
        np.testing.assert_array_equal(getattr(got, field), getattr(expected, field))
    assert got.guarantee == expected.guarantee
    assert (got.passes == 240).all()


def test_another_precision_is_another_classifier(half_space: HalfSpace, uniform: np.ndarray) -> None:
    certifier = MonteCarlo(50, 0.01).bind(half_space, sigma=0.25, precision="bfloat16")
    certificates = certifier.certify(uniform[:5])
    assert certificates.guarantee.smoothing.precision == "bfloat16"


class _Broken(nn.Module):
    """Returns NaN for inputs whose first value is large, which only noise makes it."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        first = inputs.flatten(1)[:, :1]
        return torch.cat([first, torch.where(first > 2, torch.nan, 1 - first)], dim=1)


def test_nan_names_the_input(tmp_path: Path) -> None:
    images = np.zeros((SHARD + 4, 2), dtype=np.float32)
    images[SHARD + 2] = 1.9
    live = LiveVotes(_Broken(), images, VotePlan(0.1, 100, 0, "inputs", None))
    live.counts(0, 100, np.arange(SHARD + 2))
    with pytest.raises(ValueError, match=f"NaN for a noisy copy of input {SHARD + 2}"):
        live.counts(0, 100)


def test_a_certifier_wants_a_module(uniform: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected the base classifier to be a torch"):
        MonteCarlo(50, 0.01).bind("resnet", sigma=0.25)  # type: ignore[arg-type]


def test_certifying_tells_the_passes_of_the_base_classifier() -> None:
    told: list[int] = []
    certifier = MonteCarlo(50, failure=0.1).bind(network(), sigma=0.5, selection_votes=20)
    found = certifier.certify(IMAGES, on_progress=told.append)
    assert sum(told) == found.passes.sum() == certifier.most_passes * len(IMAGES)
    told.clear()
    rrise.Sequential(200, failure=0.1).bind(network(), sigma=0.5).certify(IMAGES[:9], on_progress=told.append)
    assert 0 < sum(told) <= 300 * 9


def test_a_long_request_is_computed_as_a_collection_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The execution is chosen for the votes that are wanted, and again only for many more."""
    chosen: list[int] = []

    def choose(_base: object, plan: VotePlan, _sample: object, inputs: int, **_: object) -> Execution:
        chosen.append(plan.n * inputs)
        return Execution(30 if plan.n > 20 else 70)

    monkeypatch.setattr("rrise.votes.live.choose_execution", choose)
    live = LiveVotes(network(), IMAGES, PLAN)
    live.counts(0, 2)
    live.counts(2, 9)
    first = live.engine
    live.counts(9, 12)
    assert live.engine is first
    live.counts(0, 60)
    assert chosen == [2 * len(IMAGES), 60 * len(IMAGES)]
    assert live.engine.execution == Execution(30)
    np.testing.assert_array_equal(live.counts(0, 60), LiveVotes(network(), IMAGES, PLAN).counts(0, 60))
