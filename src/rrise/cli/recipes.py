"""`rrise recipes`."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def recipes(
    name: Annotated[
        str | None, typer.Argument(help="Print this one, to start your own from.", show_default=False)
    ] = None,
) -> None:
    """List the recipes that come with the package, or print one."""
    from rrise.runs.recipe import RecipeFile, packaged_recipes

    if name is not None:
        typer.echo(RecipeFile.find(name).text, nl=False)
        return
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
