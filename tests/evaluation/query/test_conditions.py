"""Conditions on certificates, against the same condition in plain Python."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from rrise.cli.certificates import certificates
from rrise.errors import FolderError, SettingError
from rrise.evaluation.query.conditions import parse_where
from rrise.evaluation.query.stored_certificates import StoredCertificates, write_rows

ROWS = 200


def table() -> pa.Table:
    random = np.random.default_rng(3)
    text = {
        "method": ["RRISE", "Baseline 1"],
        "variant": ["n500", "n10000"],
        "failure": ["0.25", "0.1"],
        "score": ["", "additive", "probit"],
    }
    columns: dict[str, Any] = {
        "index": np.arange(ROWS),
        "true_label": random.integers(0, 3, ROWS),
        **{name: pa.array(random.choice(values, ROWS)).dictionary_encode() for name, values in text.items()},
        "label": random.integers(0, 3, ROWS),
        "radius": random.uniform(0, 1, ROWS).round(2),
        "lower_bound": random.uniform(0, 1, ROWS),
        "issued": random.random(ROWS) < 0.5,
        "passes": random.integers(1, 100, ROWS),
    }
    return pa.table(columns)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    (tmp_path / "run" / "evaluation").mkdir(parents=True)
    pq.write_table(table(), tmp_path / "run" / "evaluation" / "certificates.parquet")
    return tmp_path / "run"


def stored(run_folder: Path) -> StoredCertificates:
    return StoredCertificates(run_folder / "evaluation" / "certificates.parquet")


@pytest.mark.parametrize(
    "condition",
    [
        "issued",
        "not issued",
        "issued and radius > 0.5",
        "issued and radius > 0.5 or label == true_label",
        "not (issued or radius <= 0.25)",
        "0.2 < radius <= 0.4",
        "0.2 < radius < lower_bound < 0.9",
        "method == 'RRISE'",
        'method != "RRISE" and failure == "0.1"',
        "score in ('probit', 'additive')",
        "score in ['']",
        "label not in {0, 2}",
        "label == true_label and issued == True",
        "radius in (0.5, 0.25, 0.11)",
        "radius + lower_bound > 1.2",
        "radius * 2 - lower_bound / 4 >= 0.3",
        "passes / 3 > 10.5",
        "passes - 7 < -index + 30",
        "-radius < -0.5",
        "+passes == 5 or index == 7",
        "index * 9007199254740992 > radius",
        "True",
        " or ".join(f"index == {number}" for number in range(0, 4000, 9)),
        "index in [" + ", ".join(map(str, range(0, 5_000, 3))) + "]",
        "issued in (True, False)",
        "1 > 2",
        "  issued\n",
    ],
)
def test_selects_what_python_would(condition: str, run_folder: Path) -> None:
    rows = table().to_pylist()
    wanted = [row for row in rows if eval(condition.strip(), {}, row)]
    assert stored(run_folder).select(condition).to_pylist() == wanted
    plain = table().cast(
        pa.schema([(field.name, getattr(field.type, "value_type", field.type)) for field in table().schema])
    )
    assert plain.filter(parse_where(condition, plain.schema)).to_pylist() == wanted


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ("raduis > 1", r"no column raduis: did you mean radius\?"),
        ("zzz", "no column zzz; there are index, true_label, method"),
        ("radius", "expected a condition, got radius, which is a number: compare it, such as radius > 0.5"),
        ("method", "expected a condition, got method, which is a text"),
        ("issued and 1", "expected a condition, got 1, which is a number"),
        ("not radius", "expected a condition, got radius"),
        (
            "failure == 0.25",
            "failure, which is a text, with 0.25, which is a number: write failure == '0.25'",
        ),
        ("0.25 == failure", "write failure == '0.25'"),
        ("issued > 0.5", "cannot compare issued, which is true or false, with 0.5"),
        ("method in ('RRISE', 3)", "cannot compare method, which is a text, with 3"),
        ("'R' in method", "expected a list of values behind in, got method"),
        ("label in (1, radius)", "expected plain values behind in, got radius"),
        ("label in ()", "expected a list of values behind in"),
        ("method + 1 > 2", "expected a number to calculate with, got method: it is a text"),
        ("radius ** 2 > 1", r"got radius \*\* 2"),
        ("radius % 2 == 1", "got radius % 2"),
        ("(radius > 1) & issued", r"got \(radius > 1\) & issued; write and"),
        ("issued | issued", "write or"),
        ("~issued", "write not"),
        ("issued is True", "got is: write =="),
        ("radius = 1", "cannot read the condition 'radius = 1'"),
        ("", "cannot read the condition ''"),
        ("issued and", "write it such as 'issued and radius > 0.5'"),
        ("__import__('os').system('true')", "a condition is made of"),
        ("radius.__class__", "a condition is made of"),
        ("[x for x in (1,)]", "a condition is made of"),
        ("(lambda: True)()", "a condition is made of"),
        ("radius > 1j", "got 1j"),
        ("label == None", "got None"),
        (f"index < {2**53 + 1}", "got 9007199254740993"),
        ("f'{radius}' == 'a'", "a condition is made of"),
        ("radius if issued else label", "a condition is made of"),
        ("issued\0", "cannot read the condition"),
        ("not " * 2_400 + "issued", "cannot read the condition"),
        ("(" * 4_000 + "issued" + ")" * 4_000, "cannot read the condition"),
        ("radius" + " + radius" * 1_100 + " > 1", "cannot read the condition"),
        ("issued or " * 1_000 + "issued", "at most 10000 characters, got 10006"),
    ],
)
def test_refuses_in_a_sentence(condition: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        parse_where(condition, table().schema)


def test_missing_and_damaged_files_get_a_sentence(tmp_path: Path, run_folder: Path) -> None:
    with pytest.raises(FolderError, match="there are none: evaluate the run first"):
        StoredCertificates(tmp_path / "certificates.parquet")
    path = run_folder / "evaluation" / "certificates.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(FolderError, match="not a readable Parquet file"):
        StoredCertificates(path)


def test_reading_conditions_needs_no_torch() -> None:
    code = "import rrise.evaluation.query.conditions, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".CSV"])
def test_writes_every_digit(ending: str, run_folder: Path, tmp_path: Path) -> None:
    rows = stored(run_folder).select("issued", ["index", "method", "lower_bound", "issued"])
    write_rows(tmp_path / f"out{ending}", rows)
    read = pyarrow.csv.read_csv if ending.lower() == ".csv" else pq.read_table
    assert read(tmp_path / f"out{ending}").to_pylist() == rows.to_pylist()


@pytest.fixture
def command() -> Any:
    app = typer.Typer()
    app.command()(certificates)

    def call(*arguments: object) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})

    return call


def test_command_shows_the_first_rows_and_how_many_there_are(command: Any, run_folder: Path) -> None:
    expected = stored(run_folder).select("radius > 0.5").num_rows
    done = command(run_folder, "--where", "radius > 0.5")
    assert done.exit_code == 0
    assert f"{expected} of {ROWS} certificates match radius > 0.5; the first 20 are shown" in done.output
    assert done.output.count("│") == 20 * 9
    few = command(run_folder, "--where", "index in (3, 5)", "--columns", "index, radius")
    assert f"2 of {ROWS} certificates match index in (3, 5)\n" in few.output
    assert "method" not in few.output


def test_command_writes_all_rows(command: Any, run_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    done = command(run_folder, "--where", "index < 50", "--columns", "index,method", "--out", out)
    assert done.exit_code == 0
    assert f"50 of {ROWS} certificates match index < 50; written to {out}" in done.output
    assert pyarrow.csv.read_csv(out).column_names == ["index", "method"]
    assert pyarrow.csv.read_csv(out).num_rows == 50


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--out", "rows.xlsx"], r"ends in .csv or .parquet, got rows.xlsx"),
        (["--out", "nowhere/rows.csv"], "expected the folder nowhere to write rows.csv into"),
        (["--columns", "index,radus"], r"no column radus: did you mean radius\?"),
        (["--where", "isued"], r"no column isued: did you mean issued\?"),
    ],
)
def test_command_refuses_in_a_sentence(
    command: Any, run_folder: Path, arguments: list[str], sentence: str
) -> None:
    error = command(run_folder, *arguments).exception
    with pytest.raises((SettingError, FolderError), match=sentence):
        raise error
