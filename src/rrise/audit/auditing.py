"""The audit: attack a certifier as hard as one can, and count which certificates are wrong.

A certificate of an attacked input is about the smoothed classifier around *that* input. Fresh votes judge it:
it is wrong if even the upper confidence bound of the votes for its class is below the certified lower bound.

The promise of a certifier with an attack radius is proved for a larger event: the bound before it was
shortened is wrong at the *natural* input. Votes of the natural inputs judge that too.
"""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import nn

from rrise.audit.attacks import ATTACKS, Attack
from rrise.audit.findings import NATURAL, Audit, Finding, Worst
from rrise.audit.victim import Effort, Moved, Victim, threat_of_certifier
from rrise.certifiers.cascade import Cascade
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import Certifier, check_base, typical_inputs
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.inputs import as_inputs
from rrise.defaults import DOUBT
from rrise.errors import InputError, SettingError, did_you_mean
from rrise.models.evaluating import evaluating
from rrise.models.inspection import device_of
from rrise.progress import OnProgress
from rrise.seeds import derive_seed
from rrise.statistics import clopper_pearson_upper
from rrise.votes.array import votes_for
from rrise.votes.collect import collect_votes

VOTES = 1_000
_WORST = 8
_NEARLY_ALL = 0.9
"""The threshold to assume where nothing is issued."""


