"""The metrics of a service, for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class ServiceMetrics:
    """Metrics in their own registry: two services in one process stay separate."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "rrise_requests", "Requests answered.", ["path", "status"], registry=registry
        )
        self._seconds = Histogram(
            "rrise_request_seconds", "Time to answer.", ["path"], buckets=SECONDS, registry=registry
        )
        certificates = Counter(
            "rrise_certificates", "Inputs answered, issued or abstained.", ["outcome"], registry=registry
        )
        self.batches = Histogram(
            "rrise_batch_inputs", "Inputs to a forward pass.", buckets=SIZES, registry=registry
        )

        self._issued, self._abstained = map(certificates.labels, ("issued", "abstained"))
        self._by_request: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def gauge(self, name: str, words: str, value: Callable[[], float]) -> None:
        """Add a gauge whose value is computed when the metrics are read."""
        Gauge(name, words, registry=self._registry).set_function(value)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request by path and status."""
        counted = self._by_request.get((path, status))
        if counted is None:
            counted = self._requests.labels(path, status), self._seconds.labels(path)
            self._by_request[path, status] = counted
        counted[0].inc()
        counted[1].observe(seconds)

    def count_certificates(self, issued: int, abstained: int) -> None:
        """Count answers by their outcome."""
        self._issued.inc(issued)
        self._abstained.inc(abstained)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self._registry)
