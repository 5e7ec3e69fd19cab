"""Each surrogate's predictions for the calibration and the test inputs, stored once."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.predictions import Predictions
from rrise.certifiers.query_noise import QueryNoise
from rrise.data.inputs import as_inputs
from rrise.data.pool import Pool
from rrise.files import Json, write_table
from rrise.models.evaluating import evaluating
from rrise.models.fingerprint import fingerprint
from rrise.models.inference import BATCH_SIZE, top_prediction
from rrise.models.inspection import device_of, precision_of
from rrise.progress import progress_bar
from rrise.runs.run import Run

_FILE = "predictions.parquet"
SPLITS = ("calibration", "test")


def stored_predictions(
    run: Run, variant: str, network: nn.Module, head: nn.Module | None = None
) -> dict[str, Predictions]:
    """Return a surrogate's predictions for the calibration and the test inputs, computed once.

    If the recipe has query noise, they are those for the inputs with one draw of it each.

    Surrogates that differ only in their `head` share the features before it.
    """

    def make(folder: Path) -> Json:
        parts = {split: _predict(run, split, network, head) for split in SPLITS}
        split = np.repeat(SPLITS, [len(parts[name]) for name in SPLITS])
        columns = {
            "split": pa.array(split).dictionary_encode(),
            "label": np.concatenate([parts[name].label for name in SPLITS]),
            "top_probability": np.concatenate([parts[name].top_probability for name in SPLITS]),
        }
        write_table(folder / _FILE, pa.table(columns))
        return {}

    name = f"predictions/{variant}"
    threat = run.recipe.threat
    noise = {} if threat is None else {"query_noise": threat.query_noise, "seed": run.recipe.votes.seed}
    run.step(name, {"surrogate": fingerprint(network), **noise, **run.made_from(*SPLITS)}, make)
    table = pq.read_table(run.folder / name / _FILE)
    split = np.asarray(table.column("split").to_pylist())
    everything = Predictions(
        table.column("label").to_numpy().astype(np.int64), table.column("top_probability").to_numpy()
    )
    return {name: everything[split == name] for name in SPLITS}


def _predict(run: Run, split: str, network: nn.Module, head: nn.Module | None) -> Predictions:
    values, size, device = run.data.values(split), len(run.data.indices(split)), device_of(network)
    if head is not None and run.recipe.threat is None:
        pool = Pool(values, device=device, dtype=precision_of(network))
        with evaluating(network):
            entering = run.features.before(network, head, pool, run.data.fingerprint(split))
        if entering is not None:
            return Predictions(*top_prediction(head, entering, BATCH_SIZE))
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    noise = QueryNoise(run.recipe.threat, run.plan(split, 1).input_range, seed=run.noise_seed(split))
    with progress_bar(run.console, f"certifying {split}", size, "inputs") as advance:
        for start in range(0, size, BATCH_SIZE):
            inputs = noise.seen(as_inputs(values[start : start + BATCH_SIZE])).to(device)
            parts.append(top_prediction(network, inputs, BATCH_SIZE))
            advance(len(inputs))
    label, top_probability = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    return Predictions(label, top_probability)
