"""The calibration inputs and votes of a certifier: from its run, or from the user's files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.held_out import HELD_OUT, HeldOut
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.sources import load_images
from rrise.deployment.export.exporting import RANGE_INPUTS
from rrise.errors import SettingError
from rrise.runs.data import RunData
from rrise.runs.recipe import read_recipe
from rrise.runs.steps import RECIPE
from rrise.seeds import derive_seed
from rrise.votes.array import Votes
from rrise.votes.reading import read_votes


@dataclass(frozen=True, eq=False)
class CalibrationData:
    """What an export needs in addition to the certifier.

    `range_inputs` are training inputs that choose the int8 ranges; None if there are none.
    """

    images: Any
    votes: Votes | NDArray[np.int64]
    range_inputs: NDArray[np.float32] | None


def calibration_data(
    folder: Path,
    certifier: SurrogateCertifier,
    *,
    inputs: Path | None = None,
    votes: Path | None = None,
    data_root: Path | None = None,
) -> CalibrationData:
    """Return the data that the certifier in a folder was calibrated on.

    `SurrogateCertifier.save` writes them into the folder; for a certifier in a run folder, the run holds
    them. Any other needs `inputs` (a `.npy` file or a folder of images) and `votes` (a folder of
    `rrise vote`).
    """
    n = certifier.calibration.n
    if inputs is not None and votes is not None:
        return CalibrationData(load_images(str(inputs), "calibration")[:], read_votes(votes, n), None)
    run = folder.resolve().parent
    if inputs is not None or votes is not None:
        raise SettingError(
            "expected both --inputs and --votes, or neither if the certifier or its run holds them"
        )
    if (kept := HeldOut.load(folder)) is not None:
        return CalibrationData(kept.inputs, kept.votes, None)
    if not (run / RECIPE).is_file() or not (run / "votes" / "calibration").is_dir():
        raise SettingError(
            f"{folder} holds no {HELD_OUT} and is not in a run folder, so its calibration inputs and votes "
            f"are unknown: pass --inputs FILE and --votes FOLDER"
        )
    data = RunData(read_recipe(run / RECIPE).data, data_root)
    training = data.values("train")
    seed = derive_seed(data.settings.seed, "int8 ranges")
    picked = np.sort(np.random.default_rng(seed).permutation(len(training))[:RANGE_INPUTS])
    ranges = np.concatenate([np.asarray(training[place : place + 1], np.float32) for place in picked])
    return CalibrationData(
        data.values("calibration")[:], read_votes(run / "votes" / "calibration", n), ranges
    )
