"""The Node object: registration, status, Lease."""

import asyncio
import contextlib
import logging
import os
import platform
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

from devcluster.node_agent.cluster import ClusterApi
from devcluster.node_agent.objects import Clock, Obj, micro_timestamp, timestamp
from scheduler.kube.client import AlreadyExists, KubeError, NotFound

log = logging.getLogger(__name__)

TIER_ANNOTATION = "secondary-scheduler.io/sandbox-tier"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
STATUS_SECONDS = 300.0
RETRY_SECONDS = 1.0
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """What the Node object says."""

    name: str
    host_ip: str
    tier: str
    pod_cidr: str
    capacity: dict[str, str]
    version: str
    runtime: str = "process://"
    """``containerRuntimeVersion``."""
    pods_are: str = "processes"
    images: tuple[str, ...] = ()


def host_capacity(directory: Path) -> dict[str, str]:
    """CPU, memory and disk of this machine, as the Node's capacity and allocatable."""
    disk = os.statvfs(directory)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
        "pods": "110",
    }


class Registration:
    """Keeps the Node and its Lease alive."""

    def __init__(self, api: ClusterApi, description: NodeDescription, clock: Clock) -> None:
        self._api = api
        self._description = description
        self._clock = clock
        self._uid = ""
        self.port = 0
        """Port of the log endpoint; 0 without one."""
        self._ready_since = timestamp(clock())

    async def run(self) -> None:
        """Register, then renew Lease and status for ever; failures are logged and tried again."""
        registered, due = False, self._clock() + STATUS_SECONDS
        while True:
            registered = registered or await self._try("register the node", self._register())
            if not registered:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if not await self._try("renew the node's lease", self._renew()):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if self._clock() >= due and await self._try("renew the node's status", self._report_ready()):
                due = self._clock() + STATUS_SECONDS
            await asyncio.sleep(RENEW_SECONDS)

    async def mark_not_ready(self) -> None:
        """Report the node as not ready; best effort."""
        with contextlib.suppress(KubeError):
            await self._report(self._ready(False))

    async def _try(self, task: str, action: Awaitable[None]) -> bool:
        try:
            await action
        except KubeError as error:
            log.warning("cannot %s: %s", task, error)
            return False
        return True

    async def _register(self) -> None:
        name = self._description.name
        metadata = {"name": name, "labels": self._labels(), "annotations": {TIER_ANNOTATION: self._description.tier}}
        cidr = self._description.pod_cidr
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}
        try:
            registered = await self._api.create("/api/v1/nodes", node)
        except AlreadyExists:
            registered = await self._api.patch(f"/api/v1/nodes/{name}", {"metadata": metadata})
        self._uid = registered["metadata"]["uid"]
        await self._report_ready()
        log.info("registered node %s (sandbox tier %s)", name, self._description.tier)

    def _labels(self) -> dict[str, str]:
        machine = platform.machine()
        return {
            "kubernetes.io/hostname": self._description.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _MACHINES.get(machine, machine),
            "type": "real",
        }

    async def _report_ready(self) -> None:
        await self._report(self._ready(True))

    async def _report(self, ready: Obj) -> None:
        description, now = self._description, timestamp(self._clock())
        fine = {
            "MemoryPressure": "KubeletHasSufficientMemory",
            "DiskPressure": "KubeletHasNoDiskPressure",
            "PIDPressure": "KubeletHasSufficientPID",
        }
        conditions = [
            {"type": kind, "status": "False", "reason": reason, "lastTransitionTime": self._ready_since}
            for kind, reason in fine.items()
        ]
        status = {
            "capacity": description.capacity,
            "allocatable": description.capacity,
            "addresses": [
                {"type": "InternalIP", "address": description.host_ip},
                {"type": "Hostname", "address": description.name},
            ],
            "conditions": [{**condition, "lastHeartbeatTime": now} for condition in (*conditions, ready)],
            "nodeInfo": _node_info(description),
            "images": [{"names": [name], "sizeBytes": 0} for name in description.images],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
        }
        await self._api.patch(f"/api/v1/nodes/{description.name}/status", {"status": status})

    def _ready(self, ready: bool) -> Obj:
        return {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "NodeAgentReady" if ready else "NodeAgentStopped",
            "message": f"the node agent runs pods as {self._description.pods_are}"
            if ready
            else "the node agent is shutting down",
            "lastTransitionTime": self._ready_since if ready else timestamp(self._clock()),
        }

    async def _renew(self) -> None:
        name = self._description.name
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_timestamp(self._clock()),
        }
        try:
            await self._api.patch(f"{path}/{name}", {"spec": spec})
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._uid}
            metadata = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._api.create(path, lease)


def _node_info(description: NodeDescription) -> dict[str, str]:
    boot = Path("/proc/sys/kernel/random/boot_id")
    machine = platform.machine()
    return {
        "architecture": _MACHINES.get(machine, machine),
        "bootID": boot.read_text().strip() if boot.exists() else "",
        "containerRuntimeVersion": description.runtime,
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": f"secondary-scheduler-node-agent-{description.version}",
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": platform.platform(terse=True),
        "systemUUID": "",
    }
