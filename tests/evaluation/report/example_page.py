"""The report of an invented run."""

import base64
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from rrise.certifiers.guarantee import Guarantee, no_guarantee, per_input_guarantee
from rrise.evaluation.figures import Scatter, calibration_figure, result_figures
from rrise.evaluation.measure.over_seeds import over_seeds
from rrise.evaluation.report.images import png_bytes
from rrise.evaluation.report.page import render_report
from rrise.evaluation.tables.tables import build_tables
from tests.evaluation.example_results import run
from tests.made_certificates import SMOOTHING


def guarantee(failure: str, nominal: str | None = None) -> Guarantee:
    """A guarantee at a level, or none at all; `nominal` is the level that bounds are computed at."""
    level = None if nominal is None else Fraction(nominal)
    if failure == "none":
        return no_guarantee("a method", SMOOTHING, level)
    return replace(per_input_guarantee("a method", Fraction(failure), SMOOTHING), nominal=level)


def gallery(size: int = 12) -> list[dict[str, Any]]:
    pixels = np.random.default_rng(0).integers(0, 255, (size, 1, 8, 8), dtype=np.uint8)
    return [
        {
            "png": base64.b64encode(png_bytes(pixels[i])).decode(),
            "index": i,
            "truth": "shirt",
            "label": "coat" if i % 5 == 0 else "shirt",
            "radius": 0.05 * i,
            "lower_bound": 0.4 + 0.04 * i,
            "issued": i > 3,
            "monte_carlo_radius": None if i < 2 else 0.0625 * i,
        }
        for i in range(size)
    ]


@cache
def figures() -> dict[str, str]:
    q = np.linspace(0.3, 1, 50)
    drawings = result_figures([run()])
    drawings["calibration"] = calibration_figure(Scatter(q, q - 0.05, {"additive": q - 0.1}))
    return {name: drawing.svg() for name, drawing in drawings.items()}


def page(**changes: Any) -> str:
    results = changes.pop("results", run())
    thresholds = {results["dataset"]: results["thresholds"]}
    tables = build_tables(over_seeds([results]), thresholds, protocol=results["protocol"])
    parts: dict[str, Any] = {
        "figures": figures(),
        "gallery": gallery(),
        "guarantees": [
            ("RRISE", guarantee("0.1")),
            ("Baseline 1", guarantee("0.2", "0.1")),
            ("Baseline 3", guarantee("none", "0.1")),
        ],
        "settings": {
            "commands": ["rrise run recipe.toml", "rrise evaluate runs/example"],
            "recipe": {"votes.sigma": 0.25},
            "versions": {"rrise": "1.2.3"},
            "seed": 100,
        },
    }
    return render_report(results, tables, **(parts | changes))


def words_of(text: str) -> str:
    """Return the page without figures, styles, scripts and tags, in one line."""
    text = re.sub(r"<(svg|style|script)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())
