"""Give published evidence a new surrogate: its predictions for the same inputs, beside the same votes.

    python benchmarks/extend_published.py results/cifar-10-distilled/seed-100 --variant OUT/long
    rrise rebuild results/cifar-10-distilled

OUT/long is a surrogate that `benchmarks/distillation.py` trained for the base classifier of this evidence:
its record `OUT/long.json` and its weights `OUT/weights/long.safetensors`. The evidence, its recipe and its
journal are rewritten in place. Predictions are computed from the stored weights here, in float32.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from distillation import saved_base
from rrise.certifiers.predictions import Predictions
from rrise.data.inputs import as_inputs
from rrise.errors import MismatchError
from rrise.evaluation.measure.evidence import Evidence
from rrise.evaluation.measure.evidence_files import read_evidence, write_evidence
from rrise.evaluation.measure.methods import SurrogateEvidence
from rrise.evaluation.measure.outcomes import Offline
from rrise.files import Json, write_text
from rrise.models.inference import BATCH_SIZE, top_prediction
from rrise.models.weights import load_tensors, load_weights
from rrise.runs.data import RunData
from rrise.runs.journal import JOURNAL
from rrise.runs.recipe import Recipe, read_recipe
from rrise.runs.steps import RECIPE
from rrise.statistics import SCORES

TAKEN = (
    *("epochs", "learning_rate", "batch_size", "weight_decay", "gradient_clip", "warmup_epochs"),
    *("validation_share", "seed"),
)
DISTILLED = ("fresh_votes", "mixed", "augmentations", "jitter", "averaging", "query_noise")


def recipe_of(folder: Path, record: Json, score: str) -> Recipe:
    """Return the recipe of the evidence with the settings of this surrogate."""
    settings: Json = record["settings"]
    changes = {f"surrogate.{name}": settings[name] for name in (*TAKEN, *DISTILLED)}
    if settings.get("stored_statistics") is not None:
        changes["surrogate.stored_statistics"] = settings["stored_statistics"]
    return read_recipe(
        folder / RECIPE,
        None,
        {
            **changes,
            "data.unlabelled": list(record["variant"]["unlabelled"]),
            "calibration.score": score,
        },
    )


def predictions(recipe: Recipe, folder: Path, weights: Path, data: RunData) -> dict[str, Predictions]:
    """Return what the surrogate says about calibration and test inputs."""
    network = saved_base(folder, recipe)[1].float()
    load_weights(network, load_tensors(weights), str(weights))
    found = {}
    for split in ("calibration", "test"):
        values = as_inputs(data.values(split)[:])
        found[split] = Predictions(*top_prediction(network.eval(), values, BATCH_SIZE))
    return found


def extended(evidence: Evidence, recipe: Recipe, record: Json, found: dict[str, Predictions]) -> Evidence:
    """Return the evidence with this surrogate in place of its own."""
    former = evidence.surrogates[0]
    choice = recipe.choices()[0]
    settings: Json = record["settings"]
    offline = Offline(
        targets=record["votes"],
        training=record["passes"] - record["votes"],
        calibration=former.offline.calibration,
        training_inputs=record["inputs"],
        batch_size=settings["batch_size"],
        epoch=settings["epochs"],
    )
    one = SurrogateEvidence(
        choice.method, choice.variant, choice.budget, found["test"], found["calibration"], offline, 0
    )
    named = recipe.settings()
    about: Json = {
        **evidence.about,
        "seeds": {name: value for name, value in named.items() if name.endswith(".seed")},
        "settings": {
            name: value
            for name, value in named.items()
            if not name.endswith(".seed") and not name.startswith("evaluation.")
        },
        "certifier": [choice.method, choice.variant, recipe.calibration.score],
        "scores": list(SCORES),
        "evaluated": record["hardware"]["date"],
    }
    times = {"": evidence.pass_times[""], choice.variant: evidence.pass_times[former.variant]}
    return replace(evidence, about=about, surrogates=(one,), pass_times=times)


def journal(folder: Path, record: Json) -> str:
    """Return the journal with the training of this surrogate in place of the former one."""
    lines: list[Json] = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    machine: Json = record["hardware"]
    new: dict[str, Any] = {
        "step": "surrogate",
        "seconds": round(record["seconds"], 3),
        "epochs": record["settings"]["epochs"],
        "finished": True,
        "hardware": machine.get("gpu") or machine["cpu"],
        **{name: machine[name] for name in ("torch", "numpy", "python", "date")},
        "cudnn_benchmark": True,
    }
    kept = [line for line in lines if line["step"] != "surrogate"]
    return "".join(json.dumps(line) + "\n" for line in [new, *kept])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--variant", type=Path, required=True, help="OUT/NAME of the trained surrogate")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--score", default="tapered")
    options = parser.parse_args()
    folder, variant = options.evidence, options.variant
    record = json.loads(variant.with_name(f"{variant.name}.json").read_text())
    recipe = recipe_of(folder, record, options.score)
    data, evidence = RunData(recipe.data, options.data_root), read_evidence(folder).held_out()
    if not np.array_equal(evidence.labels, data.labels("test").numpy()):
        raise MismatchError(f"the test labels of the data are not those of {folder}")
    record["inputs"] = len(data.training_values())
    weights = variant.parent / "weights" / f"{variant.name}.safetensors"
    found = extended(evidence, recipe, record, predictions(recipe, folder, weights, data))
    text = journal(folder, record)
    write_evidence(folder, found)
    write_text(folder / RECIPE, recipe.to_toml())
    write_text(folder / JOURNAL, text)
    print(f"{folder}: {found.surrogates[0].variant}")


if __name__ == "__main__":
    main()
