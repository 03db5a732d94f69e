"""One contestant under one attack: victims of another namespace arrive all the time, before, during and after it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.attack.attacks import Attack
from benchmarks.attack.figures import AttackedPod, Turn, Waits, well_after
from benchmarks.attack.objects import TENANT, VICTIM_LABELS, cluster_object, tenant_object
from benchmarks.harness import contestants
from benchmarks.harness.contestants import FIRST_SECONDS, Contestant, peak_memory
from benchmarks.harness.control_plane import ControlPlane
from benchmarks.harness.figures import log
from benchmarks.harness.manifests import node
from benchmarks.harness.objects import at_once, define, path_of, pod_template
from benchmarks.harness.podwatch import PodWatch
from benchmarks.harness.scenario import DIRECTORY, NAMESPACE, Json, Render
from devcluster import processes
from scheduler.kube.client import ClientConfig, KubeClient, KubeError, api_path

_CREATORS = 16
_VICTIM_EVERY = 0.25
_PROBE_EVERY = _PROBE_SECONDS = 1.0
_TOKEN_SECONDS = 24 * 3600
_VICTIMS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PODS = f"/api/v1/namespaces/{TENANT}/pods"
TENANT_MAY_CREATE = (
    ("v1", "pods"),
    ("v1", "persistentvolumeclaims"),
    ("v1", "services"),
    ("apps/v1", "replicasets"),
    ("resource.k8s.io/v1", "resourceclaims"),
    ("scheduling.x-k8s.io/v1alpha1", "podgroups"),
)
"""In its namespace, and list and delete; nothing else anywhere. API versions and resources."""


@dataclass(frozen=True)
class Size:
    """How long and how large: nodes, seconds of each phase, and seconds that victims may wait beyond the last one."""

    nodes: int
    seconds: float
    patience: float


class AttackTrial:
    """One attack on a cluster of its own, for one contestant after the other."""

    def __init__(self, name: str, attack: Attack, size: Size, cluster: ControlPlane, number: int) -> None:
        self._name, self._attack, self._size, self._number = name, attack, size, number
        self._cluster = cluster
        self._tenant: ClientConfig | None = None

    async def build(self) -> None:
        """Make the nodes, the tenant with its rights, and what an administrator has made for other reasons."""
        async with self._client() as client:
            for name in (NAMESPACE, TENANT):
                await client.post("/api/v1/namespaces", cluster_object("v1", "Namespace", name))
            for name in self._attack.definitions:
                await define(client, DIRECTORY / name)
            self._tenant = await self._admit(client)
            count = self._size.nodes
            await at_once((client.post("/api/v1/nodes", node(number)) for number in range(count)), _CREATORS)
            await at_once((_create(client, item) for item in self._attack.cluster(count)), _CREATORS)

    async def _admit(self, client: KubeClient) -> ClientConfig:
        """Return how the tenant reaches the API server."""
        group = "rbac.authorization.k8s.io"
        rules = [
            {
                "apiGroups": [version.rpartition("/")[0]],
                "resources": [plural],
                "verbs": ["create", "list", "deletecollection"],
            }
            for version, plural in TENANT_MAY_CREATE
        ]
        account = tenant_object("v1", "ServiceAccount", TENANT)
        role = {"apiGroup": group, "kind": "Role", "name": TENANT}
        subjects = [{"kind": "ServiceAccount", "name": TENANT, "namespace": TENANT}]
        await client.post(path_of(account), account)
        for item in (
            tenant_object(f"{group}/v1", "Role", TENANT, rules=rules),
            tenant_object(f"{group}/v1", "RoleBinding", TENANT, roleRef=role, subjects=subjects),
        ):
            await client.post(path_of(item), item)
        request = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
        answer = json.loads(await client.post(f"{path_of(account, TENANT)}/token", request))
        administrator = self._cluster.client_config()
        return ClientConfig(
            server=administrator.server,
            ca_file=administrator.ca_file,
            ca_data=administrator.ca_data,
            token=answer["status"]["token"],
        )

    async def turn(self, contestant: str, root: Path) -> Turn:
        """Let a contestant (OURS, PEER, or ours of the checkout `root`) bear the attack, and leave nothing of it.

        Raises:
            RuntimeError: it bound no pod before the attack, or a server has ended.
        """
        load = os.getloadavg()[0]
        async with (
            self._client() as client,
            self._client(self._tenant) as tenant,
            contextlib.AsyncExitStack() as stack,
        ):
            seen = PodWatch(client)
            await stack.enter_async_context(seen.running())
            victims = _Victims(client, seen)
            with contestants.running(contestant, self._attack.profile, self._cluster, root=root) as started:
                await victims.create("first")
                await started.wait_for_first_binding(seen)
                await started.wait_until_live()
                turn = await self._bear(victims, tenant, started)
            self._cluster.require_alive()
            await self._clear(client, seen)
        return dataclasses.replace(turn, contestant=contestant, load=load)

    async def _bear(self, victims: _Victims, tenant: KubeClient, started: Contestant) -> Turn:
        size = self._size
        memory_before = peak_memory(started.process.pid)
        probing = started.probing(_PROBE_EVERY, timeout=_PROBE_SECONDS, fresh=True)
        async with probing as probes, victims.arriving() as began:
            await asyncio.sleep(size.seconds)
            attacked = time.monotonic()
            attackers = await self._attack_with(tenant)
            creating = time.monotonic() - attacked
            log(f"{self._name}: {attackers} pods were created in {creating:.1f} s")
            async with self._more(tenant):
                await asyncio.sleep(size.seconds)
                attackers, reason = await _count(tenant), await _reason(tenant)
            log(f"{self._name}: {attackers} pods in the end; {reason}")
            over = time.monotonic()
            await _delete_pods(tenant)
            gone = time.monotonic()
            log(f"{self._name}: its pods are gone in {gone - over:.1f} s")
            await asyncio.sleep(size.seconds)
            ended = not processes.is_alive(started.process)
            memory = 0 if ended else peak_memory(started.process.pid)
            victims.stop()
            await victims.until_bound(0.0 if ended else size.patience)
        every, end = victims.fates(), time.monotonic()
        bounds = {"before": (began, attacked), "during": (attacked, gone), "after": (gone, end)}
        phases = {
            phase: Waits.of([victim for victim in every if first <= victim.created < last], end)
            for phase, (first, last) in bounds.items()
        }
        return Turn(
            attack=self._name,
            contestant="",
            number=self._number,
            load=0.0,
            **phases,
            lost=victims.lost,
            attackers=attackers,
            creating=creating,
            deleting=gone - over,
            probes=len(probes),
            failed_probes=[round(probe.at - attacked, 1) for probe in probes if probe.seconds is None],
            ended=ended,
            well_after=well_after(every, gone),
            mib_before=memory_before / 2**20,
            mib=memory / 2**20,
        )

    async def _attack_with(self, tenant: KubeClient) -> int:
        """Create what the tenant begins with; returns how many pods there are then."""
        attack = self._attack
        await at_once((tenant.post(path_of(item), item) for item in attack.objects(self._size.nodes)), _CREATORS)
        if attack.pod is not None:
            await at_once((tenant.post(_PODS, attack.pod(number)) for number in range(attack.at_once)), _CREATORS)
        return await _count(tenant)

    @contextlib.asynccontextmanager
    async def _more(self, tenant: KubeClient) -> AsyncIterator[None]:
        """One more pod every so often while the block runs."""

        async def go_on() -> None:
            number, make = self._attack.at_once, self._attack.pod
            while make is not None and self._attack.every:
                await asyncio.sleep(self._attack.every)
                # The API server may be too slow for them all; the tenant does not mind.
                with contextlib.suppress(KubeError):
                    await tenant.post(_PODS, make(number))
                number += 1

        task = asyncio.create_task(go_on())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _clear(self, client: KubeClient, seen: PodWatch) -> None:
        for version, plural in TENANT_MAY_CREATE:
            if plural != "podgroups" or self._attack.definitions:
                await client.delete(api_path(version, plural, namespace=TENANT), None)
        await client.delete(_VICTIMS, None)
        await seen.wait_until_gone(FIRST_SECONDS)

    def _client(self, config: ClientConfig | None = None) -> KubeClient:
        return self._cluster.client("attack", config)


@dataclass
class _Victims:
    """Ordinary pods of another namespace."""

    client: KubeClient
    seen: PodWatch
    lost: int = 0
    """Not created by the API server."""
    _names: list[str] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "10m"}}}
        # As pods of a StatefulSet: nothing that is remembered about a set of labels helps with the next one.
        labels = {**VICTIM_LABELS, "statefulset.kubernetes.io/pod-name": "$index"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        self._template = pod_template(template, measured=True)

    async def create(self, name: str) -> None:
        try:
            await self.client.post(_VICTIMS, Render(self._template, name=name)(len(self._names)))
        except KubeError:
            self.lost += 1

    @contextlib.asynccontextmanager
    async def arriving(self) -> AsyncIterator[float]:
        """One every so often until `stop`, however long its creation takes; yields when that began."""
        began = time.monotonic()
        self._task = asyncio.create_task(self._arrive(began))
        try:
            yield began
        finally:
            self.stop()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _arrive(self, began: float) -> None:
        creations = set[asyncio.Task[None]]()
        while True:
            name = f"victim-{len(self._names):05d}"
            creations.add(task := asyncio.create_task(self.create(name)))
            task.add_done_callback(creations.discard)
            self._names.append(name)
            await asyncio.sleep(max(0.0, began + len(self._names) * _VICTIM_EVERY - time.monotonic()))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def until_bound(self, seconds: float) -> None:
        """Wait until all have a node, but no longer than this."""
        await self.seen.wait_for(lambda: self.seen.created.keys() <= self.seen.bound.keys(), seconds)

    def fates(self) -> list[AttackedPod]:
        seen = self.seen
        return [AttackedPod(seen.created[name], seen.bound.get(name)) for name in self._names if name in seen.created]


async def _create(client: KubeClient, item: Json) -> None:
    """Create an object, and write the status that only a subresource takes."""
    await client.post(path_of(item), item)
    if "status" in item:
        await client.patch(f"{path_of(item, item['metadata']['name'])}/status", {"status": item["status"]})


async def _count(tenant: KubeClient) -> int:
    answer = json.loads(await tenant.get(_PODS, {"limit": 1}))
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount", 0))


async def _reason(tenant: KubeClient) -> str:
    """Return what is said of a pod of the tenant that waits."""
    waiting = json.loads(await tenant.get(_PODS, {"fieldSelector": "spec.nodeName=", "limit": 1}))["items"]
    if not waiting:
        return "none waits"
    conditions = waiting[0].get("status", {}).get("conditions", ())
    messages = [condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled"]
    return f"of one that waits: {messages[0] if messages else 'nothing yet'}"


async def _delete_pods(tenant: KubeClient) -> None:
    while True:
        # A long one is cut by the API server, and goes on with the next request.
        with contextlib.suppress(KubeError):
            await tenant.delete(_PODS, None)
        if not await _count(tenant):
            return
