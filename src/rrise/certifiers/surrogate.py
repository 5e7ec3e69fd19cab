"""The certifier of the paper: one forward pass of a calibrated surrogate per input."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import check_base
from rrise.certifiers.guarantee import Assumption, FormFacts, Guarantee, surrogate_guarantee
from rrise.certifiers.held_out import HeldOut
from rrise.certifiers.probe import Probe
from rrise.certifiers.query_noise import QueryNoise
from rrise.certifiers.with_votes import QueryEvidence, SurrogateWithVotes
from rrise.data.inputs import as_inputs
from rrise.errors import MismatchError, SettingError, as_path
from rrise.models.inference import BATCH_SIZE, class_probabilities, top_of
from rrise.models.inspection import device_of, precision_name
from rrise.models.program import Program
from rrise.statistics import Calibration, CalibrationEvidence, Level, Threat, level_text, refit_for, terms_of
from rrise.votes.smoothing import Smoothing


@dataclass(frozen=True, eq=False)
class SurrogateCertifier:
    """A calibrated surrogate: certifies each input with one forward pass; made by `calibrate`.

    Guarantee: for an input exchangeable with the calibration inputs, the probability that a radius is
    issued and wrong is at most `calibration.failure`. Other promises are `pac` and `issued`. `guarantee`
    states the promise in full.

    Attributes:
        network: the surrogate. It is built from `program`, the saved form. A loaded certifier therefore
            computes exactly the calibrated numbers.
        program: the graph of the surrogate; None if it cannot be written as a program.
        probe: inputs and logits that show whether the network computes what was calibrated.
        input_shape: the shape of one input.
        smoothing: the smoothed classifier that certificates are about.
        calibration: the numbers of the calibration, such as the offset.
        evidence: the data that the offset was computed from.
        guarantee: what every certificate promises.
        class_names: the names of the classes in order.
        query: votes of the calibration inputs for `with_votes`; None if there are none.
        held_out: the calibration inputs and their votes, for an export; None if they are not known here, or
            larger than 100 MB.

    Example:
        certifier = rrise.load_certifier("runs/digits/certifier")
        certificates = certifier.certify(images)
        certificates.radius[certificates.issued]
    """

    network: nn.Module
    program: Program | None
    probe: Probe
    input_shape: tuple[int, ...]
    smoothing: Smoothing
    calibration: Calibration
    evidence: CalibrationEvidence
    guarantee: Guarantee
    class_names: tuple[str, ...]
    query: QueryEvidence | None = None
    held_out: HeldOut | None = None

    def __repr__(self) -> str:
        calibration = self.calibration
        return (
            f"SurrogateCertifier({len(self.class_names)} classes, inputs {self.input_shape}, "
            f"sigma={self.smoothing.sigma:g}, failure={level_text(calibration.failure)}, "
            f"score={calibration.score.name!r}, offset={calibration.offset:.4g}"
            f"{'' if calibration.threat is None else f', attack_radius={calibration.threat.radius:g}'})"
        )

    @property
    def runtime(self) -> str:
        """The runtime: `torch`, or `torch-cuda` on a GPU."""
        device = device_of(self.network).type
        return "torch" if device == "cpu" else f"torch-{device}"

    def certify(self, inputs: Any, *, batch_size: int = BATCH_SIZE) -> Certificates:
        """Certify inputs with one forward pass each.

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
        return self.answers(seen, batch_size=batch_size)

    def answers(self, batch: torch.Tensor, *, batch_size: int = BATCH_SIZE) -> Certificates:
        """Return the certificates for what the surrogate sees, such as inputs with their query noise."""
        if len(batch) == 0:
            probabilities = np.zeros((0, len(self.class_names)))
        else:
            probabilities = class_probabilities(self.network, batch, batch_size)
        top, label = top_of(probabilities), probabilities.argmax(axis=1)
        known = ~np.isnan(top)  # the largest of some numbers is NaN if one of them is
        bound = self.calibration.lower_bound(np.where(known, top, 0.0), label)
        return Certificates.from_bound(
            label,
            np.where(known, bound, 0.0),
            guarantee=self.guarantee,
            passes=1,
            probabilities=probabilities.astype(np.float32),
        )

    def __call__(self, inputs: Any, *, batch_size: int = BATCH_SIZE) -> Certificates:
        """Certify inputs, as `certify` does."""
        return self.certify(inputs, batch_size=batch_size)

    def with_votes(
        self,
        votes: int,
        base: nn.Module,
        *,
        tolerance: float | None = None,
        strength: float | None = None,
        seed: int | None = None,
    ) -> SurrogateWithVotes:
        """Return a certifier that adds votes of the base classifier to each query.

        Args:
            votes: the most votes per query, out of the numbers that were calibrated.
            base: the base classifier of this certifier.
            tolerance: stop a query's votes once its radius is known up to this standard deviation, in units
                of sigma. Default: every query gets all votes.
            strength: how many votes the surrogate counts as. Choose it without the calibration inputs.
                Default: `25 sqrt(votes)`, and at least 100.
            seed: makes the noise reproducible. Without a seed, every call draws fresh noise.

        Returns:
            A certifier with the same promise, and larger radii for more passes.

        Raises:
            MismatchError: `base` is not the base classifier of this certifier.
            SettingError: this number of votes was not calibrated.
        """
        return SurrogateWithVotes(self, votes, base, tolerance=tolerance, strength=strength, seed=seed)

    def against(
        self, attack_radius: float, *, failure: Level | None = None, tries: int | None = None
    ) -> "SurrogateCertifier":
        """Return this certifier for another attack radius, from the same calibration inputs.

        Choose the radius without looking at the calibration inputs. `attack_levels` lists what each costs.

        Args:
            attack_radius: how far somebody may have moved an input before it is certified, in L2.
            failure: the failure to promise under attack. Default: what follows from the natural one.
            tries: how many certificates somebody may ask for on behalf of one input. Default: as now.

        Returns:
            A certifier with the same surrogate and query noise; this one is unchanged.

        Raises:
            SettingError: it has no query noise, or too few calibration inputs for this failure.
        """
        threat = replace(self._threat(), radius=float(attack_radius))
        threat = threat if tries is None else replace(threat, tries=tries)
        calibration, evidence = refit_for(self.calibration, self.evidence, threat, failure)
        facts = self.guarantee.calibration
        assert facts is not None
        found = surrogate_guarantee(
            calibration, evidence, self.smoothing, facts.seen_in_training, source=facts.source
        )
        return replace(
            self, calibration=calibration, evidence=evidence, guarantee=on_device(found, self.network)
        )

    def attack_levels(self, radii: Sequence[float]) -> dict[float, float]:
        """Return the failure that each attack radius has at the present failure on natural inputs.

        Raises:
            SettingError: it has no query noise, or its promise does not carry over to attacked inputs.
        """
        natural, terms = self.calibration.natural_failure, terms_of(self.calibration)
        threats = {r: replace(self._threat(), radius=float(r)) for r in radii}
        for threat in threats.values():
            terms.check_promise(threat)
        return {r: float(threat.under_attack(natural)) for r, threat in threats.items()}

    def _threat(self) -> Threat:
        if self.calibration.threat is None:
            raise SettingError(
                "this certifier adds no noise to queries, so that nothing can be said about attacked inputs: "
                "calibrate it with query_noise"
            )
        return self.calibration.threat

    def to(self, device: str | torch.device) -> "SurrogateCertifier":
        """Return this certifier with its surrogate on a device, such as `cuda`.

        Args:
            device: a torch device.

        Returns:
            A certifier on that device; this one is unchanged.

        Raises:
            MismatchError: on that device, the surrogate does not reproduce the logits of its probe.
            SettingError: the device is not available.
        """
        try:
            network = copy.deepcopy(self.network).to(torch.device(device))
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise SettingError(f"cannot compute on {device}: {reason}") from None
        if not self.probe.agrees_with(network):
            raise MismatchError(
                f"the surrogate does not compute on {device} what it was calibrated with: its calibration "
                f"is not valid there"
            )
        return replace(self, network=network, guarantee=on_device(self.guarantee, network))

    def check_base(self, base: nn.Module) -> None:
        """Refuse a base classifier that this certifier was not calibrated for.

        Raises:
            MismatchError: it is another base classifier, or has other weights.
        """
        check_base(base, self.smoothing, self.probe.inputs)

    def save(self, folder: str | Path, *, inputs: bool = True) -> None:
        """Write the certifier to a self-contained folder; see `load_certifier`.

        Args:
            folder: where to write it.
            inputs: write the calibration inputs too, in a file of their own. `rrise export` needs them; the
                certifier does not.
        """
        from rrise.certifiers.folder import save_certifier

        target = as_path(folder, "a folder to write")
        certifier = self if self.runtime == "torch" else self.to("cpu")
        save_certifier(certifier if inputs else replace(certifier, held_out=None), target)


def on_device(guarantee: Guarantee, network: nn.Module, device: str | None = None) -> Guarantee:
    """Say in the guarantee that the surrogate was calibrated on a CPU, if it computes elsewhere.

    `device` is where a copy of the network will compute. Default: where it is.
    """
    device = device or device_of(network).type
    kept = tuple(one for one in guarantee.assumptions if one is not Assumption.OTHER_DEVICE)
    if device == "cpu":
        return replace(guarantee, assumptions=kept, form=None)
    form = FormFacts(f"torch-{device}", precision_name(network))
    return replace(guarantee, assumptions=(*kept, Assumption.OTHER_DEVICE), form=form)
