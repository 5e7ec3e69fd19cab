"""The monitor, as the service uses it."""

import dataclasses
import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.deployment.monitor.settings import WARN
from rrise.files import Json


class QueryMonitor(Protocol):
    """Detects that queries no longer look like the calibration inputs; never fails or blocks."""

    def observe(self, inputs: NDArray[np.float32], certificates: Certificates) -> object:
        """Record queries and the surrogate's answers."""

    def state(self) -> Any:
        """Return a dataclass with at least `alarm`, whether there is one, and `policy`.

        It may also have `errors`, their number, and `writes`: whether it can write down what it sees.
        """


class Alarm:
    """The alarm of a monitor; never raised without a monitor."""

    def __init__(self, monitor: QueryMonitor | None) -> None:
        self.monitor = monitor
        self.policy: str = WARN if monitor is None else monitor.state().policy

    @property
    def raised(self) -> bool:
        """Whether the monitor has raised an alarm."""
        return self.monitor is not None and bool(self.monitor.state().alarm)

    @property
    def errors(self) -> int:
        """How many errors the monitor had since the start."""
        return 0 if self.monitor is None else getattr(self.monitor.state(), "errors", 0)

    @property
    def trouble(self) -> str | None:
        """Why the service does not work as promised; None if it does."""
        if self.raised:
            return "the monitor has raised an alarm: see /v1/monitor"
        if self.monitor is not None and not getattr(self.monitor.state(), "writes", True):
            return "the monitor cannot write to its database: see the log of the service"
        return None

    def state(self) -> Json:
        """Return the state of the monitor as JSON."""
        state: Json = {} if self.monitor is None else _finite(dataclasses.asdict(self.monitor.state()))
        return state


def _finite(value: Any) -> Any:
    """Replace values that JSON cannot represent, such as the logarithm of 0, by null."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
