"""Certified accuracy, the boundary panel and the distribution of radii, for all methods of the comparison."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rrise.evaluation.figures.bars import Panel, grouped_bars, lying_bars, value_words
from rrise.evaluation.figures.drawing import Drawing
from rrise.evaluation.figures.series import Series, datasets_of, main_series
from rrise.evaluation.figures.style import figure, legend_below
from rrise.evaluation.measure.all_metrics import metrics_as_bars
from rrise.evaluation.measure.number_text import percent, radius_text
from rrise.files import Json

CERTIFIED_ACCURACY, BOUNDARY_CRD = "certified_accuracy_at", "boundary_crd"
"""Metrics that are drawn as curves."""
_ACROSS = 2

Curves = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""By method name: radii, and the share of the test inputs at each."""


def boundary_figure(runs: Sequence[Json]) -> Drawing:
    """Draw every metric that has a panel of bars; the boundary set has 1/2 < bound < 3/4."""
    series, datasets, metrics = main_series(runs), datasets_of(runs), metrics_as_bars()
    single, rows = len(datasets) == 1, math.ceil(len(metrics) / _ACROSS)
    height = (1.7 + 0.62 * len(series) if single else 6.2) * rows / 2
    layout: Any = {"sharey": True} if single else {}
    with figure(height, nrows=rows, ncols=_ACROSS, **layout) as (made, grid):
        drawing = Drawing(
            made,
            "Certified accuracy and boundary behaviour",
            f"{len(metrics)} panels of bars per method: "
            f"{'; '.join(f'{metric.label} in {metric.unit}' for metric in metrics)}. "
            f"Datasets: {', '.join(datasets)}.",
        )
        for axes, metric in zip(grid.flat, metrics, strict=False):
            panel = Panel.of(metric.key)
            if single:
                lying_bars(drawing, axes, series, datasets[0], panel)
            else:
                grouped_bars(drawing, axes, series, datasets, panel)
        for axes in grid.flat[len(metrics) :]:
            axes.set_visible(False)
        if not single:
            legend_below(made, grid[0, 0])
    return drawing


def boundary_crd_figure(runs: Sequence[Json]) -> Drawing:
    """Draw the share of test inputs in the boundary set whose radius is above each threshold."""
    return _curves(
        runs,
        Panel.of(BOUNDARY_CRD),
        "Share of the test inputs that are in the boundary set with a radius above the threshold",
        across="threshold t",
    )


def certified_accuracy_figure(runs: Sequence[Json], curves: Curves | None = None) -> Drawing:
    """Draw certified accuracy against radius, at the thresholds or, for one dataset, along whole curves.

    `curves` has a curve for some or all methods by their names in `names_of_main`.
    """
    return _curves(
        runs,
        Panel.of(CERTIFIED_ACCURACY),
        "Share of the test inputs that are answered correctly and certified at the radius or a larger one",
        across="L2 radius",
        curves=curves,
    )


def _curves(
    runs: Sequence[Json], panel: Panel, words: str, *, across: str, curves: Curves | None = None
) -> Drawing:
    series, datasets = main_series(runs), datasets_of(runs)
    columns = 1 if len(datasets) == 1 else 2
    rows = math.ceil(len(datasets) / columns)
    key = 0.22 * math.ceil(len(series) / 2)
    with figure((3.4 if columns == 1 else 2.5 * rows) + key, nrows=rows, ncols=columns) as (made, grid):
        drawing = Drawing(
            made, panel.title, f"{words}, one line per method. Datasets: {', '.join(datasets)}."
        )
        for axes, dataset in zip(grid.flat, datasets, strict=False):
            run = next(run for run in runs if run["dataset"] == dataset)
            draw_curves(drawing, axes, series, run, panel=panel, curves=curves or {})
            axes.set_title(dataset if columns > 1 else "")
        for axes in grid.flat[len(datasets) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel(panel.unit)
        for place, axes in enumerate(grid.flat):
            if place + columns >= len(datasets):
                axes.set_xlabel(across)
        legend_below(made, grid[0, 0])
    return drawing


def draw_curves(
    drawing: Drawing, axes: Any, series: Sequence[Series], run: Json, *, panel: Panel, curves: Curves
) -> None:
    """Draw one line per method into some axes: its whole curve where there is one, else its thresholds.

    `run` is any run of the dataset.
    """
    for one in series:
        if one.name in curves:
            _whole_curve(drawing, axes, one, curves[one.name])
        else:
            _at_thresholds(drawing, axes, one, run, panel)
    axes.set(xlim=(0, None), ylim=(0, None))


def _at_thresholds(drawing: Drawing, axes: Any, one: Series, run: Json, panel: Panel) -> None:
    dataset, thresholds = run["dataset"], run["thresholds"]
    spreads = [one.spread(dataset, panel.metric, place) for place in range(len(thresholds))]
    known = [(t, spread) for t, spread in zip(thresholds, spreads, strict=True) if spread is not None]
    heights = [panel.scale * spread.mean for _, spread in known]
    axes.plot([t for t, _ in known], heights, label=one.name, clip_on=False, **one.look.line())
    for (t, spread), height in zip(known, heights, strict=True):
        if spread.deviation is not None:
            error = panel.scale * spread.deviation
            axes.errorbar(t, height, error, color=one.look.colour, capsize=2, linewidth=0.9, clip_on=False)
        words = f"{one.name}, {dataset}, radius {t:g}: {value_words(spread, panel.write)}"
        drawing.mark(axes, t, height, words)


def _whole_curve(drawing: Drawing, axes: Any, one: Series, curve: tuple[ArrayLike, ArrayLike]) -> None:
    radii, shares = (np.asarray(values, dtype=np.float64) for values in curve)
    every = max(1, len(radii) // 12)
    axes.plot(radii, 100 * shares, label=one.name, markevery=every, **one.look.line())
    for place in range(0, len(radii), max(1, len(radii) // 24)):
        words = f"{one.name}, radius {radius_text(radii[place])}: {percent(shares[place])}"
        drawing.mark(axes, radii[place], 100 * shares[place], words)
