"""Pages in a real browser, where there is one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

LEAST_CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (part) => {
    for (; part; part = part.parentElement) {
      const rgb = parse(getComputedStyle(part).backgroundColor);
      if (rgb.length < 4 || rgb[3] > 0) return rgb;
    }
  };
  let worst = 21;
  for (const part of document.querySelectorAll("main *:not(svg *), header *, nav *, footer *")) {
    if (![...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    if (part.tagName === "SCRIPT" || !part.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(part).color)), light(ground(part))];
    worst = Math.min(worst, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return worst;
}"""
"""The smallest ratio of luminances between a text and its ground on the page (4.5 is legible)."""


@contextmanager
def running_browser() -> Iterator[Any]:
    """Start Chromium, or skip the test with a reason."""
    if _CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        yield running
        running.close()


@contextmanager
def opened_page(
    browser: Any, address: str, settings: dict[str, Any], expected: tuple[str, ...]
) -> Iterator[Any]:
    """Open a page; fail if it logs, breaks, or asks for anything that does not begin as expected."""
    width, height = WIDTHS[settings.get("width", "desktop")]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=settings.get("scheme", "light"),
        java_script_enabled=settings.get("script", True),
    )
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: problems.append(asked.url))
    page.goto(address)
    yield page
    assert [problem for problem in problems if not problem.startswith(expected)] == []
    context.close()
