"""Edits a certifier folder as somebody would who knows every checksum in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rrise.files import sha256_of_file, sha256_of_json


def sign(folder: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    """Edit certifier.json and recompute every checksum, that of the guarantee's facts too."""
    path = folder / "certifier.json"
    manifest = json.loads(path.read_text())
    manifest["files"] = {file.name: sha256_of_file(file) for file in folder.iterdir() if file != path}
    manifest.pop("sha256")
    change(manifest)
    guarantee = manifest["guarantee"]
    guarantee.update(id=sha256_of_json(guarantee["facts"])[:12], failure=guarantee["facts"]["failure"])
    path.write_text(json.dumps({**manifest, "sha256": sha256_of_json(manifest)}))
