"""The promised error rate is called `failure` wherever a user can read it, and never a level."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_docs import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
RECIPES = [*(ROOT / "src" / "rrise" / "recipes").rglob("*.toml"), *(ROOT / "recipes").rglob("*.toml")]
MODULES = sorted((ROOT / "src" / "rrise").rglob("*.py"))
FILES = [*DOCUMENTS, *RECIPES, *MODULES]

OTHER_LEVELS = re.compile(
    r"noise levels?"
    r"|levels? of (the |query |secret |Gaussian )*noise"
    r"|noise (… )?of (this |that )?level"
    r"|top-level",
    re.IGNORECASE,
)
"""What else may be called a level: that of noise, and that of a name; `…` stands for code."""
NO_PROSE = re.compile(r"```.*?```|`[^`]*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
"""Code, comments that no reader sees, and addresses of links."""


def levels_in(text: str) -> list[str]:
    """Return where a text says level for something else than noise, each with the words around it."""
    prose = OTHER_LEVELS.sub("…", " ".join(NO_PROSE.sub("…", text).split()))
    return re.findall(r".{0,40}\blevels?\b.{0,20}", prose, re.IGNORECASE)


def texts_of(file: Path) -> Iterator[str]:
    """Yield what a reader sees of a file: of Python its docstrings and strings, else all of it."""
    if file.suffix != ".py":
        yield file.read_text()
        return
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isidentifier():
            yield node.value


def test_no_sentence_says_level_where_it_means_failure() -> None:
    assert [
        f"{file.relative_to(ROOT)}: {words}"
        for file in FILES
        for text in texts_of(file)
        for words in levels_in(text)
    ] == []


def test_a_level_of_noise_may_be_called_so_and_a_level_of_promise_may_not() -> None:
    assert levels_in("noise level\nsigma, the level of the secret noise") == []
    assert levels_in("noise `e` of level `s`; `level_text(level)`; [here](levels.md)") == []
    assert levels_in("Its level holds.") == ["Its level holds."]
    assert levels_in("Votes are bounded at level {beta}.") != []
