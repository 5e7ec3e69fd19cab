"""How figures look: a colour, dash, marker and hatch per method, readable in grey and by the colour-blind."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rrise.evaluation.measure.outcomes import (
    EARLY_STOPPING,
    INPUT_SPECIFIC,
    JENSEN_SHANNON,
    MONTE_CARLO,
    RRISE,
    SEQUENTIAL,
    TWO_STAGE,
)

INK, PAPER = "#1b1f24", "#fefefe"
"""The colours of text and of the background; the page puts its own in their place."""

WIDTH = 7.2
"""Inches; at the width of the page the text of a figure is as large as the page's."""

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.titlesize": 11,
    "axes.labelsize": 10.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "grid.alpha": 0.18,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "hatch.linewidth": 0.7,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
    "text.parse_math": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "rrise",
}

BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#e69f00",
    "#cc79a7",
    "#56b4e9",
)
"""Of the palette of Okabe and Ito; black is the ink."""


@dataclass(frozen=True)
class Look:
    """How one method is drawn; any one of the four tells it from the others."""

    colour: str
    dashes: tuple[float, ...]
    marker: str
    hatch: str
    hollow: bool = False

    def line(self) -> dict[str, Any]:
        """Return the arguments of `Axes.plot`."""
        face = PAPER if self.hollow else self.colour
        style = {"color": self.colour, "marker": self.marker, "markerfacecolor": face}
        return style | ({"dashes": self.dashes} if self.dashes else {})

    def bar(self) -> dict[str, Any]:
        """Return the arguments of `Axes.bar`."""
        return {"facecolor": self.colour, "hatch": self.hatch, "edgecolor": INK, "linewidth": 0.6}


_LOOKS = {
    RRISE: Look(BLUE, (), "o", ""),
    MONTE_CARLO: Look(VERMILLION, (6, 2), "s", "///"),
    INPUT_SPECIFIC: Look(GREEN, (2, 1.5), "^", "..."),
    EARLY_STOPPING: Look(ORANGE, (6, 1.5, 1.5, 1.5), "v", "\\\\\\"),
    JENSEN_SHANNON: Look(PURPLE, (1, 1), "D", "xxx"),
    TWO_STAGE: Look(INK, (4, 1.5, 1, 1.5, 1, 1.5), "P", ""),
    SEQUENTIAL: Look(SKY, (8, 2, 2, 2), "X", "---"),
}


def look_of(method: str, place: int = 0) -> Look:
    """Return the look of a method; `place` counts the settings of one method, hollow after the first."""
    look = _LOOKS.get(method, Look("#777777", (1, 2), "*", "oo"))
    if place == 0:
        return look
    return replace(look, dashes=(3.0, 1.0, *(1.0,) * (2 * place - 2)), hatch="+" * (place + 1), hollow=True)


@contextmanager
def empty_figure(height: float, width: float = WIDTH) -> Iterator[Any]:
    """Yield a figure in the style, without axes."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", STYLE]):
        yield Figure(figsize=(width, height), layout="constrained", dpi=72)


@contextmanager
def figure(height: float, width: float = WIDTH, **layout: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a figure in the style and its axes, two-dimensional; `layout` as `subplots` takes it."""
    with empty_figure(height, width) as made:
        yield made, made.subplots(squeeze=False, **layout)


def legend_below(made: Any, axes: Any, columns: int = 2) -> None:
    """Put the legend of some axes below the whole figure, where it covers nothing."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        made.legend(handles, names, loc="outside lower center", ncols=min(columns, len(names)))
