"""The report: one self-contained page."""

import base64
import math
from fractions import Fraction
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from rrise.certifiers.certificates import Certificates
from rrise.evaluation.costs import Costs
from rrise.evaluation.figures import bound_svg, certified_accuracy_svg
from rrise.evaluation.images import png_bytes
from rrise.evaluation.metrics import certified_accuracy, observed_violations, summarise, vote_share_of_label
from rrise.evaluation.results import Evaluation
from rrise.files import Json
from rrise.statistics import exact_level, format_down, format_up
from rrise.votes.array import check_votes

_GALLERY = 30


def render_report(evaluation: Evaluation, title: str, settings: Json) -> str:
    """Return the page as HTML; it loads nothing from anywhere."""
    environment = Environment(
        loader=PackageLoader("rrise.evaluation"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    surrogate, monte_carlo = evaluation.surrogate, evaluation.monte_carlo
    estimate = vote_share_of_label(surrogate, evaluation.votes)
    _, test_votes = check_votes(evaluation.votes, len(surrogate))
    return environment.get_template("report.html").render(
        title=title,
        failure=surrogate.guarantee.failure,
        test_inputs=len(surrogate),
        test_votes=f"{test_votes:,}",
        monte_carlo={"passes": f"{monte_carlo.mean_passes:,.0f}"},
        tiles=_tiles(evaluation),
        accuracy_svg=certified_accuracy_svg(surrogate, monte_carlo, evaluation.labels),
        bound_svg=bound_svg(surrogate, estimate),
        comparison=comparison_rows(evaluation),
        violations=_violations(evaluation),
        gallery=_gallery(evaluation),
        gallery_words=(
            f"{min(_GALLERY, len(surrogate))} test images, evenly spaced from the smallest certified radius "
            f"(abstentions first) to the largest. Radii are rounded down."
        ),
        guarantees=[_guarantee("RRISE", surrogate), _guarantee("Monte Carlo", monte_carlo)],
        costs=cost_rows(evaluation.costs),
        settings=[{"name": name, "value": value} for name, value in settings.items()],
    )


def comparison_rows(evaluation: Evaluation) -> list[dict[str, str]]:
    """Return the comparison of both methods as rows of text, shares and radii rounded down."""
    both = (evaluation.surrogate, evaluation.monte_carlo)
    surrogate, monte_carlo = (summarise(certificates, evaluation.labels) for certificates in both)
    rows = [
        _row("accuracy of the answers", percent(surrogate["accuracy"]), percent(monte_carlo["accuracy"])),
        _row("radius issued", percent(surrogate["issued"]), percent(monte_carlo["issued"])),
    ]
    for radius in _round_radii(evaluation.monte_carlo):
        shares = [float(certified_accuracy(part, evaluation.labels, radius)) for part in both]
        name = "certified accuracy" if radius == 0 else f"certified accuracy at radius {radius:g}"
        rows.append(_row(name, *map(percent, shares)))
    rows.append(
        _row(
            "average certified radius",
            format_down(surrogate["average_certified_radius"]),
            format_down(monte_carlo["average_certified_radius"]),
        )
    )
    rows.append(_row("forward passes per image", *(f"{part.mean_passes:,.0f}" for part in both)))
    return rows


def cost_rows(costs: Costs) -> list[dict[str, str]]:
    """Return the costs as rows of text."""
    return [
        {"name": "votes of the training inputs (targets)", "passes": f"{costs.target_votes:,}"},
        {"name": "training of the surrogate", "passes": f"{costs.surrogate_training:,}"},
        {
            "name": "calibration: votes, and one pass each of the surrogate",
            "passes": f"{costs.calibration:,}",
        },
        {"name": "all of it, once", "passes": f"{costs.offline:,}"},
        {"name": "each certificate by RRISE", "passes": f"{costs.per_query:,}"},
        {"name": "each certificate by Monte Carlo", "passes": f"{costs.monte_carlo_per_query:,}"},
        {
            "name": "RRISE is cheaper from this many certificates on",
            "passes": "never" if costs.break_even is None else f"{costs.break_even:,}",
        },
    ]


def percent(share: float) -> str:
    """Write a share of counted inputs as a percentage, rounded down.

    >>> percent(0.9999), percent(58 / 100)
    ('99.9 %', '58.0 %')
    """
    tenths = math.floor(1000 * Fraction(share).limit_denominator(10**6))
    return f"{tenths // 10}.{tenths % 10} %"


def _tiles(evaluation: Evaluation) -> list[dict[str, str]]:
    ours = summarise(evaluation.surrogate, evaluation.labels)
    theirs = summarise(evaluation.monte_carlo, evaluation.labels)
    break_even = evaluation.costs.break_even
    return [
        {
            "value": "1",
            "words": f"forward pass per certificate, not {evaluation.monte_carlo.mean_passes:,.0f}",
        },
        {
            "value": percent(ours["certified_accuracy"]),
            "words": f"correct and certified (Monte Carlo {percent(theirs['certified_accuracy'])})",
        },
        {
            "value": format_down(ours["average_certified_radius"], 3),
            "words": f"average certified radius (Monte Carlo "
            f"{format_down(theirs['average_certified_radius'], 3)})",
        },
        {
            "value": "never" if break_even is None else f"{break_even:,}",
            "words": "certificates until it has paid off",
        },
    ]


def _violations(evaluation: Evaluation) -> dict[str, str]:
    observed = observed_violations(evaluation.surrogate, evaluation.votes)
    failure = float(exact_level(evaluation.surrogate.guarantee.failure, "failure"))
    issued = float(evaluation.surrogate.issued.mean())
    among_issued = min(1.0, failure / issued) if issued else 1.0
    return {
        "all": f"{format_up(100 * observed['rate'], 1)} %",
        "issued": f"{format_up(100 * observed['rate_among_issued'], 1)} %",
        "limit": f"{format_up(100 * failure, 1)} %",
        "issued_limit": f"{format_up(100 * among_issued, 1)} %",
    }


def _gallery(evaluation: Evaluation) -> list[dict[str, Any]]:
    certificates, truth = evaluation.surrogate, evaluation.labels
    order = np.lexsort((certificates.lower_bound, certificates.issued))
    chosen = order[np.linspace(0, len(order) - 1, min(_GALLERY, len(order))).astype(int)]
    return [
        {
            "index": int(i),
            "png": base64.b64encode(png_bytes(evaluation.images[i])).decode(),
            **_verdict(bool(certificates.issued[i]), bool(certificates.label[i] == truth[i])),
            "answer": evaluation.class_names[certificates.label[i]],
            "truth": evaluation.class_names[truth[i]],
            "radius": format_down(certificates.radius[i], 3) if certificates.issued[i] else "none",
            "monte_carlo": format_down(evaluation.monte_carlo.radius[i], 3)
            if evaluation.monte_carlo.issued[i]
            else "none",
        }
        for i in chosen
    ]


def _verdict(issued: bool, right: bool) -> dict[str, str]:
    if not issued:
        return {"verdict": "abstained", "style": "abstained"}
    if right:
        return {"verdict": "certified", "style": "certified"}
    return {"verdict": "certified, wrong class", "style": "wrong"}


def _row(name: str, surrogate: str, monte_carlo: str) -> dict[str, str]:
    return {"name": name, "surrogate": surrogate, "monte_carlo": monte_carlo}


def _round_radii(certificates: Certificates) -> list[float]:
    """Return 0 and two round radii within the range of the certificates."""
    largest = float(certificates.radius.max())
    step = 10.0 ** np.floor(np.log10(largest)) if largest > 0 else 1.0
    return [0.0, *(radius for radius in (2 * step, 4 * step) if radius <= largest)]


def _guarantee(name: str, certificates: Certificates) -> dict[str, Any]:
    return {"name": name, **certificates.guarantee.to_json()}
