"""Numbers and links in the documents are true."""

import dataclasses
import importlib.util
import itertools
import re
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest

from rrise.certifiers.methods import Method, methods
from rrise.deployment.service.settings import ServiceSettings
from rrise.evaluation.measure.all_metrics import METRICS, Metric
from rrise.settings import Declared, declared

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "benchmarks").rglob("*.md"),
    ROOT / "results" / "README.md",
]


def script(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


settings_tables = script(ROOT / "docs" / "settings_tables.py")


def test_the_readmes_tables_are_the_measured_ones() -> None:
    measured = (ROOT / "benchmarks" / "results" / "foundation.md").read_text()
    measured += (ROOT / "docs" / "reproduction" / "strong.md").read_text()
    readme = (ROOT / "README.md").read_text()
    rows = [line for line in readme.splitlines() if line.startswith("|")]
    assert len(rows) >= 6
    for row in rows:
        assert row in measured or "| not yet measured |" in row
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


def test_the_tables_of_settings_are_up_to_date() -> None:
    tables = [name for document in DOCUMENTS for name in settings_tables.names_in(document.read_text())]
    assert sorted(tables) == sorted(settings_tables.SETTINGS)
    for document in settings_tables.DOCUMENTS:
        text = document.read_text()
        assert settings_tables.filled(text) == text, f"{document.name}: run make docs"


def test_the_tables_of_methods_scores_and_metrics_are_in_the_documents() -> None:
    names = [
        name for document in DOCUMENTS for name in settings_tables.names_in(document.read_text(), "registry")
    ]
    assert sorted(names) == sorted(settings_tables.REGISTRIES)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.key)
def test_every_metric_says_what_it_means_and_in_which_unit(metric: Metric) -> None:
    assert metric.label
    assert metric.unit
    assert 4 < len(metric.meaning.split()) < 40
    assert not metric.meaning.endswith(".")


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_every_method_says_what_it_does(method: Method) -> None:
    assert re.fullmatch(r"[A-Z].*\.", method.about)


def test_a_changed_metric_makes_a_table_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text()
    assert settings_tables.filled(text) == text
    monkeypatch.setitem(METRICS, "issued", dataclasses.replace(METRICS["issued"], unit="thumbs"))
    assert "| certificates issued | Issued (%) | thumbs |" in settings_tables.filled(text)


def test_a_changed_default_makes_a_table_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "serving.md").read_text()
    changed = [
        (part.name, Annotated[int, part.setting], dataclasses.field(default=7))
        for part in declared(ServiceSettings)
    ]
    monkeypatch.setitem(settings_tables.SETTINGS, "serve", dataclasses.make_dataclass("Changed", changed))
    assert "| `--max-batch` | 64 |" in text
    assert "| `--max-batch` | 7 |" in settings_tables.filled(text)


@pytest.mark.parametrize(
    ("name", "part"),
    [(name, part) for name, kind in settings_tables.SETTINGS.items() for part in declared(kind)],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_setting_says_what_it_is_for_in_a_short_sentence(name: str, part: Declared) -> None:
    assert re.fullmatch(r"[A-Z].*\.", part.setting.help)
    assert len(part.setting.help.split()) <= 25
    assert "|" not in part.setting.help
