"""v1.Node as a scheduler reads it."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int64, NodeName, Object, ResourceList


class Taint(Struct, frozen=True, gc=False, rename="camel"):
    """v1.Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeSpec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""
    pod_cidrs: tuple[str, ...] = ()


class ContainerImage(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ContainerImage: an image present on the node, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeAddress(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeAddress."""

    type: str = ""
    address: str = ""


class NodeCondition(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeCondition without its times."""

    type: str = ""
    status: str = ""
    reason: str = ""


class NodeStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeStatus."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    images: tuple[ContainerImage, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object, frozen=True, gc=False, rename="camel"):
    """v1.Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> NodeName:
        """The node's name, which pods are bound to."""
        return NodeName(self.metadata.name)
