"""The shards of one vote store: which are there, whole, and with how many draws."""

import io

import numpy as np

from rrise.errors import FolderError
from rrise.files import Json
from rrise.votes.engine import Answers
from rrise.votes.inputs import ShardedInputs
from rrise.votes.reading import first_votes, read_place
from rrise.votes.shards import Place, Shard, read_shard, write_shard
from rrise.votes.storage import Storage


class StoredShards:
    """Reads and writes the shards of a store with `n` votes per input; `whole` holds the complete ones."""

    def __init__(self, storage: Storage, manifest: Json, inputs: ShardedInputs, n: int) -> None:
        self.whole: dict[int, Shard] = {}
        self.drawn: dict[int, int] = {}
        self._storage, self._manifest, self._inputs, self._n = storage, manifest, inputs, n

    def missing(self) -> list[int]:
        """Return the numbers of the shards that are missing, damaged, or have fewer than n draws."""
        names = self._storage.names()
        self.whole.clear()
        for index in range(self._inputs.shards):
            there = self.place(index).name in names
            self.drawn[index] = self.read(index).shape[1] if there else 0
        return [index for index, drawn in self.drawn.items() if drawn < self._n]

    def place(self, index: int) -> Place:
        """Return where a shard belongs."""
        return Place(self._manifest, index)

    def read(self, index: int) -> Answers:
        """Return the valid answers of a shard, up to n draws; keep the counts of a complete shard."""
        place = self.place(index)
        shard = read_place(self._storage, place, answers=True)
        if shard is None or shard.answers is None:
            return np.empty((place.inputs, 0), dtype=np.uint8)
        if shard.draws >= self._n:
            self.whole[index] = first_votes(shard, self._n)
        return shard.answers[:, : self._n]

    def write(self, index: int, answers: Answers, classes: int) -> None:
        """Write a complete shard."""
        place = self.place(index)
        content = write_shard(place, answers, classes, self._inputs.shard_digests(index))
        try:
            self._storage.write(place.name, content)
        except FolderError as error:
            raise FolderError(
                f"{error}; finished shards are kept: run the same command again to resume"
            ) from error
        shard = read_shard(place, io.BytesIO(content), answers=False)
        if shard is None:
            raise FolderError(f"{place.name} cannot be read back as it was written")
        self.whole[index] = shard

    def passes(self, index: int) -> int:
        """Return the number of forward passes of a shard."""
        return self.place(index).inputs * self._n

    def passes_done(self, index: int) -> int:
        """Return how many of them are stored."""
        return self.place(index).inputs * self.drawn[index]
