"""The report in a real browser, where there is one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browsing import LEAST_CONTRAST, WIDTHS, opened_page

from .example_page import page as example_page


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(example_page(), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser: Any, report: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Open the page; fail if it logs, breaks, or asks for anything."""
    settings = getattr(request, "param", {})
    with opened_page(browser, report.as_uri(), settings, ("file://", "data:")) as page:
        yield page


def both(**settings: Any) -> Any:
    return pytest.mark.parametrize(
        "opened", [settings | {"width": width} for width in WIDTHS], ids=list(WIDTHS), indirect=True
    )


@pytest.mark.parametrize(
    "opened",
    [{"width": width, "scheme": scheme} for width in WIDTHS for scheme in ("light", "dark")],
    indirect=True,
    ids=lambda settings: " ".join(settings.values()),
)
def test_fits_the_window_and_shows_every_part(opened: Any) -> None:
    width = opened.viewport_size["width"]
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.locator("figure svg").count() == 6
    assert opened.evaluate("[...document.images].every(image => image.naturalWidth === 8)")
    for name in ("banner", "main", "contentinfo", "navigation"):
        assert opened.get_by_role(name).count() == 1
    for link in opened.locator("nav a").all():
        assert opened.locator(link.get_attribute("href")).count() == 1
    wide = opened.evaluate(
        """[...document.querySelectorAll("main *:not(svg *)")]
           .filter(part => !part.closest(".scroll, .plot, pre"))
           .filter(part => part.getBoundingClientRect().right > innerWidth + 1).length"""
    )
    assert wide == 0


@both(scheme="dark")
def test_dark_is_dark_and_readable(opened: Any) -> None:
    brightness = """(name) => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3)
                    .reduce((sum, part) => sum + Number(part), 0)"""
    assert opened.evaluate(brightness, "backgroundColor") < 100
    assert opened.evaluate(brightness, "color") > 600
    ink = opened.evaluate(
        """[...document.querySelectorAll("figure svg")].every(svg =>
           getComputedStyle(svg.querySelector('g[id*="text_"] [style*="currentColor"], g[id*="text_"]')).color
           === getComputedStyle(document.body).color)"""
    )
    assert ink


@pytest.mark.parametrize(
    "opened", [{"scheme": scheme} for scheme in ("light", "dark")], indirect=True, ids=["light", "dark"]
)
def test_text_has_contrast(opened: Any) -> None:
    worst = opened.evaluate(LEAST_CONTRAST)
    assert worst >= 4.5


@both()
def test_hovering_shows_the_value(opened: Any) -> None:
    figure = opened.locator("figure").first
    tip = figure.locator(".tip")
    assert tip.is_hidden()
    mark = figure.locator(".mark").first
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    said = tip.inner_text().splitlines()
    assert said[0] == "radius 0"
    assert len(said) == 1 + opened.locator("table.main tbody tr").count()
    assert said[1] == "80.0 %\u2002RRISE, FashionMNIST"
    inside, around = tip.bounding_box(), figure.bounding_box()
    assert inside["x"] >= around["x"] - 1
    assert inside["x"] + inside["width"] <= around["x"] + around["width"] + 1
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 60)
    assert tip.is_visible()
    opened.mouse.move(1, 1)
    assert tip.is_hidden()


def test_the_arrow_keys_show_one_value_after_the_other(opened: Any) -> None:
    figure = opened.locator("figure").nth(1)
    figure.locator(".plot").focus()
    shown = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        opened.keyboard.press(key)
        shown.append(figure.locator(".tip").inner_text())
    assert shown[0] != shown[1]
    assert shown[2] == shown[0]
    assert shown[0].startswith("RRISE: 80.0 %")
    opened.keyboard.press("Escape")
    assert figure.locator(".tip").is_hidden()


@both()
def test_the_filter_keeps_the_rows_with_every_word(opened: Any) -> None:
    tables = opened.locator("details.table")
    rows = opened.locator("details.table tbody tr:visible")
    assert tables.locator("visible=true").count() > 3
    opened.locator("#filter-tables").fill("sequential ANYTIME")
    texts = rows.all_inner_texts()
    assert texts
    assert all("Sequential" in text for text in texts)
    assert opened.locator("#found").inner_text() == (
        f"{len(texts)} rows in {opened.locator('details.table:visible').count()} tables"
    )
    opened.locator("#filter-tables").fill("no such row")
    assert rows.count() == 0
    opened.locator("#filter-tables").fill("")
    assert opened.locator("details.table:visible").count() == tables.count()
    assert opened.locator("#found").inner_text() == ""


