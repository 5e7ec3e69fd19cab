"""What a run's evaluation reads: votes in order, and each surrogate's predictions, stored once."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import nn

from rrise.certifiers.predictions import Predictions
from rrise.certifiers.surrogate import BATCH_SIZE, top_prediction
from rrise.data.inputs import as_inputs
from rrise.data.pool import Pool
from rrise.files import Json, write_table
from rrise.models.evaluation_mode import device_of, evaluating, precision_of
from rrise.models.fingerprint import fingerprint
from rrise.progress import progress_bar
from rrise.runs.run import Run
from rrise.votes.sequence import StoredVotes

_FILE = "predictions.parquet"
SPLITS = ("calibration", "test")
_REPEATS = 20
"""How often a pass is timed."""


def stored_predictions(
    run: Run, variant: str, network: nn.Module, head: nn.Module | None = None
) -> dict[str, Predictions]:
    """Return what a surrogate answers for the calibration and the test inputs, computing it once.

    Surrogates that differ in their `head` alone share what comes before it.
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
    run.step(name, {"surrogate": fingerprint(network), **run.made_from(*SPLITS)}, make)
    table = pq.read_table(run.folder / name / _FILE)
    split = np.asarray(table.column("split").to_pylist())
    everything = Predictions(
        table.column("label").to_numpy().astype(np.int64), table.column("top_probability").to_numpy()
    )
    return {name: everything[split == name] for name in SPLITS}


def _predict(run: Run, split: str, network: nn.Module, head: nn.Module | None) -> Predictions:
    values, size, device = run.data.values(split), len(run.data.indices(split)), device_of(network)
    if head is not None:
        pool = Pool(values, device=device, dtype=precision_of(network))
        with evaluating(network):
            entering = run.features.before(network, head, pool, run.data.fingerprint(split))
        if entering is not None:
            return Predictions(*top_prediction(head, entering, BATCH_SIZE))
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    with progress_bar(run.console, f"certifying {split}", size, "inputs") as advance:
        for start in range(0, size, BATCH_SIZE):
            inputs = as_inputs(values[start : start + BATCH_SIZE]).to(device)
            parts.append(top_prediction(network, inputs, BATCH_SIZE))
            advance(len(inputs))
    label, top_probability = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    return Predictions(label, top_probability)


class Reported:
    """The inputs that an evaluation reports on, in the order of the dataset.

    Protocol "held-out" leaves the calibration inputs out, "paper" includes them; the run may have collected
    the votes of its test inputs either way.
    """

    def __init__(self, run: Run) -> None:
        splits = run.data.splits
        self.protocol = protocol = run.recipe.evaluation.protocol or run.recipe.data.protocol
        both = np.concatenate([splits.test, splits.calibration])
        wanted = np.setdiff1d(splits.test, splits.calibration)
        if protocol == "paper":
            wanted = np.union1d(splits.test, splits.calibration)
        everything, first = np.unique(both, return_index=True)
        kept = np.isin(everything, wanted)
        self.indices, self.rows = everything[kept], first[kept]
        self.calibrated_on = np.isin(self.indices, splits.calibration)
        self._tests = len(splits.test)

    @property
    def only_test_inputs(self) -> bool:
        """Whether every input is one of the test split."""
        return bool((self.rows < self._tests).all())

    def pick(self, test: NDArray[Any], calibration: NDArray[Any]) -> NDArray[Any]:
        """Return the reported ones out of the arrays of both splits."""
        if self.only_test_inputs:
            return test[self.rows]
        return np.concatenate([test, calibration])[self.rows]

    def predictions(self, of: dict[str, Predictions]) -> Predictions:
        """Return a surrogate's predictions of the reported inputs."""
        test, calibration = of["test"], of["calibration"]
        return Predictions(
            self.pick(test.label, calibration.label),
            self.pick(test.top_probability, calibration.top_probability),
        )

    def votes(self, test: StoredVotes, calibration: StoredVotes) -> StoredVotes:
        """Return the votes of the reported inputs in order, out of those of both splits."""
        assert test.digests is not None
        assert calibration.digests is not None
        return StoredVotes(
            self.pick(test.answers, calibration.answers),
            test.classes,
            test.smoothing,
            test.stream if self.only_test_inputs else None,
            self.pick(test.digests, calibration.digests),
        )


def collect_reported(run: Run, base: nn.Module) -> dict[str, str]:
    """Collect votes of their own for calibration inputs that are reported on, and name the stores.

    Those that calibrated the surrogate would not do for judging it. Where only test inputs are reported on,
    theirs do: the stores are those of the test inputs.
    """
    if Reported(run).only_test_inputs:
        return {"votes": "test", "selection": "test-selection"}
    budgets = {"reported-selection": run.recipe.votes.selection, "reported": run.recipe.votes.test}
    for purpose, n in budgets.items():
        run.votes("calibration", base, n, purpose=purpose)
    return {"votes": "calibration-reported", "selection": "calibration-reported-selection"}


def seconds_per_pass(networks: dict[str, nn.Module], inputs: torch.Tensor) -> dict[str, float]:
    """Measure a forward pass of a batch of inputs, per input: the best of many, taken in turns."""
    best = dict.fromkeys(networks, float("inf"))
    for repeat in range(_REPEATS + 1):
        for name, network in networks.items():
            batch, device = inputs.to(device_of(network), precision_of(network)), device_of(network)
            with evaluating(network):
                start = time.perf_counter()
                network(batch)
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
            if repeat > 0:  # the first warms up
                best[name] = min(best[name], time.perf_counter() - start)
    return {name: seconds / len(inputs) for name, seconds in best.items()}
