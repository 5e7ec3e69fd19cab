"""Which files all published results were last rebuilt with: `python -m tests.rebuilding` writes it down.

Rebuilding all of them takes minutes, so that `make test` rebuilds the smallest and checks that nothing on
which the others and the pages about them depend has changed since. `make results-check` rebuilds them all,
checks the pages and calls this.
"""

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
WRITTEN = ROOT / "results" / "rebuilt-with.json"
SOURCES = (
    "constraints.txt",
    "src/rrise/statistics",
    "src/rrise/certifiers",
    "src/rrise/evaluation/figures",
    "src/rrise/evaluation/measure",
    "src/rrise/evaluation/tables",
    "src/rrise/evaluation/report/evaluation_folder.py",
    "src/rrise/evaluation/report/shown.py",
    "src/rrise/data/inputs.py",
    "src/rrise/looks.py",
    "src/rrise/registry.py",
    "src/rrise/votes/array.py",
    "src/rrise/votes/noise.py",
    "src/rrise/votes/smoothing.py",
    "src/rrise/runs/journal.py",
    "src/rrise/runs/published_results.py",
    "src/rrise/runs/step_times.py",
    "src/rrise/files.py",
    "docs/reproduction",
    "benchmarks/published.py",
    "benchmarks/reproduction*.py",
)
"""What a rebuild calls, found by tracing one, and what fills in the pages about the results."""


def digests() -> dict[str, str]:
    """Return a digest of each source of the results, and of each folder of results."""
    results = sorted(path for path in (ROOT / "results").iterdir() if path.is_dir())
    names = [*SOURCES, *(str(place.relative_to(ROOT)) for place in results)]
    return {name: _digest(name) for name in names}


def _digest(name: str) -> str:
    place = ROOT / name
    inside = place.rglob("*") if place.is_dir() else ROOT.glob(name)
    files = sorted(path for path in inside if _counts(path))
    lines = [f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in files]
    assert lines, f"{name} is gone: change the list in tests/rebuilding.py"
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def _counts(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")


def changed() -> list[str]:
    """Return what is not as it was when all results were last rebuilt."""
    then, now = json.loads(WRITTEN.read_text()), digests()
    return sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))


if __name__ == "__main__":
    WRITTEN.write_text(json.dumps(digests(), indent=2) + "\n")
