"""When probes run and what their results mean. Pure: the caller probes and keeps the clock.

Source of the rules: k8s.io/kubernetes/pkg/kubelet/prober/worker.go.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

ProbeKind = Literal["startup", "liveness", "readiness"]


@dataclass(frozen=True, slots=True)
class ProbeTiming:
    """The timing fields of a probe with the API server's defaults, in seconds."""

    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    grace_period: int | None = None

    @classmethod
    def of(cls, probe: dict[str, Any]) -> "ProbeTiming":
        """Read them from a v1.Probe."""
        return cls(
            initial_delay=probe.get("initialDelaySeconds") or 0,
            period=probe.get("periodSeconds") or 10,
            timeout=probe.get("timeoutSeconds") or 1,
            success_threshold=probe.get("successThreshold") or 1,
            failure_threshold=probe.get("failureThreshold") or 3,
            grace_period=probe.get("terminationGracePeriodSeconds"),
        )


@dataclass(slots=True)
class ProbeState:
    """One probe of one running container instance."""

    kind: ProbeKind
    timing: ProbeTiming
    started_at: float
    passing: bool = field(init=False)
    _streak: int = field(init=False, default=0)
    _last: bool | None = field(init=False, default=None)
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        # Until it has spoken, liveness counts as passed, readiness and startup do not.
        self.passing = self.kind == "liveness"
        self._next = self.started_at + self.timing.initial_delay

    def due(self) -> float:
        """When to probe next."""
        return self._next

    def hold_until(self, when: float) -> None:
        """Do not probe before ``when`` (liveness and readiness wait for the startup probe)."""
        self._next = max(self._next, when)

    def record(self, succeeded: bool, now: float) -> bool:
        """Note a result; return whether ``passing`` changed or a failure threshold was reached just now."""
        self._next = now + self.timing.period
        self._streak = self._streak + 1 if self._last is succeeded else 1
        self._last = succeeded
        needed = self.timing.success_threshold if succeeded else self.timing.failure_threshold
        if self._streak < needed:
            return False
        changed = self.passing is not succeeded or (not succeeded and self._streak == needed)
        self.passing = succeeded
        return changed
