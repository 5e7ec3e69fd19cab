"""Numbers and links in the documents are true."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def test_the_readmes_table_is_the_measured_one() -> None:
    measured = (ROOT / "benchmarks" / "results" / "foundation.md").read_text()
    readme = (ROOT / "README.md").read_text()
    rows = [line for line in readme.splitlines() if line.startswith("|")]
    assert len(rows) >= 8
    for row in rows:
        assert row in measured
    numbers = re.findall(r"([\d,]{3,}) (?:forward passes once|certificates on)", readme)
    assert len(numbers) == 2
    for number in numbers:
        assert number in measured


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target.split("#")[0]).exists(), target
