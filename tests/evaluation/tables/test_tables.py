"""Tables in the paper's layout: complete, honest about what differs, and readable by what reads them."""

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rrise.errors import SettingError
from rrise.evaluation.tables.tables import build_tables, write_tables
from rrise.evaluation.tables.text import as_csv, as_latex, as_markdown
from rrise.evaluation.tables.values import Cell, Column, Number, Row, Table
from tests.evaluation.made_results import built, one_run, result
from tests.evaluation.tables.paper_results import THRESHOLDS, paper_results, printed_rows

ENGINE = next(filter(None, map(shutil.which, ("pdflatex", "tectonic", "xelatex"))), None)


def labels(table: Table) -> list[tuple[str, ...]]:
    return [row.labels for row in table.rows]


def column(table: Table, name: str) -> list[str]:
    index = [one.name for one in table.columns].index(name)
    return [row.cells[index].ours.text() for row in table.rows]


def test_gives_the_printed_rows_back_for_the_papers_own_numbers() -> None:
    tables = {
        table.name: table
        for table in build_tables(paper_results(), THRESHOLDS, protocol="held-out", paper=True)
    }
    shown = {}
    for table in tables.values():
        for row in table.rows:
            for one, cell in zip(table.columns, row.cells, strict=True):
                setting = row.setting
                key = (
                    table.name,
                    setting["dataset"],
                    setting["method"],
                    setting["variant"],
                    setting["budget"],
                )
                shown[*key, setting["failure"], one.paper if one.name != "Accuracy (%)" else ""] = cell
    checked = 0
    for table, dataset, method, variant, budget, failure, metric, text in printed_rows():
        matches = [
            cell
            for key, cell in shown.items()
            if key[:3] == (table, dataset, method)
            and variant in ("", key[3])
            and budget in ("", str(key[4]))
            and failure in ("", key[5])
            and key[6] == metric
        ]
        assert [cell.ours.text() for cell in matches] == [text], (table, dataset, method, variant, metric)
        assert matches[0].paper is not None
        assert matches[0].difference == (None if text == "–" else pytest.approx(0, abs=1e-9))
        checked += 1
    assert checked == 3436


def test_has_the_rows_of_the_paper_in_its_order_and_with_its_rules() -> None:
    tables = {table.name: table for table in build_tables(paper_results(), THRESHOLDS, protocol="held-out")}
    main = as_latex(tables["main_cert_boundary"]).splitlines()
    first = next(index for index, line in enumerate(main) if line.startswith("FashionMNIST"))
    assert [line.split(" & ")[:2] for line in main[first : first + 5]] == [
        ["FashionMNIST", "RRISE"],
        *(["", name] for name in ("Baseline 1", "Baseline 2", r"Baseline 3$^\dagger$", "Baseline 4")),
    ]
    assert main[first + 5] == r"\midrule"
    assert main[first + 6].startswith("CIFAR-10 & RRISE")
    assert [label[1] for label in labels(tables["rrise_training_ablation"])[:3]] == [
        "trainall_initbase_n10000",
        "trainall_initrandom_n10000",
        "trainhead_initbase_n10000",
    ]
    full = labels(tables["crd_boundary_full"])
    assert len(full) == 40
    assert full[0] == ("RRISE", "trainhead_initbase_n500", "500")
    assert full[4] == ("RRISE", "trainall_initbase_n500", "500")
    assert full[16] == ("Baseline 2", "k500_decline0.01", "500")
    assert [len(group) for group in tables["crd_boundary_full"].groups] == [12, 4, 8, 8, 8]
    assert labels(tables["calibration_ablation_cifar10"])[0] == ("RRISE", "0.01")


def test_adds_what_the_paper_does_not_have_behind_its_rows_and_marks_it() -> None:
    tables = built(one_run())
    assert [label[1] for label in labels(tables["main_cert_boundary"])] == [
        "RRISE",
        "Baseline 1",
        "Baseline 2",
        "Baseline 3†",
        "Baseline 4",
        "RRISE (probit)",
        "Baseline 4 (probit)",
        "Baseline 4 (uncalibrated)",
        "Monte Carlo, two-stage",
        "Sequential, anytime-valid",
    ]
    assert any("not valid under optional stopping" in note for note in tables["main_cert_boundary"].notes)
    assert [label[1] for label in labels(tables["baseline3_ablation"])] == [
        "n10000_tol0.01†",
        "n10000_tol0.05†",
        "n10000_tol0.01 (Sequential, anytime-valid)",
    ]
    assert not any("stopping" in note for note in tables["baseline2_ablation"].notes)
    levels = [label for label in labels(tables["calibration_ablation_my_data_5"]) if label[0] == "RRISE"]
    assert levels == [("RRISE", "0.1"), ("RRISE", "0.25")]
    assert not any("uncalibrated" in label[0] for label in labels(tables["calibration_ablation_my_data_5"]))
    names = [one.name for one in tables["calibration_ablation_my_data_5"].columns]
    assert names[-3:] == ["Violations (%)", "Issued Violations (%)", "Violations among Issued (%)"]
    assert {"Accuracy (%)", "CertAcc@0 (%)"} <= set(names)


