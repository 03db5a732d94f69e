"""`/metrics/slis`: the result of every health check, under upstream's names, in a registry of its own as upstream
(k8s.io/component-base/metrics/prometheus/slis)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.exposition import generate_latest


class HealthMetrics:
    """Results of health checks; each name and type of a check is one of ours, so there are few series."""

    def __init__(self, started: float) -> None:
        """`started` is when the process was, in seconds since 1970."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self._registry = CollectorRegistry(auto_describe=True)
        labels = ("name", "type")
        text = "Result of a health check: 1 if it passes"
        self._latest = Gauge("kubernetes_healthcheck", text, labels, registry=registry)
        text = "Results of health checks: success or error"
        self._results = Counter("kubernetes_healthchecks_total", text, (*labels, "status"), registry=registry)
        text = "Start of the process, in seconds since 1970"
        Gauge("process_start_time_seconds", text, registry=registry).set(started)

    def note(self, endpoint: str, check: str, reason: str | None) -> None:
        """Take the result of a check: the reason why it fails, or None."""
        self._latest.labels(check, endpoint).set(reason is None)
        self._results.labels(check, endpoint, "success" if reason is None else "error").inc()

    def text(self) -> bytes:
        """Return what a scrape gets."""
        return generate_latest(self._registry)
