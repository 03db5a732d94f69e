"""Metrics of attempts at single pods, under upstream's names."""

from __future__ import annotations

import time

from scheduler.core import Placement
from scheduler.framework import MonotonicSeconds, PodInfo, Status
from scheduler.observe import Metrics
from scheduler.state import QueuedPod

_MOST_ATTEMPTS = 15
_VOLUMES = "VolumeBinding"


class AttemptCounts:
    """Counts in one process's metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def ended(self, result: str, pod: PodInfo, started: float) -> None:
        """An attempt ended as scheduled, unschedulable or error; `started` is `time.perf_counter` at its beginning."""
        self._metrics.schedule_attempts.labels(result, pod.scheduler_name).inc()
        self._metrics.attempt_duration.labels(result, pod.scheduler_name).observe(time.perf_counter() - started)

    def bound(self, queued: QueuedPod, now: MonotonicSeconds) -> None:
        """A pod is bound, however many attempts it took."""
        self._metrics.attempts_per_pod.observe(queued.attempts)
        if queued.flushed:
            self._metrics.scheduled_after_flush.inc()
        attempts = str(queued.attempts) if queued.attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
        waited = now - (now if queued.first_active_at is None else queued.first_active_at)
        self._metrics.sli_duration.labels(attempts).observe(waited)
        self._metrics.count_bound(queued.pod.namespace, queued.attempts, waited)

    def filter_failed(self, placement: Placement) -> None:
        """A decision ended with an error; VolumeBinding's are counted."""
        error = placement.failure
        if error is not None and (error.plugin, error.point) == (_VOLUMES, "Filter"):
            self._metrics.volume_errors.labels("predicate").inc()

    def volume_error(self, status: Status, stage: str) -> None:
        """A node was lost on the way to it: where VolumeBinding was the reason, at which stage (assume, bind)."""
        if status.plugin == _VOLUMES:
            self._metrics.volume_errors.labels(stage).inc()
