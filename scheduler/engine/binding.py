"""Writing Bindings, and finding out what became of those without an answer.

A Binding that timed out may still be carried out: the API server works on a request for a minute, and a proxy on the
way may keep it. So the pod stays assumed, on this node and no other, until one of these is certain:

- It is bound. The API server takes only one Binding per pod. So the Binding is written once more, to the same node:
  whichever of the two comes first binds the pod there, and the other is refused for good.
- It can no longer be bound by us: it is gone, is being deleted, or is on another node.
- The last request can no longer be carried out, because it was sent too long ago.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
from typing import Final, Protocol

import structlog

from scheduler.engine.recorder import EventRecorder
from scheduler.framework import SUCCESS, NodeInfo, PodInfo, Status, failure
from scheduler.kube.client import ApiError, Conflict, Forbidden, KubeClient, KubeError, NotFound
from scheduler.kube.model import DecodeError, decode_pod
from scheduler.observe import Metrics

LANDING_SECONDS: Final = 75.0
"""For how long after we stopped waiting for it a request may still be carried out: the API server's --request-timeout
(60 s by default, counted from when the request gets there), and some time to get there."""
SLOW_SECONDS: Final = 5.0
"""From then on a Binding counts as slow: others no longer wait for it."""
_REPEAT_SECONDS: Final = 75.0
"""For how long a Binding without an answer is written again."""
_WEBHOOK_FAILED: Final = "Internal error occurred: failed calling webhook"
_PAUSES: Final = (0.1, 0.5, 2.0, 5.0, 10.0)
"""Seconds between two looks at a pod."""
_STOPPING_PAUSE: Final = 0.5
_STOPPING_TIMEOUT: Final = 5.0
log = structlog.get_logger(component="binding")


class PodsAndNodes(Protocol):
    """What is known of pods and nodes: `ClusterState`."""

    def pod(self, uid: str) -> PodInfo | None:
        """A pod on a node, assumed or bound."""

    def is_assumed(self, uid: str) -> bool:
        """Whether a pod is assumed and not yet seen bound."""

    def node(self, name: str) -> NodeInfo | None:
        """A node."""


class BindingEngine(Protocol):
    """What writing a Binding needs of the engine."""

    @property
    def state(self) -> PodsAndNodes:
        """The cluster as the watches show it, with the assumed pods."""

    def may_write(self) -> bool:
        """Whether this process holds its Lease, or needs none."""

    def is_pending(self, uid: str) -> bool:
        """Whether a pod still waits for a node, as far as the watch knows."""


OUTCOMES = ("bound", "conflict", "gone", "unknown", "failed")
"""Labels of the metric of Bindings."""


class _Doubt(enum.Enum):
    """An answer to a Binding that does not tell whether the pod is bound. The values are labels of the metric."""

    CONFLICT = "conflict"
    """The API server also answers this where etcd did not answer in time."""
    UNKNOWN = "unknown"


class _Look(enum.Enum):
    """A look at a pod that decides nothing."""

    UNBOUND = enum.auto()
    FORBIDDEN = enum.auto()
    UNREADABLE = enum.auto()


class Binder:
    """Writes Bindings. Methods run on the loop, whose clock is monotonic.

    Args:
        engine: leadership and cache.
        client: for Bindings and for reading pods.
        recorder: lets Events wait while Bindings are under way.
        metrics: where outcomes are counted.
    """

    def __init__(self, engine: BindingEngine, client: KubeClient, recorder: EventRecorder, metrics: Metrics) -> None:
        self._engine = engine
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        # `increase` does not see what a series begins with.
        for outcome in OUTCOMES:
            metrics.bindings.labels(outcome)
        self._since: dict[str, float] = {}
        self._waits: dict[str, asyncio.Timeout] = {}
        self._stopping = asyncio.Event()

    @property
    def under_way(self) -> tuple[str, ...]:
        """UIDs of the pods whose Binding may have been sent, and has no certain outcome."""
        return tuple(self._since)

    def slow_count(self) -> int:
        """How many Bindings have been under way for so long that others should not wait for them."""
        limit = asyncio.get_running_loop().time() - SLOW_SECONDS
        return sum(1 for _ in itertools.takewhile(lambda since: since < limit, self._since.values()))

    def stop(self) -> None:
        """Wait no longer for answers that are missing: look up what became of those Bindings."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        for wait in self._waits.values():
            wait.reschedule(asyncio.get_running_loop().time())

    async def bind(self, pod: PodInfo, node: str, *, prepaid: bool = False) -> Status:
        """Bind a pod to a node; returns once it is certain whether it is bound there, however long that takes.

        `prepaid`: the caller has waited for the client's rate limit.
        """
        self._since[pod.uid] = asyncio.get_running_loop().time()
        try:
            answer = await self._post(pod, node, prepaid=prepaid)
            if isinstance(answer, Status):
                return answer
            self._metrics.bindings.labels(answer.value).inc()
            return await self._resolve(pod, node, answer)
        finally:
            del self._since[pod.uid]

    async def _post(self, pod: PodInfo, node: str, *, prepaid: bool = False) -> Status | _Doubt:
        """Write the Binding once."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        self._recorder.binding_started()
        try:
            async with asyncio.timeout(_STOPPING_TIMEOUT if self._stopping.is_set() else None) as wait:
                self._waits[pod.uid] = wait
                answer = await self._client.post(
                    f"{pod_path(pod)}/binding", body, allowed=self._engine.may_write, prepaid=prepaid
                )
        except Conflict:
            return _Doubt.CONFLICT
        except NotFound:
            self._metrics.bindings.labels("gone").inc()
            return failure("the pod is gone")
        except KubeError as error:
            if is_in_doubt(error):
                return _Doubt.UNKNOWN
            self._metrics.bindings.labels("failed").inc()
            return failure(str(error))
        except TimeoutError:
            return _Doubt.UNKNOWN
        except Exception:
            # A defect of ours or of a library. The request may have been sent before.
            log.exception("a binding failed unexpectedly", pod=pod.key, node=node)
            return _Doubt.UNKNOWN
        finally:
            self._waits.pop(pod.uid, None)
            self._recorder.binding_ended()
        if not _is_success(answer):
            log.warning("the answer to a binding is not the API server's", pod=pod.key, node=node)
            return _Doubt.UNKNOWN
        self._metrics.bindings.labels("bound").inc()
        return SUCCESS

    async def _resolve(self, pod: PodInfo, node: str, doubt: _Doubt) -> Status:
        """Look at the pod, and write the Binding again, until it is certain where the pod is."""
        now = asyncio.get_running_loop().time
        repeat_until, lands_until = now() + _REPEAT_SECONDS, now() + LANDING_SECONDS
        for attempt in itertools.count():
            # Judged by when the look begins: what lands during it may escape it.
            is_over = now() >= lands_until
            seen = await self._look(pod, node)
            if isinstance(seen, Status):
                return seen
            if seen is _Look.UNBOUND and is_over:
                return failure("the API server did not accept the binding")
            if attempt == 0 and doubt is _Doubt.UNKNOWN:
                log.warning("the outcome of a binding is unknown", pod=pod.key, node=node)
            if seen is not _Look.UNREADABLE and now() < repeat_until and self._may_repeat(node):
                answer = await self._post(pod, node)
                if isinstance(answer, _Doubt):
                    lands_until = now() + LANDING_SECONDS
                elif answer.is_success:
                    return SUCCESS
                # A refusal of this one says nothing about the one before.
            await self._pause(min(_PAUSES[min(attempt, len(_PAUSES) - 1)], max(0.1, lands_until - now())))
        raise AssertionError

    def _may_repeat(self, node: str) -> bool:
        """Tell whether the pod may still be bound to the node; a node that is gone gets no more Bindings."""
        return self._engine.may_write() and self._engine.state.node(node) is not None

    async def _look(self, pod: PodInfo, node: str) -> Status | _Look:
        """Find out where the pod is: from the watch, else from the API server."""
        state = self._engine.state
        cached = state.pod(pod.uid)
        if cached is not None and not state.is_assumed(pod.uid):
            return _bound_to(cached.node_name, node)
        try:
            latest = decode_pod(await self._client.get(pod_path(pod)))
            if not latest.metadata.uid:
                raise DecodeError("not a pod")
        except NotFound:
            return failure("the pod is gone")
        except Forbidden as error:
            if cached is not None and not self._engine.is_pending(pod.uid):
                # The watch has shown the end of it.
                return failure("the pod is gone")
            _warn_unreadable(pod, node, error)
            return _Look.FORBIDDEN
        except Exception as error:
            # Whatever it is, such as a proxy's login page: it is not known where the pod is.
            _warn_unreadable(pod, node, error)
            return _Look.UNREADABLE
        if latest.metadata.uid != pod.uid:
            return failure("the pod was replaced by another of the same name")
        if latest.spec.node_name:
            return _bound_to(latest.spec.node_name, node)
        if latest.metadata.deletion_timestamp:
            return failure("the pod is being deleted")
        return _Look.UNBOUND

    async def _pause(self, seconds: float) -> None:
        if self._stopping.is_set():
            await asyncio.sleep(min(seconds, _STOPPING_PAUSE))
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def pod_path(pod: PodInfo) -> str:
    """Return where the API server has a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _bound_to(actual: str, expected: str) -> Status:
    return SUCCESS if actual == expected else failure(f"the pod was bound to {actual} by another scheduler")


def _is_success(answer: bytes) -> bool:
    """Tell whether this is the API server's Status for a Binding that it has taken; a proxy may answer anything."""
    return answer.startswith(b"{") and b'"Success"' in answer


def is_in_doubt(error: KubeError) -> bool:
    """Tell whether a write may be carried out all the same; an internal error of admission comes before that."""
    is_refusal = isinstance(error, ApiError) and error.message.startswith(_WEBHOOK_FAILED)
    return error.outcome_unknown and not is_refusal


def _warn_unreadable(pod: PodInfo, node: str, error: Exception) -> None:
    log.warning(
        "the outcome of a binding is unknown and the pod cannot be read",
        pod=pod.key,
        node=node,
        error=f"{type(error).__name__}: {error}"[:200],
    )
