"""One node with two NUMA zones on a real API server, played through with a scheduler that reserves zones: placements,
stale numbers, fingerprints, foreign pods, another topology manager. The stage is kubelet and node agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.plugins.noderesourcetopologymatch.fingerprint import fingerprint
from scheduler.plugins.noderesourcetopologymatch.placement import METADATA, VECTOR
from tests.conformance import numa
from tests.conformance.apiclient import Api, ApiError
from tests.conformance.profiles import scheduler_name
from tests.support.numaplacement import published_zones

Json = dict[str, Any]
PERIOD = 1
NODE = "numa-node"
SCHEDULER = scheduler_name("numa-default")
NAMESPACE = "team-a"
PATIENCE = 120.0
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


class NumaNode:
    """The node, its agent, and the pods; `transcript` is what became of each pod, step by step."""

    def __init__(self, api: Api, *, pokes: bool) -> None:
        self._api = api
        self._pokes = pokes
        self._number = 0
        self.transcript: list[str] = []

    async def set(self) -> None:
        """Make the node."""
        with contextlib.suppress(ApiError):
            await self._api.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        await self._api.create({"kind": "Node", "metadata": {"name": NODE}, "status": status})

    async def clear(self) -> None:
        """Remove everything."""
        for kind, namespace in (("Pod", NAMESPACE), ("NodeResourceTopology", ""), ("Node", "")):
            with contextlib.suppress(ApiError):
                await self._api.delete_all(kind, namespace)
        await asyncio.sleep(0.5)

    async def publish(
        self,
        cpus: tuple[int, int],
        pods: Iterable[str],
        policy: str = "single-numa-node",
        zones: Mapping[str, int] | None = None,
    ) -> None:
        """The agent says what is left in each zone, which pods that includes, and maybe in which zone each is."""
        metadata, vectors = published_zones({(NAMESPACE, name, "c"): zone for name, zone in (zones or {}).items()}, 2)
        attributes = {
            "topologyManagerPolicy": policy,
            "topologyManagerScope": "container",
            "nodeTopologyPodsFingerprint": fingerprint((NAMESPACE, name) for name in pods),
            **({METADATA: metadata} if zones is not None else {}),
        }
        item: Json = {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": NODE},
            "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
            "zones": [
                {
                    "name": f"node-{number}",
                    "type": "Node",
                    "resources": [
                        {"name": name, "capacity": "64Gi", "allocatable": "64Gi", "available": amount}
                        for name, amount in (("cpu", str(cpu)), ("memory", "32Gi"))
                    ],
                    "attributes": [{"name": VECTOR, "value": vectors[number]}] if number in vectors else [],
                }
                for number, cpu in enumerate(cpus)
            ],
        }
        try:
            await self._api.create(item)
        except ApiError:
            await self._api.call(
                "PATCH", f"{TOPOLOGIES}/{NODE}", {"attributes": item["attributes"], "zones": item["zones"]}
            )

    async def resynced(self) -> None:
        """Wait for two rounds of comparing."""
        await asyncio.sleep(2.5 * PERIOD)

    async def pod(
        self, name: str, cpu: int, *, node: str = "", scheduler: str = SCHEDULER, priority_class: str = ""
    ) -> None:
        """Create a Guaranteed pod."""
        amounts = {"cpu": str(cpu), "memory": "1Gi"}
        container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        spec: Json = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
        if node:
            spec["nodeName"] = node
        if priority_class:
            spec["priorityClassName"] = priority_class
        await self._api.create({"kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    async def started(self, name: str, phase: str = "Running") -> None:
        """The kubelet has started a pod, or seen its end."""
        await self._api.set_status(
            {"kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}}, {"phase": phase}
        )

    async def gone(self, name: str) -> bool:
        """Tell whether a pod is deleted, sooner or later."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                await self._state(name)
            except ApiError:
                return True
            await asyncio.sleep(0.05)
        return False

    async def verdict(self, name: str) -> str:
        """Note the first word about a pod."""
        deadline = time.monotonic() + PATIENCE
        while True:
            state = await self._state(name)
            if state or time.monotonic() > deadline:
                self.transcript.append(f"{name}: {state or 'nothing was said'}")
                return state
            await asyncio.sleep(0.05)

    async def bound(self, name: str, patience: float = PATIENCE) -> None:
        """Wait until a pod that was rejected is bound after all. Upstream has to be told that there is news."""
        deadline = time.monotonic() + patience
        poked = time.monotonic()
        while (state := await self._state(name)) != "bound":
            if time.monotonic() > deadline:
                break
            if self._pokes and time.monotonic() > poked + 1.0:
                poked = time.monotonic()
                self._number += 1
                await self._api.call(
                    "PATCH", f"{TOPOLOGIES}/{NODE}", {"metadata": {"annotations": {"news": str(self._number)}}}
                )
            await asyncio.sleep(0.05)
        self.transcript.append(f"{name}: in the end {state}")

    async def _state(self, name: str) -> str:
        item = await self._api.get({"kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}})
        if item["spec"].get("nodeName"):
            return "bound"
        for condition in item.get("status", {}).get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                # Ours names the amounts, too.
                return re.sub(r" \([^()]*\)", "", str(condition["message"])).partition(". ")[0].rstrip(".")
        return ""

    async def play(self) -> list[str]:
        """Play everything; the scheduler has been started on a node with a foreign pod and numbers that include it."""
        await self.resynced()
        await self.pod("a", 2)
        await self.verdict("a")
        await self.started("a")
        # 2 of 4 CPUs are held back in both zones.
        await self.pod("b", 3)
        await self.verdict("b")
        await self.publish((4, 4), ["there"])
        await self.resynced()
        # The numbers do not include a: b stays where it is. Another one that needs less is placed.
        await self.pod("c", 1)
        await self.verdict("c")
        await self.started("c")
        await self.publish((1, 4), ["there", "a", "c"])
        await self.bound("b")
        await self.started("b")
        # Its object stays, and this agent counts it.
        await self.pod("done", 1, node=NODE, scheduler="somebody-else")
        await self.started("done", "Succeeded")
        await self.publish((1, 1), ["there", "a", "b", "c", "done"])
        await self.resynced()
        await self.pod("big", 9)
        await self.verdict("big")
        await self.resynced()
        await self.pod("foreign", 1, node=NODE, scheduler="somebody-else")
        await self.started("foreign")
        await asyncio.sleep(0.5)
        await self.pod("d", 1)
        await self.verdict("d")
        await self.publish((1, 0), ["there", "a", "b", "c", "done", "foreign"])
        await self.bound("d")
        await self.publish((1, 0), ["nobody"], policy="none")
        await self.resynced()
        await self.bound("big")
        return self.transcript

    async def play_slow_start(self) -> list[str]:
        """A pod is placed and not started, while numbers without it go on having the right fingerprint."""
        await self.resynced()
        await self.pod("a", 2)
        await self.verdict("a")
        await self.pod("b", 3)
        await self.verdict("b")
        await self.resynced()
        await self.bound("b", 10.0)
        return self.transcript


EXPECTED = [
    "a: bound",
    "b: 0/1 nodes are available: 1 cannot align container",
    "c: bound",
    "b: in the end bound",
    "big: 0/1 nodes are available: 1 cannot align container",
    "d: 0/1 nodes are available: 1 invalid node topology data",
    "d: in the end bound",
    "big: in the end bound",
]


def our_configuration(compatibility: str, **args: Any) -> str:
    """A profile with the plugin at all its points; pods are preempted only if its args say so."""
    points: Json = {"multiPoint": {"enabled": [{"name": numa.PLUGIN}]}}
    if "preemptionMode" not in args:
        points["postFilter"] = {"disabled": [{"name": "*"}]}
    config = [
        {"name": numa.PLUGIN, "args": args},
        {"name": "SecondarySchedulerOptions", "args": {"compatibility": compatibility}},
    ]
    profile = {"schedulerName": SCHEDULER, "plugins": points, "pluginConfig": config}
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [profile],
        }
    )
