"""Runs that attack their certifier, and show it in the report."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.runs.test_pipeline import listening, run_quick, said

SMALL: dict[str, Any] = {
    "audit__inputs": 10,
    "audit__radii": [0.3],
    "audit__votes": 50,
    "audit__steps": 2,
    "audit__restarts": 1,
    "audit__queries": 3,
}


@pytest.fixture
def copied(quick_demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(quick_demo, tmp_path / "run"))


def report_of(folder: Path) -> str:
    return (folder / "evaluation" / "report.html").read_text()


def test_the_audit_is_a_step_and_part_of_the_report(copied: Path) -> None:
    assert "Under attack" not in report_of(copied)
    console = listening()
    run_quick(copied, console, **SMALL)
    for line in ("certifier: up to date", "audit: written", "evaluation: written"):
        assert line in said(console)
    found = json.loads((copied / "audit" / "audit.json").read_text())
    assert {finding["inputs"] for finding in found["findings"]} == {10}
    assert {finding["radius"] for finding in found["findings"]} == {0.0, 0.3}
    assert "Under attack" in report_of(copied)

    before = (copied / "audit" / "audit.json").stat().st_mtime_ns
    console = listening()
    run_quick(copied, console, **SMALL)
    assert "audit: up to date" in said(console)
    assert "evaluation: up to date" in said(console)
    assert (copied / "audit" / "audit.json").stat().st_mtime_ns == before

    console = listening()
    run_quick(copied, console, **{**SMALL, "audit__votes": 60})
    assert "votes/test: up to date" in said(console)
    assert "audit: written" in said(console)

    run_quick(copied)
    assert "Under attack" not in report_of(copied)


def test_a_seed_makes_it_the_same_again(copied: Path) -> None:
    run_quick(copied, **SMALL)
    once = (copied / "audit" / "audit.json").read_bytes()
    shutil.rmtree(copied / "audit")
    run_quick(copied, **SMALL)
    assert (copied / "audit" / "audit.json").read_bytes() == once
