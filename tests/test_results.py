"""The results in the repository are what their evidence gives, and the pages about them say the same."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rrise.evaluation.measure.evidence_files import EVIDENCE
from rrise.evaluation.tables.paper import paper_numbers
from rrise.runs.published_results import rebuild
from tests.rebuilding import changed

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reproduction"
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
    assert {path.name for path in PUBLISHED} == {
        "fashion-mnist",
        "fashion-mnist-10000",
        "cifar-10",
        "cifar-10-10000",
        "fashion-mnist-distilled",
        "cifar-10-distilled",
        "cifar-100-distilled",
        "cifar-100",
    }


def files_in(folder: Path) -> set[str]:
    """Return what was made from evidence: everything but the evidence itself."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if not name.startswith("seed-")}


def pixels_that_differ(made: Path, kept: Path) -> float:
    """Return the share of pixels that differ by more than other fonts' or libraries' smoothing would."""
    ours, theirs = (np.asarray(Image.open(path).convert("RGB"), dtype=np.int16) for path in (made, kept))
    assert ours.shape == theirs.shape
    return float((np.abs(ours - theirs).max(axis=2) > 64).mean())


def slow_but_for_the_smallest() -> list[Any]:
    """All are rebuilt by `make test-all` and by `make results-check`."""
    smallest = ROOT / "results" / "fashion-mnist-10000"
    return [
        pytest.param(path, id=path.name, marks=() if path == smallest else pytest.mark.slow)
        for path in PUBLISHED
    ]


def test_all_results_were_rebuilt_with_what_there_is() -> None:
    """What makes the slow tests of this file hold when they are not run."""
    assert not changed(), (
        f"{', '.join(changed())}: changed since all published results were last rebuilt from their evidence. "
        "Run `make results-check`, which takes two minutes, and commit results/rebuilt-with.json"
    )


@pytest.mark.parametrize("results", slow_but_for_the_smallest())
def test_results_are_what_their_evidence_gives(results: Path, tmp_path: Path) -> None:
    rebuild(results, tmp_path)
    made = files_in(tmp_path)
    assert made == files_in(results)
    for name in sorted(made):
        ours, theirs = tmp_path / name, results / name
        if name.endswith(".json"):
            assert same(json.loads(ours.read_text()), json.loads(theirs.read_text()))
        elif name.endswith(".png"):
            assert pixels_that_differ(ours, theirs) < 0.0005, name
        else:
            assert ours.read_text() == theirs.read_text(), name


def test_a_figure_with_another_bar_differs(tmp_path: Path) -> None:
    kept = ROOT / "results" / "cifar-10" / "held-out" / "figures" / "boundary.png"
    changed = Image.open(kept).convert("RGB")
    bar = changed.crop((320, 50, 360, 80))  # RRISE's, in the first panel, lengthened by so much
    changed.paste(bar, (608, 50))
    changed.save(tmp_path / "changed.png")
    assert pixels_that_differ(tmp_path / "changed.png", kept) > 0.0005


@pytest.mark.slow
def test_the_pages_about_them_are_up_to_date() -> None:
    script = ROOT / "benchmarks" / "reproduction.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def numbers_in(value: Any) -> set[int]:
    """Return all numbers of a JSON value, rounded."""
    if isinstance(value, dict):
        return set().union(*map(numbers_in, value.values()), set())
    if isinstance(value, list):
        return set().union(*map(numbers_in, value), set())
    return {round(value)} if isinstance(value, int | float) else set()


def test_large_numbers_in_the_words_of_the_pages_are_in_their_tables_or_in_the_results() -> None:
    pages = "".join(path.read_text() for path in sorted(PAGES.glob("*.md")))
    made = r"<!-- table: .*?<!-- end -->"
    words = re.sub(made, "", pages, flags=re.DOTALL)
    large = r"\d{1,3}(?:,\d{3})+"
    told = {int(text.replace(",", "")) for text in re.findall(large, words)}
    in_tables = re.findall(large, "".join(re.findall(made, pages, flags=re.DOTALL)))
    known = {int(text.replace(",", "")) for text in in_tables}
    known |= {round(number.mean) for number in paper_numbers().values() if number.mean is not None}
    for results in PUBLISHED:
        known |= numbers_in(json.loads((results / "metrics.json").read_text()))
    settings = {1_000, 5_000, 9_000, 10_000, 20_000, 45_000, 49_000, 50_000, 55_000, 60_000}
    settings |= {1_024, 4_096, 199_000}  # of docs/reproduction/strong.md
    assert len(told - settings) > 20
    assert told - settings <= known


def test_the_page_on_stronger_certificates_says_what_was_measured() -> None:
    measured = (ROOT / "benchmarks" / "results" / "strong-certificates.md").read_text()
    known = [float(text) for text in re.findall(r"\d+\.\d{4}", measured)]
    known += [100 * number for number in known]  # also in percent
    page = (PAGES / "strong.md").read_text()
    told = [text for row in page.splitlines() if row.startswith("|") for text in re.findall(r"\d*\.\d+", row)]
    told = [text for text in told if text != "0.5"]  # a radius
    assert len(told) > 60
    for text in told:
        half_a_digit = 0.5 * 10.0 ** -len(text.split(".")[1])
        assert any(abs(float(text) - number) <= half_a_digit + 1e-4 for number in known), text
    passes = set(re.findall(r"([\d,]+) passes", page))
    assert passes == {"23", "35", "104", "76", "1,529", "375", "3,315", "540", "84", "152"}
    for number in passes:
        assert f"| {number} |" in measured
