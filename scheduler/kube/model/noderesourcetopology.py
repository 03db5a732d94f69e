"""topology.node.k8s.io/v1alpha2 NodeResourceTopology as a scheduler reads it: what each zone of a node has left."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int64, Object


class TopologyAttribute(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha2.AttributeInfo."""

    name: str = ""
    value: str = ""


class TopologyCost(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha2.CostInfo: the distance to another zone."""

    name: str = ""
    value: Int64 = 0


class TopologyResource(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha2.ResourceInfo, without capacity and allocatable, which no decision needs."""

    name: str = ""
    available: str | int | float = "0"


class TopologyZone(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha2.Zone; NUMA nodes have the type `Node` and names such as `node-0`."""

    name: str = ""
    type: str = ""
    costs: tuple[TopologyCost, ...] = ()
    resources: tuple[TopologyResource, ...] = ()


class NodeResourceTopology(Object, frozen=True, gc=False, rename="camel"):
    """v1alpha2.NodeResourceTopology; its name is the node's. `topology_policies` is deprecated."""

    topology_policies: tuple[str, ...] = ()
    attributes: tuple[TopologyAttribute, ...] = ()
    zones: tuple[TopologyZone, ...] = ()
