"""How many certificates one client may ask for.

The promise for attacked inputs is about a number of tries. The service cannot know which queries are tries
for one natural input, so it limits all certificates of a client in a period.
"""

import ipaddress
import time
from collections.abc import Callable

from rrise.deployment.service.refusals import RefusedError

MOST_CLIENTS = 100_000
"""Clients that are remembered; beyond, the one whose period began first is forgotten."""
_IPV6_PREFIX = 64
"""A single client usually has all IPv6 addresses with this prefix."""


class ClientLimit:
    """Counts the certificates of each client, in periods that begin with its first one.

    Args:
        most: certificates of one client in a period; None: no limit.
        period: the length of a period, in seconds.
        clock: tells the time in seconds.
    """

    def __init__(self, most: int | None, period: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._period, self._clock = most, period, clock
        self._used: dict[str, tuple[float, int]] = {}

    def take(self, host: str | None, certificates: int) -> None:
        """Count certificates before they are made, or refuse the request with 429."""
        if self._most is None:
            return
        if certificates > self._most:
            raise RefusedError(
                429, f"expected at most {self._most} inputs from one client, got {certificates}"
            )
        now, client = self._clock(), _client(host)
        start, used = self._used.get(client, (now, 0))
        if now >= start + self._period:
            start, used = now, 0
            self._used.pop(client, None)  # to remember it as the latest
        if used + certificates > self._most:
            wait = int(start + self._period - now) + 1
            raise RefusedError(
                429,
                f"this client has asked for {used} certificates, and may ask for {self._most} in "
                f"{self._period:g} seconds: try again in {wait} seconds",
                wait,
            )
        self._used[client] = start, used + certificates
        if len(self._used) > MOST_CLIENTS:
            del self._used[next(iter(self._used))]


def _client(host: str | None) -> str:
    """Return whom an address belongs to: itself, or its network under IPv6."""
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return host or ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)
