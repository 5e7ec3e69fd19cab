"""Published results: metrics, tables and figures, generated from the evidence of some runs alone."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PIL import Image

from rrise.errors import FolderError
from rrise.evaluation.figures import Drawing, result_figures
from rrise.evaluation.measure.evidence import HELD_OUT, PAPER, Evidence
from rrise.evaluation.measure.evidence_files import EVIDENCE, read_evidence
from rrise.evaluation.measure.over_seeds import over_seeds
from rrise.evaluation.report.evaluation_folder import drawings_of
from rrise.evaluation.report.shown import Shown
from rrise.evaluation.tables.tables import build_tables, write_tables
from rrise.files import Json, new_folder, write_bytes, write_text
from rrise.runs.step_times import write_step_times
from rrise.runs.steps import RECIPE

METRICS = "metrics.json"
_COLOURS = 128


def rebuild(
    results: Path, out: Path | None = None, *, on_made: Callable[[str], object] = lambda _: None
) -> None:
    """Regenerate metrics, tables and figures from published evidence, in place or in another folder.

    In a folder of such folders, each is rebuilt in turn, after all evidence was read. `on_made` is called
    for each.
    """
    target = results if out is None else out
    targets = {results: target} if seed_folders(results) else {}
    if not targets and results.is_dir():
        targets = {place: target / place.name for place in sorted(results.iterdir()) if seed_folders(place)}
    if not targets:
        raise FolderError(
            f"expected published results in {results}, found none: pass a folder made by rrise publish"
        )
    for place, made in targets.items():
        if made != place:
            check_target(made)
    found = {made: evidence_in(place) for place, made in targets.items()}
    for made, evidence in found.items():
        made.mkdir(parents=True, exist_ok=True)
        make_results(evidence, made)
        on_made(f"metrics, tables and figures: {made.resolve()}")


def check_target(out: Path) -> None:
    """Refuse a file, or a folder that holds anything but published results."""
    if out.exists() and not out.is_dir():
        raise FolderError(f"{out} is a file: choose another --out")
    if out.exists() and not (out / METRICS).is_file() and any(out.iterdir()):
        raise FolderError(f"{out} holds files other than published results: choose another --out")


def seed_folders(published: Path) -> list[Path]:
    """Return the folders with the evidence of published results, one per seed."""
    found = sorted(path.parent for path in published.glob(f"*/{EVIDENCE}"))
    return [path for path in found if (path / RECIPE).is_file()]


def evidence_in(published: Path) -> dict[Path, Evidence]:
    """Read the evidence of each seed."""
    return {part: read_evidence(part) for part in seed_folders(published)}


def make_results(found: Mapping[Path, Evidence], target: Path) -> None:
    """Generate everything from the evidence in some folders, one per seed."""
    parts, evidence = list(found), list(found.values())
    recipes = [(part / RECIPE).read_text(encoding="utf-8") for part in parts]
    metrics: dict[str, list[Json]] = {}
    for protocol, ones in _by_protocol(evidence).items():
        outcomes = [one.outcomes() for one in ones]
        runs = [one.results(found) for one, found in zip(ones, outcomes, strict=True)]
        metrics[protocol] = over_seeds(runs)
        tables = build_tables(
            metrics[protocol], {runs[0]["dataset"]: runs[0]["thresholds"]}, protocol=protocol, paper=True
        )
        with new_folder(target / protocol) as folder:
            (folder / "tables").mkdir()
            write_tables(folder / "tables", tables, formats=("csv", "md"))
            if protocol == HELD_OUT:
                shown = Shown.of(
                    ones[0], outcomes[0], images=None, class_names=(), recipe=recipes[0], paper=True
                )
                (folder / "figures").mkdir()
                for name, drawing in {**drawings_of(runs[0], shown), **_over_seeds(runs)}.items():
                    write_bytes(folder / "figures" / f"{name}.png", _small_png(drawing))
    write_text(target / METRICS, _metrics_text(metrics))
    write_step_times(target, parts)


def _by_protocol(evidence: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    """Return the evidence by protocol; calibration inputs that were reported on can also be left out."""
    found = {HELD_OUT: [one.held_out() for one in evidence]}
    if all(one.about["protocol"] == PAPER for one in evidence):
        found[PAPER] = list(evidence)
    return found


def _over_seeds(runs: Sequence[Json]) -> dict[str, Drawing]:
    """Return the figures that show several runs at once; all others show the first run."""
    drawings = result_figures(runs)
    return {name: drawing for name, drawing in drawings.items() if name != "certified_accuracy"}


def _small_png(drawing: Drawing) -> bytes:
    """Return a figure as a PNG with few colours, a third of the size."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(drawing.png())) as picture:
        few = picture.convert("RGB").quantize(
            _COLOURS,
            method=Image.Quantize.MAXCOVERAGE,  # keeps the colour of the smallest bar
            dither=Image.Dither.NONE,
        )
        few.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _metrics_text(metrics: dict[str, list[Json]]) -> str:
    """Return the metrics as JSON, one line per setting."""
    protocols = [
        f"{json.dumps(name)}: [\n"
        + ",\n".join(json.dumps(entry, allow_nan=False) for entry in entries)
        + "\n]"
        for name, entries in metrics.items()
    ]
    return "{\n" + ",\n".join(protocols) + "\n}\n"
