"""Damaged files give what undamaged ones give, or a sentence: no traceback, no other answer, no hang."""

import json
import resource
import shutil
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rrise.errors import RriseError
from rrise.files import signed_json_bytes
from tests.fuzzing.damage import damaged, edited
from tests.fuzzing.readers import READERS, Reader

QUICK, MANY = 12, 430
SECONDS, MEGABYTES = 60, 1_000
"""What one damaged file may cost at most; this machine may be busy."""


@contextmanager
def in_time() -> Iterator[None]:
    """Fail if the work hangs."""

    def late(*_: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def same(first: Any, second: Any) -> bool:
    """Compare results that may hold arrays."""
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(
            first, second, equal_nan=first.dtype.kind == "f"
        )
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(value, second[key]) for key, value in first.items())
    return bool(first == second)


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def restore(folder: Path, files: dict[Path, bytes]) -> None:
    shutil.rmtree(folder)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def case(reader: Reader, folder: Path, files: dict[Path, bytes], seed: int) -> tuple[Path, bytes]:
    """Damage one file of a folder, and return its name and what it holds now."""
    random = np.random.default_rng([seed, *reader.name.encode()])
    names = sorted(name for name, content in files.items() if content)
    name = names[int(random.integers(0, len(names)))]
    if reader.edited is None:
        content = damaged(files[name], random)
    else:
        name = Path(reader.edited)
        signed = {key: value for key, value in json.loads(files[name]).items() if key != "sha256"}
        content = signed_json_bytes(edited(signed, random))
    restore(folder, files)
    (folder / name).write_bytes(content)
    return name, content


def check(reader: Reader, folder: Path, cases: range) -> None:
    """Read one damaged folder after another."""
    folder.mkdir()
    reader.make(folder)
    files = files_of(folder)
    expected, problems = reader.read(folder), []
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in cases:
        name, content = case(reader, folder, files, seed)
        try:
            with in_time(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = reader.read(folder)
        except RriseError as error:
            if not str(error):
                problems.append((seed, str(name), "an error without a sentence"))
        except Exception as error:
            problems.append((seed, str(name), f"{type(error).__name__}: {error}"))
        else:
            if reader.checked and content != files[name] and not same(expected, found):
                problems.append((seed, str(name), "another answer"))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    assert not problems, f"{len(problems)} of {len(cases)} cases, such as {problems[:5]}"
    assert grown < MEGABYTES


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_few_damaged_files_for_every_reader(reader: Reader, tmp_path: Path) -> None:
    check(reader, tmp_path / "files", range(int(QUICK * reader.weight)))


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_ten_thousand_damaged_files(reader: Reader, tmp_path: Path) -> None:
    check(reader, tmp_path / "files", range(1_000, 1_000 + int(MANY * reader.weight)))


def test_these_are_ten_thousand_cases() -> None:
    assert sum(int(MANY * reader.weight) for reader in READERS) >= 10_000
