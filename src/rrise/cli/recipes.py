"""`rrise recipes`."""

from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Recipe to print, as a start for your own; with --settings, a table such as base.",
            show_default=False,
        ),
    ] = None,
    *,
    settings: Annotated[
        bool, typer.Option("--settings", help="List all settings of a recipe, with default and meaning.")
    ] = False,
) -> None:
    """List the packaged recipes or their settings, or print a recipe."""
    from rrise.runs.recipe import RecipeFile

    if settings:
        _print_settings(name)
    elif name is not None:
        typer.echo(RecipeFile.find(name).text, nl=False)
    else:
        _print_recipes()


def _print_recipes() -> None:
    from rrise.runs.recipe import RecipeFile, packaged_recipes

    table = Table()
    for column in ("recipe", "data", "architecture", "sigma", "profiles"):
        table.add_column(column, no_wrap=column == "recipe")
    for file in map(RecipeFile.find, packaged_recipes()):
        table.add_row(
            file.name,
            file.tables["data"]["source"],
            file.tables["base"]["architecture"],
            str(file.tables["votes"]["sigma"]),
            ", ".join(file.profiles),
        )
    console = Console()
    console.print(table)
    console.print("rrise run NAME --profile quick", style="dim", highlight=False)


def _print_settings(wanted: str | None) -> None:
    """Print the settings of one table of a recipe, or of all."""
    from rrise.errors import SettingError, did_you_mean
    from rrise.runs.settings import TABLES
    from rrise.settings import TABLE_HEADINGS, table_rows
    from rrise.training.base_objectives import BASE_OBJECTIVES

    if wanted is not None and wanted not in TABLES:
        raise SettingError(
            f"expected a table out of {', '.join(TABLES)}; got {wanted!r}{did_you_mean(wanted, TABLES)}"
        )
    shown = [(f"[{name}]", TABLES[name]) for name in (TABLES if wanted is None else (wanted,))]
    if wanted in (None, "base"):
        shown += [(f"[base] objective_options of {name}", kind) for name, kind in BASE_OBJECTIVES.items()]
    console = Console()
    for title, kind in shown:
        if rows := table_rows(kind):
            table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD)
            for heading in TABLE_HEADINGS:
                table.add_column(heading, no_wrap=heading == "setting")
            for row in rows:
                table.add_row(*map(escape, row))
            console.print(table)
