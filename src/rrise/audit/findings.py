"""What an audit found: counts of wrong certificates by attack and radius."""

from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from rrise.audit.victim import Effort
from rrise.certifiers.guarantee import Kind
from rrise.defaults import DOUBT
from rrise.files import Json
from rrise.statistics import clopper_pearson_lower, clopper_pearson_upper

NATURAL = "natural"
"""Inputs that nobody moved."""


@dataclass(frozen=True, eq=False)
class Worst:
    """A wrong certificate, or the one nearest to it: its input, the moved input, and what was found."""

    input: int
    natural: NDArray[np.float32]
    moved: NDArray[np.float32]
    natural_label: int
    label: int
    lower_bound: float
    radius: float
    share: float
    wrong: bool


@dataclass(frozen=True, eq=False)
class Finding:
    """What one attack at one radius did.

    Attributes:
        attack: the attack, or `natural`.
        radius: how far inputs were moved at most.
        inputs: the number of inputs.
        issued: how many certificates were issued.
        wrong: how many of them fresh votes prove wrong.
        above: how many of them have a bound above the share of the fresh votes.
        changed: how many labels the attack changed.
        worst: the issued certificates with the largest excess over the votes.
        tries: how many certificates the attack asked for, for each input, to use the best.
        wrong_before: how many bounds, before they were shortened by the certifier's attack radius, are wrong
            at the natural inputs. This is what the promise is proved for. None if there is no attack radius.
    """

    attack: str
    radius: float
    inputs: int
    issued: int
    wrong: int
    above: int
    changed: int
    worst: tuple[Worst, ...] = ()
    tries: int = 1
    wrong_before: int | None = None

    @property
    def failure(self) -> tuple[float, float, float]:
        """Share of inputs with an issued and wrong certificate, and its 95 % interval."""
        return _with_interval(self.wrong, self.inputs)

    @property
    def failure_of_issued(self) -> tuple[float, float, float]:
        """Share of wrong certificates among the issued ones, and its 95 % interval."""
        return _with_interval(self.wrong, self.issued)

    def to_json(self) -> Json:
        """Return the counts, the shares with their intervals, and the worst cases without their inputs."""
        counts = {name: value for name, value in asdict(self).items() if name != "worst"}
        cases = [
            {name: getattr(case, name) for name in Worst.__dataclass_fields__ if name not in _ARRAYS}
            for case in self.worst
        ]
        return {
            **counts,
            "failure": list(self.failure),
            "failure_of_issued": list(self.failure_of_issued),
            "worst": cases,
        }

    @classmethod
    def from_json(cls, stored: Json) -> "Finding":
        """Read what `to_json` returns; the worst cases have no inputs there, and are left out."""
        counts = {name: stored[name] for name in cls.__dataclass_fields__ if name != "worst"}
        return cls(**counts)


_ARRAYS = ("natural", "moved")


@dataclass(frozen=True, eq=False)
class Audit:
    """What all attacks did to a certifier.

    Attributes:
        findings: one for natural inputs, then one for each attack and radius.
        certifier: the certifier in words.
        promise: what its guarantee promises.
        promised: the promised failure; None if nothing is promised.
        votes: fresh votes that judged each issued certificate.
        effort: how hard the attacks tried.
        left_out: attacks that need gradients which this certifier does not have.
        kind: what sort of promise it is.
        attack_radius: how far inputs may be moved such that the promise still holds.
        tries: how many certificates may be asked for, for each input, such that it still holds.
    """

    findings: tuple[Finding, ...]
    certifier: str
    promise: str
    promised: float | None
    votes: int
    effort: Effort = field(default_factory=Effort)
    left_out: tuple[str, ...] = ()
    kind: Kind = Kind.MARGINAL
    attack_radius: float = 0.0
    tries: int = 1

    def covers(self, finding: Finding) -> bool:
        """Tell whether the promise is about this finding: not moved too far, nor with too many tries.

        A promise for each input covers any move.
        """
        near = self.kind is Kind.PER_INPUT or finding.radius <= self.attack_radius
        return near and finding.tries <= self.tries

    def share(self, finding: Finding) -> tuple[int, int]:
        """Return how many certificates are wrong, of how many that the promise counts."""
        return finding.wrong, finding.issued if self.kind is Kind.ISSUED else finding.inputs

    def exceeding(self, *, covered: bool) -> Finding | None:
        """Return the finding that is furthest above the promised failure; None if none is proved to be above.

        All findings together have 5 % to be there by chance. A right certificate counts as wrong with
        probability `DOUBT`.
        """
        if self.promised is None:
            return None
        findings = [finding for finding in self.findings if self.covers(finding) == covered]
        least = [
            float(clopper_pearson_lower(wrong, of, 0.05 / len(findings))) if of else 0.0
            for wrong, of in map(self.share, findings)
        ]
        if not findings or max(least) <= self.promised + DOUBT:
            return None
        return findings[int(np.argmax(least))]

    def to_json(self) -> Json:
        """Return everything but the inputs as JSON."""
        return {
            **{name: getattr(self, name) for name in _OWN},
            "effort": asdict(self.effort),
            "left_out": list(self.left_out),
            "kind": self.kind.value,
            "findings": [finding.to_json() for finding in self.findings],
        }

    @classmethod
    def from_json(cls, stored: Json) -> "Audit":
        """Read what `to_json` returns, without the worst cases."""
        own = {name: stored[name] for name in _OWN}
        findings = tuple(map(Finding.from_json, stored["findings"]))
        return cls(
            findings,
            **own,
            effort=Effort(**stored["effort"]),
            left_out=tuple(stored["left_out"]),
            kind=Kind(stored.get("kind", Kind.MARGINAL)),
        )


_OWN = ("certifier", "promise", "promised", "votes", "attack_radius", "tries")


def _with_interval(count: int, of: int) -> tuple[float, float, float]:
    """Return a share and its two-sided 95 % Clopper–Pearson interval."""
    if of == 0:
        return 0.0, 0.0, 1.0
    low, high = clopper_pearson_lower(count, of, 0.025), clopper_pearson_upper(count, of, 0.025)
    return count / of, float(low), float(high)
