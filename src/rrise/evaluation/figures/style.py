"""How all figures look; methods and scores bring their own colours, dashes, markers and hatches."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rrise.looks import INK, PAPER

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
