"""The upper bound on this machine: `python -m benchmarks.race.nullbinder KUBECONFIG [--victims N [--bare]]`.

It decides nothing: it binds pods to nodes in turn, whether they fit or not. It reads the same nodes and pods as a
scheduler, and writes the same Bindings and Events, and an Event as late as the scheduler does and no later. With
`--victims` it takes so many pods off the node first, with all the writes that a preemption consists of; with `--bare`
too, it deletes, binds and writes Scheduled, and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
import sys
import time
from collections import defaultdict, deque
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvloop

from benchmarks.harness.scenario import SCHEDULER_NAME
from scheduler.kube.client import STRATEGIC_MERGE_PATCH, ClientConfig, KubeClient, KubeError, PageReader
from scheduler.kube.primitives import format_micro_time, format_time

BINDERS, WRITERS = 64, 64
BEHIND = 1
"""Events written at once while bindings are under way and none is late."""
SHORT_BACKLOG_SECONDS, LATE_IN_SHORT_BACKLOG, LATE_IN_LONG_BACKLOG = 11.0, 8.5, 5.0
"""The seconds after which an Event no longer waits for bindings, as in `scheduler.engine.recorder`: with Events that
come when all is bound it would be no bound of a scheduler whose Events come within 10 s. Copied, as the import of the
engine would count as the null binder's start; a test compares them."""
_YIELD_SECONDS = 0.05


