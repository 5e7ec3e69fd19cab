"""The measured time of a forward pass: the median of many turns, with their spread."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rrise.evaluation.measure.number_text import milliseconds

_WIDEST = 1.25
"""A time is steady if the upper quartile of its turns is at most this multiple of the lower one."""
_LONGEST_WAIT = 0.1
"""A time is steady if the thread waited for a core for at most this share of it."""


@dataclass(frozen=True)
class PassTime:
    """Seconds per input of a forward pass.

    Attributes:
        seconds: the median of the turns; in earlier evidence, which has nothing else, the fastest.
        lower: the lower quartile of the turns.
        upper: the upper quartile.
        turns: how many turns were timed.
        waited: the share of the time in which the thread waited for a core; None where that is unknown.
    """

    seconds: float
    lower: float | None = None
    upper: float | None = None
    turns: int | None = None
    waited: float | None = None

    @classmethod
    def of_turns(cls, seconds: Sequence[float], waited: float | None = None) -> "PassTime":
        """Return median and quartiles of some turns.

        >>> PassTime.of_turns([4.0, 1.0, 2.0, 3.0, 50.0])
        PassTime(seconds=3.0, lower=2.0, upper=4.0, turns=5, waited=None)
        """
        lower, median, upper = map(float, np.quantile(seconds, [0.25, 0.5, 0.75]))
        return cls(median, lower, upper, len(seconds), waited)

    @classmethod
    def from_json(cls, value: Any) -> "PassTime":
        """Read what `to_json` returned; a plain number is what earlier versions stored."""
        return cls(**value) if isinstance(value, dict) else cls(value)

    def to_json(self) -> Any:
        """Return the fields; a time without turns remains a plain number."""
        return self.seconds if self.turns is None else asdict(self)

    @property
    def problem(self) -> str:
        """Why the time cannot be trusted; empty if it can."""
        if self.waited is not None and self.waited > _LONGEST_WAIT:
            share = f"{100 * self.waited:.0f} %"
            return f"the machine was busy, and the pass waited for a core for {share} of the time"
        if self.lower is not None and self.upper is not None and self.upper > _WIDEST * self.lower:
            middle = f"{milliseconds(self.lower)} to {milliseconds(self.upper)} ms"
            return f"half of the turns lie outside {middle}"
        return ""

    @property
    def text(self) -> str:
        """The time in milliseconds, with the middle half of the turns.

        >>> PassTime(0.00251, 0.0024, 0.0026, 50).text, PassTime(0.00251).text
        ('2.51 (2.4 to 2.6)', '2.51')
        """
        if self.lower is None or self.upper is None:
            return milliseconds(self.seconds)
        spread = f"{milliseconds(self.lower)} to {milliseconds(self.upper)}"
        return "not steady" if self.problem else f"{milliseconds(self.seconds)} ({spread})"
