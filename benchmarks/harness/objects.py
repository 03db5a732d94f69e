"""Objects written to an API server: one, many at a time, and all of a scenario: nodes, the pods that fill them, the
backlog, steady arrivals."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any

import yaml

from benchmarks.harness.scenario import (
    DIRECTORY,
    NAMESPACE,
    ROLE,
    SCHEDULER_NAME,
    Churn,
    CreateNodes,
    CreateObjects,
    CreatePods,
    Json,
    Operation,
    Render,
    Scenario,
    with_params,
)
from scheduler.kube.client import APPLY_PATCH, MERGE_PATCH, Conflict, KubeClient, NotFound, api_path

_CREATORS = 32
_CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_SERVED_SECONDS = 30.0


async def at_once(calls: Iterable[Awaitable[object]], workers: int) -> None:
    """Await all calls, so many at a time. They are made only when it is their turn: an iterator may make them."""
    left = iter(calls)

    async def worker() -> None:
        for call in left:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())


def path_of(item: dict[str, Any], name: str | None = None) -> str:
    """Return the path of objects like this one in its namespace, or of the one with this name."""
    kind = item["kind"].lower()
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return api_path(item["apiVersion"], plural, namespace=item["metadata"].get("namespace"), name=name)


async def apply(client: KubeClient, item: dict[str, Any], manager: str) -> dict[str, Any]:
    """Apply an object as a field manager, whatever others have set; returns what the API server has then."""
    path = path_of(item, item["metadata"]["name"])
    params = {"fieldManager": manager, "force": "true"}
    answer: dict[str, Any] = json.loads(await client.patch(path, item, params, content_type=APPLY_PATCH))
    return answer


def pod_template(template: Json, *, measured: bool) -> Json:
    """A pod for the contestants to place. It disappears at once when deleted, since no kubelet runs it."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    labels = {**metadata.get("labels", {}), **({ROLE: "measured"} if measured else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "name": "$name", "labels": labels},
        "spec": {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, **spec},
    }


