"""What the HTTPS server needs of the process it speaks for.

Apart from `server`, which starts the thread, and from `endpoints`, which that thread imports: both need it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from scheduler.observe.health import HealthChecks
from scheduler.observe.refresh import GaugeRefresh


class ReviewClient(Protocol):
    """The part of the API client that reviews need."""

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """POST a JSON object and return the answer's body."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the endpoints answer with, on their own thread.

    Nothing of it may read what the scheduling loop changes: `gauges` have the loop set what is shown; `checks` and
    `configz` read single values, or what never changes.
    """

    checks: HealthChecks
    registry: CollectorRegistry
    gauges: GaugeRefresh
    make_review_client: Callable[[], ReviewClient]
    configz: Callable[[], dict[str, Any]]
    always_allow: tuple[str, ...]
    """Paths that need no token."""
