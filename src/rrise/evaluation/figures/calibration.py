"""Whether the bound holds: the calibration scatter, and observed against promised coverage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.methods import RRISE
from rrise.errors import InputError
from rrise.evaluation.figures.drawing import Drawing
from rrise.evaluation.figures.series import datasets_of, spread_of
from rrise.evaluation.figures.style import figure, legend_below
from rrise.evaluation.measure.known import FACE_VALUE, look_of_score
from rrise.evaluation.measure.number_text import percent
from rrise.files import Json
from rrise.looks import BLUE, GREEN, INK, SKY, VERMILLION
from rrise.statistics import format_down

_SHOWN, _HOVER = 4000, 240
_BOUND_STYLES: Any = ({"color": INK}, {"color": GREEN, "dashes": (5, 2)}, {"color": SKY, "dashes": (1, 1)})
"""Of the first bounds: of points in two colours, the line of the bound that is judged stands out in ink."""


@dataclass(frozen=True, eq=False)
class Scatter:
    """Per test input: the surrogate's top probability, the Monte Carlo estimate for its class, and bounds.

    `bounds` are lower bounds by name, such as `probit`; violations are those of the first.
    """

    top_probability: NDArray[np.float64]
    estimate: NDArray[np.float64]
    bounds: Mapping[str, NDArray[np.float64]]

    def __post_init__(self) -> None:
        shapes = {values.shape for values in (self.top_probability, self.estimate, *self.bounds.values())}
        if len(shapes) > 1 or self.top_probability.ndim != 1 or not self.bounds:
            raise InputError(
                f"expected one top probability, one estimate and at least one bound per input; got arrays of "
                f"shapes {', '.join(map(str, sorted(shapes)))} and {len(self.bounds)} bounds"
            )


def calibration_figure(scatter: Scatter) -> Drawing:
    """Draw the surrogate's top probability against the Monte Carlo estimate of the same class's probability.

    Inputs whose estimate lies below the first bound are marked. At most 4,000 evenly chosen inputs are drawn.
    """
    with figure(4.6) as (made, grid):
        drawing = Drawing(
            made,
            "Surrogate against Monte Carlo",
            "One point per test input: the surrogate's top probability across, the Monte Carlo estimate of "
            "the same class upwards, and the calibrated bound as a line; points below the line violate it.",
        )
        draw_calibration(drawing, grid[0, 0], scatter)
        legend_below(made, grid[0, 0])
    return drawing


def draw_calibration(drawing: Drawing, axes: Any, scatter: Scatter) -> None:
    """Draw the scatter into some axes."""
    size = len(scatter.top_probability)
    chosen = np.linspace(0, size - 1, min(_SHOWN, size)).astype(int)
    q, p = scatter.top_probability[chosen], scatter.estimate[chosen]
    bounds = {name: bound[chosen] for name, bound in scatter.bounds.items()}
    first, main = next(iter(bounds.items()))
    below = p < main
    dots: Any = {"rasterized": True, "linewidths": 0.8}
    axes.scatter(q[~below], p[~below], s=9, color=BLUE, alpha=0.45, label=f"{first} bound holds", **dots)
    cross: Any = {"s": 18, "color": VERMILLION, "marker": "x"}
    axes.scatter(q[below], p[below], label=f"estimate below the {first} bound", **cross, **dots)
    order = np.argsort(q)
    for place, (name, bound) in enumerate(bounds.items()):
        style = _BOUND_STYLES[place] if place < len(_BOUND_STYLES) else _line(name)
        axes.plot(q[order], bound[order], label=f"bound, {name}", linewidth=1.6, **style)
    for draw in (axes.axhline, axes.axvline):
        draw(0.5, color=INK, linewidth=0.9, dashes=(2, 2), alpha=0.7)
    low = max(0.0, min(0.45, float(np.min(q, initial=1.0))) - 0.03)
    axes.set(xlim=(low, 1.01), ylim=(-0.02, 1.02))
    axes.set_xlabel("surrogate's top probability")
    axes.set_ylabel("Monte Carlo estimate")
    for i in np.linspace(0, len(q) - 1, min(_HOVER, len(q))).astype(int):
        words = f"surrogate {q[i]:.3f}, bound {format_down(main[i], 3)}, Monte Carlo {p[i]:.3f}"
        drawing.mark(axes, q[i], p[i], words + (", violated" if below[i] else ""))


def _line(score: str) -> dict[str, Any]:
    """Return how the bound of a score is drawn behind the first ones: a line as the score looks, no marks."""
    return look_of_score(score).line() | {"marker": ""}


def coverage_figure(runs: Sequence[Json]) -> Drawing:
    """Draw the observed share of bounds that hold against the promised share, per calibration score.

    Filled: among all test inputs, which is what is promised on average. Hollow: among issued certificates.
    """
    groups = _coverage(runs)
    with figure(4.2) as (made, grid):
        axes = grid[0, 0]
        drawing = Drawing(
            made,
            "Observed against promised coverage",
            "Observed share of bounds that hold against the promised share, for each calibration score, "
            f"among all test inputs and among issued certificates. Datasets: {', '.join(datasets_of(runs))}.",
        )
        lowest = 0.95
        for (score, among), points in groups.items():
            look = look_of_score(score)
            levels, shares = [x for x, _, _ in points], [y for _, y, _ in points]
            lowest = min(lowest, *levels, *shares)
            hollow = {"markerfacecolor": "none", "linewidth": 1.0, "markersize": 8}
            style = look.line() | (hollow if among != "all inputs" else {})
            axes.plot(levels, shares, label=f"{score}, {among}", **style)
            for level, share, deviation in points:
                if deviation is not None:
                    axes.errorbar(level, share, deviation, color=look.colour, capsize=2, linewidth=0.9)
                words = f"{score}, {among}: {percent(share)} held, promised {percent(level)}"
                drawing.mark(axes, level, share, words)
        start = max(0.0, lowest - 0.04)
        axes.plot([start, 1], [start, 1], color=INK, linewidth=1, label="as promised")
        axes.set(xlim=(start, 1.003), ylim=(start, 1.01))
        axes.set_xlabel("promised coverage, 1 − total failure")
        axes.set_ylabel("observed share of bounds that hold")
        legend_below(made, axes)
    return drawing


def _coverage(runs: Sequence[Json]) -> dict[tuple[str, str], list[tuple[float, float, float | None]]]:
    """Return per score and set of inputs: promised coverage, observed coverage and its deviation."""
    rates: dict[tuple[str, str], dict[str, list[float | None]]] = {}
    for run in runs:
        for result in run["results"]:
            calibrated = result["method"] == RRISE.name and result["score"] != FACE_VALUE
            if not calibrated or not _is_main(run, result):
                continue
            for among, metric in _AMONG:
                levels = rates.setdefault((result["score"], among), {})
                levels.setdefault(result["failure"], []).append(result["metrics"][metric])
    found = {}
    for key, levels in sorted(rates.items()):
        spreads = [(1 - float(failure), spread_of(values)) for failure, values in levels.items()]
        points = [(level, 1 - rate.mean, rate.deviation) for level, rate in spreads if rate is not None]
        if points:
            found[key] = sorted(points)
    return found


_AMONG = (("all inputs", "violation_rate"), ("issued ones", "violation_rate_among_issued"))


def _is_main(run: Json, result: Json) -> bool:
    """Say whether a result differs from one of the main comparison in failure and score alone."""
    mains = [one for one in run["results"] if one["main"] and one["method"] == result["method"]]
    return any(one["variant"] == result["variant"] for one in mains)
