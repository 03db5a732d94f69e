"""What the pods of a local cluster use: by annotations, on the node that each is bound to now.

A pod says how much CPU and memory its process would take; a pod that says nothing takes nothing. It counts from its
binding until it is gone, as its process would. So a node's load follows the pods, and who moves pods changes it. What
cAdvisor would export of them follows, too (`ContainerSeries`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.kube.model import DecodeError, EventType, ObjectMeta, ResourceVersion, Unstructured
from scheduler.kube.primitives import QuantityError, quantity_milli_value

CPU_ANNOTATION = "devcluster.secondary-scheduler.io/cpu"
"""A quantity, such as `350m`."""
MEMORY_ANNOTATION = "devcluster.secondary-scheduler.io/memory"
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Use:
    """Cores and bytes."""

    cpu: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Use) -> Use:
        return Use(self.cpu + other.cpu, self.memory + other.memory)


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod on its node."""

    namespace: str
    name: str
    node: str
    containers: tuple[str, ...]
    use: Use


class PodUses:
    """All pods that are on nodes; receives them from a Reflector of any objects (a Sink).

    Args:
        changed: is called with the use of each node that has pods, after what was received has changed it.
    """

    def __init__(self, changed: Callable[[Mapping[str, Use]], None] = lambda uses: None) -> None:
        self._changed = changed
        self.pods: dict[str, PodOnNode] = {}
        """By UID."""

    def by_node(self) -> dict[str, Use]:
        """What the pods of each node use together; nodes without pods are missing."""
        parts: dict[str, list[Use]] = {}
        for pod in self.pods.values():
            parts.setdefault(pod.node, []).append(pod.use)
        # Summed again each time, and exactly: what was added and taken away a thousand times is still nothing.
        return {
            node: Use(math.fsum(use.cpu for use in uses), math.fsum(use.memory for use in uses))
            for node, uses in parts.items()
        }

    def replace(self, items: Sequence[Unstructured], resource_version: ResourceVersion) -> None:
        """See Sink."""
        self.pods.clear()
        for item in items:
            self._show(item)
        self._changed(self.by_node())

    def apply(self, events: Sequence[tuple[EventType, Unstructured]]) -> None:
        """See Sink."""
        for kind, item in events:
            if kind is EventType.DELETED:
                self.pods.pop(item.metadata.uid, None)
            else:
                self._show(item)
        self._changed(self.by_node())

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """See Sink. What cannot be read uses nothing."""
        self.pods.pop(metadata.uid, None)

    def _show(self, item: Unstructured) -> None:
        spec, status = item.content.get("spec") or {}, item.content.get("status") or {}
        node = spec.get("nodeName")
        if not node or status.get("phase") in _ENDED:
            self.pods.pop(item.metadata.uid, None)
            return
        annotations = item.content.get("metadata", {}).get("annotations") or {}
        self.pods[item.metadata.uid] = PodOnNode(
            item.metadata.namespace,
            item.metadata.name,
            node,
            tuple(container["name"] for container in spec.get("containers") or ()),
            Use(_amount(annotations, CPU_ANNOTATION), _amount(annotations, MEMORY_ANNOTATION)),
        )


def _amount(annotations: Mapping[str, Any], name: str) -> float:
    """Return a quantity; 0 for none, and for what is no quantity or below 0."""
    try:
        return max(0, quantity_milli_value(annotations[name])) / 1000
    except (KeyError, QuantityError):
        return 0.0


@dataclass
class _PodMeter:
    """The processor time of one pod. It has used so much since `at`."""

    use: Use
    at: float
    seconds: float = 0.0


class ContainerSeries:
    """The counters of the pods that run. Times are seconds of any monotonic clock."""

    def __init__(self) -> None:
        self._meters: dict[str, _PodMeter] = {}

    def exposition(self, pods: Mapping[str, PodOnNode], now: float) -> str:
        """Return the series of pods (by UID) in Prometheus' text format; those of pods that are gone end.

        The containers share what their pod uses evenly: nobody asks which it is.
        """
        cpu = ["# TYPE container_cpu_usage_seconds_total counter"]
        memory = ["# TYPE container_memory_working_set_bytes gauge"]
        for uid in self._meters.keys() - pods.keys():
            del self._meters[uid]
        for uid, pod in pods.items():
            meter = self._meters.setdefault(uid, _PodMeter(pod.use, now))
            meter.seconds += meter.use.cpu * max(0.0, now - meter.at)
            meter.use, meter.at = pod.use, now
            for container in pod.containers:
                labels = f'namespace="{pod.namespace}",pod="{pod.name}",container="{container}",node="{pod.node}"'
                cpu.append(f"container_cpu_usage_seconds_total{{{labels}}} {meter.seconds / len(pod.containers):.6f}")
                memory.append(
                    f"container_memory_working_set_bytes{{{labels}}} {round(pod.use.memory / len(pod.containers))}"
                )
        return "\n".join([*cpu, *memory, ""])
