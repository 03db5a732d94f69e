"""What the scheduler shows of itself: metrics, health, the HTTPS server for both, and traces.

Nothing here changes a decision, and nothing here knows the engine: it sets values and is asked for health. May import
nothing else of the scheduler.

The endpoints are imported when they are asked for, in the server's thread: aiohttp's server takes a sixth of a second.
"""

from typing import TYPE_CHECKING

from scheduler.lazy import lazy_attributes
from scheduler.observe.answers import (
    Answers,
    ChosenQuestion,
    HandedOverAnswer,
    NodeQuestion,
    PodsQuestion,
    Question,
    QueueQuestion,
    ReviewClient,
    ShadowQuestion,
    SplitReviewClient,
    UnansweredError,
)
from scheduler.observe.authorization import Allowance, Authorizer
from scheduler.observe.certificate import SelfSigned, follow_renewals, serving_context, use_self_signed, validity
from scheduler.observe.clients import ClientAuthorities
from scheduler.observe.health import Check, HealthChecks, LoopWatchdog
from scheduler.observe.metrics import Metrics
from scheduler.observe.profiling import task_stacks
from scheduler.observe.refresh import GaugeRefresh
from scheduler.observe.resources import PodResources
from scheduler.observe.series import Count, Distribution, Histograms
from scheduler.observe.server import Server, bind, port_of
from scheduler.observe.sourceloads import LoadEstimate, NodeLoadRow, SourceLoads
from scheduler.observe.spans import AttributeValue, Span, SpanEvent, Trace
from scheduler.observe.tracing import Tracing, TracingRefused, new_tracing
from scheduler.observe.workqueue import WorkQueueMetrics

if TYPE_CHECKING:
    from scheduler.observe.bounded import serving
    from scheduler.observe.counted import in_words

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(__name__, {"serving": "bounded", "in_words": "counted"})

__all__ = [
    "Allowance",
    "Answers",
    "AttributeValue",
    "Authorizer",
    "Check",
    "ChosenQuestion",
    "ClientAuthorities",
    "Count",
    "Distribution",
    "GaugeRefresh",
    "HandedOverAnswer",
    "HealthChecks",
    "Histograms",
    "LoadEstimate",
    "LoopWatchdog",
    "Metrics",
    "NodeLoadRow",
    "NodeQuestion",
    "PodResources",
    "PodsQuestion",
    "Question",
    "QueueQuestion",
    "ReviewClient",
    "SelfSigned",
    "Server",
    "ShadowQuestion",
    "SourceLoads",
    "Span",
    "SpanEvent",
    "SplitReviewClient",
    "Trace",
    "Tracing",
    "TracingRefused",
    "UnansweredError",
    "WorkQueueMetrics",
    "bind",
    "follow_renewals",
    "in_words",
    "new_tracing",
    "port_of",
    "serving",
    "serving_context",
    "task_stacks",
    "use_self_signed",
    "validity",
]