def test_a_heading_sorts_its_table(opened: Any) -> None:
    table = opened.locator("table.main")
    names = table.locator("tbody th")
    before = names.all_inner_texts()
    button = table.locator("thead button", has_text="passes per input")
    orders = []
    for _ in range(2):
        button.click()
        texts = table.locator("tbody tr td:last-child").all_inner_texts()
        orders.append([float(text.replace(",", "")) for text in texts])
    assert orders[0] == sorted(orders[0])
    assert orders[1] == sorted(orders[1], reverse=True)
    assert table.locator("th[aria-sort=descending]").inner_text().startswith("passes per input")
    button.focus()
    opened.keyboard.press("Enter")
    assert table.locator("th[aria-sort]").count() == 0
    assert names.all_inner_texts() == before


def test_what_is_not_a_number_comes_last_in_both_directions(opened: Any) -> None:
    table = opened.locator("table.main")
    cells = table.locator("tbody td:nth-child(2)")
    cells.nth(2).evaluate("cell => { cell.textContent = '–'; }")
    for _ in range(2):
        table.locator("thead button").nth(1).click()
        texts = cells.all_inner_texts()
        assert texts[-1] == "–"
        assert "–" not in texts[:-1]


@pytest.mark.parametrize("opened", [{"width": "phone"}], indirect=True, ids=["phone"])
def test_a_table_that_is_cut_says_so_and_keeps_its_first_column(opened: Any) -> None:
    part = opened.get_by_role("region", name="Main comparison")
    hint = opened.locator(".scroll:has(.main)").locator("xpath=preceding-sibling::p[1]")
    assert hint.is_visible()
    assert "more columns: swipe or scroll" in hint.inner_text()
    name = part.locator("tbody th").first
    before = name.bounding_box()["x"]
    part.evaluate("part => { part.scrollLeft = part.scrollWidth; }")
    opened.wait_for_function("document.querySelector('.hint').textContent.includes('back')")
    assert name.bounding_box()["x"] == pytest.approx(before, abs=1)
    shown = opened.get_by_role("region", name="Break-evens")
    assert (
        shown.evaluate("part => part.scrollWidth <= part.clientWidth + 8")
        == shown.locator("xpath=preceding-sibling::p[1]").is_hidden()
    )


@pytest.mark.parametrize("opened", [{"width": "phone"}], indirect=True, ids=["phone"])
def test_figures_are_as_wide_as_a_phone(opened: Any) -> None:
    cut = (
        "parts => parts.filter(part => part.checkVisibility() && part.scrollWidth > part.clientWidth).length"
    )
    assert opened.locator(".plot").evaluate_all(cut) == 0


def test_nothing_is_said_to_be_cut_where_nothing_is(opened: Any) -> None:
    assert opened.locator(".hint:visible").count() == 0


@both()
def test_the_cards_of_a_row_are_equally_high(opened: Any) -> None:
    opened.locator(".tiles span").nth(1).evaluate("words => { words.textContent = 'long '.repeat(40); }")
    heights: dict[float, set[float]] = {}
    for card in opened.locator(".tiles li").all():
        box = card.bounding_box()
        heights.setdefault(round(box["y"]), set()).add(round(box["height"]))
    assert all(len(found) == 1 for found in heights.values())


def test_the_contents_mark_the_section_in_sight(opened: Any) -> None:
    opened.get_by_role("link", name="Costs").click()
    opened.locator('nav a[aria-current="true"]', has_text="Costs").wait_for()
    nav = opened.locator("nav").bounding_box()
    assert nav["y"] == pytest.approx(0, abs=1)
    opened.wait_for_function("document.querySelector('#costs').getBoundingClientRect().top < 200")
    assert opened.locator("#costs").bounding_box()["y"] >= nav["height"]
    assert opened.locator("nav a[aria-current]").count() == 1


@both()
def test_the_images_can_be_chosen(opened: Any) -> None:
    shown = opened.locator(".grid li:visible")
    assert shown.count() == 12
    for words, count in (("abstained", 4), ("wrong class", 2), ("all", 12)):
        button = opened.locator(".choices button", has_text=words)
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert shown.count() == count
    opened.locator(".choices button", has_text="abstained").click()
    assert all(text.startswith("abstained") for text in shown.all_inner_texts())


@pytest.mark.parametrize("opened", [{"script": False}], indirect=True, ids=["no JavaScript"])
def test_reads_without_javascript(opened: Any) -> None:
    assert opened.locator(".filter:visible").count() == 0
    assert opened.locator(".grid li:visible").count() == 12
    opened.locator("details.table summary").nth(1).click()
    assert opened.locator("details.table").nth(1).locator("tbody tr:visible").count() > 3
