"""The effects plugins have: bind, patch, delete, evict, report, wake. The only writer of pods in the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Protocol

import structlog

from scheduler.engine.binding import Binder, is_in_doubt, pod_path
from scheduler.engine.nodecheck import NodeCheck
from scheduler.engine.recorder import EventRecorder, Regarding
from scheduler.engine.waiting import WaitingPods, pause_pre_bind
from scheduler.framework import (
    SUCCESS,
    Clocks,
    Code,
    Eviction,
    Handle,
    MonotonicSeconds,
    NodeInfo,
    PeriodicWork,
    PodInfo,
    PodListener,
    Preemptor,
    Severity,
    Status,
    UnknownOutcome,
    WallSeconds,
    failure,
)
from scheduler.helpers import reduce_pod
from scheduler.kube.client import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Conflict,
    Invalid,
    KubeClient,
    KubeError,
    NotFound,
    api_path,
)
from scheduler.kube.model import PODS, Codec, DecodeError
from scheduler.kube.primitives import format_seconds
from scheduler.observe import Metrics
from scheduler.preemption import PREEMPTED_REASON
from scheduler.state import WATCHED_KINDS, ClusterState

PREEMPTIONS_AT_ONCE = 8
"""Preemptions under way at the API server at once; the others wait for their turn. All at once, each would take as long
as all of them, and requests would time out waiting for a connection: the preemptor would then look for other victims,
though some of its own are gone."""
VICTIMS_AT_ONCE = 16
"""Victims, of all preemptions, whose deletion is requested at once: a quarter of the client's connections, so that
bindings and Events find one."""
eviction_log = structlog.get_logger(component="evicting")


class Evictor:
    """Clears nominations, and has victims deleted in turns."""

    def __init__(self, handle: Handle, metrics: Metrics) -> None:
        self._handle = handle
        self._metrics = metrics
        self._preemptions = asyncio.Semaphore(PREEMPTIONS_AT_ONCE)
        self._victims = asyncio.Semaphore(VICTIMS_AT_ONCE)

    async def carry_out(self, eviction: Eviction, finished: Callable[[bool], None]) -> None:
        """Carry a preemption out; `finished` gets whether all of it succeeded, also when this is cancelled."""
        complete = False
        try:
            async with self._preemptions:
                began = time.perf_counter()
                try:
                    complete = await self._evict(eviction)
                finally:
                    result = "success" if complete else "error"
                    self._metrics.preemption_duration.labels(result).observe(time.perf_counter() - began)
                    self._metrics.preemption_executions.labels(result).inc()
        finally:
            finished(complete)

    async def _evict(self, eviction: Eviction) -> bool:
        """Request the last victim's deletion when those of the others have been: its deletion wakes the preemptor."""
        cleared = await asyncio.gather(*(self._clear_nomination(pod) for pod in eviction.displaced))
        victims = [victim for victim in eviction.victims if not (eviction.spares_terminating and victim.deleting)]
        if not victims:
            return all(cleared)
        *first, last = victims
        deleted = await asyncio.gather(*(self._preempt(victim, eviction) for victim in first))
        return await self._preempt(last, eviction) and all(cleared) and all(deleted)

    async def _clear_nomination(self, pod: PodInfo) -> bool:
        status = await self._handle.patch_pod(pod, {"status": {"nominatedNodeName": None}}, "status")
        return status.is_success or status.is_skip

    async def _preempt(self, victim: PodInfo, eviction: Eviction) -> bool:
        async with self._victims:
            try:
                return await self._delete(victim, eviction)
            except Exception:
                # The other victims go on, and the preemptor is tried again once all of them are done with.
                eviction_log.exception(
                    "an eviction failed unexpectedly", pod=victim.key, preemptor=eviction.preemptor.key
                )
                return False

    async def _delete(self, victim: PodInfo, eviction: Eviction) -> bool:
        note = f"Preempted by {eviction.preemptor.type} {eviction.preemptor.uid} on node {eviction.node}"
        if eviction.spares_unbound:
            gave_up = self._handle.stop_binding(victim, eviction.plugin)
            note += " (in kube-scheduler memory)." if gave_up else ""
        else:
            gave_up = self._handle.reject_waiting(victim, eviction.plugin, "preempted")
        if not gave_up:
            condition = self._condition(victim, eviction.preemptor)
            if condition is not None:
                status = await self._handle.patch_pod(victim, {"status": {"conditions": [condition]}}, "status")
                if status.is_skip:
                    return True
                if not status.is_success:
                    return False
            if not (await self._handle.delete_pod(victim)).is_success:
                return False
        self._handle.event(victim, "Normal", "Preempted", "Preempting", note, eviction.preemptor)
        return True

    def _condition(self, victim: PodInfo, preemptor: Preemptor) -> dict[str, Any] | None:
        """Return the condition that says why the victim is deleted; None when its status says so already."""
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTED_REASON,
            "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {preemptor.type}",
        }
        previous = next((condition for condition in victim.conditions if condition.type == "DisruptionTarget"), None)
        if previous is not None and previous.status == "True":
            if (previous.reason, previous.message) == (condition["reason"], condition["message"]):
                return None
        else:
            condition["lastTransitionTime"] = format_seconds(self._handle.now())
        if victim.generation:
            condition["observedGeneration"] = victim.generation
        return condition


