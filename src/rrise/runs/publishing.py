"""Publish the evidence of evaluated runs."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from rrise.errors import FolderError, MismatchError, SettingError
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import EVIDENCE, read_evidence, write_evidence
from rrise.files import new_folder
from rrise.runs.journal import JOURNAL
from rrise.runs.published_results import check_target, evidence_in, make_results, seed_folders
from rrise.runs.recipe import read_recipe
from rrise.runs.steps import RECIPE, recipe_of


def publish(runs: Sequence[Path], out: Path) -> list[str]:
    """Put the evidence of evaluated runs of one dataset into `out`, make everything from it, and say so.

    An earlier publication of the same seeds in `out` is replaced; a folder with other things, or with more
    seeds, is refused, and so is a run whose recipe has changed since its evaluation.
    """
    if not runs:
        raise SettingError("expected at least one run folder to publish")
    check_target(out)
    found = {run: _evidence_of(run).for_tables() for run in runs}
    if len(found) < len(runs):
        raise SettingError("expected different run folders to publish: one of them is named twice")
    if len(datasets := sorted({one.about["dataset"] for one in found.values()})) > 1:
        raise MismatchError(f"the runs are of different datasets ({', '.join(datasets)}): publish each alone")
    parts = {run: f"seed-{evidence.about['seed']}" for run, evidence in found.items()}
    if lost := sorted({path.name for path in seed_folders(out)} - set(parts.values())):
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
        make_results(evidence_in(folder), folder)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    return [f"{count} of {datasets[0]}, {size / 1e6:.1f} MB: {out.resolve()}"]


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
