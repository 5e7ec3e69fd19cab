"""Examples in docstrings and documents run in a folder of their own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _examples_write_elsewhere_and_repeat(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        import torch

        torch.manual_seed(0)
        monkeypatch.chdir(tmp_path)
