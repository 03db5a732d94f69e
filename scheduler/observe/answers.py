"""What the HTTPS server needs of the process it speaks for.

Apart from `server`, which starts the thread, and from `endpoints`, which that thread imports: both need it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from msgspec import Raw, Struct, field
from prometheus_client import CollectorRegistry

from scheduler.answers import Document, SourceLoads
from scheduler.observe.clients import ClientAuthorities
from scheduler.observe.health import HealthChecks
from scheduler.observe.profiling import Stack
from scheduler.observe.refresh import GaugeRefresh
from scheduler.observe.resources import PodResources


class ReviewClient(Protocol):
    """The part of the API client that reviews need."""

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """POST a JSON object and return the answer's body."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class SplitReviewClient:
    """Asks who a token is with one client, and what it may do with another."""

    def __init__(self, authentication: ReviewClient, authorization: ReviewClient) -> None:
        self._authentication, self._authorization = authentication, authorization

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """POST a review with the client it is for."""
        client = self._authentication if path.startswith("/apis/authentication") else self._authorization
        return await client.post(path, body)

    async def close(self) -> None:
        """Release the connections of both."""
        await self._authentication.close()
        await self._authorization.close()


class HandoverSource(Protocol):
    """Has a history to hand over."""

    def export(self) -> bytes:
        """Return the history as JSON; called on the scheduling loop. Raises UnansweredError where there is nothing to
        be handed over, or not yet."""
        ...

    def right(self) -> dict[str, str]:
        """Return what the next leader must be allowed, as attributes of a SubjectAccessReview."""
        ...

    def token(self) -> str:
        """Return this pod's token; called on the serving thread."""
        ...

    def delivered(self) -> None:
        """The history was sent; called on the serving thread."""
        ...


class HandedOverAnswer(Struct, frozen=True):
    """The answer: a token that says which pod this is, and the history."""

    token: str
    history: Raw


class EndpointSources(Struct, frozen=True, kw_only=True):
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
    """Paths that anybody may read; `*` at the end stands for whatever follows."""
    review_seconds: tuple[float, float, float] = (10.0, 10.0, 10.0)
    """For how long the API server's word on a token counts: who it is, that it may read, that it may not."""
    disabled_metrics: frozenset[str] = frozenset()
    """Names of metrics that are not shown."""
    metric_levels: Mapping[str, str] = field(default_factory=dict)
    """`STABLE` or `BETA` by the name of a metric; upstream's others are ALPHA."""
    authorities: ClientAuthorities = field(default_factory=ClientAuthorities)
    """Who signs the certificates of clients."""
    started: float = field(default_factory=time.time)
    """When the process was, in seconds since 1970."""
    behaves_as: str = ""
    """The version of kube-scheduler that `/statusz` shows; "" where it is not served."""
    flags: Mapping[str, str] | None = None
    """What `/flagz` shows; None where it is not served."""
    flags_as_text: bool = False
    """Whether it is shown as kube-scheduler 1.34 does."""
    profiling: bool = False
    """Whether `/debug/pprof` is served."""
    loop_stacks: Callable[[], Mapping[str, Stack]] = dict
    """The stacks of the scheduling loop's tasks by name; called on that loop."""
    node_loads: Callable[[], Iterable[SourceLoads]] | None = None
    """Returns the nodes' load by source, for `/debug/nodes`; called on the loop, gone through on the serving thread.
    Without it that path is not served."""
    inspect: Callable[[Question], Document] | None = None
    """Answers a question about decisions, or raises UnansweredError. Called on the loop. Without it `/debug/decisions`,
    `/debug/queue` and `/debug/nodes/NAME` are not served."""
    handover: HandoverSource | None = None
    """Has the history for the next leader; None where it is not handed over."""
    pod_resources: Callable[[], Iterable[PodResources]] = list
    """The pods that `/metrics/resources` shows; called on the loop, gone through on the serving thread. None where this
    process does not lead."""


class PodsQuestion(Struct, frozen=True):
    """Why pods are where they are.

    Attributes:
        namespace: whose pods; None for all. Pods of other namespaces are counted and not named.
        pod: only the one of this name, and where it waits; only with a namespace.
        limit: decisions to show.
        node: also what every plugin says of the pod on this node; only with a pod.
    """

    namespace: str | None
    pod: str | None
    limit: int
    node: str | None = None


class QueueQuestion(Struct, frozen=True):
    """What waits.

    Attributes:
        namespace: whose pods are named; None for all. Those of other namespaces are counted.
        limit: pods to show, of each queue.
    """

    namespace: str | None
    limit: int


class NodeQuestion(Struct, frozen=True):
    """What is known of a node; names no pod."""

    node: str


class ChosenQuestion(Struct, frozen=True):
    """The last decisions that chose a node, of all namespaces."""

    node: str
    limit: int


class ShadowQuestion(Struct, frozen=True):
    """The last decisions in which a shadow differs.

    Attributes:
        namespace: whose pods are named; None for all.
        limit: differences to show.
    """

    namespace: str | None
    limit: int


Question = PodsQuestion | QueueQuestion | NodeQuestion | ChosenQuestion | ShadowQuestion


class UnansweredError(Exception):
    """A question cannot be answered; `status` is an HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