class _PodMeta(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class _PodSpec(msgspec.Struct, frozen=True, gc=False):
    nodeName: str = ""
    schedulerName: str = ""


class _BoundObject(msgspec.Struct, frozen=True, gc=False):
    metadata: _PodMeta
    spec: _PodSpec = _PodSpec()


class _PodListMeta(msgspec.Struct):
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _PodList(msgspec.Struct):
    metadata: _PodListMeta
    items: list[_BoundObject] = []


class _PodEvent(msgspec.Struct):
    type: str
    object: _BoundObject


class _Note(NamedTuple):
    """An Event to be written."""

    regarding: _PodMeta
    kind: str
    reason: str
    action: str
    text: str
    related: _PodMeta | None = None
    since: float = 0.0


_list_decoder = msgspec.json.Decoder(_PodList)
_event_decoder = msgspec.json.Decoder(_PodEvent)


class NullBinder:
    """Binds whatever comes.

    Args:
        config: of the API server.
        victims: pods that are taken off a node first.
        bare: write nothing about them but their deletion.
    """

    def __init__(self, config: ClientConfig, victims: int = 0, *, bare: bool = False) -> None:
        self._client = KubeClient(config, qps=0, user_agent="null-binder")
        self._event_client = KubeClient(config, qps=0, user_agent="null-binder-events", beside=self._client)
        self._victims, self._bare = victims, bare
        self._on_node: defaultdict[str, deque[_PodMeta]] = defaultdict(deque)
        self._nodes: itertools.cycle[str] = itertools.cycle(())
        self._pods: asyncio.Queue[_PodMeta] = asyncio.Queue()
        self._events: deque[_Note] = deque()
        self._written = asyncio.Event()
        self._binding = self._bound = 0
        self._began = 0.0

    async def run(self) -> None:
        """Bind until cancelled."""
        nodes, _ = await self._list("/api/v1/nodes")
        self._nodes = itertools.cycle([node.metadata.name for node in nodes])
        # Those that have a node, too: an API server that has written a long list has its garbage to collect.
        selector = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
        pods, version = await self._list("/api/v1/pods", selector)
        for pod in pods:
            self._take(pod)
            if pod.spec.nodeName:
                self._on_node[pod.spec.nodeName].append(pod.metadata)
        async with asyncio.TaskGroup() as group:
            for _ in range(BINDERS):
                group.create_task(self._bind())
            for number in range(WRITERS):
                group.create_task(self._write(number))
            group.create_task(self._watch(version))

    async def close(self) -> None:
        """Close the connections."""
        await self._event_client.close()
        await self._client.close()

    async def _list(self, path: str, selectors: dict[str, str] | None = None) -> tuple[list[_BoundObject], str]:
        items: list[_BoundObject] = []
        reader = PageReader(self._client, path, selectors)
        token = ""
        while True:
            page = _list_decoder.decode(await reader.request_page(token))
            items += page.items
            token = page.metadata.continue_
            if not token:
                return items, page.metadata.resourceVersion

    async def _watch(self, version: str) -> None:
        params: dict[str, str | int] = {"watch": "true", "resourceVersion": version, "timeoutSeconds": 7200}
        while True:
            rest = b""
            async with self._client.stream("/api/v1/pods", params, timeout=7200, silence=7200) as chunks:
                async for chunk in chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = _event_decoder.decode(line)
                        params["resourceVersion"] = event.object.metadata.resourceVersion
                        if event.type == "ADDED":
                            self._take(event.object)

    def _take(self, pod: _BoundObject) -> None:
        if pod.spec.schedulerName == SCHEDULER_NAME and not pod.spec.nodeName:
            self._pods.put_nowait(pod.metadata)

    async def _bind(self) -> None:
        while True:
            pod = await self._pods.get()
            node = next(self._nodes)
            self._began = self._began or time.monotonic()
            self._binding += 1
            try:
                await self._place(pod, node)
            except KubeError as error:
                print(error, file=sys.stderr)
                continue
            finally:
                self._binding -= 1
            self._bound += 1
            self._note(
                _Note(
                    pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
                )
            )

    async def _place(self, pod: _PodMeta, node: str) -> None:
        if self._victims:
            await self._make_room(pod, node)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        await self._client.post(f"{_path(pod)}/binding", body)

    async def _make_room(self, pod: _PodMeta, node: str) -> None:
        """Evict the first pods of a node, as a scheduler does: the last one when the others have been."""
        others = self._on_node[node]
        victims = [others.popleft() for _ in range(min(self._victims, len(others)))]
        writes: list[Awaitable[Any]] = [self._evict(victim, pod, node) for victim in victims[:-1]]
        if not self._bare:
            text = f"0/{len(self._on_node)} nodes are available: {len(self._on_node)} Insufficient cpu."
            self._note(_Note(pod, "Warning", "FailedScheduling", "Scheduling", text))
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
            writes.append(self._patch_status(pod, {"conditions": [_now(condition)], "nominatedNodeName": node}))
        await asyncio.gather(*writes)
        for victim in victims[-1:]:
            await self._evict(victim, pod, node)

    async def _evict(self, victim: _PodMeta, preemptor: _PodMeta, node: str) -> None:
        if not self._bare:
            message = f"{SCHEDULER_NAME}: preempting to accommodate a higher priority pod"
            condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            await self._patch_status(victim, {"conditions": [_now({**condition, "message": message})]})
            text = f"Preempted by pod {preemptor.uid} on node {node}"
            self._note(_Note(victim, "Normal", "Preempted", "Preempting", text, preemptor))
        await self._client.delete(_path(victim), {"preconditions": {"uid": victim.uid}})

    async def _patch_status(self, pod: _PodMeta, status: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        await self._client.patch(f"{_path(pod)}/status", patch, content_type=STRATEGIC_MERGE_PATCH)

    def _note(self, note: _Note) -> None:
        self._events.append(note._replace(since=time.monotonic()))
        self._written.set()

    def _writers(self) -> int:
        """Return how many Events may be written at once now."""
        if not self._binding or not self._events:
            return WRITERS
        now = time.monotonic()
        age = now - self._events[0].since
        left = self._pods.qsize() * (now - self._began) / max(self._bound, 1)
        late = LATE_IN_SHORT_BACKLOG if age + left <= SHORT_BACKLOG_SECONDS else LATE_IN_LONG_BACKLOG
        return WRITERS if age >= late else BEHIND

    async def _write(self, number: int) -> None:
        while True:
            if number >= self._writers():
                await asyncio.sleep(_YIELD_SECONDS)
                continue
            if not self._events:
                self._written.clear()
                await self._written.wait()
                continue
            note = self._events.popleft()
            pod = note.regarding
            body = {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": f"{pod.name}.{time.time_ns():x}", "namespace": pod.namespace},
                "eventTime": format_micro_time(datetime.now(UTC)),
                "reportingController": SCHEDULER_NAME,
                "reportingInstance": f"{SCHEDULER_NAME}-null",
                "type": note.kind,
                "reason": note.reason,
                "action": note.action,
                "regarding": _reference(pod),
                "note": note.text,
                **({} if note.related is None else {"related": _reference(note.related)}),
            }
            try:
                await self._event_client.post(f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events", body)
            except KubeError as error:
                print(error, file=sys.stderr)


def _path(pod: _PodMeta) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _now(condition: dict[str, Any]) -> dict[str, Any]:
    return {**condition, "lastTransitionTime": format_time(datetime.now(UTC))}


def _reference(pod: _PodMeta) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.resourceVersion,
    }


async def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(prog="benchmarks.race.nullbinder", description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--victims", type=int, default=0)
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_args()
    config = ClientConfig.load(kubeconfig=options.kubeconfig, context=None, master=None)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    binder = NullBinder(config, options.victims, bare=options.bare)
    try:
        await binder.run()
    finally:
        await binder.close()


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        uvloop.run(main())
