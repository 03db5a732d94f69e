"""v1.Node as a scheduler reads it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from scheduler.kube.model.meta import FewResources, Int64, Listed, NodeName, Object


class Taint(Struct, frozen=True, gc=False, rename="camel"):
    """v1.Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeSpec."""

    unschedulable: bool = False
    taints: Listed[Taint] = ()
    provider_id: str = ""
    pod_cidrs: Listed[str] = ()


class ContainerImage(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ContainerImage: an image present on the node, under all its names."""

    names: Listed[str] = ()
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

    capacity: FewResources = {}
    allocatable: FewResources = {}
    images: Annotated[tuple[ContainerImage, ...], Meta(max_length=8192)] = ()
    addresses: Listed[NodeAddress] = ()
    conditions: Listed[NodeCondition] = ()
    declared_features: Listed[str] = ()


class Node(Object, frozen=True, gc=False, rename="camel"):
    """v1.Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> NodeName:
        """The node's name, which pods are bound to."""
        return NodeName(self.metadata.name)
