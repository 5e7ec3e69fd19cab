"""Figures: they show the values, cut nothing off, and are the same each time."""

import html
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from rrise.errors import InputError
from rrise.evaluation.figures import (
    Scatter,
    boundary_figure,
    calibration_figure,
    certified_accuracy_figure,
    cost_figure,
    coverage_figure,
    result_figures,
    summary_figure,
    write_figures,
)
from rrise.evaluation.figures.inline import inline_svg
from rrise.evaluation.measure.main_comparison import names_of_main
from tests.evaluation.example_results import SURROGATE, result, run

PAPER = ("FashionMNIST", "CIFAR-10", "CIFAR-100", "Tiny ImageNet")
NOTHING_NEAR_THE_BOUNDARY = {
    "boundary_mass": 0.0,
    "boundary_accuracy": None,
    "boundary_radius": None,
    "boundary_crd": [0.0, 0.0, 0.0],
}
ALL_ABSTAINED = {
    **NOTHING_NEAR_THE_BOUNDARY,
    "issued": 0.0,
    "certified_accuracy": 0.0,
    "certified_accuracy_at": [0.0, 0.0, 0.0],
    "average_certified_radius": 0.0,
    "mean_issued_radius": None,
    "certified_crd": None,
    "violation_rate_among_issued": None,
    "boundary_violation_rate": None,
}
CASES = {
    "one dataset": [run()],
    "one method": [run(methods=("RRISE",))],
    "no surrogate": [run(methods=("Baseline 1", "Baseline 2"))],
    "no boundary inputs": [run(**NOTHING_NEAR_THE_BOUNDARY)],
    "all abstained": [run(**ALL_ABSTAINED)],
    "three datasets": [run(dataset) for dataset in PAPER[:3]],
    "four datasets, three seeds": [
        run(dataset, seed, share=0.3 + seed / 1000) for dataset in PAPER for seed in (100, 200, 300)
    ],
}


def values(svg: str) -> list[str]:
    return [html.unescape(words) for words in re.findall(r'class="mark"[^>]*><title>(.*?)</title>', svg)]


def places(svg: str) -> list[tuple[float, float]]:
    found = re.findall(r'class="mark" cx="([-\d.]+)" cy="([-\d.]+)"', svg)
    return [(float(x), float(y)) for x, y in found]


def scatter(size: int = 500) -> Scatter:
    q = np.linspace(0.3, 1, size)
    return Scatter(q, q - 0.1 * np.sin(40 * q), {"additive": q - 0.08, "probit": q**2})


@pytest.mark.parametrize("case", CASES)
def test_draws_every_figure_and_cuts_nothing_off(case: str) -> None:
    for name, drawing in result_figures(CASES[case]).items():
        svg = drawing.svg()
        root = ElementTree.fromstring(svg)
        _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
        for x, y in places(svg):
            assert 0 <= x <= width, (name, x)
            assert 0 <= y <= height, (name, y)
        renderer = FigureCanvasAgg(drawing.figure).get_renderer()
        page = drawing.figure.bbox
        for part in drawing.figure.findobj(lambda artist: type(artist).__name__ in {"Axes", "Legend"}):
            box = part.get_tightbbox(renderer)
            assert box is None or page.padded(1).contains(box.x0, box.y0), (name, box)
            assert box is None or page.padded(1).contains(box.x1, box.y1), (name, box)


@pytest.mark.parametrize("case", ["one dataset", "four datasets, three seeds"])
def test_a_legend_covers_no_curve(case: str) -> None:
    drawings = result_figures(CASES[case])
    for name in ("certified_accuracy", "boundary_crd", "cost", "coverage"):
        drawing = drawings[name]
        drawing.svg()
        renderer = FigureCanvasAgg(drawing.figure).get_renderer()
        legends = drawing.figure.findobj(lambda artist: type(artist).__name__ == "Legend")
        assert legends
        for legend in legends:
            box = legend.get_window_extent(renderer)
            for axes in drawing.figure.findobj(lambda artist: type(artist).__name__ == "Axes"):
                assert not box.overlaps(axes.bbox), name


def test_shows_the_values_on_hover() -> None:
    shown = values(boundary_figure([run(share=0.7)]).svg())
    assert "RRISE: 70.0 %" in shown
    assert "Baseline 2: input-specific budget: 0.080" in shown
    assert len(shown) == 4 * 7
    curve = values(certified_accuracy_figure([run(share=0.5)]).svg())
    assert "RRISE, FashionMNIST, radius 0.2: 40.0 %" in curve


def test_a_larger_value_stands_further_out() -> None:
    two = run(methods=("Baseline 1",)) | {"results": [result("Baseline 1", share=0.2), result("Baseline 2")]}
    (low, _), (high, _) = places(boundary_figure([two]).svg())[:2]
    assert low < high
    several = [run(dataset, share=share) for dataset, share in (("A", 0.2), ("B", 0.8))]
    (_, small), (_, large) = places(boundary_figure(several).svg())[:2]
    assert small > large, "SVG counts downwards"


