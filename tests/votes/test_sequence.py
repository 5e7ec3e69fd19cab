from pathlib import Path

import numpy as np
import pytest
import torch

import rrise
from rrise.votes.array import count_answers
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.reading import read_sequence, read_votes
from rrise.votes.sequence import StoredVotes
from rrise.votes.smoothing import Smoothing
from rrise.votes.store import VoteStore
from tests.closed_forms import Fan

SMOOTHING = Smoothing("f" * 64, 0.5, None, "float32")


def naive(answers: np.ndarray, classes: int, start: int, stop: int) -> list[int]:
    return [sum(1 for answer in answers[start:stop] if answer == k) for k in range(classes)]


@pytest.mark.parametrize(
    ("classes", "kind"), [(2, np.uint8), (5, np.int64), (256, np.uint8), (1000, np.uint16)]
)
def test_counts_are_those_of_counting_one_by_one(classes: int, kind: type) -> None:
    rng = np.random.default_rng(0)
    answers = rng.integers(0, classes, (30, 40)).astype(kind)
    stored = StoredVotes(answers, classes, SMOOTHING)
    assert (len(stored), stored.length) == (30, 40)
    for start, stop in [(0, 40), (0, 0), (7, 8), (39, 40), (13, 31)]:
        expected = [naive(row, classes, start, stop) for row in answers]
        np.testing.assert_array_equal(stored.counts(start, stop), expected)
    rows = rng.integers(0, 30, 50)
    start = rng.integers(0, 41, 50)
    stop = rng.integers(start, 41)
    expected = [naive(answers[row], classes, a, b) for row, a, b in zip(rows, start, stop, strict=True)]
    np.testing.assert_array_equal(stored.counts(start, stop, rows), expected)
    np.testing.assert_array_equal(
        count_answers(answers, classes), [naive(r, classes, 0, 40) for r in answers]
    )


def test_counting_in_parts_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = np.random.default_rng(0).integers(0, 3, (100, 50))
    stored = StoredVotes(answers, 3, SMOOTHING)
    stop = np.arange(100) % 51
    whole, ragged = stored.counts(10, 50), stored.counts(0, stop)
    monkeypatch.setattr("rrise.votes.sequence._CHUNK", 170)
    np.testing.assert_array_equal(stored.counts(10, 50), whole)
    np.testing.assert_array_equal(stored.counts(0, stop), ragged)


def test_no_rows_are_no_counts() -> None:
    stored = StoredVotes(np.zeros((4, 5), dtype=np.uint8), 3, SMOOTHING)
    assert stored.counts(0, 5, []).shape == (0, 3)
    assert count_answers(np.zeros((0, 5), dtype=np.uint8), 3).shape == (0, 3)


def test_what_is_not_there_is_refused() -> None:
    stored = StoredVotes(np.zeros((4, 5), dtype=np.uint8), 3, SMOOTHING)
    for start, stop in [(0, 6), (-1, 5), (4, 3)]:
        with pytest.raises(ValueError, match="expected votes from 0 to 5"):
            stored.counts(start, stop)
    for rows in ([4], [-1]):
        with pytest.raises(ValueError, match="expected inputs from 0 to 3"):
            stored.counts(0, 5, rows)
    with pytest.raises(ValueError, match="expected rows as a 1-D array of input numbers, got bool"):
        stored.counts(0, 5, np.array([True, False, True, True]))
    with pytest.raises(ValueError, match="expected answers from 0 to 2, got from 0 to 3"):
        StoredVotes(np.array([[0, 3]]), 3, SMOOTHING)
    with pytest.raises(ValueError, match="expected answers as whole numbers"):
        StoredVotes(np.zeros((4, 5)), 3, SMOOTHING)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> VoteStore:
    images = torch.rand(SHARD * 2 + 3, 2, generator=torch.Generator().manual_seed(0))
    store = VoteStore(tmp_path_factory.mktemp("votes"), Fan(4), images, VotePlan(0.5, 30, 5, "train"))
    store.collect()
    return store


def test_a_collection_is_read_vote_by_vote(store: VoteStore) -> None:
    sequence = read_sequence(store.storage.folder)
    votes = read_votes(store.storage.folder)
    assert (len(sequence), sequence.length, sequence.classes) == (SHARD * 2 + 3, 30, votes.shape[1])
    assert sequence.answers.dtype == np.uint8
    assert len(np.unique(sequence.answers)) == 4
    for n in (1, 7, 30):
        first = sequence.votes(n)
        np.testing.assert_array_equal(first, read_votes(store.storage.folder, n=n))
        assert (first.smoothing, first.stream) == (votes.smoothing, votes.stream)
        assert first.digests.tolist() == votes.digests.tolist()
    fewer = read_sequence(store.storage.folder, n=7)
    np.testing.assert_array_equal(fewer.answers, sequence.answers[:, :7])
    assert rrise.read_votes is read_votes


def test_damaged_or_missing_votes_are_not_read(store: VoteStore, tmp_path: Path) -> None:
    for n in (0, 31):
        with pytest.raises(ValueError, match="expected n from 1 to 30"):
            read_sequence(store.storage.folder, n=n)
    with pytest.raises(ValueError, match="expected votes in"):
        read_sequence(tmp_path)
    for file in store.storage.folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = tmp_path / "shard-00001.parquet"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    with pytest.raises(ValueError, match=r"shard-00001\.parquet is missing or damaged"):
        read_sequence(tmp_path)
