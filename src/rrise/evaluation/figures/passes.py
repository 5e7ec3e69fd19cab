"""What more passes per query bring, method by method."""

from rrise.certifiers.methods import RRISE, method_by_name
from rrise.evaluation.figures.drawing import Drawing
from rrise.evaluation.figures.style import figure, legend_below
from rrise.evaluation.measure.number_text import count_text, percent, radius_text
from rrise.files import Json

_PANELS = (
    ("certified_accuracy", "% correct and certified", 100.0, percent),
    ("average_certified_radius", "average certified radius", 1.0, radius_text),
)


def passes_figure(results: Json) -> Drawing:
    """Draw certified accuracy and average certified radius against forward passes per query."""
    points = results["passes_curve"]
    with figure(4.0, ncols=2) as (made, grid):
        drawing = Drawing(
            made,
            "What more passes per query bring",
            "Two panels with the number of forward passes per query across, on a logarithmic scale: the "
            "share of inputs that are correct and certified, and the average certified radius.",
        )
        for axes, (key, title, scale, write) in zip(grid.flat, _PANELS, strict=True):
            for method in dict.fromkeys(point["method"] for point in points):
                name = _name(method)
                mine = [point for point in points if point["method"] == method]
                passes, values = [one["passes"] for one in mine], [scale * one[key] for one in mine]
                axes.plot(passes, values, label=name, **method_by_name(method).look.line())
                for across, up in zip(passes, values, strict=True):
                    words = f"{name}: {count_text(across)} passes, {write(up / scale)}"
                    drawing.mark(axes, across, up, words)
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda x, _: count_text(x))
            axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
            axes.set(title=title, xlabel="forward passes per query")
        legend_below(made, grid[0, 0])
    return drawing


def _name(method: str) -> str:
    return f"{RRISE.name}, with votes" if method == RRISE.name else method_by_name(method).shown_as
