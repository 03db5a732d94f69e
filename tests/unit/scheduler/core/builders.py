"""Nodes, pods and profiles for tests, from a few words."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from scheduler.config import load_configuration
from scheduler.engine import plugin_environment
from scheduler.framework import Answered, Asking, LoadReading, NodeInfo, NodeLoad, PodInfo, ProfileRunner, TurnQuestion
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import Node, Pod
from scheduler.plugins import build_profile
from scheduler.state import ClusterState, Snapshot

NOW = 1_700_000_000.0
WATCHER = "http://watcher.test:2020"
SOURCE = f"watcher:{WATCHER}"
T = TypeVar("T")


def in_turns(asking: Asking[T], others: Callable[[], Snapshot]) -> T:
    """Return the result of an attempt; whenever it has had its turn, `others` have theirs, and show the cluster."""
    try:
        question = next(asking)
        while True:
            assert isinstance(question, TurnQuestion)
            question = asking.send(Answered(None, others()))
    except StopIteration as end:
        result: T = end.value
        return result


def api_node(name: str, **fields: Any) -> Node:
    """Words: labels, annotations, taints [(key, value, effect)], unschedulable, allocatable, capacity,
    images {name: bytes}, addresses."""
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "110", **fields.get("allocatable", {})}
    status = {
        "allocatable": allocatable,
        "capacity": fields.get("capacity", allocatable),
        "images": [{"names": [image], "sizeBytes": size} for image, size in fields.get("images", {}).items()],
        "addresses": [{"type": "InternalIP", "address": address} for address in fields.get("addresses", ())],
        "conditions": [{"type": kind, "status": state} for kind, state in fields.get("conditions", {}).items()],
    }
    spec = {
        "unschedulable": fields.get("unschedulable", False),
        "taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in fields.get("taints", ())],
    }
    labels = {"kubernetes.io/hostname": name, **fields.get("labels", {})}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels, "annotations": fields.get("annotations", {})}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node)


def node(name: str, **fields: Any) -> NodeInfo:
    return reduce_node(api_node(name, **fields))


def container(cpu: str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    requests.update(more.pop("requests", {}))
    return {
        "name": more.pop("name", "c"),
        "resources": {"requests": requests, "limits": more.pop("limits", {})},
        **more,
    }


def api_pod(name: str, *containers: dict[str, Any], **fields: Any) -> Pod:
    """Words: uid, namespace, labels, version, status and metadata dicts; every other word is a field of spec in
    camelCase."""
    metadata = {
        "name": name,
        "namespace": fields.pop("namespace", "default"),
        "uid": fields.pop("uid", f"uid-{name}"),
        "labels": fields.pop("labels", {}),
        "resourceVersion": fields.pop("version", ""),
        **fields.pop("metadata", {}),
    }
    status = fields.pop("status", {})
    spec = {"schedulerName": "test", "containers": list(containers) or [container()], **fields}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def pod(name: str, *containers: dict[str, Any], **fields: Any) -> PodInfo:
    return reduce_pod(api_pod(name, *containers, **fields))


def cluster(*nodes: NodeInfo, pods: Mapping[str, list[PodInfo]] | None = None) -> ClusterState:
    """A state with nodes, and with pods bound to the node whose name they are under."""
    state = ClusterState()
    for info in nodes:
        state.upsert_node(info)
    for name, bound in (pods or {}).items():
        for placed in bound:
            state.upsert_pod(msgspec.structs.replace(placed, node_name=name), NOW)
    return state


def load(cpu: Mapping[str, float], *, age: float = 0.0, source: str = SOURCE) -> LoadReading:
    """CPU averages in per cent, measured `age` seconds before NOW."""
    at = NOW - age
    return LoadReading(
        {name: NodeLoad(cpu_average=value, measured_at=at) for name, value in cpu.items()}, at, source=source
    )


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: test
  plugins: {plugins}
  pluginConfig: {plugin_config}
"""


def runner(
    plugins: Mapping[str, Any] | None = None,
    args: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    compatibility: str = "safe",
    kubernetes: str = "1.34",
    options: Mapping[str, Any] | None = None,
    handle: Any = None,
) -> ProfileRunner:
    """A profile: plugin sets as in a file, args by plugin name, the kube-scheduler it behaves as, more of our options,
    and through what plugins have effects."""
    config = [{"name": name, "args": dict(values)} for name, values in (args or {}).items()]
    own = {"compatibility": compatibility, "kubernetesVersion": kubernetes, **(options or {})}
    config.append({"name": "SecondarySchedulerOptions", "args": own})
    encode = msgspec.json.encode
    text = CONFIGURATION.format(plugins=encode(plugins or {}).decode(), plugin_config=encode(config).decode())
    effective = load_configuration(text, source="test", external_load=True).profiles[0]
    return build_profile(effective, handle, environment=plugin_environment())


def only_scores(*names: str) -> dict[str, Any]:
    """Plugin sets in which just these plugins score."""
    return {
        "score": {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]},
        "preScore": {"disabled": []},
    }
