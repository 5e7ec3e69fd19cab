"""Published results: the evidence of some runs, with all tables and figures made from it alone."""

import csv
import io
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PIL import Image

from rrise.errors import FolderError, MismatchError, SettingError
from rrise.evaluation.evidence import HELD_OUT, PAPER, Evidence
from rrise.evaluation.evidence_files import EVIDENCE, read_evidence, write_evidence
from rrise.evaluation.figures import Drawing, result_figures
from rrise.evaluation.results import Shown
from rrise.evaluation.seeds import over_seeds
from rrise.evaluation.tables import build_tables, write_tables
from rrise.evaluation.writing import drawings_of
from rrise.files import Json, new_folder, write_bytes, write_text
from rrise.runs.journal import JOURNAL, read_journal
from rrise.runs.recipe import read_recipe
from rrise.runs.steps import RECIPE, recipe_of

METRICS, STEPS = "metrics.json", "steps"
_COLOURS = 128
_STEP_COLUMNS = ("seed", "step", "pieces", "passes", "epochs", "seconds", "hardware", "torch", "date")


def publish(runs: Sequence[Path], out: Path) -> list[str]:
    """Put the evidence of evaluated runs of one dataset into `out`, make everything from it, and say so.

    An earlier publication of the same seeds in `out` is replaced; a folder with other things, or with more
    seeds, is refused, and so is a run whose recipe has changed since its evaluation.
    """
    if not runs:
        raise SettingError("expected at least one run folder to publish")
    _check_target(out)
    found = {run: _evidence_of(run).for_tables() for run in runs}
    if len(found) < len(runs):
        raise SettingError("expected different run folders to publish: one of them is named twice")
    if len(datasets := sorted({one.about["dataset"] for one in found.values()})) > 1:
        raise MismatchError(f"the runs are of different datasets ({', '.join(datasets)}): publish each alone")
    parts = {run: f"seed-{evidence.about['seed']}" for run, evidence in found.items()}
    if lost := sorted({path.name for path in _seeds(out)} - set(parts.values())):
        raise FolderError(
            f"{out} has {lost[0]}, which none of the runs has: name its run too, or another --out"
        )
    with new_folder(out) as folder:
        for run, evidence in found.items():
            part = folder / parts[run]
            if part.exists():
                seed = evidence.about["seed"]
                raise MismatchError(f"two of the runs have votes.seed {seed}: publish each in its own --out")
            part.mkdir()
            write_evidence(part, evidence)
            shutil.copyfile(run / RECIPE, part / RECIPE)
            if (run / JOURNAL).is_file():
                shutil.copyfile(run / JOURNAL, part / JOURNAL)
        _make(_evidence_in(folder), folder)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    return [f"{count} of {datasets[0]}, {size / 1e6:.1f} MB: {out.resolve()}"]


def rebuild(
    results: Path, out: Path | None = None, *, on_made: Callable[[str], object] = lambda _: None
) -> None:
    """Make metrics, tables and figures again from published evidence, there or in another folder.

    A folder of such folders is rebuilt one by one, and `on_made` told of each, once all evidence is readable.
    """
    target = results if out is None else out
    targets = {results: target} if _seeds(results) else {}
    if not targets and results.is_dir():
        targets = {place: target / place.name for place in sorted(results.iterdir()) if _seeds(place)}
    if not targets:
        raise FolderError(f"expected published results in {results}: a folder that rrise publish made")
    for place, made in targets.items():
        if made != place:
            _check_target(made)
    found = {made: _evidence_in(place) for place, made in targets.items()}
    for made, evidence in found.items():
        made.mkdir(parents=True, exist_ok=True)
        _make(evidence, made)
        on_made(f"metrics, tables and figures: {made.resolve()}")


def _check_target(out: Path) -> None:
    """Refuse a file, and a folder that holds other things than published results."""
    if out.exists() and not out.is_dir():
        raise FolderError(f"{out} is a file: choose another --out")
    if out.exists() and not (out / METRICS).is_file() and any(out.iterdir()):
        raise FolderError(f"{out} holds other things than published results: choose another --out")


