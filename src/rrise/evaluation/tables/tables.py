"""The tables of an evaluation: those of the paper's Appendix B with our numbers, and a few more."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rrise.errors import SettingError
from rrise.evaluation.measure.known import is_surrogate
from rrise.evaluation.tables.columns import Reading
from rrise.evaluation.tables.comparison import Comparison, Result, comparisons, family, mark
from rrise.evaluation.tables.layouts import Layout, layouts
from rrise.evaluation.tables.notes import notes_of
from rrise.evaluation.tables.paper import SUFFIXES, paper_number
from rrise.evaluation.tables.text import as_csv, as_latex, as_markdown
from rrise.evaluation.tables.values import Cell, Number, Row, Table
from rrise.files import write_text

PROTOCOLS = {
    "held-out": "Inputs that were used for calibration are left out (protocol held-out).",
    "paper": (
        "All test inputs count, also those that were used for calibration, which the promise of a calibrated "
        "surrogate does not cover (protocol paper); violations are of the others."
    ),
}


def build_tables(
    results: Sequence[Result],
    thresholds: Mapping[str, Sequence[float]],
    *,
    protocol: str,
    paper: bool = False,
) -> list[Table]:
    """Return every table that has rows, in the order of the paper.

    `results` are those of `over_seeds`, `thresholds` the radii of each dataset at which they were measured.
    With protocol `paper`, costs are the paper's: results must have been measured with its counting too. With
    `paper`, numbers that the paper prints for the same setting stand beside ours, with the difference.
    """
    if protocol not in PROTOCOLS:
        raise SettingError(f"expected a protocol out of {', '.join(PROTOCOLS)}; got {protocol!r}")
    missing = sorted({result["dataset"] for result in results} - set(thresholds))
    if missing:
        raise SettingError(f"expected thresholds for each dataset, got none for {', '.join(missing)}")
    everything = comparisons(results, thresholds)
    tables = []
    for layout in layouts(paper_counting=protocol == "paper"):
        for shown in [[one] for one in everything] if layout.each_dataset else [everything]:
            table = _table(layout, shown, protocol, paper)
            if table.groups and table.columns:
                tables.append(table)
    return tables


_FORMATS = {"csv": as_csv, "md": as_markdown, "tex": as_latex}


def write_tables(folder: Path, tables: Iterable[Table], formats: Iterable[str] = tuple(_FORMATS)) -> None:
    """Write each table as `NAME.csv`, `NAME.md` and `NAME.tex`, or those wanted, into an existing folder."""
    wanted = tuple(formats)
    for table in tables:
        for ending in wanted:
            write_text(folder / f"{table.name}.{ending}", _FORMATS[ending](table))


def table_name(layout: str, dataset: str) -> str:
    """Return the name of a table about one dataset: the paper's for its datasets.

    >>> table_name("budget_ablation", "CIFAR-10"), table_name("budget_ablation", "My data/2")
    ('budget_ablation_cifar10', 'budget_ablation_my_data_2')
    """
    other = re.sub(r"\W+", "_", dataset).strip("_").lower()
    return layout + SUFFIXES.get(dataset, f"_{other}")


def _table(layout: Layout, shown: Sequence[Comparison], protocol: str, paper: bool) -> Table:
    name = table_name(layout.name, shown[0].dataset) if layout.each_dataset and shown else layout.name
    shown = [comparison for comparison in shown if comparison.select(layout.methods, layout.varied)]
    columns = layout.columns(shown) if shown else ()
    groups: dict[str, list[Row]] = {}
    for comparison in shown:
        chosen = comparison.select(layout.methods, layout.varied)
        for result in comparison.ordered(chosen, main_first=layout.main_first):
            group = _method(result) if layout.each_dataset else comparison.dataset
            groups.setdefault(group, []).append(_row(layout, name, columns, result, paper))
    table = Table(
        name,
        _title(layout, shown, groups, protocol),
        tuple(heading for heading, _ in layout.labels),
        tuple(one.column for one in columns),
        tuple(tuple(rows) for rows in groups.values()),
        label_once=layout.label_once,
    )
    return replace(table, notes=notes_of(table, protocol, layout.varied))


def _row(layout: Layout, table: str, columns: Sequence[Reading], result: Result, paper: bool) -> Row:
    return Row(
        result,
        tuple(_label(layout, result, field) for _, field in layout.labels),
        tuple(
            Cell(one.read(result), _paper(layout, table, one, result) if paper else None) for one in columns
        ),
    )


def _paper(layout: Layout, table: str, one: Reading, result: Result) -> Number | None:
    name = one.column.paper
    if name is None or not one.comparable(result["method"]):
        return None
    return paper_number(table, result, name, family=family(result), varied=layout.varied)


def _method(result: Result) -> str:
    return f"{result['method']}{mark(result)}"


def _label(layout: Layout, result: Result, field: str) -> str:
    """Return the text under a heading; marks stand at the method or, where there is none, at the variant."""
    if field == "method":
        return _method(result)
    marked = field == "variant" and all(other != "method" for _, other in layout.labels)
    if not marked:
        return str(result[field])
    main = layout.methods[0] if layout.methods else ""
    other = "" if result["method"] == main else f" ({result['method']})"
    return f"{result[field]}{other}{mark(result)}"


def _title(
    layout: Layout, shown: Sequence[Comparison], groups: Mapping[str, Sequence[Row]], protocol: str
) -> str:
    runs = sorted({int(row.setting["runs"]) for rows in groups.values() for row in rows})
    over = "–".join(map(str, runs[:1] + runs[1:][-1:]))
    sentences = [
        layout.title.format(dataset=shown[0].dataset if shown else ""),
        layout.more(shown) if layout.more else "",
        _setting_words(shown, [row for rows in groups.values() for row in rows], layout.varied),
        "One run." if runs == [1] else f"Mean ± standard deviation over {over} runs.",
        PROTOCOLS[protocol],
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _setting_words(shown: Sequence[Comparison], rows: Sequence[Row], varied: frozenset[str]) -> str:
    """Say at which budget and failure the rows are, as far as they do not say so themselves."""
    settings = {}
    for comparison in shown:
        own = [row.setting for row in rows if row.setting["dataset"] == comparison.dataset]
        budget = [] if "budget" in varied else _budget_words(own)
        failure = [] if "failure" in varied else [f"total failure {comparison.failure}"]
        settings[comparison.dataset] = ", ".join(budget + failure)
    if len(set(settings.values())) == 1:
        words = next(iter(settings.values()))
        return f"{words[:1].upper()}{words[1:]}."
    return "; ".join(f"{dataset}: {words}" for dataset, words in settings.items()) + "."


def _budget_words(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how many votes there are per test input of methods that vote, and per training input of others."""
    budgets: dict[bool, set[int]] = {True: set(), False: set()}
    for setting in settings:
        budgets[is_surrogate(setting["method"])].add(int(setting["budget"]))
    votes, targets = (", ".join(map(str, sorted(budgets[surrogates]))) for surrogates in (False, True))
    if not votes or not targets or votes == targets:
        return [f"budget {votes or targets}"]
    return [f"budget {votes} votes per test input, and {targets} per training input of surrogates"]
