"""A Ray cluster: which one, how many workers, and the connection to it (extra `rrise[ray]`)."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rrise.errors import SettingError


@dataclass(frozen=True)
class Cluster:
    """Which Ray cluster to use, and how much of it; without an address, a local one is started."""

    address: str | None = None
    workers: int | None = None
    gpus_per_worker: float = 0
    cpus_per_worker: float = 1

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise SettingError(f"expected at least 1 worker, got {self.workers}")
        if self.gpus_per_worker < 0 or self.cpus_per_worker < 0:
            raise SettingError("expected gpus_per_worker and cpus_per_worker of at least 0")

    @property
    def device(self) -> str:
        """Where the workers compute."""
        return "cuda" if self.gpus_per_worker else "cpu"


@contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """Connect to the cluster, unless this process is connected already, and yield the module `ray`."""
    ray = _ray()
    own = not ray.is_initialized()
    if own:
        _connect(ray, cluster.address)
    try:
        yield ray
    finally:
        if own:
            ray.shutdown()


def workers_in(ray: Any, cluster: Cluster) -> int:
    """Return how many workers to start: those requested, at most those that fit into the cluster."""
    resources = ray.cluster_resources()
    shares = {"GPU": cluster.gpus_per_worker, "CPU": cluster.cpus_per_worker}
    fitting = min((resources.get(kind, 0) // share for kind, share in shares.items() if share), default=1)
    if fitting < 1:
        has = ", ".join(f"{resources.get(kind, 0):g} {kind}s" for kind in shares)
        raise SettingError(f"no worker fits into this cluster: each needs {shares}, the cluster has {has}")
    if cluster.workers is not None and cluster.workers > fitting:
        warnings.warn(f"{cluster.workers} workers were requested, but only {fitting:g} fit", stacklevel=5)
    return int(fitting) if cluster.workers is None else min(cluster.workers, int(fitting))


def _connect(ray: Any, address: str | None) -> None:
    quiet = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **quiet)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
        where = "a local Ray cluster" if address is None else f"the Ray cluster at {address}"
        if _wants_token(error):
            raise SettingError(
                f"{where} wants its token: set RAY_AUTH_MODE=token, and copy ~/.ray/auth_token from the "
                f"machine where the cluster was started"
            ) from error
        raise SettingError(f"{where} does not answer: {error}") from error


def _wants_token(error: BaseException | None) -> bool:
    """Tell whether an error comes from a missing or wrong token: Ray quotes its own error in others."""
    while error is not None:
        if "AuthenticationError" in f"{type(error).__name__}: {error}":
            return True
        error = error.__cause__
    return False


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise SettingError("the ray back end needs Ray: pip install 'rrise[ray]'") from None
    return ray
