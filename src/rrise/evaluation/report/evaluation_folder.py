"""The evaluation folder: numbers, tables, figures, the report, certificates and a few inputs to try."""

import base64
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rrise._version import __version__
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee
from rrise.evaluation.figures import (
    Curves,
    Drawing,
    Scatter,
    calibration_figure,
    certified_accuracy_figure,
    passes_figure,
    result_figures,
    summary_figure,
    write_figures,
)
from rrise.evaluation.measure.main_comparison import names_of_main, reference_result, surrogate_result
from rrise.evaluation.measure.metrics import certified_accuracy, vote_share_of_label
from rrise.evaluation.measure.number_text import percent
from rrise.evaluation.measure.outcomes import Outcome
from rrise.evaluation.measure.over_seeds import over_seeds
from rrise.evaluation.measure.results import RESULTS
from rrise.evaluation.report.images import png_bytes
from rrise.evaluation.report.page import render_report
from rrise.evaluation.report.shown import Shown
from rrise.evaluation.tables.tables import build_tables, write_tables
from rrise.files import Json, file_name, write_bytes, write_json, write_table, write_text

_SAMPLES, _GALLERY, _CURVE = 12, 40, 240
_LIBRARIES = ("numpy", "scipy", "torch", "scikit-learn", "matplotlib")


def write_evaluation(folder: Path, results: Json, shown: Shown) -> None:
    """Write everything about an evaluation into an existing folder."""
    thresholds = {results["dataset"]: results["thresholds"]}
    tables = build_tables(over_seeds([results]), thresholds, protocol=results["protocol"], paper=shown.paper)
    for name in ("tables", "figures"):
        (folder / name).mkdir()
    write_tables(folder / "tables", tables)
    figures = write_figures(folder / "figures", drawings_of(results, shown))
    page = render_report(
        results,
        tables,
        figures=figures,
        gallery=gallery_of(results, shown),
        guarantees=guarantees_of(results, shown),
        settings=origin_of(results, shown),
        attacked=shown.attacked,
    )
    write_text(folder / "report.html", page)
    summary = _summary(results, shown)
    if summary is not None:
        write_bytes(folder / "summary.png", summary.png(dpi=110))
    write_table(folder / "certificates.parquet", shown.certificate_table(results))
    write_json(folder / RESULTS, results)
    pictures = _pictures(shown)
    if pictures is not None:
        _write_samples(folder / "samples", shown, pictures)


def _pictures(shown: Shown) -> NDArray[np.uint8] | None:
    """Return the inputs as images; None where they are rows of numbers, or not at hand."""
    return None if shown.images is None or shown.images.shape[2] == 1 else shown.images


def _write_samples(folder: Path, shown: Shown, pictures: NDArray[np.uint8]) -> None:
    folder.mkdir()
    for place in range(min(_SAMPLES, len(shown.labels))):
        name = f"{shown.indices[place]:05d}-{file_name(shown.class_names[shown.labels[place]])}.png"
        write_bytes(folder / name, png_bytes(pictures[place]))


def drawings_of(results: Json, shown: Shown) -> dict[str, Drawing]:
    """Return every figure of one run, by name."""
    drawings = result_figures([results])
    drawings["certified_accuracy"] = certified_accuracy_figure([results], curves_of(results, shown))
    if "passes_curve" in results:
        drawings["passes"] = passes_figure(results)
    scatter = scatter_of(results, shown)
    if scatter is not None:
        drawings["calibration"] = calibration_figure(scatter)
    return drawings


def curves_of(results: Json, shown: Shown) -> Curves:
    """Return certified accuracy at many radii for each method of the main comparison."""
    certificates = {
        name: _outcome_of(shown, results, result).certificates for name, result in names_of_main(results)
    }
    finite = [one.radius[np.isfinite(one.radius)] for one in certificates.values()]
    largest = max((float(radii.max(initial=0)) for radii in finite), default=0.0)
    radii = np.linspace(0, 1.02 * largest or 1.0, _CURVE)
    return {name: (radii, certified_accuracy(one, shown.labels, radii)) for name, one in certificates.items()}


def scatter_of(results: Json, shown: Shown) -> Scatter | None:
    """Return the surrogate's top probabilities with its bounds by score, that of the comparison first."""
    main = surrogate_result(results)
    if main is None:
        return None
    own = _outcome_of(shown, results, main)
    same = [
        outcome
        for outcome in shown.outcomes
        if all(
            getattr(outcome.setting, name) == main[name]
            for name in ("method", "variant", "budget", "failure")
        )
    ]
    ordered = sorted(same, key=lambda outcome: outcome is not own)
    bounds = {outcome.setting.score: outcome.certificates.lower_bound for outcome in ordered}
    estimate = vote_share_of_label(own.certificates, shown.reference)
    return Scatter(shown.top_probability[main["variant"]], estimate, bounds)


def gallery_of(results: Json, shown: Shown) -> list[Json]:
    """Return some inputs with their certificates, from the smallest bound to the largest."""
    main, other, pictures = surrogate_result(results), reference_result(results), _pictures(shown)
    if main is None or pictures is None:
        return []
    ours = _outcome_of(shown, results, main).certificates
    theirs = None if other is None else _outcome_of(shown, results, other).certificates
    order = np.lexsort((ours.lower_bound, ours.issued))
    chosen = order[np.linspace(0, len(order) - 1, min(_GALLERY, len(order))).astype(int)]
    return [
        {
            "png": base64.b64encode(png_bytes(pictures[i])).decode(),
            "index": int(shown.indices[i]),
            "truth": shown.class_names[shown.labels[i]],
            "label": shown.class_names[ours.label[i]],
            "radius": float(ours.radius[i]),
            "lower_bound": float(ours.lower_bound[i]),
            "issued": bool(ours.issued[i]),
            "monte_carlo_radius": _radius(theirs, int(i)),
        }
        for i in chosen
    ]


def guarantees_of(results: Json, shown: Shown) -> list[tuple[str, Guarantee]]:
    """Return the guarantee of each method of the main comparison."""
    return [
        (name, _outcome_of(shown, results, result).certificates.guarantee)
        for name, result in names_of_main(results)
    ]


def origin_of(results: Json, shown: Shown) -> Json:
    """Return what is needed to make the evaluation again."""
    run = f"runs/{results['run']}"
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "commands": [
            f"rrise run recipe.toml --out {run}   # the recipe below, as {run}/recipe.toml has it",
            f"rrise evaluate {run}",
            f"rrise report {run}",
        ],
        "recipe": shown.recipe,
        "versions": {
            "rrise": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
        "hardware": {
            "device": results.get("device", ""),
            "GPU": cuda,
            "CPU": f"{os.cpu_count()} cores, {platform.machine()}",
            "system": platform.system(),
        },
    }


def _outcome_of(shown: Shown, results: Json, wanted: Json) -> Outcome:
    pairs = zip(shown.outcomes, results["results"], strict=True)
    return next(outcome for outcome, result in pairs if result is wanted)


def _radius(certificates: Certificates | None, place: int) -> float | None:
    if certificates is None or not certificates.issued[place]:
        return None
    return float(certificates.radius[place])


def _summary(results: Json, shown: Shown) -> Drawing | None:
    scatter, main = scatter_of(results, shown), surrogate_result(results)
    if scatter is None or main is None:
        return None
    title = (
        f"{results['test_inputs']:,} test inputs of {results['dataset']}, noise {results['sigma']:g}, total "
        f"failure {main['failure']}: {percent(main['metrics']['certified_accuracy'])} correct and certified"
    )
    return summary_figure(results, curves_of(results, shown), scatter, title)
