"""Nodes with NUMA zones and pods that need them, from a few words."""

from typing import Any

import numpy as np

from scheduler.framework import Code, CycleState, PodInfo, ProfileRunner
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.plugins.storage import made, put

NAME = "NodeResourceTopologyMatch"
KIND = "NodeResourceTopology"


def zone(name: str | int, costs: dict[int, int] | None = None, **available: str) -> dict[str, Any]:
    """A NUMA zone; `cpu="4", memory="8Gi", nic="1"` (nic stands for example.com/nic)."""
    named = {"nic": "example.com/nic", "gpu": "example.com/gpu", "hugepages": "hugepages-2Mi", "disk": "storage"}
    resources = [
        {"name": named.get(key, key), "capacity": "100", "allocatable": "100", "available": amount}
        for key, amount in available.items()
    ]
    full = f"node-{name}" if isinstance(name, int) else name
    distances = [{"name": f"node-{other}", "value": cost} for other, cost in (costs or {}).items()]
    return {"name": full, "type": "Node", "resources": resources, "costs": distances}


def topology(
    name: str,
    *zones: dict[str, Any],
    policy: str = "single-numa-node",
    scope: str = "container",
    attributes: dict[str, str] | None = None,
    **content: Any,
) -> Any:
    """A node's object; attributes win over policy and scope, which an empty text leaves out."""
    values = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **(attributes or {})}
    listed = [{"name": key, "value": value} for key, value in values.items() if value]
    return made(KIND, name, zones=list(zones), attributes=listed, **content)


def asking(name: str = "c", limits: bool = True, **amounts: str) -> dict[str, Any]:
    """A container that asks for amounts; with equal limits, as Guaranteed pods need them."""
    named = {"nic": "example.com/nic", "gpu": "example.com/gpu", "hugepages": "hugepages-2Mi"}
    requests = {named.get(key, key): amount for key, amount in amounts.items()}
    return container(name=name, requests=requests, limits=requests if limits else {})


def guaranteed(*amounts: dict[str, str], **fields: Any) -> PodInfo:
    """A Guaranteed pod with one container per set of amounts."""
    return pod("new", *(asking(f"c{index}", **amount) for index, amount in enumerate(amounts)), **fields)


def numa_runner(compatibility: str = "safe", **args: Any) -> ProfileRunner:
    """A profile with the plugin at all its points, and nothing else that scores."""
    points: dict[str, Any] = {point: {"enabled": [{"name": NAME}]} for point in ("filter", "reserve", "postBind")}
    points["score"] = {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}
    return runner(points, {NAME: args}, compatibility=compatibility)


def state_of(*topologies: Any, allocatable: dict[str, str] | None = None, **nodes: dict[str, Any]) -> ClusterState:
    """A cluster with a large node for each topology."""
    large = {"cpu": "1000", "memory": "4Ti", "example.com/nic": "100", "hugepages-2Mi": "1Ti"}
    infos = [node(topology.metadata.name, allocatable={**large, **(allocatable or {})}) for topology in topologies]
    return put(cluster(*infos), *topologies)


def verdicts(state: ClusterState, new: PodInfo, profile: ProfileRunner) -> dict[str, str]:
    """What the plugin says of each node: "" or its reason, without the amounts."""
    view = state.snapshot(NOW)
    answer = profile.plugins[NAME].filter(CycleState(), new, view, view.rows)
    if answer is None:
        return {view.name(row): "" for row in view.rows.tolist()}
    result = {}
    for index, row in enumerate(view.rows.tolist()):
        status = answer.status(index, NAME)
        assert status.code in (Code.SUCCESS, Code.UNSCHEDULABLE)
        result[view.name(row)] = status.message.partition(" (")[0]
    return result


def scores(state: ClusterState, new: PodInfo, profile: ProfileRunner) -> dict[str, int]:
    """The plugin's score of each node."""
    view = state.snapshot(NOW)
    answer = profile.plugins[NAME].score(CycleState(), new, view, view.rows)
    assert answer is not None
    assert answer.dtype == np.int64
    return {view.name(row): int(score) for row, score in zip(view.rows.tolist(), answer.tolist(), strict=True)}
