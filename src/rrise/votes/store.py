"""Votes on disk, a file a shard: collected once, continued after any interruption, read from then on."""

import io
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import nn

from rrise.errors import FolderError, MismatchError
from rrise.files import Json, parse_signed_json, sha256_of_json, signed_json_bytes
from rrise.models.evaluation_mode import device_of, evaluating, logits_of
from rrise.progress import OnProgress
from rrise.votes.array import Smoothing, Votes
from rrise.votes.engine import Answers, Execution, VoteEngine
from rrise.votes.inputs import ShardedInputs, ShardInputs
from rrise.votes.manifest import FORMAT, MANIFEST, check_same_manifest, read_manifest, write_manifest
from rrise.votes.plan import SHARD, VotePlan
from rrise.votes.reading import Location, counted, read_place
from rrise.votes.shards import Place, Shard, read_shard, write_shard
from rrise.votes.storage import storage_at
from rrise.votes.tuning import choose_execution

EXECUTION = "execution.json"
_PAUSE = 0.2
"""Seconds between looks at shards that other processes are working on."""


class Backend(Protocol):
    """What computes the answers of shards: a `VoteEngine` here, or workers elsewhere."""

    plan: VotePlan
    smoothing: Smoothing

    @property
    def device_type(self) -> str:
        """Where it computes."""

    def answers(
        self, shards: Iterable[ShardInputs], on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Answers]]:
        """Vote on shards, and yield number and answers of each, in any order."""


class VoteStore:
    """The votes of one set of inputs, in a folder or at an fsspec URL.

    The manifest names the smoothed classifier, the plan and the inputs; a store is only ever continued for
    exactly these. Each shard carries the checksum of what it belongs to and of its content. Several processes
    may collect into one local store: each shard is done by one of them. `device` is where votes are taken, if
    not where the base is.
    """

    def __init__(
        self, location: Location, base: nn.Module, images: Any, plan: VotePlan, device: str | None = None
    ) -> None:
        self.storage = storage_at(location)
        self.plan = plan
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
        self._identity = sha256_of_json(self.manifest)
        self._intact: dict[int, Shard] = {}

    @cached_property
    def classes(self) -> int:
        """How many classes the base classifier tells apart."""
        with evaluating(self.base):
            return logits_of(self.base, self.sample[:1], "base classifier").shape[1]

    @property
    def sample(self) -> torch.Tensor:
        """The first inputs, to try the base classifier on."""
        return self.inputs.shard(0)

    def prepare(self) -> None:
        """Open the store, or create it; one of other votes is a `MismatchError`."""
        with self.storage.claim(MANIFEST, wait=True):
            found = read_manifest(self.storage)
            if found is None:
                write_manifest(self.storage, self.manifest)
                return
        check_same_manifest(found.manifest, self.manifest, str(self.storage))
        found.warn_of_other_versions(str(self.storage))

    def missing(self) -> list[int]:
        """Return the numbers of the shards that are not there or damaged."""
        names = self.storage.names()
        self._intact.clear()
        return [
            index
            for index in range(self.inputs.shards)
            if self._place(index).name not in names or not self._is_intact(index)
        ]

    def finished(self) -> bool:
        """Tell whether every shard is there and intact."""
        return not self.missing()

    def execution(
        self, find: Callable[[dict[str, Any]], Execution] | None = None, **wishes: Any
    ) -> Execution:
        """Return how the passes of this store are computed, found once and from then on the same.

        `wishes` (batch_size, compiled, freezing) go before what was found; `find` finds it elsewhere.
        """
        given = {name: wish for name, wish in wishes.items() if wish is not None}
        with self.storage.claim(EXECUTION, wait=True):
            content = self.storage.read(EXECUTION)
            if content is not None:
                found = parse_signed_json(content, f"{self.storage}/{EXECUTION}")["execution"]
                if changed := {name: wish for name, wish in given.items() if found.get(name) != wish}:
                    warnings.warn(
                        f"the votes in {self.storage} were begun with {found} and go on with {changed}: "
                        f"rounding may differ between shards",
                        stacklevel=3,
                    )
                return Execution(**{**found, **given})
            chosen = find(given) if find else self._find_execution(given)
            self.storage.write(EXECUTION, signed_json_bytes({"execution": asdict(chosen)}))
            return chosen

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
        """Return the votes, computing the shards that are missing or damaged.

        `backend` computes them elsewhere; by default they are computed here, on the base's device.
        `on_progress` hears of passes, `on_shards` of shards that are safely stored.
        """
        self.prepare()
        missing = self.missing()
        report = _Report(on_progress or _ignore, on_shards or _ignore)
        report.passes(sum(self.passes_of(index) for index in self._intact))
        report.shards(self.inputs.shards - len(missing))
        if missing:
            if backend is None:
                execution = self.execution(batch_size=batch_size, compiled=compiled, freezing=freezing)
                backend = VoteEngine(self.base, self.plan, self.sample, execution)
            self._check(backend)
            self._fill(missing, backend, report)
        shards = [self._intact[index] for index in range(self.inputs.shards)]
        return counted(shards, self.smoothing, self.plan.stream)

    def _check(self, backend: Backend) -> None:
        """Refuse a back end that votes for something else, or a base that was changed meanwhile."""
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
            held: dict[int, ExitStack] = {}
            try:
                shards = self.inputs.numbered(self._claimed(todo, held, report))
                for index, answers in backend.answers(shards, report.passes):
                    self._write(index, answers)
                    report.shards(1)
                    todo.discard(index)
                    held.pop(index).close()
            finally:
                for claim in held.values():
                    claim.close()
            if len(todo) == before:
                time.sleep(_PAUSE)

    def _claimed(self, todo: set[int], held: dict[int, ExitStack], report: "_Report") -> Iterator[int]:
        """Yield, of the shards to do, those that no other process is at or has done meanwhile."""
        for index in sorted(todo):
            name = self._place(index).name
            claim = ExitStack()
            if not claim.enter_context(self.storage.claim(name)):
                claim.close()
            elif self._is_intact(index):
                claim.close()
                todo.discard(index)
                report.passes(self.passes_of(index))
                report.shards(1)
            else:
                held[index] = claim
                yield index

    def _write(self, index: int, answers: Answers) -> None:
        place, digests = self._place(index), self.inputs.shard_digests(index)
        content = write_shard(place, answers, self.classes, digests)
        try:
            self.storage.write(place.name, content)
        except FolderError as error:
            raise FolderError(
                f"{error}; finished shards are kept, and the same command goes on there"
            ) from error
        shard = read_shard(place, io.BytesIO(content), answers=False)
        if shard is None:
            raise FolderError(f"{place.name} does not read back as it was written")
        self._intact[index] = shard

    def _place(self, index: int) -> Place:
        inputs = len(self.inputs.shard_digests(index))
        return Place(self._identity, index, inputs, self.plan.n)

    def _is_intact(self, index: int) -> bool:
        """Read a shard with all it holds, and remember its counts if they can be trusted."""
        place = self._place(index)
        shard = read_place(self.storage, place, answers=True)
        if shard is None:
            return False
        self._intact[index] = replace(shard, answers=None)
        return True

    def passes_of(self, index: int) -> int:
        """Return how many forward passes a shard takes."""
        return self._place(index).inputs * self.plan.n


@dataclass(frozen=True)
class _Report:
    passes: OnProgress
    shards: OnProgress


def _ignore(_: int) -> None:
    """Hear of progress and do nothing."""
