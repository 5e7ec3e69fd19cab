"""What a service may use, and what it does when something is too much."""

import math
from dataclasses import dataclass, fields
from typing import Any

from rrise.errors import SettingError
from rrise.votes.plan import whole_number

SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class ServiceSettings:
    """Limits of a service; together they bound its memory.

    `max_batch` inputs share a forward pass, for which the first of them waits at most `max_delay` seconds;
    `queue` inputs may wait. A request holds at most `max_inputs` inputs and `max_body` bytes, all requests
    together `max_held` bytes, and each is answered within `timeout` seconds or refused; so long may a
    client also take to send it. `verifications` inputs are voted on at a time, with up to `max_votes` votes;
    `fallback_votes` is what the policy `monte-carlo` spends on an input after an alarm.
    """

    max_batch: int = 64
    max_delay: float = 0.002
    queue: int = 1024
    timeout: float = 10.0
    max_inputs: int = 256
    max_body: int = 16 * 2**20
    max_held: int = 256 * 2**20
    verifications: int = 1
    max_votes: int = 100_000
    fallback_votes: int = 1_000
    token: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, int):
                _check_count(field.name, value)
            elif isinstance(field.default, float):
                _check_seconds(field.name, value)
        for smaller, larger in (
            ("max_batch", "queue"),
            ("max_inputs", "queue"),
            ("max_body", "max_held"),
        ):
            if getattr(self, smaller) > getattr(self, larger):
                raise SettingError(
                    f"expected {smaller} to be at most {larger}, got {getattr(self, smaller)} and "
                    f"{getattr(self, larger)}"
                )
        _check_token(self.token)

    def __repr__(self) -> str:
        shown = {field.name: getattr(self, field.name) for field in fields(self)}
        shown["token"] = None if self.token is None else "…"
        return f"ServiceSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _check_count(name: str, value: Any) -> None:
    if whole_number(value, name) < 1:
        raise SettingError(f"expected {name} to be at least 1, got {value}")


def _check_seconds(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise SettingError(f"expected {name} in seconds, 0 or more; got {value!r}")


def _check_token(token: str | None) -> None:
    if token is None:
        return
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingError(
            f"expected a token of at least {SHORTEST_TOKEN} printable ASCII characters without spaces, got "
            f"{len(token)} characters"
        )
