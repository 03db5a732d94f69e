"""What the scheduler shows of itself: metrics, health, the HTTPS server for both, and traces.

Nothing here changes a decision, and nothing here knows the engine: it sets values and is asked for health. May import
nothing else of the scheduler.

The endpoints are imported when they are asked for, in the server's thread: aiohttp's server takes a sixth of a second.
"""

from typing import TYPE_CHECKING

from scheduler.lazy import lazy_attributes
from scheduler.observe.answers import (
    ChosenQuestion as ChosenQuestion,
    EndpointSources as EndpointSources,
    HandedOverAnswer as HandedOverAnswer,
    NodeQuestion as NodeQuestion,
    PodsQuestion as PodsQuestion,
    Question as Question,
    QueueQuestion as QueueQuestion,
    ReviewClient as ReviewClient,
    ShadowQuestion as ShadowQuestion,
    SplitReviewClient as SplitReviewClient,
    UnansweredError as UnansweredError,
)
from scheduler.observe.authorization import Authorizer as Authorizer, CallAllowance as CallAllowance
from scheduler.observe.certificate import (
    SelfSigned as SelfSigned,
    follow_renewals as follow_renewals,
    serving_context as serving_context,
    use_self_signed as use_self_signed,
    validity as validity,
)
from scheduler.observe.clients import ClientAuthorities as ClientAuthorities
from scheduler.observe.health import Check as Check, HealthChecks as HealthChecks, LoopWatchdog as LoopWatchdog
from scheduler.observe.metrics import Metrics as Metrics
from scheduler.observe.profiling import task_stacks as task_stacks
from scheduler.observe.refresh import GaugeRefresh as GaugeRefresh
from scheduler.observe.resources import PodResources as PodResources
from scheduler.observe.series import Count as Count, Distribution as Distribution
from scheduler.observe.server import Server as Server, bind as bind, port_of as port_of
from scheduler.observe.spans import (
    AttributeValue as AttributeValue,
    Span as Span,
    SpanEvent as SpanEvent,
    Trace as Trace,
)
from scheduler.observe.tracing import Tracing as Tracing, TracingRefused as TracingRefused, new_tracing as new_tracing
from scheduler.observe.workqueue import WorkQueueMetrics as WorkQueueMetrics

if TYPE_CHECKING:
    from scheduler.observe.bounded import serving as serving
    from scheduler.observe.counted import in_words as in_words

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(__name__, {"serving": "bounded", "in_words": "counted"})
