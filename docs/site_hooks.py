"""What the site needs beyond MkDocs: pages from elsewhere, Markdown as on GitHub, examples to copy.

Documents are written for GitHub. There, links lead anywhere in the repository, a list needs no blank line
before it, and an example shows its output. On the site,

- documents outside `docs` that a page links to become pages, and their images are copied;
- links to other files become links to the repository (`repo_url`), or plain text without one;
- lists, tables and quotations get the blank line that Python-Markdown wants;
- examples lose their `>>>`, and their output gets a block of its own.
"""

import doctest
import os.path
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import mkdocs.plugins
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
ALSO = ["CHANGELOG.md", "CONTRIBUTING.md", "results/README.md"]
"""Documents outside `docs` that become pages, beside all of `benchmarks/results` and what pages link to."""
IMAGES = {".png", ".svg"}
_FENCE = re.compile(r"^(?P<fence>```+|~~~+)(?P<language>.*)\n(?P<body>(?:.*\n)*?)(?P=fence) *$", re.MULTILINE)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_OPENS = re.compile(r" {0,3}(?:[-*+] |\d+\. |\||> ?)")
_OUTPUT = '```{.text .output title="Output"}'
_log = mkdocs.plugins.get_plugin_logger("rrise")


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a document in which everything but its fenced code is changed."""
    parts, start = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[start : fence.start()]), fence[0]]
        start = fence.end()
    return "".join([*parts, change(text[start:])])


def uri_of(path: Path) -> str:
    """Return where a file of the repository is on the site: `docs` is the root, the rest keeps its path."""
    return path.relative_to(ROOT / "docs" if path.is_relative_to(ROOT / "docs") else ROOT).as_posix()


def target_of(link: str, document: Path) -> Path | None:
    """Return the file or folder that a link of a document leads to; None for addresses and anchors."""
    name = link.partition("#")[0]
    if not name or re.match(r"[a-z]+:", name):
        return None
    target = Path(os.path.normpath(document.parent / name))
    if not target.is_relative_to(ROOT):
        return None
    return target / "README.md" if (target / "README.md").exists() else target


def linked(document: Path) -> Iterator[Path]:
    """Yield what the links of a document lead to."""
    found: list[Path | None] = []

    def note(text: str) -> str:
        found.extend(target_of(link["target"], document) for link in _LINK.finditer(text))
        return text

    outside_code(document.read_text(), note)
    yield from (target for target in found if target is not None)


def with_links_of_the_site(text: str, document: Path, files: Files, repository: str | None) -> str:
    """Return a document whose links lead to pages of the site, or else to the repository."""
    here = PurePosixPath(uri_of(document)).parent

    def link(found: re.Match[str]) -> str:
        target = target_of(found["target"], document)
        if target is None:
            return found[0]
        _, hash_, anchor = found["target"].partition("#")
        if files.get_file_from_path(uri_of(target)) is not None:
            path = os.path.relpath(uri_of(target), here)
            return f"{found['image']}[{found['text']}]({path}{hash_}{anchor})"
        if not target.exists():
            _log.warning("%s links to %s, which does not exist", document.relative_to(ROOT), found["target"])
        elif repository:
            address = f"{repository.rstrip('/')}/blob/main/{target.relative_to(ROOT).as_posix()}"
            return f"[{found['text']}]({address}{hash_}{anchor})"
        return found["text"]

    return outside_code(text, lambda part: _LINK.sub(link, part))


def with_blank_lines(text: str) -> str:
    """Return a document with a blank line before each list, table and quotation, and around code."""

    def spaced(part: str) -> str:
        lines: list[str] = []
        for line in part.split("\n"):
            opened = _OPENS.match(line)
            if opened and lines and lines[-1].strip():
                before = _OPENS.match(lines[-1])
                continues = before is not None and before[0].strip()[-1:] == opened[0].strip()[-1:]
                if not continues and not lines[-1].startswith("  "):
                    lines.append("")
            lines.append(line)
        return "\n".join(lines)

    return _FENCE.sub(lambda fence: f"\n{fence[0]}\n", outside_code(text, spaced))


def with_examples_to_copy(text: str) -> str:
    """Return a document whose examples have no prompts, and their output in a block of its own."""

    def example(fence: re.Match[str]) -> str:
        if ">>> " not in fence["body"]:
            return fence[0]
        blocks: list[tuple[str, str]] = []
        for part in doctest.DocTestParser().get_examples(fence["body"]):
            if not blocks or blocks[-1][1]:
                blocks.append(("", ""))
            blocks[-1] = (blocks[-1][0] + part.source, part.want)
        outputs = (f"\n\n{_OUTPUT}\n{want}```" if want else "" for _, want in blocks)
        sources = (f"```python\n{source}```" for source, _ in blocks)
        return "\n".join(map("".join, zip(sources, outputs, strict=True)))

    with_outputs = re.sub(r"^```\n+```text$", f"```\n\n{_OUTPUT}", text, flags=re.MULTILINE)
    return _FENCE.sub(example, with_outputs)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the documents and images outside `docs`."""
    waiting = [ROOT / "docs" / file.src_uri for file in files.documentation_pages()]
    waiting += [ROOT / name for name in ALSO] + sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if files.get_file_from_path(uri_of(path)) is None:
            files.append(File.generated(config, uri_of(path), abs_src_path=str(path)))
        if path.suffix != ".md":
            continue
        for target in linked(path):
            wanted = target.suffix in {".md", *IMAGES} and target.is_file() and target != ROOT / "README.md"
            if wanted and target not in seen:
                seen.add(target)
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Return a page as Python-Markdown wants it."""
    document = Path(page.file.abs_src_path)
    text = with_links_of_the_site(markdown, document, files, config.repo_url)
    return with_blank_lines(with_examples_to_copy(text))
