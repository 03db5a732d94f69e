"""Volumes, claims and classes for tests, from a few words."""

from typing import Any

import msgspec

from scheduler.core import Explanation, explain
from scheduler.framework import Code, PodInfo, ProfileRunner
from scheduler.state import CODEC_OF_KIND, ClusterState
from tests.unit.scheduler.core.builders import NOW, runner

DRIVER = "disk.example.com"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
ZONE = "topology.kubernetes.io/zone"


def made(kind: str, name: str, namespace: str = "", **content: Any) -> Any:
    """An object of a kind; metadata words: labels, annotations, metadata (anything else of it)."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "10",
        "labels": content.pop("labels", {}),
        "annotations": content.pop("annotations", {}),
        **content.pop("metadata", {}),
    }
    return CODEC_OF_KIND[kind].decode(msgspec.json.encode({"metadata": metadata, **content}))


def claim(name: str, size: str = "1Gi", *, volume: str = "", storage_class: str | None = "fast", **content: Any) -> Any:
    """A claim of namespace `default`, bound if it has a volume. More words: modes, phase, spec, and those of `made`."""
    spec = {
        "accessModes": content.pop("modes", ["ReadWriteOnce"]),
        "resources": {"requests": {"storage": size}},
        "volumeName": volume,
        "storageClassName": storage_class,
        **content.pop("spec", {}),
    }
    annotations = {**(BOUND if volume else {}), **content.pop("annotations", {})}
    phase = content.pop("phase", "Bound" if volume else "Pending")
    return made(
        "PersistentVolumeClaim",
        name,
        "default",
        annotations=annotations,
        spec=spec,
        status={"phase": phase},
        **content,
    )


def volume(name: str, size: str = "1Gi", *, for_claim: str = "", zone: str = "", **content: Any) -> Any:
    """A volume of class `fast`, taken if it is for a claim, usable in one zone if one is given. More words: modes,
    source, phase, spec, and those of `made`."""
    spec: dict[str, Any] = {
        "capacity": {"storage": size},
        "accessModes": content.pop("modes", ["ReadWriteOnce"]),
        "storageClassName": "fast",
        **content.pop("source", {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"}}),
    }
    if for_claim:
        spec["claimRef"] = {"name": for_claim, "namespace": "default"}
    if zone:
        spec["nodeAffinity"] = affinity(ZONE, zone)
    spec |= content.pop("spec", {})
    phase = content.pop("phase", "Bound" if for_claim else "Available")
    return made("PersistentVolume", name, spec=spec, status={"phase": phase}, **content)


def affinity(key: str, *values: str) -> dict[str, Any]:
    """A volume's node affinity."""
    expression = {"key": key, "operator": "In", "values": values}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def storage_class(name: str = "fast", mode: str = "WaitForFirstConsumer", **content: Any) -> Any:
    """A class, by default one that provisions once a node is chosen."""
    return made("StorageClass", name, **{"provisioner": DRIVER, "volumeBindingMode": mode, **content})


def limit(node: str, count: int | None, driver: str = DRIVER, **content: Any) -> Any:
    """What a driver allows on a node."""
    allocatable = {} if count is None else {"allocatable": {"count": count}}
    return made("CSINode", node, spec={"drivers": [{"name": driver, **allocatable}]}, **content)


def mount(*claims: str, **more: dict[str, Any]) -> dict[str, Any]:
    """The `volumes` of a pod: claims, and other sources under their volume's name."""
    volumes = [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return {"volumes": [*volumes, *({"name": name, **source} for name, source in more.items())]}


def put(state: ClusterState, *objects: Any) -> ClusterState:
    """Add objects to a state."""
    for item in objects:
        state.objects.upsert(type(item).__name__, item)
    return state


def answers(
    state: ClusterState, pod: PodInfo, profile: ProfileRunner | None = None
) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """(plugin, code, reasons) per node that a pod cannot run on."""
    explanation = explained(state, pod, profile)
    by_node = {}
    for name, node_explanation in explanation.nodes():
        rejection = node_explanation.rejection
        if rejection is not None:
            by_node[name] = (rejection.plugin, Code(rejection.code).name, rejection.reasons)
    return by_node


def explained(state: ClusterState, pod: PodInfo, profile: ProfileRunner | None = None) -> Explanation:
    """Everything about one pod."""
    return explain(state.snapshot(NOW), pod, profile or runner())
