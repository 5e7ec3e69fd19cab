"""Figures: readable in colour, in grey and by the colour-blind."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.evaluation.metrics import certified_accuracy

SURROGATE, MONTE_CARLO, VIOLATION = "#0072b2", "#d55e00", "#000000"
_STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "rrise",
}


def certified_accuracy_svg(
    surrogate: Certificates, monte_carlo: Certificates, labels: NDArray[np.int64]
) -> str:
    """Draw certified accuracy against radius."""
    with _figure(6.4, 4.2) as (figure, axes):
        _draw_certified_accuracy(axes, surrogate, monte_carlo, labels)
        return _svg(figure)


def bound_svg(surrogate: Certificates, estimate: NDArray[np.float64]) -> str:
    """Draw each input's lower bound against the Monte Carlo estimate of what it bounds."""
    with _figure(6.4, 4.2) as (figure, axes):
        _draw_bound(axes, surrogate, estimate)
        return _svg(figure)


def summary_png(
    surrogate: Certificates,
    monte_carlo: Certificates,
    labels: NDArray[np.int64],
    estimate: NDArray[np.float64],
    title: str,
) -> bytes:
    """Draw both side by side, for a README."""
    with _figure(11.5, 4.4, columns=2) as (figure, axes):
        _draw_certified_accuracy(axes[0], surrogate, monte_carlo, labels)
        _draw_bound(axes[1], surrogate, estimate)
        figure.suptitle(title)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def _draw_certified_accuracy(
    axes: Any, surrogate: Certificates, monte_carlo: Certificates, labels: NDArray[np.int64]
) -> None:
    radii = np.linspace(0, 1.05 * max(surrogate.radius.max(), monte_carlo.radius.max(), 1e-3), 400)
    for name, certificates, colour, dashes in (
        (f"Monte Carlo, {monte_carlo.mean_passes:,.0f} passes per input", monte_carlo, MONTE_CARLO, (5, 2)),
        ("RRISE, 1 pass per input", surrogate, SURROGATE, ()),
    ):
        share = certified_accuracy(certificates, labels, radii)
        axes.plot(radii, share, color=colour, dashes=dashes, linewidth=2, label=name)
    axes.set(
        xlabel="L2 radius", ylabel="correct and certified at this radius", ylim=(0, 1.02), xlim=(0, None)
    )
    axes.legend(loc="lower left")


def _draw_bound(axes: Any, surrogate: Certificates, estimate: NDArray[np.float64]) -> None:
    bound = surrogate.lower_bound
    violated = bound > estimate
    axes.plot([0, 1], [0, 1], color="0.4", linewidth=1, label="bound = estimate")
    axes.scatter(
        estimate[~violated], bound[~violated], s=14, color=SURROGATE, alpha=0.55, label="bound holds"
    )
    axes.scatter(
        estimate[violated], bound[violated], s=30, color=VIOLATION, marker="x", label="bound above estimate"
    )
    axes.axhline(0.5, color="0.4", linewidth=1, dashes=(2, 2))
    axes.text(0.01, 0.485, "abstains below 1/2", transform=axes.transData, va="top", color="0.3", fontsize=9)
    axes.set(xlabel="Monte Carlo estimate of the label's probability", ylabel="calibrated lower bound")
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02))
    axes.legend(loc="upper left")


@contextmanager
def _figure(width: float, height: float, columns: int = 1) -> Iterator[tuple[Any, Any]]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(1, columns)


def _svg(figure: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
