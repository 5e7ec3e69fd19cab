"""Votes on disk: one Parquet file a shard, so that an interrupted collection goes on where it was."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.data.inputs import DIGEST_SIZE, input_digests, inputs_fingerprint
from rrise.errors import FolderError, MismatchError
from rrise.files import Json, read_signed_json, sha256_of_json, write_signed_json, write_table
from rrise.votes.array import Smoothing, Votes
from rrise.votes.engine import BATCH_SIZE, BLOCK, SHARD, OnProgress, VotePlan, shards_of, vote_shard

FORMAT = 1
MANIFEST = "manifest.json"


class VoteStore:
    """The votes of one split in one folder, collected once and read from then on.

    The manifest names the smoothed classifier, the plan and the inputs; a store is only ever continued
    or read for exactly these. Each shard carries the checksum of the manifest it belongs to and its place.
    """

    def __init__(self, folder: Path, base: nn.Module, inputs: torch.Tensor, plan: VotePlan) -> None:
        self.folder = folder
        self.plan = plan
        self.smoothing = plan.smoothing(base, inputs)
        self._base = base
        self._inputs = inputs
        self.manifest: Json = {
            "format": FORMAT,
            "smoothing": self.smoothing.to_json(),
            "n": plan.n,
            "seed": plan.seed,
            "split": plan.split,
            "shard": SHARD,
            "block": BLOCK,
            "inputs": len(inputs),
            "inputs_sha256": inputs_fingerprint(inputs),
        }

    @property
    def identity(self) -> str:
        """The checksum of the manifest."""
        return sha256_of_json(self.manifest)

    def finished(self) -> bool:
        """Tell whether every shard is there and intact."""
        return all(
            _read_shard(self.folder, self.identity, index, len(shard), self.plan.n) is not None
            for index, shard in shards_of(self._inputs)
        )

    def prepare(self) -> None:
        """Open the folder, or create it; a folder of other votes is a `MismatchError`."""
        path = self.folder / MANIFEST
        if path.exists():
            check_same_manifest(read_signed_json(path), self.manifest, self.folder)
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_signed_json(path, self.manifest)

    def collect(self, *, batch_size: int = BATCH_SIZE, on_progress: OnProgress | None = None) -> Votes:
        """Return the votes, computing the shards that are missing or damaged."""
        self.prepare()
        identity = self.identity
        shards = []
        for index, inputs in shards_of(self._inputs):
            shard = _read_shard(self.folder, identity, index, len(inputs), self.plan.n)
            if shard is None:
                counts = vote_shard(
                    self._base, inputs, self.plan, index, batch_size=batch_size, on_progress=on_progress
                )
                shard = _Shard(counts, input_digests(inputs))
                _write_shard(self.folder, identity, index, shard)
            elif on_progress is not None:
                on_progress(len(inputs) * self.plan.n)
            shards.append(shard)
        return _together(shards, self.smoothing, self.plan.stream)


@dataclass(frozen=True)
class _Shard:
    counts: NDArray[np.int64]
    digests: list[bytes]

    @property
    def checksum(self) -> str:
        content = str(self.counts.shape).encode() + self.counts.tobytes() + b"".join(self.digests)
        return hashlib.sha256(content).hexdigest()


def _together(shards: list[_Shard], smoothing: Smoothing, stream: tuple[int, str]) -> Votes:
    digests = [digest for shard in shards for digest in shard.digests]
    return Votes(np.concatenate([shard.counts for shard in shards]), smoothing, stream, digests)


def check_same_manifest(found: Json, wanted: Json, folder: Path) -> None:
    """Refuse a store collected for something else, naming the first field that differs."""
    for name, value in _flat(wanted).items():
        other = _flat(found).get(name)
        if other != value:
            raise MismatchError(f"the votes in {folder} have {name} = {other!r}, not {value!r}")


def read_votes(folder: Path) -> Votes:
    """Read a finished collection."""
    manifest = read_signed_json(folder / MANIFEST)
    identity = sha256_of_json(manifest)
    inputs, size, n = (int(manifest[name]) for name in ("inputs", "shard", "n"))
    shards = []
    for index, start in enumerate(range(0, inputs, size)):
        shard = _read_shard(folder, identity, index, min(size, inputs - start), n)
        if shard is None:
            name = _shard_path(folder, index).name
            raise FolderError(f"the votes in {folder} are incomplete: {name} is missing or damaged")
        shards.append(shard)
    stream = (int(manifest["seed"]), str(manifest["split"]))
    return _together(shards, Smoothing.from_json(manifest["smoothing"]), stream)


def _flat(manifest: Json) -> Json:
    return {**{k: v for k, v in manifest.items() if k != "smoothing"}, **manifest.get("smoothing", {})}


def _shard_path(folder: Path, index: int) -> Path:
    return folder / f"shard-{index:05d}.parquet"


def _write_shard(folder: Path, identity: str, index: int, shard: _Shard) -> None:
    votes = pa.FixedSizeListArray.from_arrays(pa.array(shard.counts.reshape(-1)), shard.counts.shape[1])
    table = pa.table({"votes": votes, "input": pa.array(shard.digests, pa.binary(DIGEST_SIZE))})
    metadata = {"store": identity, "shard": str(index), "sha256": shard.checksum}
    write_table(_shard_path(folder, index), table.replace_schema_metadata(metadata))


def _read_shard(folder: Path, identity: str, index: int, rows: int, n: int) -> _Shard | None:
    """Return a shard, or None where it is missing, damaged or of another store or place."""
    try:
        table = pq.read_table(_shard_path(folder, index), page_checksum_verification=True)
        votes = table.column("votes").combine_chunks()
        counts = np.asarray(votes.flatten().to_numpy(), dtype=np.int64).reshape(rows, -1)
        shard = _Shard(counts, table.column("input").to_pylist())
        metadata = table.schema.metadata or {}
        wanted = {"store": identity, "shard": str(index), "sha256": shard.checksum}
    except (OSError, pa.ArrowException, KeyError, ValueError, AttributeError, TypeError):
        return None
    if any(metadata.get(name.encode()) != value.encode() for name, value in wanted.items()):
        return None
    return shard if len(shard.digests) == rows and bool((counts.sum(axis=1) == n).all()) else None