def _evidence_of(run: Path) -> Evidence:
    """Return what a run was evaluated on; refuse one that was not, or with other settings than it has now."""
    recipe, folder = recipe_of(run), run / "evaluation" / "evidence"
    if not (folder / EVIDENCE).is_file():
        raise FolderError(f"{run} is not evaluated yet: finish it with rrise run")
    evidence = read_evidence(folder)
    evaluated = {**evidence.about["settings"], **evidence.about["seeds"]}
    if (difference := read_recipe(recipe).difference(evaluated)) is not None:
        name, then, now = difference
        raise MismatchError(
            f"{run} was evaluated with {name} {then!r}, and its {RECIPE} now has {now!r}: "
            f"call rrise run with the settings that are meant, then publish"
        )
    return evidence


def _seeds(published: Path) -> list[Path]:
    """Return the folders in which published results have their evidence, one for each seed."""
    found = sorted(path.parent for path in published.glob(f"*/{EVIDENCE}"))
    return [path for path in found if (path / RECIPE).is_file()]


def _evidence_in(published: Path) -> dict[Path, Evidence]:
    return {part: read_evidence(part) for part in _seeds(published)}


def _make(found: Mapping[Path, Evidence], target: Path) -> None:
    """Make everything from the evidence in some folders, one for each seed."""
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
    _write_steps(target, parts)


def _by_protocol(evidence: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    """Return the evidence by protocol; what calibrated, and was reported on, can also be left out."""
    found = {HELD_OUT: [one.held_out() for one in evidence]}
    if all(one.about["protocol"] == PAPER for one in evidence):
        found[PAPER] = list(evidence)
    return found


def _over_seeds(runs: Sequence[Json]) -> dict[str, Drawing]:
    """Return the figures that show several runs at once; the others are of the first."""
    drawings = result_figures(runs)
    return {name: drawing for name, drawing in drawings.items() if name != "certified_accuracy"}


def _small_png(drawing: Drawing) -> bytes:
    """Return a figure as a PNG of few colours, which takes a third of the space."""
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
    """Return the metrics as JSON, a line for each setting."""
    protocols = [
        f"{json.dumps(name)}: [\n"
        + ",\n".join(json.dumps(entry, allow_nan=False) for entry in entries)
        + "\n]"
        for name, entries in metrics.items()
    ]
    return "{\n" + ",\n".join(protocols) + "\n}\n"


def _write_steps(target: Path, parts: Sequence[Path]) -> None:
    """Write what each step took, over all the pieces in which it was done, as CSV and Markdown."""
    rows = [row for part in parts for row in _steps(part)]
    text = io.StringIO()
    writer = csv.DictWriter(text, _STEP_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(target / f"{STEPS}.csv", text.getvalue())
    lines = ["| " + " | ".join(_STEP_COLUMNS) + " |", "|" + "---|" * len(_STEP_COLUMNS)]
    lines += ["| " + " | ".join(str(row[name]) for name in _STEP_COLUMNS) + " |" for row in rows]
    write_text(target / f"{STEPS}.md", "\n".join(lines) + "\n")


def _steps(part: Path) -> list[Json]:
    seed = part.name.removeprefix("seed-")
    steps: dict[tuple[str, str], list[Json]] = {}
    for entry in read_journal(part):
        steps.setdefault((entry["step"], entry["hardware"]), []).append(entry)
    return [
        {
            "seed": seed,
            "step": step,
            "pieces": len(entries),
            **{unit: sum(entry.get(unit, 0) for entry in entries) or "" for unit in ("passes", "epochs")},
            "seconds": round(sum(entry["seconds"] for entry in entries), 1),
            "hardware": hardware,
            "torch": entries[-1]["torch"],
            "date": entries[-1]["date"],
        }
        for (step, hardware), entries in steps.items()
    ]
