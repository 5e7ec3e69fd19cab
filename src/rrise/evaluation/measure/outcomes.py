"""What a method gave on the test inputs: its settings, its certificates and what it cost before."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rrise.certifiers.certificates import Certificates


@dataclass(frozen=True)
class MethodSetting:
    """Which method, by the name it is registered under, with which settings.

    `variant` is the paper's way to write settings.

    Variants: `n10000` (Baseline 1, two-stage), `k10000_decline0.01` (Baseline 2), `n10000_tol0.01` (Baseline
    3, sequential), `trainhead_initbase_n10000`, `trainall_initbase_n10000`, `trainall_initrandom_n10000`
    (RRISE), `init0_n10000` (random) and `init1_n10000` (base) for Baseline 4.
    """

    method: str
    variant: str
    budget: int
    """Votes: the largest number per test input, or those per training input of a surrogate's targets."""
    failure: str
    """Total failure of a surrogate, alpha of a method that votes; as text, such as `0.25`."""
    score: str = ""
    """Of a surrogate: `additive`, `probit`, or `none` where it is not calibrated."""


@dataclass(frozen=True)
class Offline:
    """Passes before the first query; one backward pass counts as two. All zero for methods that vote."""

    targets: int = 0
    training: int = 0
    """To the selected epoch, counted per example."""
    calibration: int = 0
    training_inputs: int = 0
    batch_size: int = 0
    epoch: int = 0
    """The selected epoch: with the two before, what the paper counts instead."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """One method at one setting: certificates of the test inputs, in their order."""

    setting: MethodSetting
    certificates: "Certificates"
    offset: float | None = None
    offline: Offline = Offline()
    seconds: float | None = None
    """Per input: passes × time per pass, where that time was measured and is steady."""
