"""The operator's metrics, in a registry of their own so that several operators fit into one process."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

_PREFIX = "secondary_scheduler_operator_"
_STATUSES = ("True", "False", "Unknown")
_DEGRADED = "Degraded"


class OperatorMetrics:
    """Counters and gauges of one operator."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        build = Gauge(_PREFIX + "build_info", "The version in a label; always 1.", ["version"], registry=self.registry)
        build.labels(version).set(1)
        self.leader = Gauge(_PREFIX + "leader", "1 while this process holds the Lease.", registry=self.registry)
        self.reconciles = Counter(
            _PREFIX + "reconciles", "Reconciles, by outcome.", ["outcome"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            _PREFIX + "reconcile_duration_seconds",
            "Time of a reconcile with its writes.",
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.writes = Counter(
            _PREFIX + "writes", "Writes to the API server.", ["kind", "verb", "outcome"], registry=self.registry
        )
        self.watch_failures = Counter(
            _PREFIX + "watch_failures", "Lists and watches that failed.", ["kind"], registry=self.registry
        )
        self.dropped_connections = Counter(
            _PREFIX + "dropped_connections", "Connections not served to their end.", ["reason"], registry=self.registry
        )
        self.restores = Counter(
            _PREFIX + "etcd_restores", "How often the cluster went back to an older state.", registry=self.registry
        )
        self.queue_depth = Gauge(_PREFIX + "queue_depth", "Instances waiting for a reconcile.", registry=self.registry)
        self.conditions = Gauge(
            _PREFIX + "condition",
            "1 for the status that a condition of an instance has.",
            ["namespace", "name", "condition", "status"],
            registry=self.registry,
        )
        self.degraded = Gauge(
            _PREFIX + "degraded",
            "1 for the reason of an instance's condition Degraded while that is True.",
            ["namespace", "name", "reason"],
            registry=self.registry,
        )

    def count_drop(self, reason: str) -> None:
        """Count a connection that was not served to its end."""
        self.dropped_connections.labels(reason).inc()

    def show_conditions(self, resource: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Mirror the conditions of an instance."""
        metadata = resource["metadata"]
        for condition in status.get("conditions") or ():
            for value in _STATUSES:
                labels = (metadata["namespace"], metadata["name"], condition["type"], value)
                self.conditions.labels(*labels).set(condition["status"] == value)
            if condition["type"] == _DEGRADED:
                self._show_reason(metadata["namespace"], metadata["name"], condition)

    def _show_reason(self, namespace: str, name: str, condition: Mapping[str, Any]) -> None:
        # The series of a former reason would say that it lasts.
        self.degraded.remove_by_labels({"namespace": namespace, "name": name})
        if condition["status"] == "True":
            self.degraded.labels(namespace, name, condition["reason"]).set(1)

    def forget_instance(self, namespace: str, name: str) -> None:
        """Drop the series of a deleted instance."""
        for gauge in (self.conditions, self.degraded):
            gauge.remove_by_labels({"namespace": namespace, "name": name})

    def expose(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
