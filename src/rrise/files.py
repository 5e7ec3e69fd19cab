"""The one place where files are written: to a temporary name, synced, then renamed.

A reader therefore sees the old file or folder, or the new one, never a half-written one.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rrise.errors import FolderError

Json = dict[str, Any]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically; its folder must exist."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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
    """Write a JSON object atomically, readable and in the given order; NaN is refused."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Json:
    """Read a JSON object; a missing or damaged file is a `FolderError` that names it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FolderError(f"expected a file {path}, but there is none") from None
    except (ValueError, OSError) as error:
        raise FolderError(f"{path} is not a readable JSON file ({error}): it is damaged or edited") from None
    if not isinstance(value, dict):
        raise FolderError(f"expected a JSON object in {path}, got {type(value).__name__}")
    return value


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(value: Json) -> str:
    """Return the SHA-256 of a JSON object, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give a temporary folder beside `target` that takes its name, and its place, on success.

    On an error the temporary folder is removed and an earlier `target` stays as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        temporary.chmod(0o755)
        yield temporary
        if target.exists():
            former = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.former."))
            target.replace(former / "it")
            temporary.replace(target)
            shutil.rmtree(former, ignore_errors=True)
        else:
            temporary.replace(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
