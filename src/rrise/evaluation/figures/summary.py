"""Two figures side by side, for a README."""

from rrise.evaluation.figures.bars import Panel
from rrise.evaluation.figures.calibration import Scatter, draw_calibration
from rrise.evaluation.figures.comparison import CERTIFIED_ACCURACY, Curves, draw_curves
from rrise.evaluation.figures.drawing import Drawing
from rrise.evaluation.figures.series import main_series
from rrise.evaluation.figures.style import figure
from rrise.files import Json


def summary_figure(run: Json, curves: Curves, scatter: Scatter, title: str) -> Drawing:
    """Draw certified accuracy against radius beside the calibration scatter."""
    with figure(5.6, ncols=2, width=11.5) as (made, grid):
        drawing = Drawing(made, title, "Certified accuracy against radius, and the calibration scatter.")
        left, right = grid[0]
        panel = Panel.of(CERTIFIED_ACCURACY)
        draw_curves(drawing, left, main_series([run]), run, panel=panel, curves=curves)
        left.set(xlabel="L2 radius", ylabel=panel.unit)
        draw_calibration(drawing, right, scatter)
        for axes in grid.flat:
            axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.14))
        made.suptitle(title)
    return drawing
