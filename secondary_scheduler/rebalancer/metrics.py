"""The rebalancer's metrics, in a registry of their own."""

from __future__ import annotations

import math
from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from secondary_scheduler.rebalancer.status import Mode
from secondary_scheduler.rebalancing import STOPPING, EvictionReply, MoveOutcome, Reason, RebalancePlan

_PREFIX = "secondary_scheduler_rebalance_"
_UNINTERESTING = frozenset({Reason.NODE_NOT_OVERLOADED, Reason.OTHER_SCHEDULER})
"""Pods that nobody wants to move are not kept from it."""
CLUSTER_NOT_READ, STATUS_NOT_WRITTEN = "clusterNotRead", "statusNotWritten"
_STOPS = (
    *(reason.value for reason in STOPPING),
    CLUSTER_NOT_READ,
    STATUS_NOT_WRITTEN,
)


class RebalancerMetrics:
    """Counters and gauges of one rebalancer. Labels have a fixed number of values."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        build = self._gauge("build_info", "The version in a label; always 1.", "version")
        build.labels(version).set(1)
        self.leader = self._gauge("leader", "1 while this process holds the Lease.")
        self.mode = self._gauge("mode", "1 for the mode that is in effect.", "mode")
        self.active = self._gauge("active", "1 while pods may be moved: the condition Rebalancing.")
        self.unsaved = self._gauge("status_unwritten", "1 while the status cannot be written; nothing moves then.")
        self.in_flight = self._gauge("moves_in_flight", "Moves whose end is not known yet.")
        self.overloaded = self._gauge("overloaded_nodes", "Nodes above a threshold in the last round.")
        self.planned = self._gauge("planned_moves", "Moves of the last round's plan.")
        self.round_at = self._gauge("last_round_timestamp_seconds", "When the last plan was made.")
        self.interval = self._gauge("interval_seconds", "Time between rounds.")
        self.limited = self._gauge("limited", "1 if evictionLimits kept pods on overloaded nodes in the last round.")
        self.stopped = self._gauge("stopped", "1 for each reason for which the last round moved nothing.", "reason")
        self.moves = self._counter("moves", "Moves that have ended, by outcome.", "outcome")
        self.restores = self._counter("etcd_restores", "How often the cluster went back to an older state.")
        self.dry_runs = self._counter("dry_runs", "Evictions that were only tried, by answer.", "answer")
        self.dropped_connections = self._counter(
            "dropped_connections", "Connections not served to their end.", "reason"
        )
        self.blocked = self._counter(
            "blocked", "Pods of overloaded nodes that stayed, and rounds that stopped.", "reason"
        )
        self.gain = Histogram(
            f"{_PREFIX}gain",
            "Points of the total score by which the other node was better.",
            registry=self.registry,
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000),
        )
        self.seconds = Histogram(
            f"{_PREFIX}round_duration_seconds",
            "Time of making a plan.",
            registry=self.registry,
            buckets=(0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60),
        )
        for outcome in MoveOutcome:
            self.moves.labels(outcome.value)
        for answer in EvictionReply:
            self.dry_runs.labels(answer.value)
        self.show_stopped(())

    def begin(self, interval: float, round_at: float) -> None:
        """Show how often there are rounds, and when the last one of the process before was; NaN if none is known."""
        self.interval.set(interval)
        if not math.isnan(round_at):
            self.round_at.set(round_at)

    def count_drop(self, reason: str) -> None:
        """Count a connection that was not served to its end."""
        self.dropped_connections.labels(reason).inc()

    def show_mode(self, mode: Mode, *, active: bool) -> None:
        """Set the gauges of the mode."""
        for value in Mode:
            self.mode.labels(value.value).set(value is mode)
        self.active.set(active)

    def show_plan(self, plan: RebalancePlan, seconds: float, at: float) -> None:
        """Count a plan that took so long, at a time in seconds since the epoch."""
        self.seconds.observe(seconds)
        self.round_at.set(at)
        self.planned.set(len(plan.moves))
        self.overloaded.set(len(plan.before.overloaded) if plan.before is not None else 0)
        self.limited.set(plan.counts[Reason.LIMIT] > 0)
        for refusal in plan.stopped:
            self.blocked.labels(refusal.reason.value).inc()
        for reason, count in plan.counts.items():
            if reason not in _UNINTERESTING and not plan.stopped:
                self.blocked.labels(reason.value).inc(count)

    def show_stopped(self, reasons: Collection[str]) -> None:
        """Set the gauges of why the last round moved nothing."""
        for reason in _STOPS:
            self.stopped.labels(reason).set(reason in reasons)

    def expose(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}{name}", text, labels, registry=self.registry)