def test_means_and_deviations_are_over_seeds() -> None:
    runs = [run("A", seed, ("RRISE",), share=share) for seed, share in ((1, 0.4), (2, 0.5), (3, 0.6))]
    assert "RRISE: 50.0 % (standard deviation 10.0 %)" in values(boundary_figure(runs).svg())
    runs[0]["results"][0]["metrics"]["boundary_accuracy"] = None
    shown = values(boundary_figure(runs).svg())
    assert len([words for words in shown if words.startswith("RRISE: 40.0 %")]) == 0, "undefined in one run"


@pytest.mark.parametrize(
    ("protocol", "offline"),
    [
        ("held-out", SURROGATE["targets"] + SURROGATE["training"] + SURROGATE["calibration"]),
        ("paper", SURROGATE["targets"] + SURROGATE["training_paper"]),
    ],
)
def test_marks_the_break_evens(protocol: str, offline: int) -> None:
    shown = values(cost_figure([run(protocol=protocol)]).svg())
    for name, passes in (
        ("Baseline 1: Monte Carlo, one-stage", 1000),
        ("Sequential, anytime-valid", 421.05),
    ):
        queries = math.ceil(offline / (passes - 1))
        assert f"FashionMNIST: cheaper than {name} from {queries:,} on" in shown


def test_a_method_as_cheap_as_the_surrogate_never_breaks_even() -> None:
    shown = values(cost_figure([run(methods=("RRISE", "Baseline 2"), mean_passes=1.0)]).svg())
    assert not [words for words in shown if "cheaper" in words]


def test_coverage_is_one_minus_the_observed_rate() -> None:
    shown = values(coverage_figure([run()]).svg())
    assert "probit, all inputs: 92.0 % held, promised 90.0 %" in shown
    assert "probit, issued ones: 97.5 % held, promised 95.0 %" in shown


def test_settings_of_one_method_are_told_apart() -> None:
    both = run(methods=("RRISE",))
    both["results"] = [result("RRISE"), result("RRISE", score="probit"), result("Baseline 1")]
    names = [name for name, _ in names_of_main(both)]
    assert names == ["RRISE, additive", "RRISE, probit", "Baseline 1: Monte Carlo, one-stage"]
    assert [name for name, _ in names_of_main({"results": [result("RRISE", score="probit")]})] == [
        "RRISE, probit"
    ], "the paper has the additive score alone"
    shown = values(certified_accuracy_figure([both]).svg())
    assert any(words.startswith("RRISE, probit,") for words in shown)


def test_marks_what_violates_the_first_bound() -> None:
    q, p = np.array([0.9, 0.8]), np.array([0.95, 0.6])
    shown = values(calibration_figure(Scatter(q, p, {"a": q - 0.1, "b": q - 0.9})).svg())
    assert shown == [
        "surrogate 0.900, bound 0.800, Monte Carlo 0.950",
        "surrogate 0.800, bound 0.700, Monte Carlo 0.600, violated",
    ]


@pytest.mark.parametrize("size", [0, 1, 9000])
def test_draws_few_and_many_inputs(size: int) -> None:
    svg = calibration_figure(scatter(size)).svg()
    assert len(values(svg)) == min(size, 240)
    assert len(svg) < 400_000


def test_refuses_a_scatter_that_does_not_fit_together() -> None:
    q = np.array([0.5, 0.6])
    with pytest.raises(InputError, match=r"shapes \(1,\), \(2,\)"):
        Scatter(q, q[:1], {"a": q})
    with pytest.raises(InputError, match="0 bounds"):
        Scatter(q, q, {})


def test_whole_curves_replace_the_thresholds() -> None:
    radii = np.linspace(0, 1, 101)
    one = run(methods=("RRISE", "Baseline 1"))
    shown = values(certified_accuracy_figure([one], {"RRISE": (radii, 1 - radii)}).svg())
    assert "RRISE, radius 1.000: 0.0 %" in shown
    assert "Baseline 1: Monte Carlo, one-stage, FashionMNIST, radius 0.1: 72.0 %" in shown


def test_names_are_neither_markup_nor_formulas() -> None:
    svg = certified_accuracy_figure([run("<b>$\\frac{1}$ & --> </b>"), run("B")]).svg()
    ElementTree.fromstring(svg)
    assert "<b>" not in svg
    assert any("<b>$\\frac{1}$ & --> </b>" in words for words in values(svg))


def test_writes_both_forms_the_same_each_time(tmp_path: Path) -> None:
    def everything() -> dict[str, Any]:
        drawings = {"boundary": boundary_figure([run()]), "calibration": calibration_figure(scatter())}
        return drawings | {"summary": summary_figure(run(), {}, scatter(), "a title")}

    texts = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        texts.append(write_figures(folder, everything()))
    assert texts[0] == texts[1]
    for name, text in texts[0].items():
        png = (tmp_path / "first" / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert png == (tmp_path / "second" / f"{name}.png").read_bytes()
        assert (tmp_path / "first" / f"{name}.svg").read_text() == text
        assert "<text" not in text, "text is drawn as paths"
        assert "<metadata" not in text


def test_a_page_can_hold_several() -> None:
    svg = boundary_figure([run()]).svg()
    first, second = (inline_svg(name, svg) for name in ("first", "second"))
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, own in zip((first, second), ids, strict=True):
        assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)) <= {
            pair for name in own for pair in ((name, ""), ("", name))
        }
    assert "#1b1f24" not in first
    assert "currentColor" in first
