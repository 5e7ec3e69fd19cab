"""Several evaluated runs side by side: tables over seeds and datasets, and figures."""

from collections.abc import Sequence
from pathlib import Path

from rrise.errors import FolderError, MismatchError, SettingError
from rrise.evaluation.figures import result_figures, write_figures
from rrise.evaluation.measure.over_seeds import over_seeds
from rrise.evaluation.measure.results import RESULTS
from rrise.evaluation.tables.tables import build_tables, write_tables
from rrise.evaluation.tables.text import as_markdown
from rrise.files import Json, check_listed, new_folder, read_json, write_text

MARK = "comparison.md"


def compare_runs(folders: Sequence[Path], out: Path, *, paper: bool = False) -> list[str]:
    """Write tables and figures of evaluated runs into `out`, and return what to print about it.

    Runs of one dataset are averaged over their seeds. An earlier comparison in `out` is replaced; a
    folder with other things in it is refused.
    """
    runs = [_results(folder) for folder in folders]
    if not runs:
        raise SettingError("expected at least one run folder to compare")
    protocols = sorted({run["protocol"] for run in runs})
    if len(protocols) > 1:
        raise MismatchError(
            f"the runs report by different protocols ({', '.join(protocols)}): evaluate them with the same "
            f"--protocol"
        )
    if out.exists() and not (out / MARK).is_file() and any(out.iterdir()):
        raise FolderError(f"{out} holds other things than a comparison: choose another --out")
    thresholds = {run["dataset"]: run["thresholds"] for run in runs}
    tables = build_tables(over_seeds(runs), thresholds, protocol=protocols[0], paper=paper)
    with new_folder(out) as folder:
        for name in ("tables", "figures"):
            (folder / name).mkdir()
        write_tables(folder / "tables", tables)
        write_figures(folder / "figures", result_figures(runs))
        write_text(folder / MARK, "\n\n".join(map(as_markdown, tables)) + "\n")
    return [as_markdown(tables[0]), f"{len(tables)} tables and the figures: {out.resolve()}"]


def _results(folder: Path) -> Json:
    file = folder / "evaluation" / RESULTS
    if not file.is_file():
        raise FolderError(f"expected an evaluated run, but there is no {file}: rrise evaluate {folder}")
    check_listed(file)
    return {**read_json(file), "run": str(folder)}
