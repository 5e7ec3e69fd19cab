"""The manifest of an output folder: which certifier, which inputs, in which shards."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rrise.certifiers.certifier import Certifier
from rrise.deployment.bulk.inputs import Listing
from rrise.deployment.bulk.kinds import Wanted
from rrise.deployment.bulk.parts import PartPlace
from rrise.errors import FolderError, MismatchError
from rrise.files import Json, parse_signed_json, sha256_of_json, signed_json_bytes
from rrise.votes.manifest import MANIFEST, library_versions
from rrise.votes.storage import Storage

FORMAT = 1
KIND = "rrise certificates of a dataset"
SHARD = 16_384
"""Inputs of a part, unless given."""


@dataclass(frozen=True)
class BulkManifest:
    """What an output folder is of. Its parts are continued only for exactly this."""

    certifier: Json
    inputs: Json
    shard: int

    @classmethod
    def of(
        cls, certifier: Certifier, given: Sequence[str], listing: Listing, wanted: Wanted, shard: int
    ) -> "BulkManifest":
        """Describe a certifier and its inputs."""
        return cls(
            {
                "guarantee": certifier.guarantee.id,
                "calibration": _calibration_checksum(certifier),
                "input_shape": list(certifier.input_shape),
                "class_names": list(certifier.class_names),
            },
            {
                "count": len(listing),
                "files": len(listing.rows),
                "bytes": int(listing.sizes.sum()),
                "sha256": listing.fingerprint,
                "column": wanted.column,
                "given": list(given),
            },
            shard,
        )

    @property
    def identity(self) -> str:
        """A checksum that every part holds."""
        return sha256_of_json({"certifier": self.certifier, "inputs": self._facts(), "shard": self.shard})

    @property
    def parts(self) -> int:
        """How many parts there are; the last one may be smaller."""
        return -(-int(self.inputs["count"]) // self.shard)

    def place(self, index: int) -> PartPlace:
        """Return where a part belongs."""
        start = index * self.shard
        return PartPlace(self.identity, index, start, min(start + self.shard, int(self.inputs["count"])))

    def check_continues(self, found: "BulkManifest", where: str) -> None:
        """Refuse to continue a folder that was begun with something else."""
        elsewhere = "pass another --out, or delete this folder"
        for name, mine in self.certifier.items():
            if found.certifier.get(name) != mine:
                raise MismatchError(
                    f"{where} holds certificates of another certifier: its {name.replace('_', ' ')} is "
                    f"{found.certifier.get(name)!r}, not {mine!r}; {elsewhere}"
                )
        if found._facts() != self._facts():
            then, now = (_words(one.inputs) for one in (found, self))
            how = ", with other names or sizes" if then == now else ""
            raise MismatchError(
                f"the inputs have changed since {where} was begun: then {then} as {found.inputs['given']}, "
                f"now {now}{how}; {elsewhere}"
            )
        if found.shard != self.shard:
            raise MismatchError(
                f"{where} has {found.shard} inputs to a part, not {self.shard}: leave --shard out"
            )

    def _facts(self) -> Json:
        return {name: value for name, value in self.inputs.items() if name != "given"}


def write_manifest(storage: Storage, manifest: BulkManifest, certifier: Certifier) -> None:
    """Write the manifest, with the promise of every certificate."""
    content: Json = {
        "format": FORMAT,
        "kind": KIND,
        "certifier": manifest.certifier,
        "inputs": manifest.inputs,
        "shard": manifest.shard,
        "guarantee": certifier.guarantee.to_json(),
        "versions": library_versions(),
    }
    storage.write(MANIFEST, signed_json_bytes(content))


def read_manifest(storage: Storage) -> BulkManifest | None:
    """Read the manifest of a folder; return None if the folder is empty."""
    content = storage.read(MANIFEST)
    if content is None:
        if any(not name.startswith(".") for name in storage.names()):
            raise FolderError(f"{storage} holds other files: choose an empty folder for certificates")
        return None
    found: Any = parse_signed_json(content, f"{storage}/{MANIFEST}")
    if (found.get("kind"), found.get("format")) != (KIND, FORMAT):
        raise FolderError(
            f"{storage}/{MANIFEST} is not the manifest of {KIND[6:]} in format {FORMAT}: choose another "
            f"folder"
        )
    return BulkManifest(found["certifier"], found["inputs"], int(found["shard"]))


def _words(inputs: Json) -> str:
    return f"{inputs['count']:,} inputs in {inputs['files']:,} files of {inputs['bytes']:,} bytes"


def _calibration_checksum(certifier: Certifier) -> str | None:
    """Return a checksum of the answers to the calibration inputs: it tells surrogates apart."""
    evidence = getattr(certifier, "evidence", None)
    if evidence is None:
        return None
    found = hashlib.sha256()
    for values in (evidence.top_probability, evidence.agreeing, evidence.score):
        found.update(values.tobytes())
    return found.hexdigest()
