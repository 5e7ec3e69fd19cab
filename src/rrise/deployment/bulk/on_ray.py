"""Shards certified by the workers of a Ray cluster, through Ray Data (extra `rrise[ray]`).

A worker reads its shards itself and returns finished Parquet files, which the calling process writes. So a
part has one writer, and workers need access to the inputs alone. They get the certifier as the files of its
folder, and check it as on every loading.
"""

import logging
import tempfile
from collections.abc import Generator, Iterable
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.bulk.certifying import PartFile, ShardCertifier
from rrise.deployment.bulk.inputs import Listing, Reader
from rrise.deployment.bulk.kinds import Wanted
from rrise.deployment.bulk.parts import Counts, PartPlace
from rrise.deployment.loading import load_deployed
from rrise.errors import RriseError, WorkerError
from rrise.models.weights import shared_file
from rrise.progress import OnProgress
from rrise.votes.cluster import Cluster, connected, workers_in


class RayShards:
    """Workers that certify shards; a context that connects to the cluster."""

    def __init__(self, certifier: Path, reader: Reader, batch_size: int, cluster: Cluster) -> None:
        reading = (reader.listing, reader.wanted, reader.skip_bad)
        self._cluster = cluster
        self._setting = (
            _files_of(certifier),
            reading,
            batch_size,
            cluster.device,
            max(1, int(cluster.cpus_per_worker)),
        )
        self._stack = ExitStack()

    def __enter__(self) -> "RayShards":
        self._ray = self._stack.enter_context(connected(self._cluster))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def parts(
        self, places: Iterable[PartPlace], on_progress: OnProgress | None = None
    ) -> Generator[PartFile, None, None]:
        """Yield the files of parts as workers finish them."""
        by_index = {place.index: place for place in places}
        try:
            with closing(self._answers([asdict(place) for place in by_index.values()])) as rows:
                for row in rows:
                    if row["error"] is not None:
                        raise RriseError(row["error"])
                    part = PartFile(by_index[row["index"]], row["content"], Counts(**row["counts"]))
                    if on_progress is not None:
                        on_progress(part.place.stop - part.place.start)
                    yield part
        except self._ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())
            raise WorkerError(
                f"a worker failed ({reason}); finished parts are kept: run the same command again to resume"
            ) from error

    def _answers(self, rows: list[dict[str, Any]]) -> Generator[dict[str, Any], None, None]:
        import ray.data

        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.data.DataContext.get_current().enable_progress_bars = False
        gpus = self._cluster.gpus_per_worker
        resources: Any = {"num_gpus": gpus} if gpus else {"num_cpus": self._cluster.cpus_per_worker}
        found: Any = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            _Worker,
            fn_constructor_args=self._setting,
            batch_size=1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=workers_in(self._ray, self._cluster)),
            **resources,
        )
        tables = iter(found.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0))
        try:
            for table in tables:
                yield from table.to_pylist()
        finally:
            tables.close()  # its workers would stay, and others would wait for their cores


def _files_of(certifier: Path) -> dict[str, bytes]:
    """Return the files of a certifier by name, with those that its weights are shared with."""
    files = [path for path in certifier.iterdir() if path.is_file()]
    others = [shared_file(path) for path in files if path.suffix == ".safetensors"]
    return {path.name: path.read_bytes() for path in (*files, *others) if path is not None}


_ANSWER = pa.schema(
    [
        pa.field("index", pa.int64()),
        pa.field("content", pa.large_binary()),
        pa.field("counts", pa.struct([(name, pa.int64()) for name in asdict(Counts())])),
        pa.field("error", pa.string()),
    ]
)


class _Worker:
    """A certifier and a reader in a process of their own."""

    def __init__(
        self,
        files: dict[str, bytes],
        reading: tuple[Listing, Wanted, bool],
        batch_size: int,
        device: str,
        threads: int,
    ) -> None:
        torch.set_num_threads(threads)
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            certifier = load_deployed(folder, threads=threads)
        if isinstance(certifier, SurrogateCertifier):
            certifier = certifier.to(device)
        listing, wanted, skip_bad = reading
        self._shards = ShardCertifier(certifier, Reader(listing, wanted, skip_bad=skip_bad), batch_size)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the files of parts, or an error as its sentence."""
        return pa.Table.from_pylist([self._answer(PartPlace(**row)) for row in table.to_pylist()], _ANSWER)

    def _answer(self, place: PartPlace) -> dict[str, Any]:
        try:
            file = next(iter(self._shards.parts([place]))).encoded()
        except RriseError as error:
            return {"index": place.index, "error": str(error)}
        return {"index": place.index, "content": file.content, "counts": asdict(file.counts)}
