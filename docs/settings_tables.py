"""Fills the tables of settings in the documents; `--check` only says which are out of date.

A document has `<!-- settings: NAME -->` above a table and `<!-- end -->` below it.
"""

import argparse
import re
import sys
from pathlib import Path

from rrise.deployment.monitor.settings import MonitorSettings
from rrise.deployment.service.settings import ServiceSettings
from rrise.runs.settings import TABLES
from rrise.runs.vote_recipe import VoteRecipe
from rrise.settings import markdown_table

DOCUMENTS = sorted(Path(__file__).parent.glob("*.md"))
OPTIONS: dict[str, type] = {"serve": ServiceSettings, "monitor": MonitorSettings}
"""Settings that are set on the command line alone; all others are keys of a recipe."""
SETTINGS: dict[str, type] = {**OPTIONS, "rrise vote": VoteRecipe, **TABLES}
_PLACE = re.compile(r"(<!-- settings: (?P<name>[^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def names_in(text: str) -> list[str]:
    """Return which tables a document has a place for."""
    return [place["name"] for place in _PLACE.finditer(text)]


def filled(text: str) -> str:
    """Return a document with its tables as the settings are declared now."""

    def table(place: re.Match[str]) -> str:
        name = place["name"]
        return f"{place[1]}{markdown_table(SETTINGS[name], options=name in OPTIONS)}\n{place[3]}"

    return _PLACE.sub(table, text)


def main() -> None:
    """Fill all documents, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a table is out of date")
    only_check = parser.parse_args().check
    outdated = [document for document in DOCUMENTS if filled(document.read_text()) != document.read_text()]
    for document in outdated:
        if not only_check:
            document.write_text(filled(document.read_text()))
        print(f"{document}: {'out of date, run make docs' if only_check else 'filled'}")
    sys.exit(1 if outdated and only_check else 0)


if __name__ == "__main__":
    main()
