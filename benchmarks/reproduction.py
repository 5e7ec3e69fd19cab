"""Fill in the tables of docs/reproduction from the published results.

    python benchmarks/reproduction.py            # writes the pages
    python benchmarks/reproduction.py --check    # tells whether the pages are up to date

Everything comes from `results/DATASET`: metrics over seeds and, for what the paper leaves open, the evidence
per input. No GPU and no dataset is needed.
"""

import argparse
import re
import sys
from collections.abc import Callable
from functools import cache

from published import ROOT, Results
from reproduction_boundary import boundary
from reproduction_costs import break_evens, cheapest, equal_quality
from reproduction_estimates import estimates
from reproduction_levels import levels
from reproduction_main import accuracy, held_out, papers_protocol
from reproduction_surrogates import strategies, strategies_by_level, targets, targets_by_level

PAGES = ROOT / "docs" / "reproduction"
DATASETS = ("fashion-mnist", "cifar-10")

OVERALL: dict[str, Callable[[list[Results]], str]] = {"accuracy": accuracy, "estimates": estimates}
PER_FOLDER: dict[str, Callable[[Results], str]] = {
    "main": held_out,
    "main-paper": papers_protocol,
    "boundary": boundary,
    "levels": levels,
    "targets": targets,
    "targets-by-level": targets_by_level,
    "strategies": strategies,
    "strategies-by-level": strategies_by_level,
    "break-even": break_evens,
    "cheapest": cheapest,
    "equal-quality": equal_quality,
}
"""Tables of one folder of results, which a mark names behind the table: `<!-- table: main cifar-10 -->`."""


@cache
def read(folder: str) -> Results:
    return Results(folder)


def filled(page: str) -> str:
    """Return the page with the text between its marks replaced by tables."""

    def made(match: re.Match[str]) -> str:
        which, _, folder = match["name"].partition(" ")
        content = PER_FOLDER[which](read(folder)) if folder else OVERALL[which]([*map(read, DATASETS)])
        return f"<!-- table: {match['name']} -->\n\n{content}\n\n<!-- end -->"

    return re.sub(r"<!-- table: (?P<name>[^>]+?) -->.*?<!-- end -->", made, page, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something would change")
    options = parser.parse_args()
    outdated = []
    for path in sorted(PAGES.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        new = filled(page)
        if new != page:
            outdated.append(str(path.relative_to(ROOT)))
            if not options.check:
                path.write_text(new, encoding="utf-8")
    if options.check and outdated:
        sys.exit(f"not up to date: {', '.join(outdated)}; run python benchmarks/reproduction.py")


if __name__ == "__main__":
    main()
