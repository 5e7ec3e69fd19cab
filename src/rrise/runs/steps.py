"""The run folder: steps are skipped when up to date, and a lock admits one process."""

import fcntl
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rrise.errors import FolderError
from rrise.files import (
    STEP_MANIFEST,
    TEMPORARY,
    Json,
    new_folder,
    read_signed_json,
    sha256_of_file,
    write_signed_json,
)

MANIFEST = STEP_MANIFEST
RECIPE = "recipe.toml"
RECIPE_MARK = "# rrise "
LOCK = ".lock"
CONTENTS = (
    "splits.json",
    "checkpoints",
    "base",
    "votes",
    "surrogate",
    "surrogates",
    "certifier",
    "predictions",
    "audit",
    "evaluation",
    "tensorboard",
    "journal.jsonl",
    RECIPE,
)
"""The files of a run. The recipe, which identifies a run folder, is removed last."""


@contextmanager
def open_run(folder: Path, *, fresh: bool = False) -> Iterator[None]:
    """Lock a run folder for one process, and remove unfinished files, also those of a killed process.

    `fresh` removes the run's own files first. A folder that holds other files is refused.
    """
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file: choose another name for the run folder")
    if folder.is_dir() and not _is_run(folder):
        names = (path.name for path in folder.iterdir())
        others = [name for name in names if name != LOCK and not name.startswith(TEMPORARY)]
        if others:
            raise FolderError(
                f"{folder} holds files that are not of a run ({others[0]}): choose another --out"
            )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FolderError(
                f"another process is working in {folder}: wait, or choose another --out"
            ) from None
        _clear(folder)
        for name in CONTENTS if fresh else ():
            remove(folder / name)
        try:
            yield
        finally:
            _clear(folder)


def recipe_of(run: Path) -> Path:
    """Return the recipe of a run folder; refuse any other folder."""
    recipe = run / RECIPE
    if not recipe.is_file():
        raise FolderError(f"expected a run folder made by rrise run; {run} has no {RECIPE}")
    return recipe


def _clear(folder: Path) -> None:
    for path in list(folder.rglob(f"{TEMPORARY}*")):
        remove(path)


def _is_run(folder: Path) -> bool:
    recipe = folder / RECIPE
    return recipe.is_file() and recipe.read_text(errors="replace").startswith(RECIPE_MARK)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists, atomically: it is renamed before it is deleted."""
    if path.is_dir():
        doomed = Path(tempfile.mkdtemp(dir=path.parent, prefix=TEMPORARY))
        path.replace(doomed / "it")
        shutil.rmtree(doomed)
    else:
        path.unlink(missing_ok=True)


def run_step(
    folder: Path, inputs: Json, make: Callable[[Path], Json], on_again: Callable[[str], object] = str
) -> tuple[Json, bool]:
    """Run a step unless it was done with the same inputs and its files are intact.

    `make(folder)` writes the step's files and returns its result as JSON. If there was a step that cannot be
    kept, `on_again` is first called with the reason. Returns the result, and whether the step ran.
    """
    inputs = json.loads(json.dumps(inputs))  # as the manifest will return them
    if folder.exists():
        try:
            return _finished(folder, inputs), False
        except FolderError as reason:
            on_again(str(reason))
    with new_folder(folder) as new:
        result = make(new)
        written = sorted(path for path in new.rglob("*") if path.is_file())
        files = {str(path.relative_to(new)): sha256_of_file(path) for path in written}
        write_signed_json(new / MANIFEST, {"inputs": inputs, "result": result, "files": files})
    return result, True


def _finished(folder: Path, inputs: Json) -> Json:
    """Return the result of a finished step; a `FolderError` says why it cannot be kept."""
    try:
        manifest = read_signed_json(folder / MANIFEST)
        made_from, files, result = (manifest[name] for name in ("inputs", "files", "result"))
    except (FolderError, KeyError):
        raise FolderError(f"its {MANIFEST} is missing or damaged") from None
    if made_from != inputs:
        changed = sorted(name for name in {**made_from, **inputs} if made_from.get(name) != inputs.get(name))
        raise FolderError(f"it was made from other inputs ({', '.join(changed)})")
    for name, checksum in files.items():
        path = folder / name
        if not path.is_file():
            raise FolderError(f"{name} is missing")
        if sha256_of_file(path) != checksum:
            raise FolderError(f"{name} is damaged or edited")
    finished: Json = result
    return finished
