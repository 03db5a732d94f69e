"""`/metrics/resources`: what every pod requests and may use at most, as kube-scheduler shows it (pkg/scheduler/metrics/
resources of 1.34). One series per pod and resource, so nobody but a cost report should read it.

The loop hands over the pods, which never change; the text is made on the serving thread, in pieces: a hundred thousand
pods would keep the loop busy for a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

_HELP: Final = {
    "request": (
        "[STABLE] Resources requested by workloads on the cluster, broken down by pod. This shows the resource usage "
        "the scheduler and kubelet expect per pod for resources along with the unit for the resource if any."
    ),
    "limit": (
        "[STABLE] Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage the "
        "scheduler and kubelet expect per pod for resources along with the unit for the resource if any."
    ),
}
_UNITS: Final = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
_PREFIXES: Final = (("hugepages-", "bytes"), ("attachable-volumes-", "integer"))
_PODS_PER_PIECE: Final = 500


class PodResources(NamedTuple):
    """A pod's amounts by resource: milli-units of CPU, whole units of all others."""

    namespace: str
    name: str
    node: str
    scheduler: str
    priority: str
    requests: Mapping[str, int]
    limits: Mapping[str, int]


def unit_of(resource: str) -> str:
    """Return the label `unit` of a resource; "" for one that has none."""
    return _UNITS.get(resource) or next((unit for prefix, unit in _PREFIXES if resource.startswith(prefix)), "")


def resource_metrics(pods: Iterable[PodResources]) -> Iterator[str]:
    """Yield the exposition text in pieces of some hundred pods. Without a pod there is none."""
    listed = list(pods)
    for kind in ("limit", "request"):
        name = f"kube_pod_resource_{kind}"
        head = f"# HELP {name} {_HELP[kind]}\n# TYPE {name} gauge\n"
        for start in range(0, len(listed), _PODS_PER_PIECE):
            lines: list[str] = []
            for pod in listed[start : start + _PODS_PER_PIECE]:
                _add_lines(lines, name, pod, pod.limits if kind == "limit" else pod.requests)
            if lines:
                yield head + "".join(lines)
                head = ""


def _add_lines(lines: list[str], name: str, pod: PodResources, amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        if not amount:
            continue
        labels = {
            "namespace": pod.namespace,
            "node": pod.node,
            "pod": pod.name,
            "priority": pod.priority,
            "resource": resource,
            "scheduler": pod.scheduler,
            "unit": unit_of(resource),
        }
        text = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
        value = f"{amount / 1000:.17g}" if resource == "cpu" else str(amount)
        lines.append(f"{name}{{{text}}} {value}\n")


def _escaped(value: str) -> str:
    """Quote a label value: names come from whoever may create a pod."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