def test_counts_honestly_unless_asked_to_count_as_the_paper() -> None:
    honest, paper = (built(one_run(), protocol=name)["main_compute"] for name in ("held-out", "paper"))
    assert column(honest, "Train Cost")[0] == "611000000.00"
    assert column(paper, "Train Cost")[0] == "600002000.00"
    assert column(honest, "RRISE BE vs B2")[0] == "100000.00"
    assert column(paper, "RRISE BE vs B2")[0] == "300000.00"
    assert column(honest, "RRISE BE vs B3")[0] == "90000.00"
    assert column(paper, "RRISE BE vs B3")[0] == "400000.00"
    assert column(paper, "RRISE BE vs B1")[0] == column(honest, "RRISE BE vs B1")[0] == "61107.00"
    assert column(honest, "RRISE BE vs B1")[1] == "–"
    assert "per example: votes of the targets" in honest.title
    assert "three passes per minibatch" in paper.title
    assert "5 % variants" in paper.title
    assert "protocol paper" in paper.title
    assert "protocol held-out" in honest.title


def test_the_deviation_of_the_train_cost_is_that_of_its_only_part_that_varies() -> None:
    results = one_run()
    for one in results:
        one["std"] = {**one["std"], "targets": 0.0, "training": 12.5, "calibration": 0.0}
    assert column(built(results)["main_compute"], "Train Cost")[0] == "611000000.00 ± 12.50"
    for one in results:
        one["std"] = {**one["std"], "targets": 3.0}
    assert column(built(results)["main_compute"], "Train Cost")[0] == "611000000.00"


def test_shows_measured_time_where_it_was_measured() -> None:
    assert "Time (ms)" not in [one.name for one in built(one_run())["main_compute"].columns]
    table = built(one_run(seconds=0.0125))["main_compute"]
    index = [one.name for one in table.columns].index("Time (ms)")
    assert table.texts()[0][0][2 + index] == "12.500"


def test_leaves_out_what_was_not_run() -> None:
    results = [one for one in one_run() if one["method"] not in ("Baseline 2", "Baseline 4")]
    tables = built(results)
    assert "baseline2_ablation" not in tables
    assert "baseline4_init_ablation" not in tables
    assert column(tables["main_compute"], "RRISE BE vs B2")[0] == "–"
    assert build_tables([], {}, protocol="held-out") == []


def test_a_method_without_a_main_result_still_has_its_ablation() -> None:
    results = [one for one in one_run() if one["method"] == "Baseline 1"]
    results += [result("Baseline 4", "init1_n10000", 10_000, "0.25", "additive")]
    tables = built(results)
    assert labels(tables["baseline4_init_ablation"]) == [("My_data & 5%", "init1_n10000")]
    assert [label[1] for label in labels(tables["main_cert_boundary"])] == ["Baseline 1"]


@pytest.mark.parametrize("protocol", ["held-out", "paper"])
def test_renders_runs_in_which_everything_abstained(protocol: str) -> None:
    undefined = {
        **dict.fromkeys(("boundary_accuracy", "boundary_radius", "certified_crd", "mean_issued_radius")),
        **dict.fromkeys(("violation_rate_among_issued", "boundary_violation_rate", "break_even")),
        **dict.fromkeys(("radius_ratio", "radius_drop")),
        "issued": 0.0,
        "boundary_crd": [0.0, 0.0, 0.0],
    }
    tables = built(one_run(**undefined), protocol=protocol)
    assert set(column(tables["main_cert_boundary"], "OCA (%)")) == {"–"}
    assert set(column(tables["crd_certified_full_my_data_5"], "t=0.1")) == {"–"}
    for table in tables.values():
        check_structure(table)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8])
def test_renders_any_number_of_thresholds(count: int) -> None:
    lists = {name: [0.5] * count for name in ("boundary_crd", "certified_crd", "certified_accuracy_at")}
    results = one_run(**lists)
    tables = build_tables(results, {"My_data & 5%": [0.1 * i for i in range(count)]}, protocol="held-out")
    for table in tables:
        check_structure(table)
    representative = next(table for table in tables if table.name == "main_crd_representative")
    assert len(representative.columns) == min(count, 3) + 1


