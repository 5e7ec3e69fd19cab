"""Inputs divided into shards; one shard at a time is converted and checked."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from rrise.data.inputs import InputRange, as_inputs, check_is_array, input_digests
from rrise.errors import InputError
from rrise.votes.plan import SHARD


@dataclass(frozen=True, eq=False)
class ShardInputs:
    """A shard to vote on: its number, its inputs, their fingerprint, and the number of draws so far."""

    index: int
    inputs: torch.Tensor
    content: str
    drawn: int = 0


class ShardedInputs:
    """Inputs in shards of `SHARD`, in order.

    Accepts an array, a tensor, or anything with `len()` whose slices are arrays or tensors, such as a
    memory-mapped file. A shard is read when it is needed. The constructor reads every input once, to check
    it and to compute its digest.
    """

    def __init__(self, images: Any, input_range: InputRange) -> None:
        self.input_range = input_range
        check_is_array(images)
        sliced = hasattr(images, "__getitem__") and getattr(images, "ndim", 1) > 0
        sliced = sliced and not isinstance(images, list | tuple | str)
        self._images: Any = images if sliced else as_inputs(images, input_range=input_range)
        if len(self._images) == 0:
            raise InputError("expected at least one input to vote on, got none")
        self.shape = tuple(self._read(0, 1).shape[1:])
        self.digests: list[bytes] = []
        for index in range(self.shards):
            self.digests += input_digests(self.shard(index))

    def __len__(self) -> int:
        return len(self._images)

    @property
    def shards(self) -> int:
        """How many shards there are; the last one may be smaller."""
        return -(-len(self) // SHARD)

    def shard(self, index: int) -> torch.Tensor:
        """Return the inputs of a shard as float32."""
        return self._read(index * SHARD, (index + 1) * SHARD)

    def numbered(self, indices: Iterable[int] | None = None) -> Iterator[ShardInputs]:
        """Yield all shards, or those requested."""
        for index in range(self.shards) if indices is None else indices:
            shard = self.shard(index)
            if input_digests(shard) != self.shard_digests(index):
                raise InputError(
                    f"some of the inputs from {index * SHARD} on have changed since they were first read: do "
                    f"not change inputs while votes are collected"
                )
            yield ShardInputs(index, shard, self.content(index))

    def shard_digests(self, index: int) -> list[bytes]:
        """Return the digests of a shard's inputs."""
        return self.digests[index * SHARD : (index + 1) * SHARD]

    def content(self, index: int) -> str:
        """Return the fingerprint of a shard's inputs."""
        return self._fingerprint(self.shard_digests(index))

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of all inputs, in order."""
        return self._fingerprint(self.digests)

    def _fingerprint(self, digests: list[bytes]) -> str:
        return hashlib.sha256(str(self.shape).encode() + b"".join(digests)).hexdigest()

    def _read(self, start: int, stop: int) -> torch.Tensor:
        shape = getattr(self, "shape", None)
        return as_inputs(self._images[start:stop], shape=shape, input_range=self.input_range, first=start)
