"""What traffic between zones and between regions costs (networktopology.diktyo.x-k8s.io/v1alpha1)."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int64, Object


class NetworkCost(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.CostInfo."""

    destination: str = ""
    network_cost: Int64 = 0


class NetworkOrigin(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.OriginInfo: what it costs to get from one zone or region to others."""

    origin: str = ""
    cost_list: tuple[NetworkCost, ...] = ()


class NetworkTopologyInfo(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.TopologyInfo: costs between the values of one label of nodes."""

    topology_key: str = ""
    origin_list: tuple[NetworkOrigin, ...] = ()


class NetworkWeight(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.WeightInfo: costs from one source, such as UserDefined or NetperfCosts."""

    name: str = ""
    topology_list: tuple[NetworkTopologyInfo, ...] = ()


class NetworkTopologySpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.NetworkTopologySpec."""

    weights: tuple[NetworkWeight, ...] = ()


class NetworkTopology(Object, frozen=True, gc=False, rename="camel"):
    """networktopology.diktyo.x-k8s.io/v1alpha1 NetworkTopology."""

    spec: NetworkTopologySpec = NetworkTopologySpec()