@pytest.mark.parametrize("paper", [False, True])
def test_every_format_has_as_many_entries_in_each_row(paper: bool) -> None:
    for table in build_tables(paper_results(), THRESHOLDS, protocol="paper", paper=paper):
        check_structure(table)
    for table in built(one_run(), paper=paper).values():
        check_structure(table)


def check_structure(table: Table) -> None:
    latex = as_latex(table)
    plain = re.sub(r"\\[\\&%$#_{}]", "", latex)
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert "%" not in re.sub(r"(?m)(^% .*|%)$", "", plain)
    assert not re.search(r"[^\x00-\x7f]", latex)
    lines = latex.splitlines()
    body = [line for line in lines[lines.index(r"\toprule") :] if line.endswith(r" \\")]
    assert len(body) == 1 + len(table.rows)
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {len(table.header()) - 1}
    outside_mathematics = re.sub(r"\$[^$]*\$", "", re.sub(r"\\label{[^}]*}", "", plain))
    assert "_" not in outside_mathematics
    shape = re.search(r"begin{tabular}{(\w+)}", latex)
    assert shape is not None
    assert len(shape[1]) == len(table.header())
    cells = [line for line in as_markdown(table).splitlines() if line.startswith("|")]
    assert len(cells) == 2 + len(table.rows)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in cells} == {len(table.header()) + 1}
    written = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert len(written) == len(table.rows) * len(table.columns)
    assert not any(None in line for line in written)


def test_csv_is_not_rounded() -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(built(one_run())["main_cert_boundary"]))))
    line = next(line for line in lines if line["metric"] == "CertAcc@0 (%)")
    assert float(line["mean"]) == 100 * 0.8123456789
    assert line["std"] == ""
    assert (line["dataset"], line["variant"]) == ("My_data & 5%", "trainhead_initbase_n10000")
    assert (line["budget"], line["total_failure"], line["score"]) == ("10000", "0.25", "additive")


def test_texts_of_numbers() -> None:
    assert Number(-0.001, 0.0).text() == "0.00 ± 0.00"
    assert Number(-1.5).text() == "−1.50"
    assert list(Cell(Number(1.0), Number(1.5)).texts(2, beside_paper=True)) == ["1.00", "1.50", "−0.50"]
    assert list(Cell(Number(1.0), Number(0.5)).texts(2, beside_paper=True)) == ["1.00", "0.50", "+0.50"]
    assert list(Cell(Number(1.0), Number(0.999)).texts(2, beside_paper=True)) == ["1.00", "1.00", "0.00"]
    assert list(Cell(Number(1.0), Number()).texts(2, beside_paper=True)) == ["1.00", "–", ""]
    assert list(Cell(Number(1.0)).texts(2, beside_paper=True)) == ["1.00", "", ""]


def test_refuses_an_unknown_protocol_and_missing_thresholds() -> None:
    with pytest.raises(SettingError, match="expected a protocol out of held-out, paper; got 'honest'"):
        build_tables([], {}, protocol="honest")
    with pytest.raises(SettingError, match="thresholds for each dataset, got none for My_data & 5%"):
        build_tables(one_run(), {}, protocol="held-out")


def test_writes_three_files_for_each_table(tmp_path: Path) -> None:
    tables = list(built(one_run()).values())
    write_tables(tmp_path, tables)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{table.name}{ending}" for table in tables for ending in (".csv", ".md", ".tex")
    }


@pytest.mark.skipif(ENGINE is None, reason="no TeX engine (pdflatex, tectonic or xelatex) on this machine")
def test_latex_compiles(tmp_path: Path) -> None:
    tables = [*built(one_run(), paper=True).values()]
    tables += build_tables(paper_results(), THRESHOLDS, protocol="paper", paper=True)
    special = Row({}, ("\\ & % # _ { } ~ ^ < > |",), (Cell(Number(1.0)),))
    tables.append(Table("special", "± − – … † δ", ("Name",), (Column("t=0.1"),), ((special,),)))
    text = "\n\\clearpage\n".join(as_latex(table) for table in tables)
    preamble = r"\documentclass{article}\usepackage{booktabs}\usepackage{graphicx}"
    source = tmp_path / "tables.tex"
    source.write_text(f"{preamble}\\begin{{document}}\n{text}\n\\end{{document}}\n", encoding="ascii")
    assert ENGINE is not None
    options = [] if Path(ENGINE).name == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run(
        [ENGINE, *options, source.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / "tables.pdf").stat().st_size > 0
