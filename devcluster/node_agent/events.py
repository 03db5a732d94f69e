"""core/v1 Events about pods and the node, written in the background; repeats raise the count of the first."""

import asyncio
import contextlib
import itertools
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass

from devcluster.node_agent.cluster import ClusterApi
from devcluster.node_agent.objects import Clock, Obj, timestamp
from scheduler.kube.client import KubeError

COMPONENT = "secondary-scheduler-node-agent"
_QUEUE = 1000
_REMEMBERED = 500
_MESSAGE_BYTES = 1024

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _WrittenEvent:
    name: str
    count: int


class PodEventRecorder:
    """Writes Events one after the other; when the API server cannot keep up, further ones are dropped."""

    def __init__(self, api: ClusterApi, node: str, clock: Clock = time.time) -> None:
        self._api = api
        self._node = node
        self._clock = clock
        self._queue: asyncio.Queue[tuple[Obj, str, str, str, str]] = asyncio.Queue(_QUEUE)
        self._seen: OrderedDict[tuple[str, str, str, str], _WrittenEvent] = OrderedDict()
        self._serial = itertools.count(int(clock() * 1_000_000))

    def normal(self, pod: Obj, reason: str, message: str, container: str = "") -> None:
        """Record a Normal event of a pod, or of one container (``initContainers{name}`` or ``containers{name}``)."""
        self._put(pod, "Normal", reason, message, container)

    def warning(self, pod: Obj, reason: str, message: str, container: str = "") -> None:
        """Record a Warning event."""
        self._put(pod, "Warning", reason, message, container)

    def _put(self, pod: Obj, kind: str, reason: str, message: str, container: str) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait((pod, kind, reason, message[:_MESSAGE_BYTES], container))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._write(*await self._queue.get())
            self._queue.task_done()

    async def flush(self) -> None:
        """Wait until everything recorded so far is written."""
        await self._queue.join()

    async def _write(self, pod: Obj, kind: str, reason: str, message: str, container: str) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/events"
        key = (metadata["uid"], reason, message, container)
        now = timestamp(self._clock())
        try:
            seen = self._seen.get(key)
            if seen is not None:
                seen.count += 1
                await self._api.patch(f"{path}/{seen.name}", {"count": seen.count, "lastTimestamp": now})
                return
            name = f"{metadata['name'][:200]}.{next(self._serial):x}"
            await self._api.create(path, self._event(pod, name, kind, reason, message, container, now))
            self._seen[key] = _WrittenEvent(name, 1)
            while len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        except KubeError as error:
            # Events are best effort; the namespace may be going away.
            self._seen.pop(key, None)
            log.debug("event %s of %s not written: %s", reason, metadata["name"], error)

    def _event(self, pod: Obj, name: str, kind: str, reason: str, message: str, container: str, now: str) -> Obj:
        metadata = pod["metadata"]
        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": metadata["namespace"], "name": name},
            "involvedObject": {**involved, **({"fieldPath": f"spec.{container}"} if container else {})},
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": COMPONENT, "host": self._node},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
