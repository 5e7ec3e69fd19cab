"""What the report says, and that it stands alone."""

import html
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from rrise.evaluation.report.comparison import break_even_sentence
from tests.evaluation.example_results import result, run

from .example_page import figures, gallery, guarantee, page, words_of

VOID = {"meta", "br", "img", "input"}


class Reader(HTMLParser):
    """Collects what the tests ask for, and refuses a page whose tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append((tag, named))
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.references += [value for name, value in attrs if name in {"src", "href", "xlink:href"} and value]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.stack.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def test_loads_nothing_from_anywhere() -> None:
    text = page()
    reader = Reader(text)
    assert any(reference.startswith("data:image/png") for reference in reader.references)
    assert all(reference.startswith(("data:", "#")) for reference in reader.references)
    addresses = re.findall(r'(\S*?)="?https?://[^"]*', text)
    assert set(addresses) <= {"xmlns", "xmlns:xlink"}
    assert "@import" not in text
    assert "url(http" not in text


def test_every_reference_within_the_page_has_its_place() -> None:
    reader = Reader(page())
    assert [name for name, count in Counter(reader.ids).items() if count > 1] == []
    inside = {reference[1:] for reference in reader.references if reference.startswith("#")}
    assert inside <= set(reader.ids)
    labelled = {
        attributes["aria-labelledby"] for _, attributes in reader.tags if "aria-labelledby" in attributes
    }
    assert labelled <= set(reader.ids)


def test_every_figure_and_image_has_words() -> None:
    text = page()
    drawn = re.findall(r"<svg\b.*?</svg>", text, flags=re.DOTALL)
    assert len(drawn) == len(figures()) == 6
    for svg in drawn:
        assert 'role="img"' in svg.split(">", 1)[0]
        assert re.search(r"<title>[^<]{10,}</title>\s*<desc>[^<]{40,}</desc>", svg)
        assert len(re.findall(r'class="mark"', svg)) > 5
    assert len(re.findall(r"<figcaption>[^<]{20,}</figcaption>", text)) == 6
    images = [attributes for tag, attributes in Reader(text).tags if tag == "img"]
    assert len(images) == 12
    assert all("shirt" in (attributes["alt"] or "") for attributes in images)


def test_headings_go_down_one_step_at_a_time() -> None:
    levels = [int(tag[1]) for tag, _ in Reader(page()).tags if re.fullmatch(r"h\d", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_says_the_numbers_the_protocol_and_both_counts() -> None:
    words = words_of(page())
    for expected in (
        "80.0 % correct and certified Monte Carlo: 80.0 %",
        "1 forward pass per certificate Monte Carlo: 1,100",
        "580 queries until RRISE has paid off, against Monte Carlo with its usual votes "
        "Monte Carlo, two-stage: 1,100 passes per query",
        "Inputs that were used for calibration are left out",
        "above the estimate for 2.0 % of all test inputs and 2.5 % of the issued certificates",
        "are at most 10.0 %, which is about 12.2 % of the issued ones",
        "training to the selected epoch 27,000 54",
        "not counted",
        "all of it, once 637,010 600,054",
        "rrise evaluate runs/example",
        "votes.sigma 0.25",
        "rrise 1.2.3",
        "seed 100",
    ):
        assert expected in words
    assert "protocol paper" in words_of(page(results=run(protocol="paper")))


def test_says_which_methods_are_not_valid() -> None:
    words = words_of(page())
    assert "RRISE – valid at failure 0.1" in words
    assert "one-stage – approximately valid: 0.2, not 0.1" in words
    assert "Baseline 3: early stopping, not valid – not valid" in words
    assert words.count("that the label is the true class.") == 3


def test_sorts_the_images_by_what_became_of_them() -> None:
    kinds = Counter(
        attributes["data-kind"]
        for tag, attributes in Reader(page()).tags
        if tag == "li" and "data-kind" in attributes
    )
    assert kinds == {"abstained": 4, "certified": 6, "wrong": 2}
    words = words_of(page())
    assert "all (12) certified (6) abstained (4) certified, wrong class (2)" in words
    assert (
        "certified, wrong class answer coat, truth shirt radius 0.250 bound 0.600 Monte Carlo 0.312" in words
    )
    assert "abstained answer shirt radius none bound 0.440 Monte Carlo none" in words


def test_nothing_that_is_given_becomes_markup() -> None:
    bad = "<script>alert('x')</script>"
    results = run(bad)
    text = page(
        results=results,
        gallery=[gallery(1)[0] | {"truth": bad, "label": '" onerror="alert(1)'}],
        guarantees=[(bad, guarantee("0.1"))],
        settings={bad: bad, "recipe": {bad: bad}, "commands": [bad]},
    )
    assert bad not in text
    assert html.escape(bad).replace("&#x27;", "&#39;") in text
    assert sum(tag == "script" for tag, _ in Reader(text).tags) == 1
    assert not [attributes for _, attributes in Reader(text).tags if "onerror" in attributes]


@pytest.mark.parametrize(
    "methods", [("RRISE",), ("Baseline 1",), ("Baseline 4", "Baseline 1"), ("RRISE", "Baseline 1")]
)
def test_reads_with_few_methods(methods: tuple[str, ...]) -> None:
    text = page(results=run(methods=methods), figures={}, gallery=[], guarantees=[], settings={})
    Reader(text)
    words = words_of(text)
    assert "None" not in words
    assert ("until" in words) == (len(methods) == 2)
    assert ("Images and their certificates" in words) is False


def test_says_never_where_it_never_pays_off() -> None:
    results = run(methods=("RRISE", "Baseline 1"))
    results["results"][0] = result("RRISE", break_even={"Baseline 1 n1000": None}, issued=0.0)
    words = words_of(page(results=results))
    assert "never queries until RRISE has paid off" in words
    assert "are at most 10.0 % ." in words.replace("%.", "% .")


def test_what_certifies_nothing_never_pays_off() -> None:
    results = run(methods=("RRISE", "Monte Carlo, two-stage"))
    results["results"][0]["metrics"]["certified_accuracy"] = 0.0
    assert break_even_sentence(results) == "RRISE certifies nothing here: it never pays off"
    assert "never queries until RRISE has paid off It certifies nothing." in words_of(page(results=results))


def test_a_figure_it_does_not_know_is_shown_too() -> None:
    extra = figures() | {"mine": figures()["cost"]}
    assert len(re.findall(r"<svg\b", page(figures=extra))) == 7


TWO_STAGE = ("RRISE", "Monte Carlo, two-stage")
FAIR = "queries until RRISE has paid off, against Monte Carlo that certifies as much"


def test_tells_the_monte_carlo_that_certifies_as_much() -> None:
    fair = run(methods=TWO_STAGE, rival_passes=51, rival_break_even=12_741)
    words = words_of(page(results=fair))
    assert "the cheapest equally good Monte Carlo 51 12,741 12,002 Monte Carlo, two-stage 1,100 580" in words
    assert "two-stage Monte Carlo with the fewest votes tried" in words
    assert break_even_sentence(fair) == (
        "RRISE has paid off after 12,741 queries against the cheapest equally good Monte Carlo (51 passes "
        "per query), and after 580 queries against Monte Carlo, two-stage"
    )
    never = run(methods=TWO_STAGE, rival_passes=1, rival_break_even=None)
    assert str(break_even_sentence(never)).startswith("RRISE never pays off against the cheapest")
    assert f"never {FAIR}" in words_of(page(results=never))
    unfound = run(methods=TWO_STAGE, rival_passes=None, rival_break_even=None)
    words = words_of(page(results=unfound))
    assert "equally good Monte Carlo – none found none found" in words
    assert f"– {FAIR} No number of votes tried certifies as much." in words
    assert str(break_even_sentence(unfound)).endswith("; no equally good Monte Carlo was found")
    none = run(methods=TWO_STAGE)
    assert FAIR not in words_of(page(results=none))
    assert break_even_sentence(none) == "RRISE has paid off after 580 queries against Monte Carlo, two-stage"


def test_the_fair_break_even_and_the_usual_one_are_equals() -> None:
    fair = run(methods=TWO_STAGE, rival_passes=51, rival_break_even=12_741)
    cards = re.findall(r"<li class=\"break-even\">(.*?)</li>", page(results=fair))
    assert [re.sub(r"<[^>]+>", " ", card).split()[0] for card in cards] == ["12,741", "580"]
    tags = [re.findall(r"<(\w+)", card) for card in cards]
    assert tags[0] == tags[1] == ["b", "span", "small"]


def test_what_few_read_is_folded_and_what_is_promised_for_the_surrogate_is_not() -> None:
    folds = [attributes for tag, attributes in Reader(page(gallery=gallery(40))).tags if tag == "details"]
    opened = [attributes for attributes in folds if "open" in attributes]
    assert len(folds) > 15
    assert len(opened) == 2  # the promise of the surrogate, and the commands
    text = page(gallery=gallery(40))
    before, after = text.split('<details id="more-images">')
    assert before.count("<li data-kind") == 12
    assert after.count("<li data-kind") == 28
    indices = [int(index) for index in re.findall(r'alt="test image (\d+)', before)]
    assert (indices[0], indices[-1]) == (0, 39)
    assert indices == sorted(indices)


@pytest.mark.parametrize("size", [1, 11, 12, 13, 40])
def test_every_image_is_shown_once(size: int) -> None:
    text = page(gallery=gallery(size))
    assert sorted(map(int, re.findall(r'alt="test image (\d+)', text))) == list(range(size))
    assert ('<details id="more-images">' in text) == (size > 12)
