"""The report in a real browser, where there is one."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture
def report(quick_demo: Path) -> Path:
    return quick_demo / "evaluation" / "report.html"


def test_loads_nothing_from_anywhere(report: Path) -> None:
    page = report.read_text()
    references = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
    assert references
    assert all(reference.startswith(("data:", "#")) for reference in references)
    assert "url(http" not in page
    assert "<script" not in page


def test_says_what_is_promised_and_what_is_not(report: Path) -> None:
    page = report.read_text()
    for words in (
        "With probability at most 0.05 a radius is issued and wrong",
        "exchangeable",
        "attacked inputs",
        "Not promised",
        "each certificate by Monte Carlo",
        ">abstained<",
        ">certified<",
        "Certified accuracy against radius",
    ):
        assert words in page
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL).lower().split()


@pytest.fixture
def browser() -> Iterator[object]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_the_window_and_shows_every_part(
    browser: object, report: Path, width: int, height: int, scheme: str
) -> None:
    page = browser.new_page(  # type: ignore[attr-defined]
        viewport={"width": width, "height": height}, color_scheme=scheme
    )
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if "://" in request.url[:8] else None)
    page.goto(report.as_uri())
    assert [problem for problem in problems if not problem.startswith("file://")] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("figure svg").count() == 2
    assert page.locator(".grid img").count() == 30
    assert page.evaluate("[...document.images].every(image => image.naturalWidth === 8)")
    assert page.locator("h2").all_inner_texts() == [
        "Certified accuracy",
        "Does the bound hold?",
        "Images and their certificates",
        "What is promised, and what is not",
        "What it costs",
        "How it was made",
    ]
