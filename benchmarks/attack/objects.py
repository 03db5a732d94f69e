"""Objects of a tenant, and of the cluster that it attacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.harness import manifests
from benchmarks.harness.objects import pod_template
from benchmarks.harness.scenario import Json

TENANT = "tenant"
"""The namespace that the attacker may write to, and the name of its ServiceAccount."""
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
VICTIM_LABELS = {"app": "web"}


def absent(count: int, tag: str = "none") -> list[Json]:
    """Requirements of a selector that everything meets that has no label of theirs."""
    return [{"key": f"{tag}-{number:05d}", "operator": "DoesNotExist"} for number in range(count)]


def pod(name: str, *, labels: Mapping[str, str] | None = None, on: str = "", cpu: str = "10m", **more: Any) -> Json:
    """A pod of the tenant that waits for the contestant, or one `on` a node; `more` are fields of its spec, but
    `owners`, which are its ownerReferences."""
    metadata: Json = {"labels": dict(labels or {})}
    if owners := more.pop("owners", None):
        metadata["ownerReferences"] = owners
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {}), **more}
    item = pod_template({"metadata": metadata, "spec": spec}, measured=False)
    item["metadata"] |= {"name": name, "namespace": TENANT}
    return item


CROWD = 1000
_CARRIERS, _CARRIED = 20, 1000
CARRIED = _CARRIERS * _CARRIED
"""Keys that some pod of the crowd carries."""
_IN_CROWD = {"crowd": "x"}


def crowd(nodes: int) -> Iterable[Json]:
    """Pods on nodes, of which no two have the same labels; and some that carry all the keys that `crowd_selector` asks
    for, so that nobody can leave a requirement out because no pod has its key."""
    for number in range(CROWD):
        labels = _IN_CROWD | {"app": f"app-{number}", f"own-{number}": "x"}
        yield pod(f"crowd-{number}", labels=labels, on=node_name(number, nodes))
    keys = [requirement["key"] for requirement in absent(CARRIED, "carried")]
    for number in range(_CARRIERS):
        labels = dict.fromkeys(keys[number * _CARRIED : (number + 1) * _CARRIED], "x")
        yield pod(f"carrier-{number}", labels=labels, on=node_name(number, nodes))


def crowd_selector(count: int, tag: str) -> Json:
    """A selector of the whole crowd, with so many requirements that each of its pods meets and one that no other
    selector has."""
    requirements = [{"key": key, "operator": "Exists"} for key in _IN_CROWD]
    return {"matchExpressions": [*requirements, *absent(1, tag), *absent(count, "carried")]}


def of_crowd(**labels: str) -> dict[str, str]:
    """Labels of a pod that the selector means, too."""
    return _IN_CROWD | labels


def node_name(number: int, nodes: int) -> str:
    """The node that a pod with this number is put on, in turn."""
    return manifests.node_name(number % nodes)


def tenant_object(api_version: str, kind: str, name: str, **fields: Any) -> Json:
    """An object in the tenant's namespace."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": TENANT}, **fields}


def cluster_object(api_version: str, kind: str, name: str, **fields: Any) -> Json:
    """An object that belongs to no namespace, and that an administrator has made."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def namespace_labels(number: int) -> dict[str, str]:
    """Labels of one of the cluster's other namespaces."""
    return {"team": f"team-{number}", "tier": f"tier-{number % 10}"}
