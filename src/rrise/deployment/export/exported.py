"""An exported certifier: the ONNX graph in its runtime, with its calibration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import FormFacts, Guarantee, surrogate_guarantee
from rrise.certifiers.query_noise import QueryNoise
from rrise.certifiers.stored_calibration import calibration_to_json
from rrise.data.inputs import as_inputs
from rrise.deployment.export.bound_table import BoundTable, is_issued
from rrise.deployment.export.runtimes import Form, Runner, run_in_batches
from rrise.errors import FolderError
from rrise.files import Json, sha256_of_json
from rrise.models.inference import BATCH_SIZE
from rrise.statistics import Calibration, CalibrationEvidence
from rrise.votes.smoothing import Smoothing

_TOLERANCE = {"fp32": (1e-4, 1e-3), "int8": (1e-3, 0.05)}
"""How far the probe's probabilities, and their logarithms, may differ from those at export."""
_SMALLEST = 1e-30
_GROUPS = 8


@dataclass(frozen=True, eq=False)
class Export:
    """The parts of an export except the graph.

    `ranges` says how many inputs chose the int8 ranges, and which; None for fp32. `source` names the
    calibration inputs if they are not simply held-out data.
    """

    form: Form
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    smoothing: Smoothing
    calibration: Calibration
    evidence: CalibrationEvidence
    seen_in_training: int | None
    ranges: Json | None
    source: str | None = None

    @property
    def identity(self) -> str:
        """A checksum of what the graph was made and calibrated for, stored in the graph."""
        return sha256_of_json(
            {
                "form": self.form.name,
                "input_shape": list(self.input_shape),
                "classes": len(self.class_names),
                "smoothing": self.smoothing.to_json(),
                "calibration": calibration_to_json(self.calibration),
            }
        )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the surrogate in this form."""
        ranges = self.ranges or {}
        return surrogate_guarantee(
            self.calibration,
            self.evidence,
            self.smoothing,
            self.seen_in_training,
            source=self.source,
            form=FormFacts(self.form.runtime, self.form.numbers, ranges.get("inputs"), ranges.get("from")),
        )


@dataclass(frozen=True, eq=False)
class ExportProbe:
    """Synthetic inputs, and the answers of the exported certifier to them at export.

    They are averages over parts of the calibration inputs, and noise of the same range. They show whether a
    runtime computes what was calibrated.
    """

    inputs: NDArray[np.float32]
    expected: Mapping[str, NDArray[np.generic]]

    @staticmethod
    def inputs_from(calibration_inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inputs of a probe."""
        groups = [calibration_inputs[start::_GROUPS] for start in range(_GROUPS)]
        averages = np.stack([group.mean(axis=0) for group in groups if len(group)])
        low, high = calibration_inputs.min(), calibration_inputs.max()
        noise = low + (high - low) * np.random.default_rng(0).random(averages.shape, dtype=np.float32)
        return np.concatenate([averages, noise.clip(low, high)])


class ExportedCertifier:
    """An exported certifier, loaded: `certify` runs the graph, which holds the calibration too."""

    def __init__(self, export: Export, runner: Runner, probe_inputs: NDArray[np.float32]) -> None:
        self._runner, self.probe_inputs = runner, probe_inputs
        self.export = export
        self.input_shape, self.class_names = export.input_shape, export.class_names
        self.smoothing, self.guarantee = export.smoothing, export.guarantee
        self.calibration, self.evidence = export.calibration, export.evidence
        self.runtime = export.form.name

    def __repr__(self) -> str:
        return (
            f"ExportedCertifier({self.runtime}, {len(self.class_names)} classes, inputs {self.input_shape}, "
            f"sigma={self.smoothing.sigma:g}, failure={self.guarantee.failure_text})"
        )

    def certify(self, inputs: Any, *, batch_size: int = BATCH_SIZE) -> Certificates:
        """Certify inputs with one forward pass each, in the runtime.

        Args:
            inputs: a batch `[inputs, *input_shape]` of floating-point numbers in the input range.
            batch_size: inputs per forward pass.

        Returns:
            One certificate per input. The certifier abstains where the surrogate returns NaN.

        Raises:
            InputError: an input has another shape, is not a number, or is out of range.
        """
        limits = self.smoothing.input_range
        batch = as_inputs(inputs, shape=self.input_shape, input_range=limits)
        seen = QueryNoise(self.calibration.threat, limits).seen(batch)
        return self._answers(seen.numpy(), batch_size)

    def __call__(self, inputs: Any, *, batch_size: int = BATCH_SIZE) -> Certificates:
        """Certify inputs, as `certify` does."""
        return self.certify(inputs, batch_size=batch_size)

    def _answers(self, inputs: NDArray[np.float32], batch_size: int = BATCH_SIZE) -> Certificates:
        """Return the answers of the graph for any inputs."""
        if len(inputs) == 0:
            none = np.zeros(0)
            shares = np.zeros((0, len(self.class_names)), dtype=np.float32)
            whole = none.astype(np.int64)
            return Certificates(whole, none, none, none.astype(np.bool_), self.guarantee, whole, shares)
        found = run_in_batches(self._runner, np.ascontiguousarray(inputs, dtype=np.float32), batch_size)
        return Certificates(
            label=found["label"],
            radius=found["radius"].astype(np.float64),
            lower_bound=found["lower_bound"].astype(np.float64),
            issued=found["issued"],
            guarantee=self.guarantee,
            passes=np.ones(len(inputs), dtype=np.int64),
            probabilities=found["probabilities"],
        )

    def check(self, probe: ExportProbe, where: object) -> None:
        """Refuse a graph or runtime that does not compute here what was calibrated.

        There are three checks. The probe's probabilities must agree up to rounding. Labels, bounds and radii
        must follow from them exactly. An input of NaN must get no radius.
        """
        expected, answers = probe.expected["probabilities"], self._answers(probe.inputs)
        found = answers.probabilities
        assert found is not None
        if not _close(found, expected, *_TOLERANCE[self.export.form.numbers]):
            raise FolderError(
                f"in {self.runtime} {self.export.form.version}, the surrogate in {where} does not compute "
                f"here what it was calibrated with: export it again on this machine"
            )
        table = BoundTable.of(self.export.calibration, self.export.smoothing.noise)
        bound, radius = table.look_up(found.max(axis=1), found.argmax(axis=1))
        follows = (
            np.array_equal(answers.label, found.argmax(axis=1))
            and np.array_equal(answers.lower_bound, bound)
            and np.array_equal(answers.radius, radius)
            and np.array_equal(answers.issued, is_issued(bound))
        )
        if not follows:
            raise FolderError(
                f"the graph in {where} does not hold the calibration of its folder: export it again"
            )
        nothing = self._answers(np.full_like(probe.inputs[:1], np.nan))
        if nothing.issued.any() or nothing.radius.any():
            raise FolderError(f"{self.runtime} issues radii for inputs of NaN here: {where} cannot be used")


def _close(found: NDArray[Any], expected: NDArray[Any], absolute: float, of_logarithms: float) -> bool:
    """Tell whether probabilities are as expected; near 1, where radii grow, logarithms are more sensitive."""
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=0, atol=absolute):
        return False
    here, there = (np.log(np.maximum(values, _SMALLEST)) for values in (found, expected))
    return np.allclose(here, there, rtol=0, atol=of_logarithms)