def audit(
    certifier: Certifier,
    base: nn.Module,
    inputs: Any,
    *,
    radii: Sequence[float] | None = None,
    attacks: Sequence[str] | None = None,
    votes: int = VOTES,
    effort: Effort | None = None,
    seed: int | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Audit:
    """Attack a certifier, and count the wrong certificates.

    Args:
        certifier: any certifier. Attacks that need the surrogate's gradients need one in torch.
        base: its base classifier; attacks are computed on its device.
        inputs: natural inputs, which did not calibrate the certifier.
        radii: how far attacks may move an input, in L2. Default: half of sigma, sigma, and the certifier's
            attack radius.
        attacks: names of attacks. Default: all that can be done.
        votes: fresh votes that judge each issued certificate.
        effort: how hard the attacks try.
        seed: makes attacks and votes reproducible. Default: fresh randomness.
        on_progress: called with 1 for natural inputs and for each attack and radius, when it is done.

    Returns:
        The findings, natural inputs first.

    Raises:
        InputError: the inputs are invalid.
        MismatchError: `base` is not the base classifier of this certifier.
        SettingError: an attack is unknown or impossible, or a number is invalid.
    """
    smoothing, tries = certifier.smoothing, effort or Effort()
    given = as_inputs(inputs, shape=certifier.input_shape, input_range=smoothing.input_range)
    if len(given) == 0:
        raise InputError("expected at least one input to attack, got none")
    if votes < 1:
        raise SettingError(f"expected at least one vote for each certificate, got {votes}")
    wanted = radii_of(certifier, radii)
    if bad := [radius for radius in wanted if not radius > 0 or radius == float("inf")]:
        raise SettingError(f"expected positive radii, got {bad[0]}")
    check_base(base, smoothing, typical_inputs(certifier.input_shape, smoothing.input_range))
    device = device_of(base)
    answering = certifier.to(device) if isinstance(certifier, SurrogateCertifier) else certifier
    surrogate = answering.network if isinstance(answering, SurrogateCertifier) else None
    chosen, left_out = attacks_on(certifier, attacks)
    start = secrets.randbits(62) if seed is None else seed
    natural = answering.certify(given)
    judge = _Judge(certifier, base, given, natural, votes=votes, seed=start)
    findings = [judge.finding(NATURAL, 0.0, Moved(given, natural))]
    on_progress(1)
    threshold = _threshold(natural)
    with evaluating(base):
        for attack in chosen:
            for radius in wanted:
                generator = torch.Generator().manual_seed(derive_seed(start, attack.name, str(radius)))
                victim = Victim(answering, base, surrogate, threshold, generator)
                moved = attack.move(victim, given.to(device), radius, tries)
                if moved.certificates is None:
                    moved = replace(moved, certificates=answering.certify(moved.inputs.cpu()))
                findings.append(judge.finding(attack.name, radius, moved))
                on_progress(1)
    guarantee, threat = certifier.guarantee, judge.threat
    return Audit(
        tuple(findings),
        repr(certifier),
        guarantee.words.promise,
        None if guarantee.failure is None else float(guarantee.failure),
        votes,
        tries,
        left_out,
        guarantee.kind,
        attack_radius=0.0 if threat is None else threat.radius,
        tries=1 if threat is None else threat.tries,
    )


class _Judge:
    """Judges certificates by fresh votes of the base classifier."""

    def __init__(
        self,
        certifier: Certifier,
        base: nn.Module,
        inputs: torch.Tensor,
        natural: Certificates,
        *,
        votes: int,
        seed: int,
    ) -> None:
        self.smoothing, self.base, self.inputs = certifier.smoothing, base, inputs
        self.natural, self.votes, self.seed = natural, votes, derive_seed(seed, "judge")
        self.threat = threat_of_certifier(certifier)
        first = certifier.first if isinstance(certifier, Cascade) else certifier
        self.method = first.guarantee.method

    def finding(self, attack: str, radius: float, made: Moved) -> Finding:
        """Count the wrong certificates of moved inputs."""
        found, moved = made.certificates, made.inputs.cpu()
        assert found is not None
        places = np.flatnonzero(found.issued)
        bound, share, upper = found.lower_bound[places], np.zeros(0), np.zeros(0)
        if len(places):
            counts = self._votes(moved[torch.from_numpy(places)], f"audit-{attack}-{radius:g}")
            agreeing = votes_for(counts, found.label[places])
            share = agreeing / self.votes
            upper = clopper_pearson_upper(agreeing, self.votes, DOUBT)
        order = np.argsort(share - bound)[:_WORST]
        worst = [
            Worst(
                int(place),
                self.inputs[place].numpy(),
                moved[place].numpy(),
                int(self.natural.label[place]),
                int(found.label[place]),
                float(found.lower_bound[place]),
                float(found.radius[place]),
                float(share[row]),
                bool(upper[row] < bound[row]),
            )
            for row, place in zip(order, places[order], strict=True)
        ]
        return Finding(
            attack,
            radius,
            len(found),
            len(places),
            int((upper < bound).sum()),
            int((share < bound).sum()),
            int((found.label != self.natural.label).sum()),
            tuple(worst),
            tries=made.tries,
            wrong_before=self._wrong_before(found),
        )

    def _wrong_before(self, found: Certificates) -> int | None:
        """Count the bounds that, before they were shortened, are wrong at the natural inputs.

        Votes of a cascade are for the moved input, so their bounds do not count.
        """
        if self.threat is None or self.threat.radius == 0:
            return None
        mine = found.issued if found.methods is None else found.issued & (found.methods == self.method)
        agreeing = votes_for(self._natural_votes, found.label)[mine]
        bound = special.ndtr(special.ndtri(found.lower_bound[mine]) + self.threat.shift)
        return int((clopper_pearson_upper(agreeing, self.votes, DOUBT) < bound).sum())

    @cached_property
    def _natural_votes(self) -> NDArray[np.int64]:
        return self._votes(self.inputs, "audit-before")

    def _votes(self, inputs: torch.Tensor, split: str) -> NDArray[np.int64]:
        counts = collect_votes(
            self.base,
            inputs,
            sigma=self.smoothing.noise,
            n=self.votes,
            seed=self.seed,
            split=split,
            input_range=self.smoothing.input_range,
            precision=self.smoothing.precision,
        )
        return np.asarray(counts)


def radii_of(certifier: Certifier, radii: Sequence[float] | None) -> list[float]:
    """Return the radii to attack at: those given, or the attack radius, half of sigma and sigma."""
    sigma, threat = certifier.smoothing.sigma, threat_of_certifier(certifier)
    own = {threat.radius} - {0.0} if threat is not None else set()
    return list(radii) if radii else sorted({sigma / 2, sigma} | own)


def attacks_on(certifier: Certifier, names: Sequence[str] | None) -> tuple[list[Attack], tuple[str, ...]]:
    """Return the attacks to make, and the names of those that this certifier does not allow."""
    gradients = isinstance(certifier, SurrogateCertifier)
    for name in names or ():
        if name not in ATTACKS:
            raise SettingError(
                f"expected attacks out of {', '.join(ATTACKS)}; got {name!r}{did_you_mean(name, ATTACKS)}"
            )
        if ATTACKS[name].needs_gradients and not gradients:
            raise SettingError(
                f"the attack {name!r} needs gradients of the surrogate: pass the certifier that was exported"
            )
    wanted = [ATTACKS[name] for name in names or ATTACKS]
    possible = [attack for attack in wanted if gradients or not attack.needs_gradients]
    return possible, tuple(attack.name for attack in wanted if attack not in possible)


def _threshold(natural: Certificates) -> float:
    """Return the smallest top probability with which a natural input got a radius."""
    if natural.probabilities is None or not natural.issued.any():
        return _NEARLY_ALL
    return float(natural.probabilities.max(axis=1)[natural.issued].min())
