"""The report: one self-contained page."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rrise.certifiers.guarantee import Guarantee
from rrise.evaluation.figures.inline import inline_svg
from rrise.evaluation.measure.all_metrics import METRICS, Metric
from rrise.evaluation.measure.main_comparison import (
    name_of,
    surrogate_result,
)
from rrise.evaluation.measure.number_text import count_text, percent_up, radius_text
from rrise.evaluation.report.comparison import (
    break_even_rows,
    compared_metrics,
    comparison_rows,
    cost_rows,
    looked_for_rival,
)
from rrise.evaluation.report.headline import break_even_tiles, headline_tiles
from rrise.evaluation.report.shown import Attacked
from rrise.evaluation.report.times import time_rows, untimed
from rrise.evaluation.tables.tables import PROTOCOLS
from rrise.evaluation.tables.values import Table
from rrise.files import Json
from rrise.statistics import SCORES, Score, level_text

_CAPTIONS = {
    "certified_accuracy": (
        "Share of the {test_inputs} test inputs that are answered correctly and certified at least at the "
        "radius on the axis, each method at failure {main_failure}. The promises differ in kind, see below."
    ),
    "boundary": (
        "The boundary set of a method are the inputs with a lower bound between 1/2 and 3/4, where small "
        "errors decide whether there is a certificate. A dash: the set is empty."
    ),
    "boundary_crd": (
        "Share of all test inputs that are in the boundary set and have a radius above the threshold."
    ),
    "calibration": (
        "One point per test input: what the surrogate says in one pass, against the share of "
        "{reference_votes} votes for the same class. Below the line the bound is above the estimate; the "
        "estimate has noise of its own. An input gets a radius where the bound is above 1/2."
    ),
    "coverage": (
        "Promised is, on average over all inputs, at least the diagonal. Among issued certificates the "
        "share of wrong ones may be as large as the total failure divided by the share of inputs with a "
        "certificate."
    ),
    "passes": (
        "The surrogate alone takes one pass; votes of the query are added from there on. Monte Carlo is "
        "shown at the best split of its passes. It promises its failure for each input; the surrogate does "
        "not, however many votes it takes."
    ),
    "attacks": (
        "Share of the attacked test inputs with an issued and wrong certificate, as fresh votes prove it, "
        "with 95 % intervals. The dashed line is the promised failure."
    ),
    "cost": (
        "Above: what each certificate costs. Below: what the surrogate has saved after its own cost, per "
        "number of queries; it has paid off where its line crosses zero. Methods that come in "
        "several variants are shown with that of the comparison above. Monte Carlo that certifies as much "
        "is in the table above, not here."
    ),
}
_PARTS = (
    ("certified_accuracy", "boundary", "boundary_crd"),
    ("calibration", "coverage"),
    ("passes", "cost"),
)
_FOLDED = ("boundary_crd", "coverage")
"""Figures that few readers need."""
_CURVES = ("certified_accuracy", "boundary_crd")
"""Figures with all methods at the same places across: their values are shown together."""
_GALLERY = 12
"""Images that are shown at once; the others are folded."""


def render_report(
    results: Json,
    tables: Sequence[Table],
    *,
    figures: Mapping[str, str],
    gallery: Sequence[Json],
    guarantees: Sequence[tuple[str, Guarantee]],
    settings: Json,
    attacked: Attacked | None = None,
) -> str:
    """Return the page as HTML; it loads nothing from anywhere, and reads without JavaScript too.

    `results` is the content of `results.json`; `figures` are SVG by name; `gallery` has `png` (Base64),
    `index`, `truth`, `label`, `radius`, `lower_bound`, `issued` and `monte_carlo_radius` (None: abstained) of
    some inputs; `guarantees` names the method of each; `settings` is what is needed to make it again: a block
    for each entry that is a table, lines or a text, and one table of all others; `attacked` is what an audit
    found.
    """
    environment = Environment(
        loader=PackageLoader("rrise.evaluation.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    ours = surrogate_result(results)
    numbers = {name: count_text(results[name]) for name in ("test_inputs", "reference_votes")}
    known = {name for part in _PARTS for name in part}
    extra = [name for name in figures if name not in known]
    shown = [
        [_figure(name, figures[name], results | numbers) for name in part if name in figures]
        for part in (*_PARTS, extra)
    ]
    return environment.get_template("report.html").render(
        title=f"Certified radii for {results['dataset']}",
        results=results,
        numbers=numbers,
        protocol=PROTOCOLS[results["protocol"]],
        tiles=headline_tiles(results),
        break_evens=break_even_tiles(results),
        figures=dict(zip(("accuracy", "bound", "cost", "extra"), shown, strict=True)),
        compared=compared_metrics(),
        comparison=comparison_rows(results),
        ours=None if ours is None else name_of(ours["method"]),
        violations=_violations(results),
        costs=cost_rows(results),
        paid_off=break_even_rows(results),
        looked_for_rival=looked_for_rival(results),
        times=time_rows(results),
        untimed=untimed(results),
        tables=[_table(table) for table in tables],
        metrics=_metrics(results),
        scores=_scores(results),
        gallery=_galleries([_picture(item) for item in gallery]),
        guarantees=[_guarantee(name, guarantee) for name, guarantee in guarantees],
        settings=_settings(settings),
        attacked=None if attacked is None else _attacked(attacked),
    )


def _violations(results: Json) -> dict[str, str] | None:
    ours = surrogate_result(results)
    if ours is None:
        return None
    numbers, failure = ours["metrics"], float(ours["failure"])
    among = min(1.0, failure / numbers["issued"]) if numbers["issued"] else None
    return {
        "method": ours["method"],
        "all": percent_up(numbers["violation_rate"]),
        "issued": percent_up(numbers["violation_rate_among_issued"]),
        "limit": percent_up(failure),
        "issued_limit": percent_up(among),
    }


def _metrics(results: Json) -> list[Metric]:
    """Return the metrics that the results have, to say what they mean."""
    found = {key for result in results["results"] for key in result["metrics"]}
    return [metric for metric in METRICS.values() if metric.key in found]


def _scores(results: Json) -> list[Score]:
    """Return the scores that surrogates are calibrated with here."""
    found = {result["score"] for result in results["results"]}
    return [score for score in SCORES.values() if score.name in found]


def _figure(name: str, svg: str, words: Json) -> Json:
    title = re.search(r"<title>(.*?)</title>", svg, flags=re.DOTALL)
    return {
        "name": name,
        "title": html.unescape(title[1]) if title else name,
        "svg": inline_svg(name, svg),
        "folded": name in _FOLDED,
        "together": name in _CURVES,
        "caption": _CAPTIONS.get(name, "").format_map(words),
    }


def _table(table: Table) -> Json:
    whole = replace(table, label_once=False)
    title, _, caption = table.title.partition(". ")
    start, _, rest = title.rstrip(".").partition(": ")
    return {
        "name": table.name,
        "title": title.rstrip("."),
        "name_of_title": start,
        "rest_of_title": rest,
        "caption": caption,
        "header": whole.header(),
        "labels": len(table.headings),
        "groups": whole.texts(),
        "notes": table.notes,
    }


def _attacked(found: Attacked) -> Json:
    """Return the section on the audit; numbers that favour an attack are rounded against the certifier."""
    return {
        "verdict": found.verdict,
        "header": found.headings,
        "rows": found.rows,
        "notes": [note for note in found.notes if note],
        "attacks": found.attacks,
        "figure": _figure("attacks", found.figure, {}),
        "cases": [
            {**vars(case), "lower_bound": radius_text(case.lower_bound), "share": f"{case.share:.3f}"}
            for case in found.cases
        ],
    }


def _picture(item: Json) -> Json:
    right = item["label"] == item["truth"]
    kind = "abstained" if not item["issued"] else "certified" if right else "wrong"
    words = {"abstained": "abstained", "certified": "certified", "wrong": "certified, wrong class"}
    return {
        **item,
        "kind": kind,
        "verdict": words[kind],
        "radius": radius_text(item["radius"]) if item["issued"] else "none",
        "lower_bound": radius_text(item["lower_bound"]),
        "monte_carlo_radius": "none"
        if item["monte_carlo_radius"] is None
        else radius_text(item["monte_carlo_radius"]),
    }


def _galleries(pictures: list[Json]) -> list[list[Json]]:
    """Return some pictures, spread evenly over all, and the others."""
    last, count = len(pictures) - 1, min(_GALLERY, len(pictures))
    chosen = {round(place * last / max(1, count - 1)) for place in range(count)}
    first = [pictures[place] for place in sorted(chosen)]
    return [first, [one for place, one in enumerate(pictures) if place not in chosen]] if first else []


def _guarantee(name: str, guarantee: Guarantee) -> Json:
    """Say whether the guarantee holds at the failure that the method is run at."""
    nominal, failure = guarantee.nominal, guarantee.failure
    if failure is None:
        kind, verdict = "wrong", "not valid"
    elif nominal is not None and nominal != failure:
        kind = "abstained"
        verdict = f"approximately valid: {guarantee.failure_text}, not {level_text(nominal)}"
    else:
        kind, verdict = "certified", f"valid at failure {guarantee.failure_text}"
    return {**guarantee.words.to_json(), "name": name_of(name), "kind": kind, "verdict": verdict}


def _settings(settings: Json) -> list[Json]:
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict | list)}
    texts = {name: value for name, value in plain.items() if "\n" in str(value)}
    blocks: list[Json] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            blocks.append({"title": name, "rows": _rows(value), "text": "", "open": False})
        elif isinstance(value, list) or name in texts:
            lines: Iterable[Any] = value if isinstance(value, list) else [value]
            text = "\n".join(map(str, lines))
            blocks.append({"title": name, "rows": [], "text": text, "open": isinstance(value, list)})
    rows = _rows({name: value for name, value in plain.items() if name not in texts})
    more = {"title": "settings", "rows": rows, "text": "", "open": False}
    return [*blocks, *([more] if rows else [])]


def _rows(values: Json) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in values.items()]
