"""The upper bound on this machine: `python -m benchmarks.race.nullbinder KUBECONFIG`.

It decides nothing: it binds pods to nodes in turn, whether they fit or not, and writes the same Bindings and Events as
a scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import sys
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvloop

from benchmarks.race.scenario import SCHEDULER_NAME
from scheduler.kube.client import ClientConfig, KubeClient, KubeError
from scheduler.kube.primitives import format_micro_time

_BINDERS, _WRITERS, _PAGE = 64, 32, 500
_BEHIND = 4
"""Events written at once while bindings are under way."""
_YIELD_SECONDS = 0.05


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class _Spec(msgspec.Struct, frozen=True, gc=False):
    nodeName: str = ""
    schedulerName: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    spec: _Spec = _Spec()


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[_Object] = []


class _Event(msgspec.Struct):
    type: str
    object: _Object


_list_decoder = msgspec.json.Decoder(_List)
_event_decoder = msgspec.json.Decoder(_Event)


class NullBinder:
    """Binds whatever comes."""

    def __init__(self, config: ClientConfig) -> None:
        self._client = KubeClient(config, qps=0, user_agent="null-binder")
        self._event_client = KubeClient(config, qps=0, user_agent="null-binder-events")
        self._nodes: itertools.cycle[str] = itertools.cycle(())
        self._pods: asyncio.Queue[_Meta] = asyncio.Queue()
        self._events: deque[tuple[_Meta, str]] = deque()
        self._written = asyncio.Event()
        self._binding = 0

    async def run(self) -> None:
        """Bind until cancelled."""
        nodes, _ = await self._list("/api/v1/nodes", {})
        self._nodes = itertools.cycle([node.metadata.name for node in nodes])
        # Pods that have a node are of no use to one who decides nothing.
        pods, version = await self._list("/api/v1/pods", {"fieldSelector": "spec.nodeName="})
        for pod in pods:
            self._take(pod)
        async with asyncio.TaskGroup() as group:
            for _ in range(_BINDERS):
                group.create_task(self._bind())
            for number in range(_WRITERS):
                group.create_task(self._write(number))
            group.create_task(self._watch(version))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
        await self._event_client.close()

    async def _list(self, path: str, selectors: dict[str, str | int]) -> tuple[list[_Object], str]:
        items: list[_Object] = []
        token = ""
        while True:
            params = {**selectors, "limit": _PAGE, **({"continue": token} if token else {})}
            page = _list_decoder.decode(await self._client.get(path, params))
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

    def _take(self, pod: _Object) -> None:
        if pod.spec.schedulerName == SCHEDULER_NAME and not pod.spec.nodeName:
            self._pods.put_nowait(pod.metadata)

    async def _bind(self) -> None:
        while True:
            pod = await self._pods.get()
            node = next(self._nodes)
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                "target": {"kind": "Node", "name": node},
            }
            self._binding += 1
            try:
                await self._client.post(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", body)
            except KubeError as error:
                print(error, file=sys.stderr)
                continue
            finally:
                self._binding -= 1
            self._events.append((pod, node))
            self._written.set()

    async def _write(self, number: int) -> None:
        while True:
            if number >= _BEHIND and self._binding:
                await asyncio.sleep(_YIELD_SECONDS)
                continue
            if not self._events:
                self._written.clear()
                await self._written.wait()
                continue
            pod, node = self._events.popleft()
            body = {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": f"{pod.name}.{time.time_ns():x}", "namespace": pod.namespace},
                "eventTime": format_micro_time(datetime.now(UTC)),
                "reportingController": SCHEDULER_NAME,
                "reportingInstance": f"{SCHEDULER_NAME}-null",
                "type": "Normal",
                "reason": "Scheduled",
                "action": "Binding",
                "regarding": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "uid": pod.uid,
                    "resourceVersion": pod.resourceVersion,
                },
                "note": f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
            }
            try:
                await self._event_client.post(f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events", body)
            except KubeError as error:
                print(error, file=sys.stderr)


async def main() -> None:
    """Run until SIGTERM."""
    config = ClientConfig.load(kubeconfig=Path(sys.argv[1]), context=None, master=None)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    binder = NullBinder(config)
    try:
        await binder.run()
    finally:
        await binder.close()


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        uvloop.run(main())
