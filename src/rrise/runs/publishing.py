"""Publish the evidence of evaluated runs."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rrise.errors import FolderError, MismatchError, SettingError
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import EVIDENCE, read_evidence, write_evidence
from rrise.files import Json, new_folder
from rrise.runs.journal import JOURNAL
from rrise.runs.published_results import check_target, evidence_in, make_results, seed_folders
from rrise.runs.recipe import read_recipe
from rrise.runs.steps import RECIPE, recipe_of


def publish(runs: Sequence[Path], out: Path) -> list[str]:
    """Copy the evidence of evaluated runs of one dataset to `out`, and generate the results from it.

    Returns lines for the console. An earlier publication of the same seeds in `out` is replaced. Refused
    are a folder with other files or more seeds, and a run whose recipe has changed since its evaluation.
    """
    if not runs:
        raise SettingError("expected at least one run folder to publish, got none")
    check_target(out)
    found = {run: _evidence_of(run).for_tables() for run in runs}
    if len(found) < len(runs):
        raise SettingError("expected different run folders to publish, got one of them twice")
    if len(datasets := sorted({one.about["dataset"] for one in found.values()})) > 1:
        raise MismatchError(f"the runs have different datasets ({', '.join(datasets)}): publish each alone")
    parts = _names({run: evidence.about for run, evidence in found.items()})
    if lost := sorted({path.name for path in seed_folders(out)} - set(parts.values())):
        raise FolderError(
            f"{out} holds {lost[0]}, but none of the runs does: add its run, or choose another --out"
        )
    with new_folder(out) as folder:
        for run, evidence in found.items():
            part = folder / parts[run]
            if part.exists():
                seeds = evidence.about["seed"], _surrogate_seed(evidence.about)
                raise MismatchError(
                    f"two of the runs have votes.seed {seeds[0]} and surrogate.seed {seeds[1]}: publish each "
                    f"to its own --out"
                )
            part.mkdir()
            write_evidence(part, evidence)
            shutil.copyfile(run / RECIPE, part / RECIPE)
            if (run / JOURNAL).is_file():
                shutil.copyfile(run / JOURNAL, part / JOURNAL)
        make_results(evidence_in(folder), folder)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    return [f"{count} of {datasets[0]}, {size / 1e6:.1f} MB: {out.resolve()}"]


def _names(abouts: Mapping[Path, Json]) -> dict[Path, str]:
    """Name the folder of each run by its seed of the votes, and by that of the surrogate where it tells."""
    votes = Counter(about["seed"] for about in abouts.values())
    names = {}
    for run, about in abouts.items():
        seed, own = about["seed"], _surrogate_seed(about)
        names[run] = f"seed-{seed}" if votes[seed] == 1 or own == seed else f"seed-{seed}-{own}"
    return names


def _surrogate_seed(about: Json) -> int:
    seed: int = about.get("seeds", {}).get("surrogate.seed", about["seed"])
    return seed


def _evidence_of(run: Path) -> Evidence:
    """Return the evidence of a run; refuse one not evaluated, or evaluated with other settings."""
    recipe, folder = recipe_of(run), run / "evaluation" / "evidence"
    if not (folder / EVIDENCE).is_file():
        raise FolderError(f"{run} is not evaluated yet: finish it with rrise run")
    evidence = read_evidence(folder)
    evaluated = {**evidence.about["settings"], **evidence.about["seeds"]}
    if (difference := read_recipe(recipe).difference(evaluated)) is not None:
        name, then, now = difference
        raise MismatchError(
            f"{run} was evaluated with {name} {then!r}, but its {RECIPE} now has {now!r}: "
            f"call rrise run with the intended settings, then publish"
        )
    return evidence
