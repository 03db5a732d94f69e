"""When each pod was created and bound, and when its Event was written, all by watches.

Creation and binding come from one watch, so that a delay of the watch affects both alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import msgspec

from benchmarks.harness.scenario import NAMESPACE, ROLE
from scheduler.kube.client import KubeClient

_HOURS = 6 * 3600
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


class _WatchedMeta(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    resourceVersion: str = ""
    labels: dict[str, str] = {}


class _WatchedSpec(msgspec.Struct, frozen=True, gc=False):
    nodeName: str = ""


class _Regarding(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _WatchedObject(msgspec.Struct, frozen=True, gc=False):
    metadata: _WatchedMeta = _WatchedMeta()
    spec: _WatchedSpec = _WatchedSpec()
    reason: str = ""
    regarding: _Regarding = _Regarding()


class _WatchedEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: _WatchedObject


_decoder = msgspec.json.Decoder(_WatchedEvent)
_only_meta = msgspec.json.Decoder(_WatchedObject)


class PodWatch:
    """The pods that contestants have to do with. Times in seconds of `time.monotonic()`, by the pods' names."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.present: set[str] = set()
        """Names of the pods that exist now."""
        self._placed: set[str] = set()
        """Those of them that have a node, whose later changes are no binding."""
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.node: dict[str, str] = {}
        self.events: dict[str, float] = {}
        self.first_event_at: float | None = None
        """When the first event about any pod was written."""
        self.on_bound: Callable[[str], None] = lambda name: None
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch while the block runs; a watch that fails raises RuntimeError at the next `until`."""
        # Only what the contestants do: the pods that fill the cluster have no such label.
        pods = asyncio.create_task(self._watch(_PODS, {"labelSelector": ROLE}, self._pod))
        events = asyncio.create_task(self._watch(EVENTS, {}, self._event))
        self._tasks = (pods, events)
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset(self) -> None:
        """Forget what was seen; what exists is still known."""
        for moments in (self.created, self.bound, self.node, self.events):
            moments.clear()
        self.first_event_at = None

    async def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition on what is seen here; returns whether it came true in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            for task in self._tasks:
                if task.done():
                    raise RuntimeError(f"the benchmark's own watch has failed: {task.exception()}")
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, 0.5)):
                    await self._changed.wait()
        return True

    async def wait_until_gone(self, seconds: float) -> None:
        """Wait until no pod exists any more. Raises RuntimeError when that takes longer."""
        if not await self.wait_for(lambda: not self.present, seconds):
            raise RuntimeError(f"{len(self.present)} pods are still there {seconds:.0f} s after their deletion")

    async def _watch(
        self, path: str, selectors: dict[str, str | int], take: Callable[[_WatchedEvent, float], None]
    ) -> None:
        head = _only_meta.decode(await self._client.get(path, {"limit": 1}))
        version = head.metadata.resourceVersion
        while True:
            # A fresh API server gives a watch a queue of ten events and ends it when that is full: go on from there.
            version = await self._follow(path, {**selectors, "resourceVersion": version}, take) or version

    async def _follow(
        self, path: str, params: dict[str, str | int], take: Callable[[_WatchedEvent, float], None]
    ) -> str:
        """Watch until the server ends it; returns the last version seen, "" for none."""
        version, rest = "", b""
        options: dict[str, str | int] = {**params, "watch": "true", "timeoutSeconds": _HOURS}
        async with self._client.stream(path, options, timeout=_HOURS, silence=_HOURS) as chunks:
            async for chunk in chunks:
                now = time.monotonic()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = _decoder.decode(line)
                    if event.type == "ERROR":
                        raise RuntimeError(f"GET {path}: {line[:300].decode(errors='replace')}")
                    version = event.object.metadata.resourceVersion
                    take(event, now)
                if lines:
                    self._changed.set()
        return version

    def _pod(self, event: _WatchedEvent, now: float) -> None:
        name = event.object.metadata.name
        if event.type == "DELETED":
            self.present.discard(name)
            self._placed.discard(name)
            return
        self.present.add(name)
        self.created.setdefault(name, now)
        node = event.object.spec.nodeName
        if node and name not in self._placed:
            self._placed.add(name)
            self.bound[name] = now
            self.node[name] = node
            self.on_bound(name)

    def _event(self, event: _WatchedEvent, now: float) -> None:
        if event.type != "ADDED":
            return
        if self.first_event_at is None:
            self.first_event_at = now
        if event.object.reason == "Scheduled":
            self.events.setdefault(event.object.regarding.name, now)
