"""The page of a certifier of vectors in a real browser, where there is one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app
from rrise.deployment.service.samples import read_samples
from tests.browsing import LEAST_CONTRAST, WIDTHS, opened_page

from .serving import npy, served, upload


@pytest.fixture(scope="module")
def rows() -> NDArray[np.float32]:
    return np.random.default_rng(7).random((3, 4)).astype(np.float32)


@pytest.fixture
def table(
    browser: Any,
    certifier: SurrogateCertifier,
    rows: NDArray[np.float32],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Any]:
    """Open the page of a certifier of vectors, with three samples."""
    (tmp_path / "rows.npy").write_bytes(npy(rows))
    samples = read_samples(tmp_path, certifier.input_shape, certifier.smoothing.input_range)
    with served(create_app(certifier, samples=samples)) as address:
        settings = getattr(request, "param", {})
        expected = (address, "Failed to load resource: the server responded with a status of 4")
        with opened_page(browser, address, settings, expected) as page:
            page.locator("#samples button").nth(2).wait_for()
            yield page


def test_a_certifier_of_vectors_takes_arrays(table: Any) -> None:
    assert "one input: 4 numbers" in table.locator("#file-help").inner_text()
    upload(table, "vector.json", b"[1, 0, 1, 0.5]")
    table.locator("#verdict").wait_for()
    assert table.locator("#copies-part").is_hidden()
    assert table.get_by_role("img", name="your input: 4 numbers from 0 to 1").is_visible()
    upload(table, "vector.npy", npy(np.float32([1, 0, 1, 0.5])))
    table.locator("#own-values").wait_for(state="hidden")


@pytest.mark.parametrize("table", [{"width": width} for width in WIDTHS], indirect=True, ids=list(WIDTHS))
def test_nothing_on_the_page_of_a_table_speaks_of_images(table: Any) -> None:
    table.locator("#samples button").first.click()
    table.locator("#verdict").wait_for()
    words = table.locator("body").inner_text().lower()
    assert [word for word in ("pixel", "image", "png", "grey", "levels") if word in words] == []
    assert table.evaluate("document.documentElement.scrollWidth") <= table.viewport_size["width"]
    assert table.evaluate(LEAST_CONTRAST) >= 4.5


def test_a_sample_of_a_table_can_be_changed_and_certified_again(
    table: Any, certifier: SurrogateCertifier, rows: NDArray[np.float32]
) -> None:
    table.get_by_role("button", name="sample rows-2").click()
    table.locator("#verdict").wait_for()
    box = table.get_by_label("Or paste numbers")
    shown = np.array([float(text) for text in box.input_value().split(",")], np.float32)
    assert np.array_equal(shown, rows[1])
    changed = shown.copy()
    changed[0] = 1 - changed[0]
    for text in (
        ", ".join(map(str, changed)),
        "\t".join(map(str, changed)),
        "[" + ",\n".join(map(str, changed)),
    ):
        table.locator("#samples button").nth(2).click()
        box.fill(text)
        table.get_by_role("button", name="Certify these numbers").click()
        expected = certifier(changed[None])
        table.wait_for_function(
            "bound => document.querySelectorAll('#tiles b')[1]?.textContent.startsWith(bound)",
            arg=f"{np.floor(expected.lower_bound[0] * 1e3) / 1e3:.3f}",
        )
        name = certifier.class_names[expected.label[0]]
        assert name in table.locator("#verdict").inner_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1, 2, 3", "Expected 4 numbers, got 3."),
        ("1 2 x 4", "Expected numbers, got “x” in place 3."),
        ("1,,3,4", "got nothing in place 2"),
        ("1,5;2,5;3", "Expected one kind of separator"),
        ("1,5 2", "Expected one kind of separator"),
        ("1,5\t2", "Expected one kind of separator"),
        ("1,5\n2\n3", "Expected one kind of separator"),
        ("0 1 0 2", "expected inputs in [0, 1]"),
        ("1 2 3 NaN", "got “NaN” in place 4"),
        ("  ", "Expected numbers, got nothing."),
    ],
)
def test_what_is_wrong_with_pasted_numbers_is_said(table: Any, text: str, words: str) -> None:
    box = table.get_by_label("Or paste numbers")
    box.fill(text)
    table.get_by_role("button", name="Certify these numbers").click()
    problem = table.get_by_role("alert").and_(table.locator("#problem"))
    problem.wait_for()
    assert words.lower() in problem.inner_text().lower()
    assert table.locator("#answer").is_hidden()


def test_a_late_answer_leaves_the_box_as_it_is(table: Any) -> None:
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    table.route("**/v1/certify?*", hold)
    table.locator("#samples button").first.click()
    box = table.get_by_label("Or paste numbers")
    box.fill("0 0 0 1")
    table.wait_for_timeout(100)
    held[0].continue_()
    table.locator("#verdict").wait_for()
    assert box.input_value() == "0 0 0 1"
