"""The one place where files are written: under a temporary name, synced, then renamed.

A reader therefore sees the old file or folder, or the new one, never a half-written one. Files left behind
by a killed process have names that start with `TEMPORARY`.
"""

import hashlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rrise.errors import FolderError, RriseError

Json = dict[str, Any]

TEMPORARY = ".rrise-tmp-"
STEP_MANIFEST = "manifest.json"
"""The file in which a step of a run keeps the checksums of its others."""


def file_name(text: str) -> str:
    """Return a text for use in a file name: short, and without characters special to file systems.

    >>> file_name("T-shirt/top")
    'T-shirt-top'
    """
    return re.sub(r"[^\w .-]", "-", text)[:50]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically; its folder must exist. A full disk is a `FolderError` that names the file."""
    try:
        _write_bytes(path, content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FolderError(f"{path.name} could not be written to {path.parent}: {reason}") from error


def _write_bytes(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Json) -> None:
    """Write a JSON object atomically, indented and in the given order; refuse NaN."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: Json) -> bytes:
    """Return a JSON object as the bytes of a file."""
    return (json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def write_table(path: Path, table: Any) -> None:
    """Write a `pyarrow` table as Parquet atomically, with a checksum on every page."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, write_page_checksum=True)
    write_bytes(path, buffer.getvalue())


def read_json(path: Path) -> Json:
    """Read a JSON object; a missing or damaged file is a `FolderError` that names it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FolderError(f"expected a file {path}, but there is none") from None
    except OSError as error:
        raise FolderError(f"{path} is not a readable JSON file ({error}): it is damaged or edited") from None
    return parse_json(content, str(path))


def parse_json(content: bytes, path: str) -> Json:
    """Parse the JSON object in a file's content; messages name it `path`."""
    try:
        value = json.loads(content.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} is not a readable JSON file ({error}): it is damaged or edited") from None
    if not isinstance(value, dict):
        raise FolderError(f"expected a JSON object in {path}, got {type(value).__name__}")
    return value


def write_signed_json(path: Path, value: Json) -> None:
    """Write a JSON object that contains its own checksum."""
    write_bytes(path, signed_json_bytes(value))


def signed_json_bytes(value: Json) -> bytes:
    """Return a JSON object that contains its own checksum, as the bytes of a file."""
    return json_bytes({**value, "sha256": sha256_of_json(value)})


def read_signed_json(path: Path) -> Json:
    """Read a JSON object and check its checksum; an edited one is a `FolderError`."""
    return _checked(read_json(path), str(path))


def parse_signed_json(content: bytes, path: str) -> Json:
    """Parse the JSON object in a file's content and check its checksum."""
    return _checked(parse_json(content, path), path)


def _checked(signed: Json, path: str) -> Json:
    value = {name: content for name, content in signed.items() if name != "sha256"}
    try:
        same = signed.get("sha256") == sha256_of_json(value)
    except (ValueError, RecursionError):  # such as 1e999, which is read as infinity
        same = False
    if not same:
        raise FolderError(f"{path} was edited: its checksum does not match its content")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(folder: Path) -> Json:
    """Return the SHA-256 of every file of a folder, by name."""
    return {file.name: sha256_of_file(file) for file in sorted(folder.iterdir())}


def check_files(folder: Path, files: Json, manifest: str) -> None:
    """Refuse a folder in which a file is missing, or differs from its checksum in the manifest."""
    for name, checksum in files.items():
        path = folder / Path(name).name
        if not path.is_file():
            raise FolderError(f"{folder} is incomplete: {name} is missing")
        if sha256_of_file(path) != checksum:
            raise FolderError(f"{path} is damaged or edited: its checksum differs from the one in {manifest}")


def check_listed(path: Path) -> None:
    """Refuse a file that differs from its checksum in the manifest of its step, if there is one beside it."""
    manifest = path.parent / STEP_MANIFEST
    if manifest.is_file():
        files = read_signed_json(manifest).get("files", {})
        check_files(path.parent, {path.name: files[path.name]} if path.name in files else {}, STEP_MANIFEST)


@contextmanager
def as_written(path: object) -> Iterator[None]:
    """Convert errors in using the content of a file, such as a missing field, into a `FolderError`.

    >>> with as_written("votes.json"):
    ...     {}["n"]
    Traceback (most recent call last):
    rrise.errors.FolderError: votes.json is damaged or edited: field 'n' is missing or invalid
    """
    try:
        yield
    except RriseError:
        raise
    except _MISUSED as error:
        raise FolderError(f"{path} is damaged or edited: field {error} is missing or invalid") from None


_MISUSED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)


def sha256_of_json(value: Json) -> str:
    """Return the SHA-256 of a JSON object, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `target`, and rename it to `target` on success.

    On an error or an interrupt, the temporary folder is deleted and an existing `target` is unchanged.
    Sentences of errors name `target`, not the temporary folder.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=TEMPORARY))
    new, former = scratch / "new", scratch / "former"
    try:
        new.mkdir()
        yield new
        if target.exists():
            target.replace(former)
        new.replace(target)
    except BaseException as error:
        if former.exists() and not target.exists():
            former.replace(target)
        if isinstance(error, FolderError) and str(new) in str(error):
            raise FolderError(str(error).replace(str(new), str(target))) from error
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
