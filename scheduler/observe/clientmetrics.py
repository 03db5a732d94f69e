"""What client-go measures of requests to the API server, for our clients: `rest_client_*`."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Gauge

from scheduler.observe.series import CounterFamily, Distribution, Histograms

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)
_CERTIFICATE_AGE = (
    600.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
    604800.0,
    2592000.0,
    7776000.0,
    15552000.0,
    31104000.0,
    124416000.0,
)
_SENT_ALONE = "WATCH"
"""A watch is one request that is answered for minutes: client-go counts it, and measures neither time nor size."""


class ClientMetrics:
    """The metrics of all clients of a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histograms:
            return Histograms(f"rest_client_{name}", text, buckets, ("verb", "host"), registry)

        self.requests = CounterFamily(
            "rest_client_requests_total",
            "Requests to the API server, by HTTP status; code <error> stands for no answer",
            ("code", "method", "host"),
            registry,
        )
        self.duration = histogram("request_duration_seconds", "Time of a request", _SECONDS)
        self.request_size = histogram("request_size_bytes", "Size of a request's body", _BYTES)
        self.response_size = histogram("response_size_bytes", "Size of an answer's body", _BYTES)
        self.rate_limiter = histogram("rate_limiter_duration_seconds", "Wait for the client's rate limit", _SECONDS)
        self.transports = CounterFamily(
            "rest_client_transport_create_calls_total",
            "Connection pools asked for by our clients: miss (a new one), hit (one that was there)",
            ("result",),
            registry,
        )
        pools = Gauge("rest_client_transport_cache_entries", "Connection pools that are open", registry=registry)
        pools.set_function(lambda: self.transports.labels("miss").value)
        expiry = Gauge(
            "rest_client_exec_plugin_ttl_seconds",
            "Seconds until the certificate of a login program expires; +Inf, as the scheduler runs none",
            registry=registry,
        )
        expiry.set(float("inf"))
        self._rotation = Histograms(
            "rest_client_exec_plugin_certificate_rotation_age",
            "Age of certificates of login programs when they were replaced; none, as the scheduler runs none",
            _CERTIFICATE_AGE,
            (),
            registry,
        )

    def observer(self, server: str) -> ClientObserver:
        """Return what a client of a server reports to."""
        self.transports.labels("miss").inc()
        return ClientObserver(self, urlsplit(server).netloc)


class ClientObserver:
    """Takes what one client reports (`scheduler.kube.client.Observer`)."""

    def __init__(self, metrics: ClientMetrics, host: str) -> None:
        self._metrics, self._host = metrics, host
        self._by_verb: dict[str, tuple[Callable[[float], None], ...]] = {}

    def waited(self, method: str, seconds: float) -> None:
        """Note the wait for the rate limit."""
        self._of(method)[3](seconds)

    def exchanged(self, method: str, status: int, seconds: float, sent: int, received: int) -> None:
        """Note a request and its answer."""
        code = str(status) if status else "<error>"
        if method == _SENT_ALONE:
            self._metrics.requests.labels(code, "GET", self._host).inc()
            return
        self._metrics.requests.labels(code, method, self._host).inc()
        duration, request_size, response_size, _ = self._of(method)
        duration(seconds)
        request_size(sent)
        response_size(received)

    def _of(self, method: str) -> tuple[Callable[[float], None], ...]:
        observers = self._by_verb.get(method)
        if observers is None:
            metrics, verb = self._metrics, "GET" if method == _SENT_ALONE else method
            families = (metrics.duration, metrics.request_size, metrics.response_size, metrics.rate_limiter)
            series: list[Distribution] = [family.labels(verb, self._host) for family in families]
            observers = self._by_verb[method] = tuple(histogram.observe for histogram in series)
        return observers
