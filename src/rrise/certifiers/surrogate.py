"""The certifier of the paper: one forward pass of a calibrated surrogate per input."""

import copy
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.guarantee import Guarantee, surrogate_guarantee
from rrise.data.inputs import InputRange, as_inputs, check_input_range, input_digests
from rrise.errors import InputError, MismatchError, RriseError, SettingError
from rrise.models.checks import check_is_function, check_module
from rrise.models.evaluating import evaluating
from rrise.models.export import NotAProgramError, write_program
from rrise.models.inference import BATCH_SIZE, top_prediction
from rrise.models.inspection import precision_name, precision_of, uncompiled
from rrise.models.logits import logits_of
from rrise.models.precision import identity_at
from rrise.models.program import Program
from rrise.statistics import Calibration, CalibrationEvidence, Level, check_sigma, fit_calibration, level_text
from rrise.training.surrogate import Surrogate
from rrise.votes.array import Smoothing, Votes, check_same_inputs, check_votes, votes_for


@dataclass(frozen=True, eq=False)
class Probe:
    """Two typical inputs, averages over halves of the calibration set, and the surrogate's logits there.

    They tell whether a loaded surrogate still computes what was calibrated.
    """

    inputs: torch.Tensor
    logits: torch.Tensor

    @classmethod
    def of(cls, network: nn.Module, inputs: torch.Tensor) -> "Probe":
        """Take the probe of a network in evaluation mode."""
        halves = torch.stack([half.mean(dim=0) for half in (inputs[::2], inputs[1::2]) if len(half)])
        with evaluating(network):
            return cls(halves, logits_of(network, halves, "surrogate"))

    def agrees_with(self, network: nn.Module) -> bool:
        """Tell whether a network computes the same logits, up to rounding."""
        with evaluating(network):
            logits = logits_of(network, self.inputs, "surrogate")
        if logits.shape != self.logits.shape:
            return False
        return torch.allclose(logits.double(), self.logits.double(), rtol=1e-3, atol=1e-4, equal_nan=True)


