"""What the scheduler shows of itself: metrics, health, and the HTTPS server for both.

Nothing here changes a decision, and nothing here knows the engine: it sets values and is asked for health. May import
nothing else of the scheduler.

The endpoints are imported when they are asked for, in the server's thread: aiohttp's server takes a sixth of a second.
"""

import importlib
from typing import TYPE_CHECKING, Any

from scheduler.observe.answers import Answers, ReviewClient
from scheduler.observe.certificate import serving_context, use_self_signed
from scheduler.observe.health import Check, HealthChecks, LoopWatchdog
from scheduler.observe.metrics import Metrics
from scheduler.observe.server import Server

if TYPE_CHECKING:
    from scheduler.observe.endpoints import Authorizer


def __getattr__(name: str) -> Any:
    if name != "Authorizer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.endpoints").Authorizer


__all__ = [
    "Answers",
    "Authorizer",
    "Check",
    "HealthChecks",
    "LoopWatchdog",
    "Metrics",
    "ReviewClient",
    "Server",
    "serving_context",
    "use_self_signed",
]
