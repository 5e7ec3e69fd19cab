"""The run folder: steps that are skipped when up to date, and a lock so that one process works in it."""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rrise.errors import FolderError
from rrise.files import Json, new_folder, read_json, sha256_of_file, write_json

MANIFEST = "manifest.json"
RECIPE = "recipe.toml"


@contextmanager
def open_run(folder: Path, *, fresh: bool = False) -> Iterator[None]:
    """Hold a run folder for one process; leftovers of one that was killed are cleared away.

    `fresh` empties it first. A folder with other things in it is refused.
    """
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file: choose another name for the run folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / ".lock").exists():
        raise FolderError(f"{folder} holds other things than a run: choose another name with --out")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FolderError(
                f"another process is working in {folder}: wait for it, or choose --out"
            ) from None
        for path in folder.iterdir():
            if path.name != ".lock" and (fresh or path.name.startswith(".")):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield


def run_step(folder: Path, inputs: Json, make: Callable[[Path], Json]) -> tuple[Json, bool]:
    """Do a step unless it was done with the same inputs and its files are intact.

    `make(folder)` writes the step's files and returns its result as JSON. Returns the result, and
    whether the step ran.
    """
    done = _finished(folder, inputs)
    if done is not None:
        return done, False
    with new_folder(folder) as new:
        result = make(new)
        written = sorted(path for path in new.rglob("*") if path.is_file())
        files = {str(path.relative_to(new)): sha256_of_file(path) for path in written}
        write_json(new / MANIFEST, {"inputs": inputs, "result": result, "files": files})
    return result, True


def _finished(folder: Path, inputs: Json) -> Json | None:
    try:
        manifest = read_json(folder / MANIFEST)
    except FolderError:
        return None
    if manifest.get("inputs") != inputs:
        return None
    for name, checksum in manifest.get("files", {}).items():
        path = folder / name
        if not path.is_file() or sha256_of_file(path) != checksum:
            return None
    result: Json = manifest["result"]
    return result