TURN_SECONDS = 0.005
"""Longest stretch of a plugin's periodic work before others get their turn."""
_KINDS = {watched.kind: (watch, watched.codec) for watch, watched in WATCHED_KINDS.items()}
_ENDED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
log = structlog.get_logger(component="handle")


class SharedEngine(Protocol):
    """What a handle needs of the engine: one for all profiles, on the loop's thread."""

    @property
    def state(self) -> ClusterState:
        """The cluster as the watches show it, with the assumed pods."""

    @property
    def waiting(self) -> WaitingPods:
        """The pods that are not bound yet."""

    @property
    def clocks(self) -> Clocks:
        """The clocks of the process."""

    def may_write(self) -> bool:
        """Whether this process holds its Lease, or needs none."""

    def is_pending(self, uid: str) -> bool:
        """Whether a pod still waits for a node, as far as the watch knows."""

    def activate(self, uids: Iterable[str]) -> None:
        """Move pods to the active queue at once, and wake the loop even where there are none."""

    def look_at_gates(self, uids: Iterable[str]) -> None:
        """Ask PreEnqueue about gated pods again."""

    def reorder(self, uids: Iterable[str]) -> None:
        """Put pods of the active queue where they belong now."""


class EngineHandle:
    """The effects of one profile, on the shared client.

    `may_write` is asked before each write, and once more right before it is sent. Safety does not rest on it: every
    Binding carries the pod's UID, so the API server refuses a second one and one for a namesake.

    Args:
        scheduler_name: the profile; Events come from it.
        engine: what all profiles share.
        client: for Bindings, patches, deletions and reads.
        recorder: for Events.
        metrics: where outcomes of Bindings are counted.
        node_check: reads nodes again before Bindings; None where no profile asks for it.
    """

    def __init__(
        self,
        scheduler_name: str,
        engine: SharedEngine,
        *,
        client: KubeClient,
        recorder: EventRecorder,
        metrics: Metrics,
        node_check: NodeCheck | None = None,
    ) -> None:
        self._scheduler_name = scheduler_name
        self._engine = engine
        self._client = client
        self._recorder = recorder
        self._binder = Binder(engine, client, recorder, metrics)
        self._metrics = metrics
        self._writes = 0
        self._stopped = False
        self._node_check = node_check
        self._tasks: set[asyncio.Task[None]] = set()
        self._evictor = Evictor(self, metrics)
        self.paused = 0
        """Pods whose binding does nothing but wait."""

    def now(self) -> WallSeconds:
        """Seconds since the epoch."""
        return self._engine.clocks.wall()

    def monotonic(self) -> MonotonicSeconds:
        """The monotonic clock's time."""
        return self._engine.clocks.monotonic()

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move waiting pods to the active queue at once."""
        self._engine.activate([pod.uid for pod in pods])

    def look_at_gates(self, pods: Iterable[PodInfo]) -> None:
        """Have the queue ask PreEnqueue again about waiting pods."""
        self._engine.look_at_gates([pod.uid for pod in pods])

    def reorder(self, pods: Iterable[PodInfo]) -> None:
        """Have the queue sort pods again whose keys have changed."""
        self._engine.reorder([pod.uid for pod in pods])

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after some time, unless the process ends before."""
        asyncio.get_running_loop().call_later(seconds, call)

    def run_every(self, seconds: float, work: PeriodicWork, name: str) -> None:
        """Run some work now, and again that many seconds after each end."""
        self.spawn(_repeat(seconds, work, name), name)

    def log(self, severity: Severity, plugin: str, message: str, **fields: object) -> None:
        """Write a line to the log, in a plugin's name."""
        (log.warning if severity == "warning" else log.info)(message, plugin=plugin, **fields)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine beside the scheduling loop; its failure is logged, never lost."""
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def event(
        self, pod: PodInfo, kind: str, reason: str, action: str, note: str, related: Preemptor | None = None
    ) -> None:
        """Queue an event.

        Args:
            pod: the pod it is shown with.
            kind: Normal or Warning.
            reason: why, in one word.
            action: what the scheduler did.
            note: the text for people.
            related: for whom the pod was preempted.
        """
        other = None if related is None else _reference_to_preemptor(related)
        self._recorder.record(_reference(pod), self._scheduler_name, kind, reason, action, note, other)

    def measure(self, metric: str, value: float, *labels: str) -> None:
        """Add to a counter or histogram that plugins have."""
        self._metrics.plugin_series[metric](value, *labels)

    def reject_waiting(self, pod: PodInfo, plugin: str, message: str) -> bool:
        """Reject a pod that waits for permission."""
        return self._engine.waiting.reject(pod.uid, plugin, message)

    def stop_binding(self, pod: PodInfo, plugin: str) -> bool:
        """Have a pod give up its node for one that preempts it, and be tried again; False where it is bound, or its
        Binding is under way."""
        return self._engine.waiting.preempt(pod.uid, plugin)

    def waiting_pods(self) -> Collection[PodInfo]:
        """The pods that wait for permission."""
        return self._engine.waiting.pods()

    def allow_waiting(self, pod: PodInfo, plugin: str) -> None:
        """Give a plugin's permission."""
        self._engine.waiting.allow(pod.uid, plugin)

    def slow_bindings(self) -> int:
        """How many Bindings have been under way for so long that others should not wait for them."""
        return self._binder.slow_count()

    def stop_writing(self) -> None:
        """Begin no write any more, and look up what became of Bindings whose answer is missing."""
        self._stopped = True
        self._binder.stop()

    def writes_under_way(self) -> int:
        """How many writes may have been sent and have no certain outcome."""
        return self._writes + len(self._binder.under_way)

    async def bind(self, pod: PodInfo, node: str) -> Status:
        """Bind a pod to a node; returns once it is certain whether it is bound there (see `binding`)."""
        check = self._node_check
        checked = check is not None and check.applies(pod, node)
        if check is not None and checked:
            # Before the read: between it and the Binding nothing is to be waited for.
            await self._client.wait_for_rate()
            status = await check.check(pod, node)
            if not status.is_success:
                return status
        refusal = self.write_refusal()
        return await self._binder.bind(pod, node, prepaid=checked) if refusal is None else refusal

    async def patch_pod(self, pod: PodInfo, patch: Mapping[str, Any], subresource: str = "") -> Status:
        """Patch a pod (strategic merge); Skip when it is gone, or has been replaced by a namesake."""
        refusal = self.write_refusal()
        if refusal is not None:
            return refusal
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "uid": pod.uid}}
        path = pod_path(pod) + (f"/{subresource}" if subresource else "")
        try:
            await self._send(
                self._client.patch(path, guarded, content_type=STRATEGIC_MERGE_PATCH, allowed=self._engine.may_write)
            )
        except (NotFound, Conflict):
            # The UID is the only precondition: a conflict is a namesake.
            return Status(Code.SKIP, ("the pod is gone",))
        except Invalid as error:
            # API servers from 1.35 on refuse a nomination of a pod that is bound by now. The watch will show it.
            if "nominatedNodeName" not in patch.get("status", {}):
                return failure(str(error))
            return Status(Code.SKIP, ("the pod is bound",))
        except KubeError as error:
            return failure(str(error))
        return SUCCESS

    async def delete_pod(self, pod: PodInfo) -> Status:
        """Delete a pod by name and UID, with its own grace period; one that is gone already is a success."""
        refusal = self.write_refusal()
        if refusal is not None:
            return refusal
        try:
            options = {"preconditions": {"uid": pod.uid}}
            await self._send(self._client.delete(pod_path(pod), options, allowed=self._engine.may_write))
        except (NotFound, Conflict):
            return SUCCESS
        except KubeError as error:
            return failure(str(error))
        return SUCCESS

    def evict(self, eviction: Eviction, finished: Callable[[bool], None]) -> None:
        """Carry a preemption out beside the scheduling loop; `finished` gets whether all of it succeeded."""
        self.spawn(self._evictor.carry_out(eviction, finished), f"preemption for {eviction.preemptor.key}")

    async def patch_object(
        self, kind: str, item: Any, patch: Mapping[str, Any], subresource: str = ""
    ) -> tuple[Status, Any]:
        """Patch an object (JSON merge patch) of the version we know; returns it as it is then."""
        refusal = self.write_refusal()
        if refusal is not None:
            return refusal, None
        meta = item.metadata
        unchanged = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), **unchanged}}
        watch, codec = _KINDS[kind]
        path = api_path(watch.api_version, watch.resource, namespace=meta.namespace or None, name=meta.name)
        path += f"/{subresource}" if subresource else ""
        request = self._client.patch(path, guarded, content_type=MERGE_PATCH, allowed=self._engine.may_write)
        return await self._write(request, codec)

    async def create_object(self, kind: str, namespace: str, manifest: Mapping[str, Any]) -> tuple[Status, Any]:
        """Create an object; returns it as the API server has it."""
        refusal = self.write_refusal()
        if refusal is not None:
            return refusal, None
        watch, codec = _KINDS[kind]
        path = api_path(watch.api_version, watch.resource, namespace=namespace or None)
        body = {"apiVersion": watch.api_version, "kind": kind, **manifest}
        return await self._write(self._client.post(path, body, allowed=self._engine.may_write), codec)

    async def delete_object(self, kind: str, item: Any) -> Status:
        """Delete an object by name and UID; one that is gone already is a success."""
        refusal = self.write_refusal()
        if refusal is not None:
            return refusal
        meta = item.metadata
        watch, _ = _KINDS[kind]
        path = api_path(watch.api_version, watch.resource, namespace=meta.namespace or None, name=meta.name)
        try:
            options = {"preconditions": {"uid": meta.uid}}
            await self._send(self._client.delete(path, options, allowed=self._engine.may_write))
        except (NotFound, Conflict):
            return SUCCESS
        except KubeError as error:
            return failure(str(error))
        return SUCCESS

    async def read_object(self, kind: str, item: Any) -> tuple[Status, Any]:
        """Read an object; None where it is gone, or replaced by a namesake."""
        meta = item.metadata
        watch, codec = _KINDS[kind]
        path = api_path(watch.api_version, watch.resource, namespace=meta.namespace or None, name=meta.name)
        try:
            current = codec.decode(await self._client.get(path))
        except NotFound:
            return SUCCESS, None
        except (KubeError, DecodeError) as error:
            return failure(str(error)), None
        return SUCCESS, current if current.metadata.uid == meta.uid else None

    async def pause(self, seconds: float, *, to_end: bool = False) -> None:
        """Wait without counting as a binding under way; unless `to_end`, until the binding is stopped."""
        self.paused += 1
        # The loop may have stopped popping pods because MAX_BINDING bindings were under way.
        self._engine.activate(())
        try:
            await (asyncio.sleep(seconds) if to_end else pause_pre_bind(seconds))
        finally:
            self.paused -= 1

    def exists(self, pod: PodInfo) -> bool:
        """Whether the pod still waits for a node, as far as the watch knows."""
        return self._engine.is_pending(pod.uid)

    def node(self, name: str) -> NodeInfo | None:
        """A node as it is now."""
        return self._engine.state.node(name)

    def pods_on(self, node: str) -> Collection[PodInfo]:
        """The pods on a node as they are now."""
        return self._engine.state.pods_on(node)

    async def ended_pods(self, node: str) -> Collection[PodInfo]:
        """Read the pods of a node that have ended; none where that fails."""
        try:
            answer = await self._client.get("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node},{_ENDED}"})
            return [reduce_pod(item) for item in PODS.decode_list(answer).items]
        except (KubeError, ValueError) as error:
            log.warning("pods that have ended cannot be read", node=node, error=str(error)[:200])
            return ()

    def watch_pods(self, listener: PodListener) -> None:
        """Call a function whenever a pod with a node comes, changes or goes."""
        self._engine.state.watch_pods(listener)

    def write_refusal(self) -> Status | None:
        """Return why nothing may be written now; None where it may."""
        if self._stopped:
            return failure("the scheduler is stopping; nothing was written")
        if not self._engine.may_write():
            return failure("the Lease is no longer held; nothing was written")
        return None

    async def _write(self, request: Awaitable[bytes], codec: Codec[Any]) -> tuple[Status, Any]:
        try:
            return SUCCESS, codec.decode(await self._send(request))
        except KubeError as error:
            return (_unknown(error) if is_in_doubt(error) else failure(str(error))), None
        except DecodeError as error:
            # A proxy's answer: it does not tell what the API server did.
            return _unknown(error), None

    async def _send(self, write: Awaitable[bytes]) -> bytes:
        self._writes += 1
        try:
            return await write
        finally:
            self._writes -= 1

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background task failed", task=task.get_name(), exc_info=task.exception())


def _unknown(error: Exception) -> Status:
    return UnknownOutcome(Code.ERROR, error=str(error))


async def _repeat(seconds: float, work: PeriodicWork, name: str) -> None:
    while True:
        try:
            await work(_Turn().give_way)
        except Exception:
            log.exception("periodic work failed", task=name)
        await asyncio.sleep(seconds)


class _Turn:
    """How long a piece of work has kept the loop to itself."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + TURN_SECONDS

    async def give_way(self) -> None:
        """Let others run when the turn is over."""
        if time.perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + TURN_SECONDS


def _reference_to_preemptor(of: Preemptor) -> Regarding:
    return Regarding(of.kind, of.namespace, of.name, of.uid, of.resource_version, of.api_version)


def _reference(pod: PodInfo) -> Regarding:
    return Regarding("Pod", pod.namespace, pod.name, pod.uid, pod.resource_version)
