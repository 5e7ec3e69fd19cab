"""`rrise certificates`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_SHOWN = 20
_NARROW = ("index", "true_label", "method", "label", "radius", "lower_bound", "issued", "passes")
_NARROW_PARTS = ("index", "file", "row", "label", "radius", "lower_bound", "issued")
"""Columns that fit a terminal; --columns overrides them."""


def certificates(
    run: Annotated[
        Path, typer.Argument(help="An evaluated run, or a folder of certificates.", show_default=False)
    ],
    where: Annotated[
        str | None,
        typer.Option(help="A condition, such as 'issued and radius > 0.5'.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write all certificates to this .csv or .parquet file.", show_default=False),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns to keep, such as index,label,radius.", show_default=False)
    ] = None,
) -> None:
    """Show or export certificates: of every test input by every method, or of `rrise certify --out`."""
    from rrise.deployment.bulk.output import finished_parts
    from rrise.evaluation.query.stored_certificates import StoredCertificates, check_ending, write_rows

    if out is not None:
        check_ending(out)
    parts = finished_parts(run)
    stored = StoredCertificates(parts or run / "evaluation" / "certificates.parquet")
    named = None if columns is None else [name.strip() for name in columns.split(",")]
    rows = stored.select(where, named, first=_SHOWN if out is None else None)
    console = Console()
    if out is not None:
        write_rows(out, rows)
    else:
        _print_table(console, rows if columns else rows.select(_NARROW_PARTS if parts else _NARROW))
    found = stored.count(where)
    matches = f"{found} of {len(stored)} certificates" + (f" match {where}" if where else "")
    console.print(Text(f"{matches}{_whereabouts(found, out)}"), style="dim", soft_wrap=True)


def _whereabouts(rows: int, out: Path | None) -> str:
    if out is not None:
        return f"; written to {out}"
    return f"; the first {_SHOWN} are shown, --out FILE writes all of them" if rows > _SHOWN else ""


def _print_table(console: Console, rows: Any) -> None:
    table = Table()
    for name in rows.column_names:
        right = name not in ("method", "variant", "score", "file")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for record in rows.to_pylist():
        table.add_row(*(Text(_shown(value)) for value in record.values()))
    console.print(table)


def _shown(value: object) -> str:
    from rrise.statistics import format_down

    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_down(value) if isinstance(value, float) else str(value)
