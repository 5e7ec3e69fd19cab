"""The output folder: which parts are there, and the filling in of the others."""

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pyarrow as pa

from rrise.deployment.bulk.certifying import Part, PartFile, Shards
from rrise.deployment.bulk.inputs import Reader
from rrise.deployment.bulk.manifest import BulkManifest, read_manifest
from rrise.deployment.bulk.parts import Counts, PartPlace, read_part
from rrise.errors import FolderError, MismatchError
from rrise.progress import OnProgress
from rrise.votes.storage import LocalStorage, Storage

_PAUSE = 0.2
"""Seconds between checks for shards that other processes are working on."""
_WRITERS = 4
"""Parts that are written at the same time: a disk takes its time to confirm each."""
_ALONE = "cluster"
"""The name of the claim of a process that uses a cluster."""
_LOOKED_AT = 16
"""Finished parts of which the first input is read again, to see whether the inputs have changed."""


def finished_parts(folder: Path) -> list[Path]:
    """Return the parts of a finished output folder in order; none if it is something else."""
    try:
        manifest = read_manifest(LocalStorage(folder))
    except FolderError:
        return []
    if manifest is None:
        return []
    parts = [folder / manifest.place(index).name for index in range(manifest.parts)]
    if missing := sum(not path.is_file() for path in parts):
        raise FolderError(
            f"{folder} is not complete: {missing:,} of {len(parts):,} parts are missing; run the same "
            f"rrise certify again to resume"
        )
    return parts


class OutputFolder:
    """The parts of a run, finished or to do."""

    def __init__(self, storage: Storage, manifest: BulkManifest, on_progress: OnProgress | None) -> None:
        self.storage, self.manifest = storage, manifest
        self.todo = list(range(manifest.parts))
        self.counts, self.kept = Counts(), 0
        self._report = on_progress or _ignore

    def look(self, reader: Reader) -> None:
        """Find the finished parts, and check that the inputs are still those that they were made of."""
        names = self.storage.names()
        finished: list[int] = []
        todo: list[int] = []
        for index in self.todo:
            there = self.manifest.place(index).name in names
            (finished if there and self._keeps(index) else todo).append(index)
        self.todo, self.kept = todo, len(finished)
        for index in finished[:: max(1, -(-len(finished) // _LOOKED_AT))]:
            self._check_unchanged(self.manifest.place(index), reader)

    def fill(self, certifier: Shards) -> None:
        """Compute the parts to do; parts that other processes compute are waited for."""
        self._fill(certifier, self._claimed)

    def fill_alone(self, certifier: Shards) -> None:
        """Compute the parts to do with a certifier that takes all of them at once.

        One claim covers the folder: a claim of each part would need an open file for each.
        """
        with self.storage.claim(_ALONE) as mine:
            if not mine:
                raise FolderError(f"another process certifies into {self.storage} on a cluster: wait for it")
            self._fill(certifier, self._unclaimed)

    def _fill(self, certifier: Shards, places: Callable[[dict[int, ExitStack]], Iterator[PartPlace]]) -> None:
        with ThreadPoolExecutor(_WRITERS) as writer:
            while self.todo:
                before = len(self.todo)
                held: dict[int, ExitStack] = {}
                writing: deque[Future[PartFile]] = deque()
                try:
                    with closing(certifier.parts(places(held), self._report)) as parts:
                        for part in parts:
                            if len(writing) >= _WRITERS:
                                self._finish(writing.popleft().result())
                            writing.append(writer.submit(self._write, part, held.pop(part.place.index)))
                    while writing:
                        self._finish(writing.popleft().result())
                finally:
                    for claim in held.values():
                        claim.close()
                if len(self.todo) == before:
                    time.sleep(_PAUSE)

    def _finish(self, written: PartFile) -> None:
        self.counts += written.counts
        self.todo.remove(written.place.index)

    def _claimed(self, held: dict[int, ExitStack]) -> Iterator[PartPlace]:
        """Yield the parts that no other process computes or has finished in the meantime."""
        for index in tuple(self.todo):
            place = self.manifest.place(index)
            with ExitStack() as claim:
                if not claim.enter_context(self.storage.claim(place.name)):
                    continue
                if not self._keeps(index, quietly=True):
                    held[index] = claim.pop_all()
                    yield place
                    continue
            self.todo.remove(index)

    def _unclaimed(self, held: dict[int, ExitStack]) -> Iterator[PartPlace]:
        for index in tuple(self.todo):
            held[index] = ExitStack()
            yield self.manifest.place(index)

    def _write(self, part: Part | PartFile, claim: ExitStack) -> PartFile:
        with claim:
            file = part.encoded()
            try:
                self.storage.write(file.place.name, file.content)
            except FolderError as error:
                raise FolderError(
                    f"{error}; finished parts are kept: run the same command again to resume"
                ) from error
        return file

    def _read(self, place: PartPlace) -> pa.Table | str | None:
        file = self.storage.open(place.name)
        if file is None:
            return None
        with file:
            return read_part(place, file)

    def _keeps(self, index: int, *, quietly: bool = False) -> bool:
        """Count a finished part; warn of one that is not intact."""
        place = self.manifest.place(index)
        table = self._read(place)
        if isinstance(table, pa.Table):
            self.counts += Counts.of(table)
            self._report(len(table))
            return True
        if table is not None and not quietly:
            warnings.warn(
                f"{self.storage}/{place.name} is computed again: {table}", RuntimeWarning, stacklevel=4
            )
        return False

    def _check_unchanged(self, place: PartPlace, reader: Reader) -> None:
        """Compare the first input of a part with its digest."""
        table = self._read(place)
        if not isinstance(table, pa.Table) or (digest := table["digest"][0].as_py()) is None:
            return
        try:
            digests = reader.read(place.start, place.start + 1).digests
        except ValueError:
            digests = []
        if digests != [digest]:
            raise MismatchError(
                f"the inputs have changed since {self.storage} was begun: input {place.start} is not the one "
                f"in {place.name}; pass another --out, or delete this folder"
            )


def _ignore(_: int) -> None:
    """Ignore progress."""
