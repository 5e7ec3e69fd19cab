"""Files at local paths and at fsspec URLs: finding and opening them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from rrise.errors import FolderError, InputError, SettingError

_PATTERN = "*?["


def find_in(place: str, endings: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield the name and the size of a file, or of all files below a folder that have one of the endings.

    They come in the order of their names, folder by folder. A pattern such as `s3://bucket/*.parquet` names
    several files. Hidden files and links to folders are left out.
    """
    place = place.removeprefix("file://")
    try:
        found = iter(_remote(place, endings) if "://" in place else _local(place, endings))
        first = next(found, None)
        if first is None:
            raise InputError(f"{place} holds no {', '.join(endings)} files")
        yield first
        yield from found
    except OSError as error:
        raise FolderError(f"{place} cannot be read: {error.strerror or error}") from error


def open_file(name: str) -> IO[bytes]:
    """Open a file for reading parts of it."""
    try:
        if "://" not in name:
            return Path(name).open("rb")
        files, path = _filesystem(name)
        opened: IO[bytes] = files.open(path, "rb")
    except OSError as error:
        raise FolderError(f"{name} cannot be read: {error.strerror or error}") from error
    return opened


def read_files(names: Sequence[str]) -> list[bytes]:
    """Return the contents of files; those behind one URL are asked for together."""
    name = names[0]
    try:
        if all("://" in one for one in names):
            files, _ = _filesystem(name)
            paths = [files._strip_protocol(one) for one in names]
            found = files.cat(paths, recursive=False)
            return [found] if isinstance(found, bytes) else [found[path] for path in paths]
        contents = []
        for name in names:
            with open_file(name) as file:
                contents.append(file.read())
    except OSError as error:
        raise FolderError(f"{name} cannot be read: {error.strerror or error}") from error
    return contents


def _local(place: str, endings: tuple[str, ...]) -> Iterable[tuple[str, int]]:
    path = Path(place)
    if path.is_dir():
        return _below(place, endings)
    if path.is_file():
        return [(_known(place, endings), path.stat().st_size)]
    if path.exists():
        raise InputError(f"{place} is neither a file nor a folder")
    if any(mark in place for mark in _PATTERN):
        return _matching(place, endings)
    raise InputError(f"there is no file or folder {place}")


def _below(folder: str, endings: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    folders, files = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.name.lower().endswith(endings) and entry.is_file():
                files.append((entry.path, entry.stat().st_size))
    files.sort()
    yield from files
    for inside in sorted(folders):
        yield from _below(inside, endings)


def _remote(place: str, endings: tuple[str, ...]) -> Iterable[tuple[str, int]]:
    files, path = _filesystem(place)
    if files.isfile(path):
        return [(_known(place, endings), int(files.size(path)))]
    if files.isdir(path):
        return _below_url(files, path, endings)
    if any(mark in place for mark in _PATTERN):
        return _matching(place, endings)
    raise InputError(f"there is no file or folder {place}")


def _below_url(files: Any, root: str, endings: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for _, folders, found in files.walk(root, detail=True):
        for name in [name for name in folders if name.startswith(".")]:
            del folders[name]
        for name in sorted(found):
            if not name.startswith(".") and name.lower().endswith(endings):
                yield files.unstrip_protocol(found[name]["name"]), int(found[name]["size"] or 0)


def _matching(pattern: str, endings: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    files, path = _filesystem(pattern)
    for found in sorted(files.glob(path)):
        name = files.unstrip_protocol(found) if "://" in pattern else found
        yield from find_in(name, endings)


def _known(name: str, endings: tuple[str, ...]) -> str:
    if not name.lower().endswith(endings):
        raise InputError(f"{name}: expected a file of kind {', '.join(endings)}")
    return name


def _filesystem(place: str) -> tuple[Any, str]:
    import fsspec

    try:
        files, path = fsspec.core.url_to_fs(place)
    except (ImportError, ValueError) as error:
        raise SettingError(f"cannot read from {place}: {error}") from error
    return files, path
