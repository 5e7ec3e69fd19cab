"""Reading collected votes, as counts or one by one."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from rrise.errors import FolderError, SettingError
from rrise.files import as_written
from rrise.votes.array import Votes, count_answers
from rrise.votes.manifest import MANIFEST, read_manifest
from rrise.votes.plan import whole_number
from rrise.votes.sequence import StoredVotes
from rrise.votes.shards import Place, Shard, read_shard
from rrise.votes.smoothing import Smoothing
from rrise.votes.storage import Storage, storage_at
from rrise.votes.stored_execution import read_execution

Location = str | os.PathLike[str]


def read_votes(location: Location, n: int | None = None) -> Votes:
    """Read a finished collection as class counts.

    Args:
        location: the folder or URL of the collection.
        n: reads only the first `n` votes of every input. They are the votes that a collection for that `n`
            would have given.

    Returns:
        The votes, `[inputs, K]`.

    Raises:
        FolderError: there are no votes, or they are incomplete or damaged.
        SettingError: `n` is larger than the collection.

    Example:
        >>> import rrise, tempfile, torch
        >>> base, inputs = torch.nn.Linear(2, 3), np.full((4, 2), 0.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = rrise.VoteStore(folder, base, inputs, rrise.VotePlan(0.25, n=100, seed=0)).collect()
        ...     read_votes(folder, n=50).sum(axis=1).tolist()
        [50, 50, 50, 50]
    """
    found = _Collection(location, n)
    part = found.n < found.manifest["n"]
    shards = found.shards(lambda shard: first_votes(shard, found.n), answers=part)
    return counted(list(shards), found.smoothing, found.stream)


def read_sequence(location: Location, n: int | None = None) -> StoredVotes:
    """Read a finished collection vote by vote, in the order of the draws.

    It takes one or two bytes of memory per vote.

    Args:
        location: the folder or URL of the collection.
        n: reads only the first `n` votes of every input.

    Returns:
        The votes in order; early-stopping and input-specific methods take them.

    Raises:
        FolderError: there are no votes, or they are incomplete or damaged.
        SettingError: `n` is larger than the collection.

    Example:
        >>> import rrise, tempfile, torch
        >>> base, inputs = torch.nn.Linear(2, 3), np.full((4, 2), 0.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = rrise.VoteStore(folder, base, inputs, rrise.VotePlan(0.25, n=100, seed=0)).collect()
        ...     read_sequence(folder).counts(10, 30).sum(axis=1).tolist()
        [20, 20, 20, 20]
    """
    found = _Collection(location, n)
    digests, answers, classes, row = [], np.zeros((0, found.n), dtype=np.uint8), 0, 0
    for shard in found.shards(lambda shard: shard, answers=True):
        assert shard.answers is not None
        if row == 0:
            answers = np.empty((found.inputs, found.n), dtype=shard.answers.dtype)
            classes = shard.counts.shape[1]
        answers[row : row + len(shard.answers)] = shard.answers[:, : found.n]
        row += len(shard.answers)
        digests.append(shard.digests)
    return StoredVotes(answers, classes, found.smoothing, found.stream, np.concatenate(digests))


class _Collection:
    """The manifest and shards of a collection whose first `n` votes are complete."""

    def __init__(self, location: Location, n: int | None) -> None:
        self.storage = storage_at(location)
        found = read_manifest(self.storage)
        if found is None:
            raise FolderError(f"expected votes in {self.storage}, but there is no {MANIFEST}")
        read_execution(self.storage)  # a changed one is noticed
        self.manifest = manifest = found.manifest
        with as_written(f"{self.storage}/{MANIFEST}"):
            self.inputs = whole_number(manifest["inputs"], "inputs")
            self.n = int(manifest["n"]) if n is None else whole_number(n, "n")
            if not 1 <= self.n <= manifest["n"]:
                raise SettingError(
                    f"expected n from 1 to {manifest['n']}, the number of votes in {self.storage}; got {n}"
                )
            self.smoothing = Smoothing.from_json(manifest["smoothing"])
            self.stream: tuple[int, str] = (manifest["seed"], manifest["split"])
            self.shard_count = -(-self.inputs // whole_number(manifest["shard"], "shard"))
            if self.shard_count < 1 or manifest["shard"] < 1:
                raise ValueError("shard")

    def shards(self, take: Callable[[Shard], Shard], *, answers: bool) -> Iterator[Shard]:
        """Read all shards in threads, and yield `take` of each, in order."""
        with ThreadPoolExecutor() as threads:
            indices = range(self.shard_count)
            yield from threads.map(lambda index: take(self._shard(index, answers)), indices)

    def _shard(self, index: int, answers: bool) -> Shard:
        place = Place(self.manifest, index)
        shard = read_place(self.storage, place, answers=answers)
        if shard is not None and shard.draws > self.n and not answers:
            shard = read_place(self.storage, place, answers=True)
        if shard is None:
            raise FolderError(
                f"the votes in {self.storage} are incomplete: {place.name} is missing or damaged"
            )
        if shard.draws < self.n:
            raise FolderError(
                f"the votes in {self.storage} are incomplete: {place.name} has {shard.draws} of {self.n} "
                f"votes per input; collect the rest, or read the first ones with n={shard.draws}"
            )
        return shard


def first_votes(shard: Shard, n: int) -> Shard:
    """Return a shard with the counts of its first `n` votes, without its answers."""
    if shard.draws == n:
        return replace(shard, answers=None)
    assert shard.answers is not None
    return replace(shard, counts=count_answers(shard.answers[:, :n], shard.counts.shape[1]), answers=None)


def read_place(storage: Storage, place: Place, *, answers: bool) -> Shard | None:
    """Read one shard; return None if it is missing or damaged."""
    file = storage.open(place.name)
    if file is None:
        return None
    with file:
        return read_shard(place, file, answers=answers)


def counted(shards: list[Shard], smoothing: Smoothing, stream: tuple[int, str]) -> Votes:
    """Concatenate the counts of shards."""
    counts = np.concatenate([shard.counts for shard in shards])
    return Votes(counts, smoothing, stream, np.concatenate([shard.digests for shard in shards]))
