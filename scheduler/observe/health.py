"""Named checks behind /healthz, /livez and /readyz, worded as upstream's.

`/metrics/slis`: the result of every health check, under upstream's names, in a registry of its own as upstream
(k8s.io/component-base/metrics/prometheus/slis).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.exposition import generate_latest

_DIGITS = re.compile(r"[0-9]+")
Check = Callable[[], str | None]
"""Returns None when all is well, else the reason; called from the serving thread."""
Note = Callable[[str, str, str | None], None]
"""Takes the result of a check: endpoint, name, and the reason why it fails."""


class HealthChecks(Struct, frozen=True):
    """The checks of each endpoint, by name."""

    healthz: Mapping[str, Check]
    livez: Mapping[str, Check]
    readyz: Mapping[str, Check]

    def of(self, endpoint: str) -> Mapping[str, Check] | None:
        """The checks of `healthz`, `livez` or `readyz`; None for any other name."""
        return getattr(self, endpoint) if endpoint in self.__struct_fields__ else None


class FailureLog:
    """Reports once per change which checks fail and why. Numbers that change in a reason are no change."""

    def __init__(self, write: Note) -> None:
        """`write` is called with endpoint, check and reason, None when the check passes again."""
        self._write = write
        self._failing: dict[tuple[str, str], str] = {}

    def note(self, endpoint: str, check: str, reason: str | None) -> None:
        """Take the result of a check."""
        kind = None if reason is None else _DIGITS.sub("", reason)
        if kind == self._failing.get((endpoint, check)):
            return
        if kind is None:
            del self._failing[endpoint, check]
        else:
            self._failing[endpoint, check] = kind
        self._write(endpoint, check, reason)


def report(
    endpoint: str,
    checks: Mapping[str, Check],
    *,
    exclude: Iterable[str],
    verbose: bool,
    note: Note | None = None,
) -> tuple[bool, str]:
    """Run checks; the body is `ok`, or a line per check where one failed or `verbose` asks for it.

    Reasons are withheld from anonymous readers, as upstream does; `note` gets them.
    """
    excluded = set(exclude)
    lines, healthy = [], True
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            continue
        reason = check()
        if note is not None:
            note(endpoint, name, reason)
        if reason is None:
            lines.append(f"[+]{name} ok")
        else:
            healthy = False
            lines.append(f"[-]{name} failed: reason withheld")
    if healthy and not verbose:
        return True, "ok"
    lines.append(f"{endpoint} check {'passed' if healthy else 'failed'}")
    return healthy, "\n".join(lines) + "\n"


class LoopWatchdog:
    """Notices an event loop that hangs. It is asked from another thread, which a stuck loop does not stop."""

    def __init__(self, tolerance_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._tolerance = tolerance_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._last = clock()

    def beat(self) -> None:
        """Called by the loop, at least once a second."""
        with self._lock:
            self._last = self._clock()

    def check(self) -> str | None:
        """A health check: None while the loop beats."""
        with self._lock:
            silent = self._clock() - self._last
        return None if silent <= self._tolerance else f"the event loop has not run for {silent:.0f} s"


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
