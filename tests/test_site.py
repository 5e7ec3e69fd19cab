"""The documentation site: it builds strictly, shows what GitHub shows, and asks nobody for anything."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import rrise
from tests.test_docs import script

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
MISSING = [name for name in ("mkdocs", "material", "mkdocstrings") if importlib.util.find_spec(name) is None]
needs_mkdocs = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not installed: pip install 'rrise[docs]'"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def hooks() -> Any:
    return script(ROOT / "docs" / "site_hooks.py")


def article(site: Path, document: Path) -> str:
    """Return what a page shows of a document."""
    inside = document.relative_to(ROOT / "docs" if document.is_relative_to(ROOT / "docs") else ROOT)
    page = site / inside.with_suffix(".html")
    if document.stem in {"README", "index"}:
        page = page.with_name("index.html")
    text = page.read_text()
    return text[text.index("<article") : text.index("</article")]


@needs_mkdocs
def test_pages_show_what_github_shows(site: Path) -> None:
    """Lists, tables, quotations and paragraphs: Python-Markdown wants blank lines that GitHub does not."""
    documents = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks" / "results").glob("*.md")]
    documents = [one for one in documents if REFERENCE not in one.parents]
    assert len(documents) > 50
    for document in [*documents, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]:
        on_github = MarkdownIt("commonmark").enable("table").render(document.read_text())
        ours = article(site, document)
        for tag in ("li", "tr", "blockquote", "h2", "h3", "p", "strong"):
            counts = [len(re.findall(f"<{tag}[ >]", text)) for text in (on_github, ours)]
            assert counts[0] == counts[1], f"{document.relative_to(ROOT)}: <{tag}>"


@needs_mkdocs
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        loaded = re.findall(r"<(?:script|img|link)[^>]*(?:src|href)=\"?(https?:[^\"\s>]+)", page.read_text())
        assert not loaded, page
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text(), sheet


@needs_mkdocs
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for name in rrise.__all__:
        assert name == "__version__" or f'id="rrise.{name}"' in pages, name


@needs_mkdocs
def test_examples_have_no_prompts_and_their_output_has_a_block(site: Path) -> None:
    shown = article(site, ROOT / "docs" / "own-model.md")
    assert "&gt;&gt;&gt;" not in shown
    assert shown.count("Output") >= 3
    assert "&gt;&gt;&gt;" in article(site, REFERENCE / "certify.md")


def test_reference_pages_name_objects_that_exist() -> None:
    names = re.findall(
        r"^::: (.+)$", "".join(page.read_text() for page in REFERENCE.glob("*.md")), re.MULTILINE
    )
    assert len(names) == len(set(names)) > 50
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


@needs_mkdocs
def test_examples_of_docstrings_are_code() -> None:
    as_code = script(ROOT / "docs" / "docstrings.py").as_code
    assert as_code("Load.\n\nExample:\n    a = load()\n    b(a)\n") == (
        "Load.\n\nExamples:\n    ```python\n    a = load()\n    b(a)\n    ```"
    )
    doctest = "Load.\n\nExample:\n    >>> load()\n    3"
    assert as_code(doctest) == doctest.replace("Example", "Examples")
    assert as_code("For Example: none.") == "For Example: none."


@needs_mkdocs
def test_links_out_of_the_documents_become_pages_or_text(
    hooks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Files:
        def get_file_from_path(self, path: str) -> object:
            return (
                path if path in {"guarantee.md", "benchmarks/results/drift.md", "results/README.md"} else None
            )

    def shown(text: str, repository: str | None = None) -> str:
        return str(
            hooks.with_links_of_the_site(text, ROOT / "docs" / "concepts" / "x.md", Files(), repository)
        )

    at_home = "https://x.org/r/blob/main/src/rrise/looks.py"
    assert shown("[a](../guarantee.md#setting)") == "[a](../guarantee.md#setting)"
    assert shown("[a](../../benchmarks/results/drift.md)") == "[a](../benchmarks/results/drift.md)"
    assert shown("[all](../../results)") == "[all](../results/README.md)"
    assert shown("[b](../../src/rrise/looks.py) c") == "b c"
    assert shown("[b](../../src/rrise/looks.py)", "https://x.org/r/") == f"[b]({at_home})"
    assert shown("[o](https://x.org) [h](#here)") == "[o](https://x.org) [h](#here)"
    assert shown("```\n[a](../no.md)\n```\n") == "```\n[a](../no.md)\n```\n"
    assert not caplog.records
    assert shown("[gone](../no.md)") == "gone"
    assert "which does not exist" in caplog.text


@needs_mkdocs
def test_blank_lines_come_before_lists_and_tables_alone(hooks: Any) -> None:
    assert hooks.with_blank_lines("Words\n- one\n  more\n- two\n") == "Words\n\n- one\n  more\n- two\n"
    assert hooks.with_blank_lines("Words\n| a |\n|---|\n") == "Words\n\n| a |\n|---|\n"
    assert hooks.with_blank_lines("a - b\nc - d\n") == "a - b\nc - d\n"
