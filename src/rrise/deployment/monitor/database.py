"""The file of a monitor's database: one process at a time, and sentences for what is wrong with it."""

import fcntl
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rrise.errors import FolderError
from rrise.files import Json, as_written

FORMAT = 2


def read_about(connection: sqlite3.Connection, path: Path) -> Json:
    """Return what identifies a database; refuse another kind or format."""
    try:
        rows = dict(connection.execute("SELECT key, value FROM about").fetchall())
        about: Json = {key: json.loads(value) for key, value in rows.items()}
    except (sqlite3.Error, ValueError) as error:
        raise FolderError(f"{path} is not the database of a monitor ({error})") from None
    if about.get("format") != FORMAT:
        raise FolderError(
            f"expected format {FORMAT} in {path}, got {about.get('format')!r}: this version of rrise cannot "
            f"read it"
        )
    return about


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Convert errors of SQLite, and of strange content, into a `FolderError` that names the file."""
    try:
        with as_written(path):
            yield
    except sqlite3.Error as error:
        raise FolderError(f"the database {path} cannot be read or written ({error})") from None


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database whose pages contradict each other."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        reason = " ".join(str(found).split())
        raise FolderError(
            f"the database {path} is damaged ({reason}): restore a copy of it, or start a new one"
        )


def only_one(path: Path) -> TextIO:
    """Acquire the lock next to a database; refuse if another process holds it."""
    if not path.parent.is_dir():
        raise FolderError(f"cannot make {path}: the folder {path.parent} does not exist")
    try:
        lock = path.with_name(path.name + ".lock").open("w")
    except OSError as error:
        raise FolderError(f"cannot make {path}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise FolderError(f"another process has {path} open: stop it, or choose another file") from None
    return lock
