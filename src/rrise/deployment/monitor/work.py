"""What a monitor writes next: queries that it saw, and audits that began or ended."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.deployment.monitor.store import Audit, AuditOutcome
from rrise.errors import SettingError


@dataclass(eq=False)
class Work:
    """The content of the next transaction."""

    tops: list[NDArray[np.float32]] = field(default_factory=list)
    begun: list[Audit] = field(default_factory=list)
    outcomes: list[AuditOutcome] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    dropped: int = 0
    missed: int = 0

    def __bool__(self) -> bool:
        return any(vars(self).values())


def probabilities_of(certificates: Certificates) -> NDArray[np.float32]:
    """Return the surrogate's class probabilities; certificates without them cannot be monitored."""
    if certificates.probabilities is None:
        raise SettingError("expected certificates with the surrogate's class probabilities, got none")
    return certificates.probabilities


def audit_of(
    inputs: NDArray[np.float32], certificates: Certificates, row: int, number: int, now: float
) -> Audit:
    """Return the audit of one query of a batch."""
    return Audit(
        number=number,
        time=now,
        label=int(certificates.label[row]),
        top_probability=float(probabilities_of(certificates)[row].max()),
        lower_bound=float(certificates.lower_bound[row]),
        issued=bool(certificates.issued[row]),
        input=np.array(inputs[row], dtype=np.float32),
    )
