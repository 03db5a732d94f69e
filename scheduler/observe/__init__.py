"""What the scheduler shows of itself: metrics, health, and the HTTPS server for both.

Nothing here changes a decision, and nothing here knows the engine: it sets values and is asked for health. May import
nothing else of the scheduler.

The endpoints are imported when they are asked for, in the server's thread: aiohttp's server takes a sixth of a second.
"""

from scheduler.observe.answers import Answers, ReviewClient
from scheduler.observe.authorization import Authorizer
from scheduler.observe.certificate import follow_renewals, serving_context, use_self_signed
from scheduler.observe.health import Check, HealthChecks, LoopWatchdog
from scheduler.observe.metrics import Metrics
from scheduler.observe.refresh import GaugeRefresh
from scheduler.observe.server import RefusedCallers, Server

__all__ = [
    "Answers",
    "Authorizer",
    "Check",
    "GaugeRefresh",
    "HealthChecks",
    "LoopWatchdog",
    "Metrics",
    "RefusedCallers",
    "ReviewClient",
    "Server",
    "follow_renewals",
    "serving_context",
    "use_self_signed",
]
