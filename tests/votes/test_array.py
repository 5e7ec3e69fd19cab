"""Votes remember where they come from."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import rrise
from rrise.votes.array import Votes

POINTS = np.random.default_rng(0).random((40, 2), dtype=np.float32)


@pytest.mark.parametrize(
    "change",
    [
        lambda votes: votes[:, ::-1],
        lambda votes: votes.T,
        lambda votes: np.sort(votes, axis=1),
        np.zeros_like,
        lambda votes: votes.copy(),
        lambda votes: votes.reshape(-1, 2),
        lambda votes: votes[:, :1],
    ],
)
def test_votes_that_were_tampered_with_are_of_unknown_origin(change: Callable) -> None:
    votes = rrise.collect_votes(nn.Linear(2, 2), POINTS[:6], sigma=0.1, n=10)
    assert getattr(change(votes), "smoothing", None) is None
    with pytest.raises(ValueError, match="read-only"):
        votes[0, 0] = 5
    with pytest.raises(ValueError, match="read-only"):
        votes[:3] += 1
    plain = votes.copy()
    plain += 1
    assert plain.sum() == votes.sum() + 12


def test_votes_remember_their_origin_when_picked_and_forget_it_in_arithmetic() -> None:
    base = nn.Linear(2, 2)
    votes = rrise.collect_votes(base, POINTS[:6], sigma=0.1, n=10)
    assert votes[2:4].smoothing == votes.smoothing
    assert votes[2:4].stream == votes.stream == (0, "inputs")
    assert votes[[4, 1]].digests.tolist() == [votes.digests[4].tolist(), votes.digests[1].tolist()]
    assert votes[[0, 1]].smoothing.base == rrise.fingerprint(base)
    assert type(votes / 10) is np.ndarray
    assert type(votes.sum(axis=1)) is np.ndarray
    assert votes.smoothing.precision == "float32"
    assert rrise.collect_votes(base.double(), POINTS[:6], sigma=0.1, n=10).smoothing.precision == "float64"


def test_votes_of_several_sets_of_inputs_are_joined_with_their_origin() -> None:
    base = nn.Linear(2, 2)
    parts = [
        rrise.collect_votes(base, points, sigma=0.1, n=10, split=split)
        for points, split in ((POINTS[:6], "train"), (POINTS[6:10], "copies"))
    ]
    votes = Votes.joined(parts)
    np.testing.assert_array_equal(np.asarray(votes), np.concatenate([np.asarray(part) for part in parts]))
    assert votes.smoothing == parts[0].smoothing
    assert votes.digests is not None
    assert votes.digests.tolist() == [digest for part in parts for digest in part.digests.tolist()]
    assert Votes.joined(parts[:1]) is parts[0]


def test_votes_of_another_classifier_or_of_unknown_origin_are_not_joined() -> None:
    base = nn.Linear(2, 2)
    first = rrise.collect_votes(base, POINTS[:6], sigma=0.1, n=10)
    with torch.no_grad():
        base.bias += 1
    for other, sentence in (
        (rrise.collect_votes(base, POINTS[6:], sigma=0.1, n=10), "base classifier"),
        (first.copy(), "plain counts"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Votes.joined([first, other])
