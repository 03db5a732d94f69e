"""The nodes of a cluster: their sizes, zones and initial loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GIB = 1 << 30
_ZONES = ("zone-a", "zone-b", "zone-c")
RACK_LABEL = "secondary-scheduler.io/rack"
_PODS_PER_NODE = 110


@dataclass(frozen=True)
class NodeSize:
    """The capacity of a simulated node."""

    name: str
    cpus: int
    memory_gib: int


@dataclass(frozen=True)
class LoadProfile:
    """How much of a node is in use, as fractions of 1."""

    name: str
    cpu: float
    memory: float


SIZES = (NodeSize("small", 4, 8), NodeSize("medium", 8, 32), NodeSize("large", 16, 64))
HOT = LoadProfile("hot", 0.85, 0.70)
WARM = LoadProfile("warm", 0.35, 0.45)
COLD = LoadProfile("cold", 0.08, 0.20)
# Five profiles against three sizes: every size comes in every temperature.
_PROFILES = (HOT, COLD, WARM, COLD, WARM)


@dataclass(frozen=True)
class SimulatedNode:
    """A node without a machine: kwok plays its kubelet."""

    name: str
    size: NodeSize
    zone: str
    rack: str
    profile: LoadProfile


def simulated_nodes(count: int) -> list[SimulatedNode]:
    """`sim-000`, `sim-001`, …; the same count always gives the same nodes."""
    return [
        SimulatedNode(
            name=f"sim-{index:03d}",
            size=SIZES[index % len(SIZES)],
            zone=_ZONES[index // len(SIZES) % len(_ZONES)],
            # A node of each size.
            rack=f"rack-{index // len(SIZES)}",
            profile=_PROFILES[index % len(_PROFILES)],
        )
        for index in range(count)
    ]


def real_node_names(count: int) -> list[str]:
    """`real-0`, `real-1`, …"""
    return [f"real-{index}" for index in range(count)]


def manifest(node: SimulatedNode) -> dict[str, Any]:
    """The Node object, tainted so that only pods that tolerate simulated nodes are placed there."""
    resources = {
        "cpu": str(node.size.cpus),
        "memory": f"{node.size.memory_gib}Gi",
        "ephemeral-storage": "100Gi",
        "pods": str(_PODS_PER_NODE),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": node.name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": node.size.name,
                "secondary-scheduler.io/size": node.size.name,
                RACK_LABEL: node.rack,
                "topology.kubernetes.io/region": "local",
                "topology.kubernetes.io/zone": node.zone,
            },
        },
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": resources, "capacity": resources},
    }