@dataclass(frozen=True, eq=False)
class Certifier:
    """A calibrated surrogate: call it with a batch of inputs to get their certificates.

    `network` is built from `program`, the form that is saved, so that a loaded certifier computes the very
    numbers that were calibrated; it runs on the CPU. `program` is None for a surrogate that has no such form.

    Guarantee: for an input exchangeable with the calibration inputs, the probability that a radius is
    issued and wrong is at most `calibration.failure`; `guarantee` says it in full.
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

    def __repr__(self) -> str:
        calibration = self.calibration
        return (
            f"Certifier({len(self.class_names)} classes, inputs {self.input_shape}, "
            f"sigma={self.smoothing.sigma:g}, failure={level_text(calibration.failure)}, "
            f"score={calibration.score!r}, offset={calibration.offset:.4g})"
        )

    def __call__(self, images: Any, *, batch_size: int = BATCH_SIZE) -> Certificates:
        """Certify inputs `[inputs, *input_shape]` with one forward pass each."""
        inputs = as_inputs(images, shape=self.input_shape, input_range=self.smoothing.input_range)
        label, top_probability = top_prediction(self.network, inputs, batch_size)
        return Certificates.from_bound(
            label,
            self.calibration.lower_bound(top_probability),
            sigma=self.smoothing.sigma,
            guarantee=self.guarantee,
            passes=1,
        )

    def certify(self, images: Any, *, batch_size: int = BATCH_SIZE) -> Certificates:
        """Certify inputs, as calling does: the name that every certifier has for it."""
        return self(images, batch_size=batch_size)

    def check_base(self, base: nn.Module) -> None:
        """Refuse a base classifier that this certifier was not calibrated for."""
        given = identity_at(base, self.smoothing.precision, self.probe.inputs, "base classifier")
        if given != self.smoothing.base:
            raise MismatchError(
                f"this certifier was calibrated for the base classifier {self.smoothing.base[:12]}, not for "
                f"{given[:12]}: its radii say nothing about that one"
            )

    def save(self, folder: str | Path) -> None:
        """Write the certifier to a folder that can be copied and used alone; see `load_certifier`."""
        from rrise.certifiers.folder import save_certifier

        save_certifier(self, Path(folder))


def calibrate(
    surrogate: nn.Module,
    images: Any,
    votes: Any,
    *,
    sigma: float,
    failure: Level = 0.05,
    beta: Level = 0.001,
    score: str = "probit",
    input_range: InputRange = (0.0, 1.0),
    base: nn.Module | None = None,
    class_names: tuple[str, ...] | list[str] | None = None,
    allow_seen: bool = False,
    batch_size: int = BATCH_SIZE,
) -> Certifier:
    """Calibrate a surrogate on held-out inputs and their votes; done once.

    `failure = beta + gamma` bounds the probability of a wrong certificate: `beta` pays for the noise of
    the votes, `gamma` for the surrogate's errors. The inputs must be drawn like those to be certified
    later and must not have been used to train the surrogate; inputs that were are refused, unless
    `allow_seen` says that equal inputs do occur naturally. `votes` belong to the base classifier the
    surrogate stands for; `base` checks that, and is needed for a surrogate not made by `train_surrogate`
    with votes that do not know their origin. `score` is `probit` or, as in the paper, `additive`.
    """
    check_module(surrogate, "surrogate")
    inputs = as_inputs(images, input_range=check_input_range(input_range))
    if len(inputs) == 0:
        raise InputError("the calibration set is empty: expected held-out inputs and their votes")
    digests = input_digests(inputs)
    precision = votes.smoothing.precision if isinstance(votes, Votes) and votes.smoothing else None
    given = None if base is None else identity_at(base, precision, inputs, "base classifier")
    smoothing = _common_smoothing(surrogate, votes, given, sigma, input_range)
    seen = _seen_in_training(surrogate, digests, allow_seen)
    network, program = _frozen(surrogate, inputs)
    label, top_probability = top_prediction(network, inputs, batch_size)
    probe = Probe.of(network, inputs)
    classes = probe.logits.shape[1]
    counts, n = check_votes(votes, len(inputs), classes)
    check_same_inputs(votes, digests)
    calibration, evidence = fit_calibration(
        top_probability, votes_for(counts, label), n, failure=failure, beta=beta, score=score
    )
    return Certifier(
        network=network,
        program=program,
        probe=probe,
        input_shape=tuple(inputs.shape[1:]),
        smoothing=smoothing,
        calibration=calibration,
        evidence=evidence,
        guarantee=surrogate_guarantee(calibration, evidence, smoothing, seen),
        class_names=_class_names(class_names, classes),
    )


def _frozen(surrogate: nn.Module, inputs: torch.Tensor) -> tuple[nn.Module, Program | None]:
    """Return the surrogate in the form it is saved in, or a copy of it and a warning."""
    network = surrogate.network if isinstance(surrogate, Surrogate) else uncompiled(surrogate)
    network = copy.deepcopy(network)
    network = network.cpu().eval().requires_grad_(False)
    sample = torch.cat([inputs[:4], inputs[:1]])
    with evaluating(network):
        check_is_function(network, inputs, "surrogate")
        expected = logits_of(network, sample, "surrogate")
    try:
        program = write_program(network, sample.to(precision_of(network), copy=True))
        return _module_of(program, inputs, sample, expected), program
    except NotAProgramError as reason:
        warnings.warn(
            f"the surrogate cannot be written as a program ({reason}): it works here, but loading it from "
            f"a folder will need load_certifier(folder, surrogate=a module of its class)",
            stacklevel=3,
        )
        return network, None


def _module_of(
    program: Program, inputs: torch.Tensor, sample: torch.Tensor, expected: torch.Tensor
) -> nn.Module:
    """Build the module of a program and check that it computes what the surrogate computed."""
    name = "program of the surrogate"
    try:
        module = program.module()
        with evaluating(module):
            check_is_function(module, inputs, name)
            got = logits_of(module, sample, name)
    except RriseError as error:
        raise NotAProgramError(str(error)) from error
    same_type = got.dtype == expected.dtype
    if not same_type or not torch.allclose(got, expected, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise NotAProgramError("its graph does not compute what the module computes")
    return module


def _common_smoothing(
    surrogate: nn.Module, votes: Any, base: str | None, sigma: float, input_range: InputRange
) -> Smoothing:
    """Return the one smoothed classifier that surrogate, votes and base belong to, or refuse."""
    of_votes = votes.smoothing if isinstance(votes, Votes) else None
    if base is not None:
        identity = base
    elif isinstance(surrogate, Surrogate):
        identity = surrogate.base_fingerprint
    elif of_votes is not None:
        identity = of_votes.base
    else:
        raise MismatchError(
            "cannot tell which base classifier these votes are of: pass base=, or votes from collect_votes"
        )
    precision = of_votes.precision if of_votes else precision_name(surrogate)
    wanted = Smoothing(identity, check_sigma(sigma), check_input_range(input_range), precision)
    if of_votes is not None:
        wanted.check_same(of_votes, "this calibration", "the votes")
    if isinstance(surrogate, Surrogate):
        if surrogate.base_fingerprint != identity:
            raise MismatchError("the surrogate was trained for another base classifier than the one given")
        if surrogate.smoothing is not None:
            wanted.check_same(surrogate.smoothing, "this calibration", "the surrogate's training votes")
    return wanted


def _seen_in_training(surrogate: nn.Module, digests: list[bytes], allow_seen: bool) -> int:
    """Return how many calibration inputs the surrogate was trained on; refuse any unless allowed."""
    if not isinstance(surrogate, Surrogate):
        return 0
    seen = sum(digest in surrogate.seen for digest in digests)
    if seen and not allow_seen:
        raise MismatchError(
            f"{seen} of {len(digests)} calibration inputs were used to train the surrogate: the guarantee "
            f"needs held-out inputs (allow_seen=True if equal inputs occur naturally in this data)"
        )
    return seen


def _class_names(names: tuple[str, ...] | list[str] | None, classes: int) -> tuple[str, ...]:
    if names is None:
        return tuple(str(index) for index in range(classes))
    if len(names) != classes:
        raise SettingError(f"expected {classes} class names, got {len(names)}")
    return tuple(str(name) for name in names)
