"""Draws the pictures of the concept pages, always the same: `python docs/pictures.py`.

The background is light in both schemes of the site.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rrise.looks import BLUE, GREEN, GREY, INK, ORANGE, PAPER, PURPLE, VERMILLION
from rrise.statistics import Promise, certified_radius, fit_calibration

FOLDER = Path(__file__).parent / "images" / "concepts"
STYLE = {
    "axes.edgecolor": INK,
    "axes.facecolor": PAPER,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.facecolor": PAPER,
    "font.size": 9,
    "legend.frameon": False,
    "savefig.dpi": 120,
    "text.color": INK,
}
Array = NDArray[np.float64]


def edge(across: Array) -> Array:
    """Return the height of the decision boundary of the toy classifier."""
    return 0.25 * np.sin(2.3 * across) + 0.35 * np.exp(-((across - 1.25) ** 2) / 0.02)


def above(points: Array) -> NDArray[np.bool_]:
    """Tell which points `[n, 2]` the toy classifier puts in its upper class."""
    return np.asarray(points[:, 1] > edge(points[:, 0]))


def votes_around(point: tuple[float, float], sigma: float, n: int, seed: int = 0) -> tuple[Array, Any]:
    """Return noisy copies of a point and which of them are in the upper class."""
    noisy = np.asarray(point) + sigma * np.random.default_rng(seed).standard_normal((n, 2))
    return noisy, above(noisy)


def _plane(axes: Any) -> None:
    across = np.linspace(-1.5, 2.5, 800)
    axes.fill_between(across, edge(across), 3, color=BLUE, alpha=0.13, linewidth=0)
    axes.fill_between(across, edge(across), -3, color=ORANGE, alpha=0.18, linewidth=0)
    axes.plot(across, edge(across), color=INK, linewidth=1.2)
    axes.set(xlim=(-0.7, 2.1), ylim=(-0.9, 1.9), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def smoothing() -> Any:
    """A vote around one input, and the radius that its share proves."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.5), width_ratios=(1, 1.15))
    point, sigma = (0.75, 0.95), 0.35
    noisy, upper = votes_around(point, sigma, 400)
    _plane(left)
    for of_class, colour in ((upper, BLUE), (~upper, VERMILLION)):
        left.scatter(*noisy[of_class].T, s=5, color=colour, linewidth=0)
    share = votes_around(point, sigma, 1_000_000)[1].mean()
    radius = float(certified_radius(share, sigma))
    left.add_patch(plt.Circle(point, radius, fill=False, color=INK, linewidth=1.4, linestyle="--"))
    left.plot(*point, "*", color=INK, markersize=10)
    left.set_title(f"{share:.1%} of the noisy copies say “blue”", fontsize=9)
    shares = np.linspace(0.5, 0.9995, 400)
    right.plot(shares, stats.norm.ppf(shares), color=BLUE)
    right.plot([share, share, 0], [0, radius / sigma, radius / sigma], color=GREY, linewidth=1, linestyle=":")
    right.plot(share, radius / sigma, "*", color=INK, markersize=10)
    right.set(
        xlabel="share p of the winner", ylabel="radius, in units of sigma", xlim=(0.5, 1), ylim=(0, 3.4)
    )
    right.set_title("radius = sigma · Φ⁻¹(p)", fontsize=9)
    return figure


def sigmas() -> Any:
    """Little, medium and much noise around the same input."""
    figure, row = plt.subplots(1, 3, figsize=(7.6, 2.9))
    point = (0.75, 0.95)
    for axes, sigma in zip(row, (0.12, 0.4, 1.2), strict=True):
        noisy, upper = votes_around(point, sigma, 300)
        share = votes_around(point, sigma, 1_000_000)[1].mean()
        _plane(axes)
        for of_class, colour in ((upper, BLUE), (~upper, VERMILLION)):
            axes.scatter(*noisy[of_class].T, s=4, color=colour, linewidth=0, clip_on=True)
        proven = stats.beta.ppf(0.001, round(share * 1000), 1001 - round(share * 1000))
        radius = float(certified_radius(proven, sigma))
        axes.add_patch(plt.Circle(point, radius, fill=False, color=INK, linewidth=1.4, linestyle="--"))
        axes.plot(*point, "*", color=INK, markersize=9)
        axes.set_title(f"sigma {sigma}: share {share:.0%}, radius {radius:.2f}", fontsize=9)
    return figure


def population(count: int, seed: int) -> tuple[Array, Array]:
    """Return true smoothed probabilities of a made-up task, and what a fair surrogate says about them."""
    rng = np.random.default_rng(seed)
    quantile = rng.normal(1.1, 0.6, count)
    error = 0.25 * rng.standard_normal(count)
    return stats.norm.cdf(quantile), stats.norm.cdf(quantile + error)


def calibration() -> Any:
    """What votes prove against what the surrogate says, and the bound between them."""
    n = 1000
    truth, said = population(600, 1)
    agreeing = np.random.default_rng(2).binomial(n, truth)
    fitted, evidence = fit_calibration(said, agreeing, n, failure=0.05, score="probit")
    figure, axes = plt.subplots(figsize=(5.6, 4))
    over = (fitted.lower_bound(said) > evidence.lower) & (fitted.lower_bound(said) > 0.5)
    axes.scatter(
        said[~over], evidence.lower[~over], s=7, color=BLUE, linewidth=0, label="a calibration input"
    )
    axes.scatter(
        said[over],
        evidence.lower[over],
        s=22,
        marker="x",
        color=VERMILLION,
        label="the bound is above its votes",
    )
    across = np.linspace(0.5, 1, 2000)
    bound = fitted.lower_bound(across)
    shown = bound > 0.5
    axes.plot([0.5, 1], [0.5, 1], color=GREY, linewidth=1, linestyle=":", label="what the surrogate says")
    axes.plot(across[shown], bound[shown], color=INK, linewidth=1.8, label="the calibrated bound")
    axes.set(xlim=(0.5, 1.005), ylim=(0.5, 1.005), xlabel="the surrogate's top probability")
    axes.set_ylabel("smoothed probability that the votes prove")
    axes.legend(loc="upper left", fontsize=8)
    return figure


