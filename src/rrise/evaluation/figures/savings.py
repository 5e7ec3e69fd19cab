"""What a certificate costs, and after how many of them the surrogate has paid off."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rrise.evaluation.figures.bars import Panel, grouped_bars, lying_bars
from rrise.evaluation.figures.drawing import Drawing
from rrise.evaluation.figures.series import Series, datasets_of, main_series
from rrise.evaluation.figures.style import empty_figure, legend_below
from rrise.evaluation.measure import costs
from rrise.evaluation.measure.known import is_surrogate
from rrise.evaluation.measure.number_text import count_text
from rrise.files import Json
from rrise.looks import INK, PAPER

_FARTHEST = 12
"""The axis reaches at most this many times as far as the first break-even."""
_FROM = ("cheaper from this many on", "{} is cheaper, in all, from this many queries on")


def cost_figure(runs: Sequence[Json]) -> Drawing:
    """Draw passes per certificate and, per dataset, what RRISE has saved after a number of certificates."""
    series, datasets = main_series(runs), datasets_of(runs)
    offline = {run["dataset"]: costs.COUNTED[run["protocol"] == "paper"] for run in runs}
    columns = 1 if len(datasets) == 1 else 2
    rows = math.ceil(len(datasets) / columns)
    above = 0.6 + 0.34 * len(series) if columns == 1 else 2.6 + 0.13 * len(series)
    below = rows * (3.0 + (0.24 if columns == 1 else 0.12) * len(series))
    with empty_figure(above + below) as made:
        drawing = Drawing(
            made,
            "Costs and break-even",
            "Above: forward passes per certificate for each method, on a logarithmic scale. Below: passes "
            "that RRISE has saved after a number of certificates, against each method that votes; a line "
            f"above zero means that RRISE is cheaper in all. Datasets: {', '.join(datasets)}.",
        )
        upper, lower = made.subfigures(2, 1, height_ratios=[above, below])
        top = upper.subplots()
        _draw_passes(drawing, top, series, datasets)
        if columns == 2:
            legend_below(upper, top)
        grid = list(lower.subplots(rows, columns, squeeze=False).flat)
        for axes, dataset in zip(grid, datasets, strict=False):
            draw_savings(drawing, axes, series, dataset, long=columns == 1, offline=offline[dataset])
        for axes in grid[len(datasets) :]:
            axes.remove()
    return drawing


def _draw_passes(drawing: Drawing, axes: Any, series: Sequence[Series], datasets: Sequence[str]) -> None:
    panel = replace(Panel.of("mean_passes"), unit="")  # the title says what is counted
    if len(datasets) == 1:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: count_text(x))
        lying_bars(drawing, axes, series, datasets[0], panel)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda y, _: count_text(y))
        grouped_bars(drawing, axes, series, datasets, panel)
        axes.set_ylim(0.7, None)


def draw_savings(
    drawing: Drawing, axes: Any, series: Sequence[Series], dataset: str, *, long: bool, offline: Sequence[str]
) -> None:
    """Draw the savings of the first surrogate against each method that votes, and mark the break-evens.

    A `long` legend has the names of the methods, which the whole figure has otherwise.
    """
    axes.set_title(
        "Passes saved by one pass per certificate, after the cost of the surrogate" if long else dataset
    )
    ours = _surrogate(series, dataset)
    lines = [] if ours is None else _lines(ours, series, dataset, offline)
    if ours is None or not lines:
        _say(axes, "nothing to compare with")
        return
    paid_off = sorted(cost / slope for _, cost, slope in lines if slope > 0)
    end = 1.25 * min(paid_off[-1], _FARTHEST * paid_off[0]) if paid_off else 0.0
    lowest = lines[0][1] or 1.0
    scale, unit = _unit(lowest)
    axes.axhline(0, color=INK, linewidth=1.1)
    axes.set_xlim(0, end or 1000)
    highest = max(slope * end - cost for _, cost, slope in lines)
    axes.set_ylim(-1.08 * lowest / scale, max(0.2 * lowest, min(highest, 1.6 * lowest)) / scale)
    for one, cost, slope in lines:
        break_even = costs.break_even(round(cost), 0.0, slope)
        words = "never" if break_even is None else f"{break_even:,}"
        right = axes.get_xlim()[1]
        style = one.look.line()
        saved = costs.savings([0, right], round(cost), 0.0, slope) / scale
        axes.plot([0, right], saved, **(style | {"marker": ""}))
        axes.plot([], [], label=f"{one.name}: {words}" if long else words, **style)
        if break_even is not None and break_even <= right:
            point = style | {"markersize": 8, "markeredgecolor": PAPER, "markeredgewidth": 0.8}
            axes.plot([break_even], [0], **point, zorder=5)
            drawing.mark(axes, break_even, 0, f"{dataset}: cheaper than {one.name} from {words} on")
    axes.xaxis.set_major_formatter(lambda x, _: _short(x))
    axes.set(xlabel="queries", ylabel=f"{unit} passes saved".strip())
    title = _FROM[long].format(ours.method)
    below: Any = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.2), "alignment": "left"}
    axes.legend(title=title, ncols=1 if long else 2, **below)


def _surrogate(series: Sequence[Series], dataset: str) -> Series | None:
    """Return the first surrogate: RRISE, where it was measured."""
    return next((one for one in series if is_surrogate(one.method) and dataset in one.metrics), None)


def _lines(
    ours: Series, series: Sequence[Series], dataset: str, counted: Sequence[str]
) -> list[tuple[Series, float, float]]:
    """Return, per method that votes: the passes before the first query and those saved by each."""
    own = ours.spread(dataset, "mean_passes")
    parts = [ours.spread(dataset, name) for name in counted]
    if own is None:
        return []
    offline = sum(part.mean for part in parts if part is not None)
    voting = [one for one in series if not is_surrogate(one.method)]
    spreads = [(one, one.spread(dataset, "mean_passes")) for one in voting]
    return [(one, offline, spread.mean - own.mean) for one, spread in spreads if spread is not None]


def _unit(largest: float) -> tuple[float, str]:
    for scale, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if largest >= scale:
            return scale, name
    return 1.0, ""


def _short(x: float) -> str:
    if x >= 1e6:
        return f"{x / 1e6:g}M"
    return f"{x / 1e3:g}k" if x >= 1e4 else f"{x:,.0f}"


def _say(axes: Any, words: str) -> None:
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center")
    axes.set(xticks=[], yticks=[])
