"""Runs the snippets of a page, in their order, in one folder.

`python docs/snippets.py docs/tutorials/tables.md --pictures docs/images/tutorials` runs a tutorial and keeps
the pictures that it draws. On a page,

- a `python` block runs, in the names that the blocks before it made;
- a `python` block that begins with `# NAME.py` is written to that file instead;
- a `text` block right after a block is its output, and is compared; `...` stands for anything, and a number
  for any number within a tenth of it: another processor rounds differently;
- a `sh` block runs in bash; what it leaves in the background ends with the page.

The port 8000 is replaced by a free one.
"""

import argparse
import contextlib
import doctest
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<body>(?:.*\n)*?)```$(?P<after>\n*)", re.MULTILINE)
_FILE = re.compile(r"# (?P<name>[\w-]+\.py)\n")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
TOLERANCE = 0.1
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Snippet:
    """A block of code of a page, the line on which it begins, and the output that the page shows."""

    language: str
    code: str
    line: int
    output: str | None = None


def snippets_of(text: str) -> list[Snippet]:
    """Return the blocks of a page in their order; outputs belong to the block before them."""
    found: list[Snippet] = []
    end = -1
    for fence in _FENCE.finditer(text):
        if fence["language"] == "text" and fence.start() == end:
            last = found.pop()
            found.append(Snippet(last.language, last.code, last.line, fence["body"]))
        else:
            line = text.count("\n", 0, fence.start()) + 2
            found.append(Snippet(fence["language"], fence["body"], line))
        end = fence.end()
    return found


def run_python(snippet: Snippet, page: Path, names: dict[str, Any]) -> str:
    """Run a block of Python and return what it printed; an error names the line of the page."""
    code = compile("\n" * (snippet.line - 1) + snippet.code, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


class Shell:
    """Runs blocks of bash in this folder; `rrise` is the one of this Python."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "programs"
        programs.mkdir()
        command = programs / "rrise"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rrise "$@"\n')
        command.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "COLUMNS": "100",
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def run(self, snippet: Snippet) -> str:
        """Run a block and return what it wrote."""
        with tempfile.TemporaryFile() as written:
            shell = subprocess.Popen(
                ["bash", "-e", "-c", snippet.code],
                stdout=written,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
            self.started.append(shell)
            code = shell.wait()
            written.seek(0)
            text = written.read().decode()
        if code != 0:
            raise RuntimeError(f"line {snippet.line}: exit code {code}\n{snippet.code}\n{text}")
        return text

    def close(self) -> None:
        """End what blocks left in the background."""
        for shell in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def agrees(expected: str, printed: str) -> bool:
    """Tell whether a snippet printed what its page shows, up to a tenth of each number."""
    texts = (expected, printed)
    shown, found = ([float(one.replace(",", "")) for one in _NUMBER.findall(text)] for text in texts)
    if len(shown) == len(found) and "..." not in expected:
        if any(abs(one - other) > TOLERANCE * abs(one) for one, other in zip(shown, found, strict=True)):
            return False
        expected, printed = (_NUMBER.sub("0", text) for text in texts)
    return doctest.OutputChecker().check_output(expected, printed, _FLAGS)


def check_output(snippet: Snippet, printed: str, page: Path) -> None:
    """Raise an error if a block printed something else than its page shows."""
    expected = snippet.output
    if expected is not None and not agrees(expected, printed):
        raise AssertionError(
            f"{page}, line {snippet.line}: the page shows\n{expected}\nbut the snippet printed\n{printed}"
        )


def run_page(page: Path, folder: Path) -> None:
    """Run all snippets of a page in an empty folder, and compare the outputs."""
    text = page.read_text().replace("8000", str(_free_port()))
    names: dict[str, Any] = {"__name__": "__main__"}
    shell = Shell(folder)
    with _inside(folder):
        try:
            for snippet in snippets_of(text):
                name = _FILE.match(snippet.code)
                printed = ""
                if snippet.language == "sh":
                    printed = shell.run(snippet)
                elif snippet.language == "python" and name:
                    Path(name["name"]).write_text(snippet.code)
                elif snippet.language == "python":
                    printed = run_python(snippet, page, names)
                print(f"line {snippet.line}: {printed.strip()}", flush=True)
                check_output(snippet, printed, page)
        finally:
            shell.close()


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, whose Python files can be imported."""
    with contextlib.chdir(folder):
        sys.path.insert(0, str(folder))
        try:
            yield
        finally:
            sys.path.remove(str(folder))


def main() -> None:
    """Run the snippets of a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--pictures", type=Path, help="keep the pictures of the page in this folder")
    chosen = parser.parse_args()
    pictures = chosen.pictures and chosen.pictures.resolve()
    os.environ.setdefault("MPLBACKEND", "agg")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        run_page(chosen.page.resolve(), folder)
        if pictures is not None:
            for picture in sorted(folder.glob("*.png")):
                shutil.copy(picture, pictures / picture.name)
                print(f"{pictures / picture.name}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
