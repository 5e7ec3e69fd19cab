"""Figures: readable in colour, in grey and by the colour-blind; PNG, and SVG with values on hover."""

from collections.abc import Sequence

from rrise.evaluation.figures.calibration import Scatter, calibration_figure, coverage_figure
from rrise.evaluation.figures.comparison import (
    Curves,
    boundary_crd_figure,
    boundary_figure,
    certified_accuracy_figure,
)
from rrise.evaluation.figures.drawing import Drawing, write_figures
from rrise.evaluation.figures.passes import passes_figure
from rrise.evaluation.figures.savings import cost_figure
from rrise.evaluation.figures.series import main_series
from rrise.evaluation.figures.summary import summary_figure
from rrise.files import Json

__all__ = [
    "Curves",
    "Drawing",
    "Scatter",
    "boundary_crd_figure",
    "boundary_figure",
    "calibration_figure",
    "certified_accuracy_figure",
    "cost_figure",
    "coverage_figure",
    "main_series",
    "passes_figure",
    "result_figures",
    "summary_figure",
    "write_figures",
]


def result_figures(runs: Sequence[Json]) -> dict[str, Drawing]:
    """Return by name the figures that need nothing but the results of some runs."""
    return {
        "certified_accuracy": certified_accuracy_figure(runs),
        "boundary": boundary_figure(runs),
        "boundary_crd": boundary_crd_figure(runs),
        "coverage": coverage_figure(runs),
        "cost": cost_figure(runs),
    }
