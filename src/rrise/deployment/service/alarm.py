"""The monitor as a service sees it."""

import dataclasses
import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.deployment.monitor.settings import WARN
from rrise.files import Json


class QueryMonitor(Protocol):
    """What notices that queries no longer look like the calibration inputs; never fails, never waits."""

    def observe(self, inputs: NDArray[np.float32], certificates: Certificates) -> object:
        """Take note of what was asked and what the surrogate answered."""

    def state(self) -> Any:
        """Return a dataclass that says whether there is an `alarm`, and which `policy` then holds."""


class Alarm:
    """The alarm of a monitor; without a monitor there is never one."""

    def __init__(self, monitor: QueryMonitor | None) -> None:
        self.monitor = monitor
        self.policy: str = WARN if monitor is None else monitor.state().policy

    @property
    def raised(self) -> bool:
        """Whether the monitor has raised an alarm."""
        return self.monitor is not None and bool(self.monitor.state().alarm)

    def state(self) -> Json:
        """Return what the monitor knows, as JSON."""
        state: Json = {} if self.monitor is None else _finite(dataclasses.asdict(self.monitor.state()))
        return state


def _finite(value: Any) -> Any:
    """Replace what JSON cannot write, such as the logarithm of nothing, by null."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