def wrong_shares(promise: Promise, sets: int) -> Array:
    """Return, for each of many calibration sets, the share of wrong radii that follows in truth."""
    truth, said = population(100_000, 3)
    rng = np.random.default_rng(4)
    found = []
    for _ in range(sets):
        rows = rng.integers(len(truth), size=500)
        agreeing = rng.binomial(10_000, truth[rows])
        fitted, _ = fit_calibration(
            said[rows], agreeing, 10_000, failure=0.05, score="probit", promise=promise
        )
        bound = fitted.lower_bound(said)
        wrong, issued = ((bound > truth) & (bound > 0.5)).mean(), (bound > 0.5).mean()
        found.append(wrong / max(issued, 1e-9) if promise is Promise.ISSUED else wrong)
    return np.asarray(found)


def promises() -> Any:
    """The share of wrong radii over many calibration sets, for each promise."""
    figure, rows = plt.subplots(3, 1, figsize=(7.2, 4.6), sharex=True)
    shown: list[tuple[Promise, str, str, str]] = [
        (
            Promise.MARGINAL,
            BLUE,
            "marginal: issued and wrong, of all inputs",
            "the mean over all sets is below the line",
        ),
        (
            Promise.PAC,
            GREEN,
            "pac: issued and wrong, of all inputs",
            "at least 19 of 20 sets are below the line",
        ),
        (
            Promise.ISSUED,
            PURPLE,
            "issued: wrong, of the issued ones",
            "at least 19 of 20 sets are below the line",
        ),
    ]
    for axes, (promise, colour, title, rule) in zip(rows, shown, strict=True):
        shares = 100 * wrong_shares(promise, 300)
        axes.hist(shares, bins=60, range=(0, 8), color=colour, alpha=0.85)
        axes.axvline(5, color=INK, linewidth=1.2, linestyle="--")
        axes.axvline(shares.mean(), color=colour, linewidth=1.2)
        axes.set_title(title, fontsize=9, loc="left")
        says = f"{rule}\nmean {shares.mean():.1f} %; sets above the line: {np.mean(shares > 5):.1%}"
        axes.text(0.995, 0.93, says, ha="right", va="top", fontsize=8, transform=axes.transAxes)
        axes.set(yticks=[], xlim=(0, 8))
        axes.spines["left"].set_visible(False)
    rows[-1].set_xlabel("wrong, in % (dashed: the promised 5 %; coloured: the mean)")
    return figure


def attacks() -> Any:
    """An input that is moved after it was certified, and one that is moved before."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.7))
    natural, sent = np.array([0.35, 1.3]), np.array([1.24, 1.02])
    for axes, where, radius in ((left, natural, 0.8), (right, sent, 0.75)):
        _plane(axes)
        axes.add_patch(plt.Circle(where, radius, color=BLUE, alpha=0.16, linewidth=0))
        axes.add_patch(plt.Circle(where, radius, fill=False, color=INK, linewidth=1.3, linestyle="--"))
        axes.plot(*natural, "*", color=INK, markersize=11)
    style = {"arrowstyle": "->", "color": VERMILLION, "linewidth": 1.8}
    left.annotate("", (0.78, 0.72), natural, arrowprops=style)
    left.plot(0.78, 0.72, "o", color=VERMILLION, markersize=5)
    left.set_title("Moved after it was certified:\nthe answer stays inside the circle", fontsize=9)
    right.annotate("", tuple(sent), natural, arrowprops=style)
    right.plot(*sent, "o", color=VERMILLION, markersize=5)
    right.text(sent[0] + 0.08, sent[1] + 0.06, "sent", fontsize=8)
    right.text(natural[0] - 0.08, natural[1] + 0.12, "natural", fontsize=8, ha="center")
    across = np.linspace(-1.5, 2.5, 800)
    height = np.asarray(edge(across))
    crossed = np.hypot(across - sent[0], height - sent[1]) < 0.75
    right.plot(
        np.where(crossed, across, np.nan), np.where(crossed, height, np.nan), color=VERMILLION, linewidth=3
    )
    right.set_title(
        "Moved before it was certified:\nwhere the surrogate errs, the circle is too large", fontsize=9
    )
    return figure


PICTURES: dict[str, Callable[[], Any]] = {
    "smoothing": smoothing,
    "sigmas": sigmas,
    "calibration": calibration,
    "promises": promises,
    "attacks": attacks,
}


def draw(name: str, folder: Path) -> Path:
    """Draw one picture into a folder and return its file."""
    file = folder / f"{name}.png"
    with plt.rc_context(STYLE):
        figure = PICTURES[name]()
        figure.savefig(file, metadata={"Software": None})
        plt.close(figure)
    return file


def main() -> None:
    """Draw all pictures."""
    for name in PICTURES:
        file = draw(name, FOLDER)
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
