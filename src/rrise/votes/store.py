"""Votes on disk, one file per shard; collecting can be resumed after any interruption."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from rrise.errors import MismatchError, SettingError, described
from rrise.files import Json
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of
from rrise.models.logits import logits_of
from rrise.progress import OnProgress
from rrise.votes.array import Votes
from rrise.votes.engine import Answers, Execution, VoteEngine
from rrise.votes.inputs import ShardedInputs, ShardInputs
from rrise.votes.manifest import (
    FORMAT,
    MANIFEST,
    FoundManifest,
    check_manifest,
    differences,
    read_manifest,
    write_manifest,
)
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.reading import Location, counted
from rrise.votes.smoothing import Smoothing
from rrise.votes.storage import storage_at
from rrise.votes.stored_execution import read_execution, settled_execution
from rrise.votes.stored_shards import StoredShards
from rrise.votes.tuning import choose_execution

_PAUSE = 0.2
"""Seconds between checks for shards that other processes are working on."""


class Backend(Protocol):
    """Computes the answers of shards: a `VoteEngine` in this process, or workers elsewhere."""

    plan: VotePlan
    smoothing: Smoothing

    @property
    def device_type(self) -> str:
        """Where it computes."""

    def answers(
        self, shards: Iterable[ShardInputs], on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Answers]]:
        """Vote on shards, and yield the number and answers `[inputs, n - drawn]` of each, in any order."""


class VoteStore:
    """The votes of one set of inputs, in a folder or at an fsspec URL.

    The manifest identifies the smoothed classifier, the plan and the inputs. A store is only continued for
    exactly these, or for a larger n; the votes it has are then the first ones. Each shard carries a checksum
    of its store's identity and one of its content. Several processes may collect into one local store: one of
    them computes each shard.

    Args:
        location: a folder, or an fsspec URL such as `s3://bucket/votes`.
        base: the base classifier.
        images: inputs `[inputs, ...]`; memory-mapped files are read shard by shard.
        plan: the noise, the number of votes and the random stream.
        device: the type of device that computes the votes; by default that of the base.
        part: also accept a store with more votes. The first n are used, and it keeps all it has.

    Raises:
        InputError: the inputs are invalid, or the base does not accept them.

    Example:
        >>> import rrise, tempfile
        >>> plan = rrise.VotePlan(0.25, n=100, seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = VoteStore(folder, nn.Linear(2, 3), np.full((4, 2), 0.5), plan)
        ...     store.collect().shape, store.finished()
        ((4, 3), True)
    """

    def __init__(
        self,
        location: Location,
        base: nn.Module,
        images: Any,
        plan: VotePlan,
        device: str | None = None,
        *,
        part: bool = False,
    ) -> None:
        if not isinstance(plan, VotePlan):
            raise SettingError(f"expected a rrise.VotePlan, got {described(plan)}")
        self.storage = storage_at(location)
        self.plan, self.part = plan, part
        self.base = base
        self.inputs = images if isinstance(images, ShardedInputs) else ShardedInputs(images, plan.input_range)
        self.smoothing = plan.smoothing(base, self.sample)
        self.manifest: Json = {
            "format": FORMAT,
            "smoothing": self.smoothing.to_json(),
            "device": device or device_of(base).type,
            "n": plan.n,
            "block": 1,
            "seed": plan.seed,
            "split": plan.split,
            "shard": SHARD,
            "inputs": len(self.inputs),
            "input_shape": list(self.inputs.shape),
            "inputs_sha256": self.inputs.fingerprint,
        }
        self._shards = StoredShards(self.storage, self.manifest, self.inputs, plan.n)

    @cached_property
    def classes(self) -> int:
        """The number of classes K."""
        with evaluating(self.base):
            return logits_of(self.base, self.sample[:1], "base classifier").shape[1]

    @property
    def sample(self) -> torch.Tensor:
        """The first inputs, for testing the base classifier."""
        return self.inputs.shard(0)

    def check(self) -> FoundManifest | None:
        """Return the existing manifest, if any; one of other votes is a `MismatchError`."""
        found = read_manifest(self.storage)
        if found is not None:
            check_manifest(found.manifest, self.manifest, str(self.storage), part=self.part)
        return found

    def prepare(self) -> FoundManifest | None:
        """Open the store, create it, or extend it to a larger n; return the manifest that existed, if any."""
        with self.storage.claim(MANIFEST, wait=True):
            found = self.check()
            if found is None or found.manifest["n"] < self.plan.n:
                write_manifest(self.storage, self.manifest, found.versions if found else None)
        return found

    def found(self) -> Json:
        """Return the fields in which the existing manifest, if any, differs from this one, and its values."""
        found = read_manifest(self.storage)
        return {} if found is None else differences(found.manifest, self.manifest)

    def missing(self) -> list[int]:
        """Return the numbers of the shards that are missing, damaged, or have fewer than n draws."""
        return self._shards.missing()

    def passes_missing(self) -> int:
        """Return the number of forward passes left; damaged shards count in full."""
        return sum(self._shards.passes(index) - self._shards.passes_done(index) for index in self.missing())

    def finished(self) -> bool:
        """Tell whether every shard is complete and intact."""
        return not self.missing()

    def execution(
        self, find: Callable[[dict[str, Any]], Execution] | None = None, **wishes: Any
    ) -> Execution:
        """Return how the passes of this store are computed; this is chosen once, then stored.

        `wishes` (batch_size, compiled, freezing) override the stored choice. `find` chooses elsewhere, such
        as on a worker.
        """
        return settled_execution(self.storage, wishes, find or self._find_execution)

    def _find_execution(self, wishes: dict[str, Any]) -> Execution:
        return choose_execution(self.base, self.plan, self.sample, len(self.inputs), **wishes)

    def collect(
        self,
        *,
        batch_size: int | None = None,
        compiled: bool | None = None,
        freezing: bool | None = None,
        backend: Backend | None = None,
        on_progress: OnProgress | None = None,
        on_shards: OnProgress | None = None,
    ) -> Votes:
        """Return the votes; compute the shards that are missing or damaged.

        Args:
            batch_size: noisy copies to a forward pass; chosen automatically if not given.
            compiled: whether to compile the base classifier; chosen automatically if not given.
            freezing: whether to compile its weights in as constants; chosen automatically if not given.
            backend: computes the shards elsewhere; by default, this process does, on the base's device.
            on_progress: called with the number of forward passes done since the last call.
            on_shards: called with the number of shards safely stored since the last call.

        Returns:
            The votes, `[inputs, K]`.

        Raises:
            FolderError: the store cannot be read or written; finished shards are kept.
            MismatchError: the store holds votes of something else.
        """
        found = self.prepare()
        missing = self.missing()
        if not missing:
            read_execution(self.storage)  # a changed one is noticed, though nothing is left to compute
        report = _Report(on_progress or _ignore, on_shards or _ignore)
        report.passes(sum(map(self._shards.passes_done, range(self.inputs.shards))))
        report.shards(self.inputs.shards - len(missing))
        if missing:
            if found is not None:
                found.warn_of_other_versions(str(self.storage))
            if backend is None:
                execution = self.execution(batch_size=batch_size, compiled=compiled, freezing=freezing)
                backend = VoteEngine(self.base, self.plan, self.sample, execution)
            self._check(backend)
            self._fill(missing, backend, report)
        shards = [self._shards.whole[index] for index in range(self.inputs.shards)]
        return counted(shards, self.smoothing, self.plan.stream)

    def _check(self, backend: Backend) -> None:
        """Refuse a back end for other votes, or a base that has changed in the meantime."""
        self.smoothing.check_same(backend.smoothing, "this store", "what computes its votes")
        for what, mine, theirs in (
            ("plan", self.plan, backend.plan),
            ("device", self.manifest["device"], backend.device_type),
        ):
            if mine != theirs:
                raise MismatchError(f"the votes in {self.storage} have {what} {mine}, not {theirs}")

    def _fill(self, missing: list[int], backend: Backend, report: "_Report") -> None:
        todo = set(missing)
        while todo:
            before = len(todo)
            held: dict[int, _Held] = {}
            try:
                shards = (
                    replace(shard, drawn=self._shards.drawn[shard.index])
                    for shard in self.inputs.numbered(self._claimed(todo, held, report))
                )
                for index, answers in backend.answers(shards, report.passes):
                    whole = np.concatenate([held[index].beginning, answers], axis=1)
                    self._shards.write(index, whole, self.classes)
                    report.shards(1)
                    todo.discard(index)
                    held.pop(index).claim.close()
            finally:
                for one in held.values():
                    one.claim.close()
            if len(todo) == before:
                time.sleep(_PAUSE)

    def _claimed(self, todo: set[int], held: dict[int, "_Held"], report: "_Report") -> Iterator[int]:
        """Yield those of the shards to do that no other process is computing or has finished."""
        for index in sorted(todo):
            with ExitStack() as claim:
                if not claim.enter_context(self.storage.claim(self._shards.place(index).name)):
                    continue
                beginning = self._shards.read(index)
                held[index] = _Held(claim.pop_all(), beginning)
            known, self._shards.drawn[index] = self._shards.passes_done(index), held[index].beginning.shape[1]
            report.passes(self._shards.passes_done(index) - known)
            if self._shards.drawn[index] < self.plan.n:
                yield index
            else:
                held.pop(index).claim.close()
                todo.discard(index)
                report.shards(1)


@dataclass(frozen=True, eq=False)
class _Held:
    """A shard claimed by this process, and the first of its answers `[inputs, drawn]`."""

    claim: ExitStack
    beginning: Answers


@dataclass(frozen=True)
class _Report:
    passes: OnProgress
    shards: OnProgress


def _ignore(_: int) -> None:
    """Ignore progress."""
