"""The kubelets of nodes without machines: they admit pods by kubelet's rule, in the order that the watch shows.

An admitted pod is reported as running, a rejected one as failed with kubelet's reason. Both cost the API server the
same writes as a kubelet's. Nothing is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from devcluster.node_agent.admission import Amounts, pod_requests, rejection
from devcluster.node_agent.objects import NEVER_RESTARTS, Obj
from scheduler.kube.client import MERGE_PATCH, Conflict, KubeClient, NotFound, Reflector, unchanged
from scheduler.kube.model import DecodeError, EventType, ObjectMeta, ResourceVersion, Unstructured, UnstructuredCodec

_WRITERS = 8
_PODS = "/api/v1/pods"


@dataclass
class KubeletOutcome:
    """What became of the pods of one scheduler.

    Attributes:
        bound: they got a node.
        rejected: their kubelet rejected them, by reason.
    """

    bound: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Running:
    node: str
    path: str
    requests: Amounts


class Kubelets:
    """All nodes' kubelets; receives the pods from a Reflector (a Sink).

    Args:
        client: for the watch and the statuses.
        allocatable: of each node.
        seed: for the choice of pods that end.
    """

    def __init__(self, client: KubeClient, allocatable: Mapping[str, Amounts], seed: int) -> None:
        self._client = client
        self._allocatable = allocatable
        self._random = random.Random(seed)
        self._running: dict[str, dict[str, _Running]] = {name: {} for name in allocatable}
        self._node_of: dict[str, str] = {}
        self._ending: set[str] = set()
        self._known: set[str] = set()
        self._waiting: set[str] = set()
        self._progress = 0
        self._statuses: asyncio.Queue[tuple[str, Obj]] = asyncio.Queue()
        self._changed = asyncio.Event()
        self.outcomes: dict[str, KubeletOutcome] = {}
        """By schedulerName."""

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Play them while the block runs."""
        reflector = Reflector(self._client, _PODS, UnstructuredCodec(), self, unchanged)
        tasks = [asyncio.create_task(reflector.run())]
        tasks += [asyncio.create_task(self._write()) for _ in range(_WRITERS)]
        try:
            await reflector.synced.wait()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # What the watch shows -------------------------------------------------------------------------------------------

    def replace(self, items: Sequence[Unstructured], resource_version: ResourceVersion) -> None:
        """See Sink."""
        for uid in (self._node_of.keys() | self._waiting) - {item.metadata.uid for item in items}:
            self._forget(uid)
        for item in items:
            self._show(item.content)

    def apply(self, events: Sequence[tuple[EventType, Unstructured]]) -> None:
        """See Sink."""
        for kind, item in events:
            if kind is EventType.DELETED:
                self._forget(item.metadata.uid)
            else:
                self._show(item.content)
        self._changed.set()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """See Sink."""
        raise RuntimeError(f"pod {metadata.key} of the benchmark cannot be read: {error}")

    # What is asked for ----------------------------------------------------------------------------------------------

    def end_one(self, nodes: Sequence[str]) -> str:
        """Choose a running pod of these nodes that is to end; return its path, "" if there is none."""
        choices = [uid for node in nodes for uid in self._running[node] if uid not in self._ending]
        if not choices:
            return ""
        uid = self._random.choice(choices)
        self._ending.add(uid)
        return self._running[self._node_of[uid]][uid].path

    def running(self) -> int:
        """How many pods run."""
        return len(self._node_of)

    async def quiet_for(self, seconds: float) -> None:
        """Wait until no pod has changed for so long."""
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def settled(self, stalled: float) -> int:
        """Wait until every pod has a node, or none has got one or ended for so many seconds; return how many wait."""
        seen, since = self._progress, time.monotonic()
        while self._waiting:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, since + stalled - time.monotonic())):
                    await self._changed.wait()
            if self._progress != seen:
                seen, since = self._progress, time.monotonic()
            elif time.monotonic() - since >= stalled:
                break
        return len(self._waiting)

    # Internals ------------------------------------------------------------------------------------------------------

    def _show(self, pod: Obj) -> None:
        metadata, spec, uid = pod["metadata"], pod["spec"], pod["metadata"]["uid"]
        ended = (pod.get("status") or {}).get("phase") in NEVER_RESTARTS
        if not ended and not spec.get("nodeName"):
            self._waiting.add(uid)
        else:
            self._waiting.discard(uid)
        if ended or not spec.get("nodeName") or uid in self._known:
            return
        self._progress += 1
        self._known.add(uid)
        outcome = self.outcomes.setdefault(spec.get("schedulerName", ""), KubeletOutcome())
        outcome.bound += 1
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        node = spec["nodeName"]
        others = (pod.requests for pod in self._running[node].values())
        refused = rejection(spec, others, self._allocatable[node])
        if refused is None:
            self._running[node][uid] = _Running(node, path, pod_requests(spec))
            self._node_of[uid] = node
            status: Obj = {"phase": "Running"}
        else:
            outcome.rejected[refused.reason] = outcome.rejected.get(refused.reason, 0) + 1
            status = {"phase": "Failed", "reason": refused.reason, "message": f"Pod was rejected: {refused.message}"}
        self._statuses.put_nowait((path, {"metadata": {"uid": uid}, "status": status}))

    def _forget(self, uid: str) -> None:
        self._ending.discard(uid)
        self._waiting.discard(uid)
        self._progress += 1
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._running[node][uid]

    async def _write(self) -> None:
        while True:
            path, body = await self._statuses.get()
            # The pod is gone.
            with contextlib.suppress(NotFound, Conflict):
                await self._client.patch(f"{path}/status", body, content_type=MERGE_PATCH)
