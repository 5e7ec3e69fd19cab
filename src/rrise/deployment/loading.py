"""Loading what answers: a certifier in torch, or an exported one in its runtime."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.folder import load_certifier
from rrise.certifiers.surrogate import Certifier
from rrise.data.inputs import InputRange
from rrise.deployment.export.exported import ExportedCertifier
from rrise.deployment.export.folder import is_exported, load_exported
from rrise.deployment.service.deployed import Answers
from rrise.models.inference import BATCH_SIZE, class_probabilities


def load_deployed(folder: str | Path, *, threads: int | None = None) -> "TorchCertifier | ExportedCertifier":
    """Load a certifier folder, to run in torch, or an exported one, to run in its runtime.

    Either is checked against its checksums, its evidence and its probe first. `threads` limits the cores that
    an exported one uses; torch has a setting of its own.
    """
    path = Path(folder)
    if is_exported(path):
        return load_exported(path, threads=threads)
    return TorchCertifier(load_certifier(path))


def _within(inputs: NDArray[np.float32], input_range: InputRange) -> NDArray[np.bool_]:
    """Tell of each input whether all of its values are numbers in the range."""
    low, high = input_range or (np.finfo(np.float32).min, np.finfo(np.float32).max)
    inside = (inputs >= np.float32(low)) & (inputs <= np.float32(high))
    return np.asarray(inside.all(axis=tuple(range(1, inputs.ndim))))


class TorchCertifier:
    """A certifier in torch, as a service uses it."""

    runtime = "torch"

    def __init__(self, certifier: Certifier) -> None:
        self.certifier = certifier
        self.input_shape = certifier.input_shape
        self.input_range: InputRange = certifier.smoothing.input_range
        self.class_names = certifier.class_names
        self.guarantee = certifier.guarantee
        self.calibration, self.evidence = certifier.calibration, certifier.evidence

    def answer(self, inputs: NDArray[np.float32]) -> Answers:
        """Certify inputs `[n, *input_shape]`.

        No radius is issued for one with NaN or a value out of range, nor where the surrogate returns NaN.
        """
        certifier = self.certifier
        if len(inputs) == 0:
            probabilities = np.zeros((0, len(self.class_names)))
        else:
            batch = torch.from_numpy(np.array(inputs, dtype=np.float32))
            probabilities = class_probabilities(certifier.network, batch, BATCH_SIZE)
        known = ~np.isnan(probabilities).any(axis=1) & _within(inputs, self.input_range)
        top = np.where(known, probabilities.max(axis=1, initial=0.0), 0.0).astype(np.float32)
        found = Certificates.from_bound(
            probabilities.argmax(axis=1),
            np.where(known, certifier.calibration.lower_bound(top), 0.0),
            sigma=certifier.smoothing.sigma,
            guarantee=certifier.guarantee,
            passes=1,
        )
        shares = probabilities.astype(np.float32)
        return Answers(found.label, found.radius, found.lower_bound, found.issued, shares)
