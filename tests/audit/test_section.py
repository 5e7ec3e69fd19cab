"""An audit comes back from its folder, and a report shows what it found."""

import base64
import html
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rrise.audit.findings import NATURAL, Audit, Finding, Worst
from rrise.audit.report import JSON, verdict, write_audit
from rrise.audit.section import attacked_section
from rrise.audit.victim import Effort
from rrise.files import read_json
from tests.evaluation.report.example_page import page, words_of

NAMES = ("shirt", "coat <b>")


def case(wrong: bool, excess: float, place: int = 3) -> Worst:
    natural, moved = np.zeros((1, 8, 8), np.float32), np.ones((1, 8, 8), np.float32)
    return Worst(place, natural, moved, 0, 1, 0.6 + excess, 0.1, 0.6, wrong)


@pytest.fixture
def found() -> Audit:
    natural = Finding(NATURAL, 0.0, 50, 40, 0, 1, 0, (case(False, -0.1),))
    moved = Finding("mislead", 0.25, 50, 45, 12, 14, 3, (case(True, 0.2), case(True, 0.3, 4)))
    return Audit((natural, moved), "a certifier", "a promise", 0.05, 200, Effort(steps=7), ("inflate",))


def test_it_comes_back_from_json_without_its_inputs(found: Audit, tmp_path: Path) -> None:
    write_audit(tmp_path / "audit", found, (0.0, 1.0))
    back = Audit.from_json(read_json(tmp_path / "audit" / JSON))
    bare = tuple(replace(finding, worst=()) for finding in found.findings)
    assert vars(back) | {"findings": ()} == vars(found) | {"findings": ()}
    assert [vars(finding) for finding in back.findings] == [vars(finding) for finding in bare]


def test_the_section_has_the_worst_case_first_and_only_wrong_ones(found: Audit, tmp_path: Path) -> None:
    write_audit(tmp_path / "audit", found, (0.0, 1.0))
    section = attacked_section(tmp_path / "audit", NAMES)
    assert section.verdict == verdict(found)
    assert [row[0] for row in section.rows] == [NATURAL, "mislead"]
    assert [round(one.lower_bound - one.share, 3) for one in section.cases] == [0.3, 0.2]
    assert (section.cases[0].natural, section.cases[0].answer) == NAMES
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(section.cases[0].png))))
    width = picture.shape[1]
    assert picture[:, : width // 3].max() == 0
    assert picture[:, -(width // 3) :].min() == 255
    assert "<svg" in section.figure
    assert any("7 gradient steps" in note for note in section.notes)
    assert any("inflate" in note for note in section.notes)


def test_inputs_that_are_no_pictures_need_none(found: Audit, tmp_path: Path) -> None:
    rows = tuple(
        replace(one, natural=one.natural.ravel(), moved=one.moved.ravel()) for one in found.findings[1].worst
    )
    vectors = replace(found, findings=(replace(found.findings[1], worst=rows),))
    write_audit(tmp_path / "audit", vectors, (0.0, 1.0))
    assert attacked_section(tmp_path / "audit", NAMES).cases == ()


def test_the_page_shows_the_section_and_nothing_without_an_audit(found: Audit, tmp_path: Path) -> None:
    write_audit(tmp_path / "audit", found, (0.0, 1.0))
    section = attacked_section(tmp_path / "audit", NAMES)
    shown = page(attacked=section)
    assert html.escape(verdict(found)) in shown
    assert "12 = 24.0 %" in words_of(shown)
    assert "coat &lt;b&gt;" in shown
    assert 'href="#attacked"' in shown
    assert "Under attack" not in page()
