"""What heads the page, in a real browser, where there is one: the project, the promise, the attack."""

from fractions import Fraction
from typing import Any

import pytest
from torch import nn

import rrise
from rrise.certifiers.guarantee import per_input_guarantee
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.deployment.service.app import create_app

from .serving import SIGMA, Altered, drawn_votes, served, side_classifier, some_images


def test_the_page_names_the_project_and_links_it_where_its_address_is_known(
    browser: Any, certifier: SurrogateCertifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (None, "https://example.org/rrise"):
        monkeypatch.setattr("rrise.deployment.service.app.project_url", lambda url=url: url)
        with served(create_app(certifier)) as address:
            page = browser.new_context().new_page()
            page.goto(address)
            page.locator("#facts dd").first.wait_for()
            assert page.locator("#project").inner_text() == "RRISE"
            assert page.locator("#project").get_attribute("href") == url
            assert page.get_by_role("link", name="API").get_attribute("href") == "openapi.json"
            page.context.close()


def test_the_page_says_the_kind_of_promise_and_the_attack_it_covers(
    browser: Any, image_certifier: tuple[SurrogateCertifier, nn.Module]
) -> None:
    _, base = image_certifier
    images = some_images(300, seed=3)
    threatened = rrise.calibrate(
        side_classifier(20.0),
        images,
        drawn_votes(base, images, 100),
        sigma=SIGMA,
        failure=0.1,
        base=base,
        promise="pac",
        attack_radius=0.05,
        query_noise=0.125,
    )
    with served(create_app(threatened)) as address:
        page = browser.new_context().new_page()
        page.goto(address)
        page.locator("#facts dd").first.wait_for()
        facts = page.locator("#facts").inner_text()
        assert "promise with confidence 0.95 (pac)" in " ".join(facts.split())
        assert "attack radius 0.05" in " ".join(facts.split())
        assert "query noise 0.125" in " ".join(facts.split())
        assert page.locator("#moved").is_visible()
        page.context.close()


def test_a_certifier_whose_promise_holds_for_any_input_says_so(
    browser: Any, images_certifier: SurrogateCertifier
) -> None:
    other = Altered(images_certifier, lambda _: None)
    other.guarantee = per_input_guarantee("a method", Fraction(1, 100), images_certifier.smoothing)
    with served(create_app(other)) as address:
        page = browser.new_context().new_page()
        page.goto(address)
        page.locator("#facts dd").first.wait_for()
        assert "for each input (per-input)" in " ".join(page.locator("#facts").inner_text().split())
        promised = page.locator(".promises").inner_text()
        assert "Any input, whatever it is." in promised
        assert "at most 1 in 100, over the noise" in promised
        assert "calibration inputs" not in promised
        page.context.close()