class ScenarioObjects:
    """Writes the objects of one workload."""

    def __init__(
        self, client: KubeClient, scenario: Scenario, params: dict[str, int], operations: list[Operation]
    ) -> None:
        self._client = client
        self._scenario = scenario
        self._operations = operations
        self._templates = with_params(scenario.templates, params)
        self.nodes: list[str] = []
        self.allocatable: dict[str, Json] = {}
        self.placed: list[str] = []
        """Names of the pods that fill the nodes for all contestants."""

    async def build(self, *, exists: bool = False) -> None:
        """Namespace, definitions, nodes, and the pods that fill them for all contestants; if all that `exists`, only
        learn what it is."""
        if not exists:
            await self._client.post(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            )
            for name in self._scenario.definitions:
                await define(self._client, DIRECTORY / name)
        for operation in self._operations:
            if isinstance(operation, CreateNodes):
                bodies = self._learn_nodes(operation)
                if not exists:
                    await self._post_all("/api/v1/nodes", bodies)
        for operation in self._operations:
            if isinstance(operation, CreateObjects):
                if not exists:
                    await self._create_objects(operation)
            elif isinstance(operation, CreatePods) and operation.placed and not operation.every_round:
                self.placed += _names(operation, "init")
                if not exists:
                    await self._create_placed(operation, "init")

    async def refill(self, tag: str) -> None:
        """The pods that fill the nodes for one contestant only."""
        for number, operation in enumerate(self._operations):
            if isinstance(operation, CreatePods) and operation.every_round:
                await self._create_placed(operation, f"{tag}-{number}")

    def _learn_nodes(self, operation: CreateNodes) -> list[bytes]:
        render = Render(self._templates[operation.template], operation)
        first = len(self.nodes)
        bodies = [render(first + index) for index in range(int(operation.count))]
        for body in bodies:
            node = json.loads(body)
            self.nodes.append(node["metadata"]["name"])
            self.allocatable[self.nodes[-1]] = node["status"]["allocatable"]
        return bodies

    async def _create_objects(self, operation: CreateObjects) -> None:
        render = Render(self._templates[operation.template], operation)
        await self._post_all(operation.path, (render(index) for index in range(int(operation.count))))

    async def _create_placed(self, operation: CreatePods, tag: str) -> None:
        template = pod_template(self._templates[operation.template], measured=False)
        template["spec"]["nodeName"] = "$node"
        names = _names(operation, tag)
        render = Render(template, operation, name=f"{tag}-{operation.template}-$index")
        status = self._templates[operation.template].get("status")
        run = Render({"status": status}, operation) if status else None

        async def place(index: int) -> None:
            await self._post(_PODS, render(index).replace(b"$node", self.nodes[index % len(self.nodes)].encode()))
            if run is not None:
                await self.report(names[index], run(index))

        await at_once(map(place, range(len(names))), _CREATORS)

    async def report(self, name: str, status: bytes) -> None:
        """Write a pod's status, as its kubelet would."""
        await self._client.patch(f"{_PODS}/{name}/status", status, content_type=MERGE_PATCH)

    async def backlog(self, operation: CreatePods, tag: str, count: int) -> list[str]:
        """Create pods for the contestants to place; returns their names."""
        if operation.claim:
            template = {"metadata": {"name": f"{tag}-$index"}, **self._templates[operation.claim]}
            claim = Render({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **template}, operation)
            await self._post_all(_CLAIMS, (claim(index) for index in range(count)))
        render = self._measured(operation.template, tag, operation)
        await self._post_all(_PODS, (render(index) for index in range(count)))
        return [f"{tag}-{index:05d}" for index in range(count)]

    async def arrive(self, template: str, tag: str, rate: float, seconds: float) -> list[str]:
        """Create pods at a steady rate, however long each creation takes; returns their names."""
        render = self._measured(template, tag)
        count = int(rate * seconds)
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for index in range(count):
                await asyncio.sleep(max(0.0, began + index / rate - time.monotonic()))
                group.create_task(self._post(_PODS, render(index)))
        return [f"{tag}-{index:05d}" for index in range(count)]

    async def churn(self, operation: Churn, tag: str) -> None:
        """One more pod every so often, until cancelled."""
        template = pod_template(self._templates[operation.template], measured=True)
        render = Render(template, name=f"churn-{tag}-$index")
        index = 0
        while True:
            await self._post(_PODS, render(index))
            index += 1
            await asyncio.sleep(operation.interval_milliseconds / 1000)

    async def clear(self) -> None:
        """Delete what a contestant had to do with; the caller waits until its watch says that it is gone."""
        await self._client.delete(_PODS, None, {"labelSelector": ROLE}, timeout=300)
        if any(isinstance(operation, CreatePods) and operation.every_round for operation in self._operations):
            await self._client.delete(_PODS, None, timeout=300)
        if any(isinstance(operation, CreatePods) and operation.claim for operation in self._operations):
            await self._clear_claims()
        await self._client.delete(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events", None, timeout=300)

    async def _clear_claims(self) -> None:
        """Do for the claims what their controller and the garbage collector would do."""
        claims = json.loads(await self._client.get(_CLAIMS, timeout=300))["items"]
        await at_once((self._clear_claim(claim["metadata"]["name"]) for claim in claims), _CREATORS)

    async def _clear_claim(self, name: str) -> None:
        path = f"{_CLAIMS}/{name}"
        status = {"status": {"allocation": None, "reservedFor": None}}
        await self._client.patch(f"{path}/status", status, content_type=MERGE_PATCH)
        await self._client.patch(path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
        await self._client.delete(path, None)

    def _measured(self, template: str, tag: str, operation: CreatePods | None = None) -> Render:
        return Render(pod_template(self._templates[template], measured=True), operation, name=f"{tag}-$index")

    async def delete_pod(self, name: str) -> None:
        """Delete a pod, which is gone at once: no kubelet runs it."""
        await self._client.delete(f"{_PODS}/{name}", None)

    async def create_pods(self, bodies: Iterable[bytes]) -> None:
        """Create pods of the caller's own, many at a time."""
        await self._post_all(_PODS, bodies)

    async def _post_all(self, path: str, bodies: Iterable[bytes]) -> None:
        await at_once((self._post(path, body) for body in bodies), _CREATORS)

    async def _post(self, path: str, body: bytes) -> None:
        try:
            await self._client.post(path, body)
        except Conflict:
            # Taken by the server the first time, when its answer was lost.
            return


async def define(client: KubeClient, file: Path) -> None:
    """Create a CustomResourceDefinition, and wait until it is served."""
    definition = yaml.safe_load(await asyncio.to_thread(file.read_text, encoding="utf-8"))
    await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    spec = definition["spec"]
    served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    deadline = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            await client.get(served)
            return
        except NotFound:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


def _names(operation: CreatePods, tag: str) -> list[str]:
    """The pods that fill the nodes."""
    return [f"{tag}-{operation.template}-{index:05d}" for index in range(int(operation.count))]
