"""The limits of a service."""

from dataclasses import dataclass, fields
from typing import Annotated

from rrise.errors import SettingError
from rrise.settings import Setting, check_settings

SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class ServiceSettings:
    """Limits of a service; together they bound its memory."""

    max_batch: Annotated[int, Setting("Inputs that share a forward pass.", least=1)] = 64
    max_delay: Annotated[
        float, Setting("Seconds to wait for a batch to fill, unless requests come one at a time.", least=0)
    ] = 0.002
    queue: Annotated[
        int, Setting("Inputs that may wait; beyond, requests get 503 with `Retry-After`.", least=1)
    ] = 1024
    timeout: Annotated[
        float, Setting("Seconds to send a request in (beyond: 408), and to answer it in (504).", least=0)
    ] = 10.0
    max_inputs: Annotated[int, Setting("Inputs to a request; beyond: 413.", least=1)] = 256
    max_body: Annotated[
        int, Setting("Bytes to a request, counted while it streams in; beyond: 413.", least=1)
    ] = 16 * 2**20
    max_held: Annotated[int, Setting("Bytes that all requests together may hold; beyond: 503.", least=1)] = (
        256 * 2**20
    )
    verifications: Annotated[int, Setting("Inputs to verify at a time; beyond: 503.", least=1)] = 1
    max_votes: Annotated[int, Setting("Votes to a verification; beyond: 422.", least=1)] = 100_000
    fallback_votes: Annotated[
        int, Setting("Votes to an input after an alarm, where the policy is `monte-carlo`.", least=1)
    ] = 1_000
    client_tries: Annotated[
        int | None,
        Setting("Certificates that one client gets in a period; beyond: 429.", least=1, unset="no limit"),
    ] = None
    client_period: Annotated[float, Setting("Seconds of that period.", above=0)] = 3600.0
    token: Annotated[
        str | None,
        Setting(
            f"The token that requests need, at least {SHORTEST_TOKEN} characters; the option names its file.",
            option="--token-file",
        ),
    ] = None

    def __post_init__(self) -> None:
        check_settings(self)
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


def _check_token(token: str | None) -> None:
    if token is None:
        return
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingError(
            f"expected a token of at least {SHORTEST_TOKEN} printable ASCII characters without spaces, got "
            f"{len(token)} characters"
        )
