"""Bars per method: grouped by dataset, or lying with their values where there is one dataset."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rrise.evaluation.figures.drawing import Drawing
from rrise.evaluation.figures.series import Series, Spread
from rrise.evaluation.measure.all_metrics import METRICS
from rrise.evaluation.measure.number_text import DASH
from rrise.looks import INK

Write = Callable[[float | None], str]


@dataclass(frozen=True)
class Panel:
    """Which metric a panel shows, under which title and unit, how hover values are written, and its scale."""

    metric: str
    title: str
    unit: str
    write: Write
    scale: float = 1

    @classmethod
    def of(cls, key: str) -> "Panel":
        """Return the panel of a metric, as that says."""
        metric = METRICS[key]
        return cls(key, metric.title, metric.unit, metric.write, metric.scale)


_ERROR: Any = {"error_kw": {"elinewidth": 0.9, "ecolor": INK}}


def lying_bars(drawing: Drawing, axes: Any, series: Sequence[Series], dataset: str, panel: Panel) -> None:
    """Draw one bar per method with its value at the end, a dash where it is undefined."""
    start, end = axes.get_xscale() == "log", 0.0
    for place, one in enumerate(series):
        spread = one.spread(dataset, panel.metric)
        if spread is None:
            axes.annotate(DASH, (float(start), place), (4, 0), textcoords="offset points", va="center")
            continue
        length = panel.scale * spread.mean
        axes.barh(place, length, height=0.72, xerr=_error(spread, panel.scale), **_ERROR, **one.look.bar())
        right = length + panel.scale * (spread.deviation or 0)
        end = max(end, right)
        words = panel.write(spread.mean)
        axes.annotate(words, (right, place), (4, 0), textcoords="offset points", va="center", fontsize=9.5)
        drawing.mark(axes, length, place, f"{one.name}: {value_words(spread, panel.write)}")
    axes.set_yticks(range(len(series)), [one.name.replace(": ", "\n") for one in series], fontsize=9)
    axes.set_ylim(len(series) - 0.5, -0.5)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.unit)
    axes.grid(visible=False)
    if axes.get_xscale() == "log":
        axes.set_xlim(0.7, max(10, 6 * end))
    else:
        axes.set_xlim(0, 1.3 * end or 1)
        axes.locator_params(axis="x", nbins=4)


def grouped_bars(
    drawing: Drawing, axes: Any, series: Sequence[Series], datasets: Sequence[str], panel: Panel
) -> None:
    """Draw one group of bars per dataset, with the standard deviation over seeds where there is one."""
    width = 0.84 / max(1, len(series))
    for place, one in enumerate(series):
        shift = (place - (len(series) - 1) / 2) * width
        axes.bar([0], [0], label=one.name, **one.look.bar())
        for group, dataset in enumerate(datasets):
            spread = one.spread(dataset, panel.metric)
            if spread is None:
                if dataset in one.metrics:
                    low = axes.get_ylim()[0] if axes.get_yscale() == "log" else 0
                    axes.annotate(DASH, (group + shift, low), (0, 1), textcoords="offset points", ha="center")
                continue
            height = panel.scale * spread.mean
            error = _error(spread, panel.scale)
            axes.bar(group + shift, height, width, yerr=error, **_ERROR, **one.look.bar())
            drawing.mark(
                axes, group + shift, height, f"{one.name}, {dataset}: {value_words(spread, panel.write)}"
            )
    names = [dataset.replace(" ", "\n") for dataset in datasets]
    axes.set_xticks(range(len(datasets)), names, fontsize=9.5 if len(datasets) < 4 else 8)
    axes.set_xlim(-0.55, len(datasets) - 0.45)
    axes.set_title(panel.title)
    axes.set_ylabel(panel.unit)
    axes.grid(axis="x", visible=False)


def value_words(spread: Spread, write: Write) -> str:
    """Write a mean, and the standard deviation where there is one."""
    if spread.deviation is None:
        return write(spread.mean)
    return f"{write(spread.mean)} (standard deviation {write(spread.deviation)})"


def _error(spread: Spread, scale: float) -> float | None:
    return None if spread.deviation is None else scale * spread.deviation
