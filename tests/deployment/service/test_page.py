"""The page in a real browser, where there is one."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from torch import nn

from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app
from rrise.deployment.service.samples import read_samples
from rrise.deployment.service.settings import ServiceSettings
from rrise.votes.live import LiveVotes
from tests.browsing import LEAST_CONTRAST, WIDTHS, opened_page

from .serving import npy, png, served, some_images, upload

TOKEN = "a-token-of-some-length"
IMAGES = some_images(8, seed=5)
GREY = np.full((1, 8, 8), 0.5, np.float32)
Made = tuple[SurrogateCertifier, nn.Module]


@dataclass(frozen=True)
class Course:
    """A test of the monitor, as its state shows it."""

    history: tuple[tuple[int, float, float], ...]
    alarm_at_log_capital: float = 5.3
    false_alarm_rate: float = 0.005


@dataclass
class State:
    alarm: bool
    label_free: Course
    audits: Course | None
    policy: str = "warn"
    queries: int = 1234
    audited: int = 5
    writes: bool = True


class FakeMonitor:
    alarm, writes = False, True
    span = 1140.0
    """Seconds from the first query to the last."""

    def observe(self, inputs: Any, answers: Any) -> None:
        pass

    def state(self) -> State:
        level = 7.0 if self.alarm else 1.0
        return State(
            self.alarm,
            Course(tuple((i, 1e9 + self.span * i / 19, level * i / 20) for i in range(20))),
            Course(((1, 1e9, 0.1), (5, 1e9 + self.span / 2, -0.5))),
            writes=self.writes,
        )


@pytest.fixture(scope="module")
def site(
    image_certifier: Made, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, FakeMonitor]]:
    certifier, base = image_certifier
    folder = tmp_path_factory.mktemp("samples")
    issued = certifier(IMAGES).issued
    assert issued[0]
    (folder / "0-sure.png").write_bytes(png(IMAGES[0]))
    (folder / "1-unsure.png").write_bytes(png(GREY))
    deployed, monitor = certifier, FakeMonitor()
    samples = read_samples(folder, deployed.input_shape, deployed.smoothing.input_range)
    with served(create_app(deployed, base=base, monitor=monitor, samples=samples)) as address:
        yield address, monitor


@pytest.fixture
def opened(browser: Any, site: tuple[str, FakeMonitor], request: pytest.FixtureRequest) -> Iterator[Any]:
    """Open the page; fail if it logs, breaks, or asks anybody else for anything."""
    address, monitor = site
    settings = getattr(request, "param", {})
    for name in ("alarm", "span", "writes"):
        setattr(monitor, name, settings.get(name, getattr(FakeMonitor, name)))
    expected = (
        address,
        f"blob:{address}",
        "Failed to load resource: the server responded with a status of 4",
    )
    with opened_page(browser, address, settings, expected) as page:
        page.locator("#samples button").first.wait_for()
        yield page


def numbers(page: Any) -> list[str]:
    return [str(text) for text in page.locator("#tiles b").all_inner_texts()]


def radius_of(certifier: SurrogateCertifier, image: Any) -> float:
    return float(certifier(image[None]).radius[0])


@pytest.mark.parametrize("opened", [{"width": width} for width in WIDTHS], indirect=True, ids=list(WIDTHS))
def test_an_uploaded_image_gets_its_certificate(opened: Any, images_certifier: SurrogateCertifier) -> None:
    upload(opened, "mine.png", png(IMAGES[0]))
    opened.locator("#answer").wait_for()
    expected = images_certifier(IMAGES[:1])
    name = images_certifier.class_names[expected.label[0]]
    assert opened.locator("#verdict").inner_text() == f"Certified: {name}"
    radius, bound, passes = numbers(opened)
    assert 0 <= expected.radius[0] - float(radius) < 1.1e-4
    assert 0 <= expected.lower_bound[0] - float(bound) < 1.1e-4
    assert passes == "1"
    bars = opened.locator("#bars tr")
    assert bars.count() == 3
    assert bars.first.inner_text().startswith(name)
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.viewport_size["width"]


def test_the_copies_are_as_far_away_as_they_say(opened: Any, images_certifier: SurrogateCertifier) -> None:
    opened.locator("#samples button").first.click()
    opened.locator("#copies li").nth(5).wait_for()
    radius = radius_of(images_certifier, IMAGES[0])
    pixels = opened.evaluate(
        """() => [...document.querySelectorAll("#copies canvas")]
           .map((canvas) => [...canvas.getContext("2d").getImageData(0, 0, 8, 8).data])
           .map((data) => data.filter((_, index) => index % 4 === 0))"""
    )
    shown = np.array(pixels, dtype=float) / 255
    assert np.array_equal(np.round(shown[0] * 255), np.round(IMAGES[0].ravel() * 255))
    distances = np.sqrt(((shown - shown[0]) ** 2).sum(axis=1))
    assert distances[1:] == pytest.approx(radius, abs=0.02)
    texts = opened.locator("#copies li").all_inner_texts()
    assert "as you gave it" in texts[0]
    said = f"distance {np.floor(radius * 1e4) / 1e4:.4f}"
    assert all(said in text for text in texts[1:])
    for text, values in zip(texts, shown, strict=True):
        at_the_edge = np.count_nonzero(((values == 0) | (values == 1)) & (values != shown[0]))
        assert ("clipped" in text) or at_the_edge <= 1


def test_a_copy_that_cannot_go_as_far_says_so(opened: Any) -> None:
    found = opened.evaluate(
        """async () => {
          const { moved, patched, distance } = await import("./pictures.js");
          const values = new Float64Array(16).fill(0.5), up = values.map(() => 1);
          const far = moved(values, up, 5), near = moved(values, up, 1);
          const edge = moved(values.map((_, index) => index / 15), up, 0.7);
          const patch = patched(values, [1, 4, 4], 0.9);
          const grey = moved(values, values.map(() => 0), 0.1, 1);
          return [far.distance, near.distance, near.held, edge.distance, edge.held, patch.distance,
                  patch.changed, grey.distance];
        }"""
    )
    assert found[0] == pytest.approx(2.0)
    assert found[1] == pytest.approx(1.0)
    assert found[2] == 0
    assert found[3] == pytest.approx(0.7)
    assert found[4] > 0
    assert found[5] == pytest.approx(0.9)
    assert found[6] == 4
    assert found[7] == 0


@pytest.mark.parametrize("opened", [{"width": width} for width in WIDTHS], indirect=True, ids=list(WIDTHS))
def test_a_sample_that_cannot_be_certified_is_an_abstention_in_plain_words(opened: Any) -> None:
    sample = opened.get_by_role("button", name="sample 1-unsure.png")
    sample.focus()
    opened.keyboard.press("Enter")
    opened.locator("#verdict.abstained").wait_for()
    assert opened.locator("#verdict").inner_text().startswith("Abstained; the guess is")
    assert "No radius is promised here" in opened.locator("#meaning").inner_text()
    assert numbers(opened)[0] == "0.0000"
    assert opened.locator("#copies-part").is_hidden()
    assert sample.get_attribute("aria-pressed") == "true"
    opened.locator("#samples button").first.click()
    opened.locator("#verdict.certified").wait_for()
    assert sample.get_attribute("aria-pressed") == "false"


def test_what_is_wrong_with_a_file_is_said(opened: Any) -> None:
    opened.locator("#samples button").first.click()
    opened.locator("#answer").wait_for()
    problem = opened.get_by_role("alert")
    for name, content, words in (
        (
            "large.png",
            png(np.zeros((1, 9, 9))),
            "Expected an image of 8 x 8 pixels, got 9 x 9: images are not resized",
        ),
        ("broken.jpg", b"nonsense", "The image cannot be read"),
        ("notes.txt", b"hello", "Expected a file of kind .png"),
        ("many.npy", npy(IMAGES), "one input at a time"),
    ):
        upload(opened, name, content)
        opened.get_by_text(words).wait_for()
        assert words in problem.inner_text()
    upload(opened, "one.npy", npy(IMAGES[0]))
    opened.locator("#answer").wait_for()
    assert problem.is_hidden()
    assert opened.locator("#own").is_hidden()


@pytest.mark.parametrize("opened", [{"width": width} for width in WIDTHS], indirect=True, ids=list(WIDTHS))
def test_monte_carlo_closes_in_and_says_how_it_compares(
    opened: Any, images_certifier: SurrogateCertifier
) -> None:
    opened.locator("#samples button").first.click()
    opened.get_by_role("button", name="Check with Monte Carlo").click()
    result = opened.locator("#verify-result")
    opened.locator("#verify-result", has_text="After 10,000 votes").wait_for(timeout=60_000)
    radius = f"{np.floor(radius_of(images_certifier, IMAGES[0]) * 1e4) / 1e4:.4f}"
    assert radius in result.inner_text()
    assert "10,000 of 10,000 noisy copies classified" in opened.locator("#verify-now").inner_text()
    points = opened.locator("#verify-plot polyline").get_attribute("points").split(" ")
    heights = [float(point.split(",")[1]) for point in points]
    assert len(points) == 100
    assert heights == sorted(heights, reverse=True)
    assert opened.locator("#verify-plot").get_by_text("the surrogate, after one pass").count() == 1


def test_monte_carlo_can_be_stopped_and_keeps_what_it_has(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = LiveVotes._count

    def slowly(self: LiveVotes, *ranges: Any) -> Any:
        time.sleep(0.2)
        return count(self, *ranges)

    monkeypatch.setattr(LiveVotes, "_count", slowly)
    opened.locator("#samples button").first.click()
    opened.get_by_role("button", name="Check with Monte Carlo").click()
    opened.locator("#verify-plot polyline").wait_for()
    opened.get_by_role("button", name="Stop").click()
    opened.locator("#verify-result", has_text="Stopped. After").wait_for()
    assert opened.get_by_role("button", name="Check with Monte Carlo").is_enabled()


@pytest.mark.parametrize("opened", [{}, {"alarm": True}], indirect=True, ids=["quiet", "alarm"])
def test_the_monitors_chart_shows_the_evidence_and_the_alarm(
    opened: Any, request: pytest.FixtureRequest
) -> None:
    alarm = request.node.callspec.id == "alarm"
    opened.locator("#monitor-plot svg").wait_for()
    words = opened.locator("#monitor-words").inner_text()
    assert words.startswith("Alarm" if alarm else "Nothing unusual")
    assert opened.locator("#alarm").is_visible() == alarm
    if alarm:
        assert opened.locator("#alarm").bounding_box()["y"] < opened.locator("h1").bounding_box()["y"]
        assert "Certificates carry a warning" in opened.locator("#alarm").inner_text()
    assert opened.locator("#monitor-plot polyline").count() == 2
    assert "1,234 queries seen, 5 audited" in opened.locator("#monitor-caption").inner_text()
    opened.locator("#samples button").first.click()
    opened.locator("#answer").wait_for()
    assert opened.locator("#warning").is_visible() == alarm


@pytest.mark.parametrize("opened", [{"writes": False}], indirect=True, ids=["cannot write"])
def test_a_monitor_that_cannot_write_does_not_say_that_all_is_well(opened: Any) -> None:
    opened.locator("#monitor-plot svg").wait_for()
    assert "cannot write to its database" in opened.locator("#monitor-words").inner_text()


@pytest.mark.parametrize(
    ("opened", "unit", "last"),
    [
        ({"span": 8.0}, "seconds", "8"),
        ({"span": 0.5}, "seconds", "1"),
        ({"span": 1140.0}, "minutes", "15"),
        ({"span": 30_000.0}, "hours", "7.5"),
        ({"span": 400_000.0}, "days", "4"),
    ],
    indirect=["opened"],
)
def test_the_monitors_chart_counts_in_a_unit_that_fits(opened: Any, unit: str, last: str) -> None:
    opened.locator("#monitor-plot svg").wait_for()
    words = opened.locator("#monitor-plot text").all_text_contents()
    assert unit in words
    assert words[words.index(unit) - 1] == last


@pytest.mark.parametrize(
    "opened",
    [{"width": width, "scheme": scheme} for width in WIDTHS for scheme in ("light", "dark")],
    indirect=True,
    ids=lambda settings: " ".join(settings.values()),
)
def test_it_can_be_read_and_used_by_everyone(opened: Any) -> None:
    opened.locator("#samples button").first.click()
    opened.locator("#answer").wait_for()
    for name in ("banner", "main", "contentinfo"):
        assert opened.get_by_role(name).count() == 1
    unnamed = opened.evaluate(
        """[...document.querySelectorAll("canvas, img, svg, input, button")]
           .filter((part) => !part.closest("[hidden]"))
           .filter((part) => !(part.ariaLabel || part.alt || part.labels?.length || part.textContent.trim()
             || part.matches('a > img[alt=""]') || part.querySelector("img[alt]"))).length"""
    )
    assert unnamed == 0
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.viewport_size["width"]
    assert opened.evaluate(LEAST_CONTRAST) >= 4.5
    reached = []
    opened.evaluate("document.activeElement.blur()")
    for _ in range(12):
        opened.keyboard.press("Tab")
        reached.append(opened.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"file", "verify", "SUMMARY"} <= set(reached)
    for name in ("verify", "file"):
        opened.locator(f"#{name}").focus()
        assert opened.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "2px"


def test_a_service_with_a_token_asks_for_it(browser: Any, images_certifier: SurrogateCertifier) -> None:
    app = create_app(images_certifier, settings=ServiceSettings(token=TOKEN))
    with served(app) as address:
        page = browser.new_context().new_page()
        page.goto(address)
        page.locator("#token-form").wait_for()
        page.get_by_label("access token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.locator("#facts dd").first.wait_for()
        assert page.locator("#problem").is_hidden()
        upload(page, "mine.png", png(IMAGES[0]))
        page.locator("#verdict.certified").wait_for()
        assert page.locator("#check").is_hidden()
        page.context.close()
