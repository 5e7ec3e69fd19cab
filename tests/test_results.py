"""The results in the repository are what their evidence gives, and the page about them says what they say."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rrise.evaluation.evidence_files import EVIDENCE
from rrise.runs.published import rebuild

ROOT = Path(__file__).parent.parent
PUBLISHED = sorted({path.parent.parent for path in (ROOT / "results").glob(f"*/*/{EVIDENCE}")})


def same(found: Any, wanted: Any) -> bool:
    """Compare JSON; numbers may differ in what another version of a library rounds."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float):
        return isinstance(found, float) and math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12)
    return bool(found == wanted)


def test_there_are_results() -> None:
    assert {path.name for path in PUBLISHED} == {"fashion-mnist", "cifar-10"}


@pytest.mark.parametrize("results", PUBLISHED, ids=lambda path: path.name)
def test_results_are_what_their_evidence_gives(results: Path, tmp_path: Path) -> None:
    rebuild(results, tmp_path)
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in (tmp_path, results)]
    assert same(*metrics)
    for protocol in metrics[0]:
        made, kept = (
            {path.name: path.read_text() for path in (folder / protocol / "tables").iterdir()}
            for folder in (tmp_path, results)
        )
        assert made == kept
    assert (tmp_path / "steps.md").read_text() == (results / "steps.md").read_text()
    for figure in (results / "held-out" / "figures").iterdir():
        made, kept = (
            np.asarray(Image.open(path).convert("RGB"), dtype=np.float64)
            for path in (tmp_path / "held-out" / "figures" / figure.name, figure)
        )
        assert made.shape == kept.shape
        assert np.abs(made - kept).mean() < 2, figure.name


def test_the_page_about_them_is_up_to_date() -> None:
    script = ROOT / "benchmarks" / "reproduction.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
