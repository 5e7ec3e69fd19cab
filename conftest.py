"""Examples in docstrings and documents run in a folder of their own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
