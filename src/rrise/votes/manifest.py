"""The manifest of a vote store: which classifier, noise and inputs its votes are of."""

import platform
import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow
import torch

from rrise._version import __version__
from rrise.errors import FolderError, MismatchError
from rrise.files import Json, as_written, parse_signed_json, signed_json_bytes
from rrise.votes.storage import Storage

FORMAT = 2
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class FoundManifest:
    """A manifest, and the versions that wrote it."""

    manifest: Json
    versions: dict[str, str]

    def warn_of_other_versions(self, where: str) -> None:
        """Warn if the store was started with other versions than these."""
        here = library_versions()
        then = {name: value for name, value in self.versions.items() if here.get(name) != value}
        if then:
            now = {name: here.get(name) for name in then}
            warnings.warn(
                f"the votes in {where} were started with other versions ({then}) than these ({now}): "
                f"rounding may differ between shards",
                stacklevel=3,
            )


def write_manifest(storage: Storage, manifest: Json, versions: dict[str, str] | None = None) -> None:
    """Write the manifest of a new store, or of a resumed one that was started with these `versions`."""
    storage.write(
        MANIFEST, signed_json_bytes({"manifest": manifest, "versions": versions or library_versions()})
    )


def read_manifest(storage: Storage) -> FoundManifest | None:
    """Read a store's manifest; return None if there is none."""
    content = storage.read(MANIFEST)
    if content is None:
        return None
    found = parse_signed_json(content, f"{storage}/{MANIFEST}")
    with as_written(f"{storage}/{MANIFEST}"):
        manifest = found.get("manifest", found)
        if manifest.get("format") != FORMAT:
            raise FolderError(
                f"expected votes of format {FORMAT} in {storage}, got format {manifest.get('format')!r}: "
                f"another version of rrise wrote them"
            )
        return FoundManifest(manifest, dict(found["versions"]))


def differences(found: Json, wanted: Json) -> Json:
    """Return the fields in which a manifest differs from the one wanted, with the values found.

    >>> differences({"n": 100, "seed": 1, "smoothing": {"sigma": 0.5}}, {"n": 200, "seed": 1})
    {'n': 100}
    """
    there, here = _flat(found), _flat(wanted)
    more = found.get("smoothing", {}) if "smoothing" in wanted else {}  # such as another noise
    return {name: there.get(name) for name in {**here, **more} if there.get(name) != here.get(name)}


def check_manifest(found: Json, wanted: Json, where: str, *, part: bool) -> None:
    """Refuse a store collected for something else, and name the field that matters most.

    A store with fewer votes than wanted can be continued. One with more is refused unless `part` is set.
    """
    different = differences(found, wanted)
    if not different or (different.keys() == {"n"} and (part or found["n"] < wanted["n"])):
        return
    name = min(different, key=("device", "n").__contains__)  # these two last
    value = _flat(wanted).get(name)
    hint = f": read the first {value} with read_votes({where!r}, n={value})" if name == "n" else ""
    raise MismatchError(f"the votes in {where} have {name} = {different[name]!r}, not {value!r}{hint}")


def _flat(manifest: Json) -> Json:
    return {**{k: v for k, v in manifest.items() if k != "smoothing"}, **manifest.get("smoothing", {})}


def library_versions() -> dict[str, str]:
    """Return the versions that rounding may depend on."""
    libraries = {library.__name__: str(library.__version__) for library in (torch, np, pyarrow)}
    return {"rrise": __version__, "python": platform.python_version(), **libraries}
