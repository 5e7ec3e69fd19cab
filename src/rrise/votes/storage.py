"""Where votes and certificates are kept: a local folder, or a URL that fsspec understands."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol
from uuid import uuid4

from rrise.errors import FolderError, SettingError, described
from rrise.files import TEMPORARY, write_bytes


class Storage(Protocol):
    """Named files, written atomically."""

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if there is none."""

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file for reading parts of it; return None if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file; readers see the old content or the new, never a part."""

    def names(self) -> set[str]:
        """Return the names of all files."""

    def claim(self, name: str, *, wait: bool = False) -> Any:
        """Claim a name for a context; yield False if another process has claimed it."""


def storage_at(location: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path or URL."""
    if not isinstance(location, str | os.PathLike):
        raise FolderError(f"expected the folder or URL of a vote store, got {described(location)}")
    text = os.fspath(location)
    if "://" not in text:
        return LocalStorage(Path(text))
    if text.startswith("file://"):
        return LocalStorage(Path(text.removeprefix("file://")))
    return RemoteStorage(text)


class LocalStorage:
    """A folder. Claims are locks of the operating system, which are released when their process dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if there is none."""
        try:
            return (self.folder / name).read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            return None

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file for reading parts of it; return None if there is none."""
        try:
            return (self.folder / name).open("rb")
        except (FileNotFoundError, IsADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file under a temporary name, then rename it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_bytes(self.folder / name, content)
        except OSError as error:  # of the folder; `write_bytes` names the file itself
            raise FolderError(f"{name} could not be written to {self.folder}: {error.strerror}") from error

    def names(self) -> set[str]:
        """Return the names of all files."""
        return {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else set()

    @contextmanager
    def claim(self, name: str, *, wait: bool = False) -> Iterator[bool]:
        """Hold a lock on the name, or yield False if another process does.

        The lock ends with its process. An interrupt during claiming may leave an empty file behind; the next
        claim of the name reuses it.
        """
        path = self.folder / f"{TEMPORARY}{name}.claim"
        with self._locked(path, wait) as mine:
            try:
                yield mine
            finally:
                if mine:
                    path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, path: Path, wait: bool) -> Iterator[bool]:
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                file = path.open("w")
            except OSError as error:
                raise FolderError(f"{self.folder} cannot be written to: {error.strerror}") from error
            with file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    yield False
                    return
                except OSError as error:
                    raise FolderError(f"{self.folder} does not support locks: {error.strerror}") from error
                if _is_file_at(file.fileno(), path):
                    yield True
                    return


def _is_file_at(descriptor: int, path: Path) -> bool:
    """Tell whether an open file still has its name; the previous holder of the lock may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


class RemoteStorage:
    """A folder behind a URL, such as `s3://bucket/votes`.

    It has no claims: two processes may do the same work, and write the same bytes.
    """

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise SettingError(f"cannot store files at {url}: {error}") from error
        self.url = url.rstrip("/")

    def __str__(self) -> str:
        return self.url

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if there is none."""
        try:
            content: bytes = self._files.cat_file(f"{self._root}/{name}")
        except (FileNotFoundError, IsADirectoryError):
            return None
        return content

    def open(self, name: str) -> IO[bytes] | None:
        """Open a file for reading parts of it; return None if there is none."""
        try:
            file: IO[bytes] = self._files.open(f"{self._root}/{name}", "rb")
        except (FileNotFoundError, IsADirectoryError):
            return None
        return file

    def write(self, name: str, content: bytes) -> None:
        """Write a file under a temporary name, then rename it."""
        temporary, final = f"{self._root}/{TEMPORARY}{uuid4().hex}-{name}", f"{self._root}/{name}"
        try:
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe_file(temporary, content)
            self._files.mv(temporary, final)
        except OSError as error:
            with suppress(OSError):
                self._files.rm_file(temporary)
            raise FolderError(f"{name} could not be written to {self.url}: {error}") from error

    def names(self) -> set[str]:
        """Return the names of all files."""
        self._files.invalidate_cache()
        try:
            return {path.rsplit("/", 1)[-1] for path in self._files.ls(self._root, detail=False)}
        except FileNotFoundError:
            return set()

    @contextmanager
    def claim(self, name: str, *, wait: bool = False) -> Iterator[bool]:  # noqa: ARG002
        """Always yield True."""
        yield True
