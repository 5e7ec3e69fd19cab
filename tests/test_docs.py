"""Numbers and links in the documents are true."""

import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "benchmarks").rglob("*.md"),
    ROOT / "results" / "README.md",
]


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


def anchors_in(document: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+?)\s*$", text, flags=re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        repeats = (f"{anchor}-{number}" for number in itertools.count(1))
        found.add(next(one for one in itertools.chain([anchor], repeats) if one not in found))
    return found


def test_anchors_are_those_of_headings(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# What, why?\n## `head`: 10,000 votes\n```sh\n# no heading\n```\n## What, why?\n")
    assert anchors_in(document) == {"what-why", "head-10000-votes", "what-why-1"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if not target.startswith("http"):
            name, _, anchor = target.partition("#")
            path = document.parent / name if name else document
            assert path.exists(), target
            assert not anchor or anchor in anchors_in(path), target
