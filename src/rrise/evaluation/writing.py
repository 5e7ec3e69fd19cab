"""The evaluation folder: report, picture, numbers, certificates and a few inputs to try."""

from pathlib import Path

import torch

from rrise._version import __version__
from rrise.evaluation.figures import summary_png
from rrise.evaluation.images import png_bytes
from rrise.evaluation.metrics import vote_share_of_label
from rrise.evaluation.report import percent, render_report
from rrise.evaluation.results import Evaluation
from rrise.files import Json, write_bytes, write_json, write_table, write_text

_SAMPLES = 12


def write_evaluation(folder: Path, evaluation: Evaluation, title: str, settings: Json) -> None:
    """Write everything about an evaluation into an existing folder."""
    shown = {"rrise": __version__, "torch": torch.__version__, **settings}
    write_text(folder / "report.html", render_report(evaluation, title, shown))
    write_bytes(folder / "summary.png", _summary(evaluation))
    write_table(folder / "certificates.parquet", evaluation.certificate_table())
    write_json(folder / "metrics.json", evaluation.metrics())
    samples = folder / "samples"
    samples.mkdir()
    for position in range(min(_SAMPLES, len(evaluation.labels))):
        name = f"{evaluation.indices[position]:05d}-{evaluation.class_names[evaluation.labels[position]]}.png"
        write_bytes(samples / name, png_bytes(evaluation.images[position]))


def _summary(evaluation: Evaluation) -> bytes:
    estimate = vote_share_of_label(evaluation.surrogate, evaluation.votes)
    guarantee = evaluation.surrogate.guarantee
    shares = evaluation.metrics()["surrogate"]
    title = (
        f"{len(evaluation.labels)} test images, noise {guarantee.numbers['sigma']:g}, total failure "
        f"{guarantee.failure}: {percent(shares['certified_accuracy'])} correct and certified"
    )
    return summary_png(evaluation.surrogate, evaluation.monte_carlo, evaluation.labels, estimate, title)
