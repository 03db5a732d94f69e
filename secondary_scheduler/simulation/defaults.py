"""What the API server adds to an object when it is created, for objects that never were: those without a uid.

The list stands in docs/simulate.md. Only what a scheduler reads is filled in. Objects are plain JSON data whose form
has been checked; a field that is null counts as absent.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.kube.model import decode_pod, pod_requests
from scheduler.kube.primitives import format_milli, format_value

Data = dict[str, Any]

NAME_LABEL = "kubernetes.io/metadata.name"
DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
_UIDS = uuid.UUID("6f0f1c5e-0f5d-5c6b-9f51-6d1f0a6f2a11")
_BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_TOLERATION_SECONDS = 300


class DefaultingError(ValueError):
    """The API server would refuse the object; the message starts with the field."""


@dataclass(frozen=True, slots=True)
class RecordedPriorityClass:
    """scheduling.k8s.io/v1 PriorityClass."""

    name: str
    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


@dataclass(slots=True)
class Defaults:
    """What defaults depend on: classes of the snapshot."""

    priority_classes: dict[str, RecordedPriorityClass] = field(default_factory=dict)
    default_storage_class: str | None = None

    def apply(self, kind: str, data: Data) -> Data:
        """Return the object with defaults filled in; `data` may be changed.

        Raises:
            DefaultingError: the API server would refuse the object.
        """
        meta = _map(data, "metadata")
        meta["uid"] = object_uid(kind, meta.get("namespace") or "", meta.get("name") or "")
        if kind == "Pod":
            self._pod(data)
        elif kind == "Node":
            status = _map(data, "status")
            if not status.get("allocatable") and status.get("capacity"):
                status["allocatable"] = dict(status["capacity"])
        elif kind == "Namespace":
            _map(meta, "labels").setdefault(NAME_LABEL, meta.get("name") or "")
        elif kind == "PersistentVolumeClaim":
            self._claim(_map(data, "spec"))
        elif kind == "PersistentVolume":
            _default(_map(data, "spec"), "volumeMode", "Filesystem")
        elif kind == "StorageClass":
            _default(data, "volumeBindingMode", "Immediate")
        elif kind == "CSIDriver":
            _default(_map(data, "spec"), "storageCapacity", False)
        return data

    def _claim(self, spec: Data) -> None:
        _default(spec, "volumeMode", "Filesystem")
        # An empty name is a choice: no class at all.
        if spec.get("storageClassName") is None and self.default_storage_class:
            spec["storageClassName"] = self.default_storage_class

    def _pod(self, data: Data) -> None:
        spec = _map(data, "spec")
        labels = _map(data, "metadata").get("labels") or {}
        _default(spec, "schedulerName", "default-scheduler")
        _default(spec, "terminationGracePeriodSeconds", 30)
        for container in _containers(spec):
            _container(container, host_network=bool(spec.get("hostNetwork")))
        self._priority(spec)
        _tolerations(spec)
        _fold_label_keys(spec, labels)
        _default(_map(data, "status"), "phase", "Pending")
        _pod_level_requests(data)

    def _priority(self, spec: Data) -> None:
        name = spec.get("priorityClassName") or ""
        priority_class = self.priority_classes.get(name)
        if not name:
            # Of several global defaults the lowest counts.
            candidates = [item for item in self.priority_classes.values() if item.global_default]
            priority_class = min(candidates, key=lambda item: item.value, default=None)
        elif priority_class is None and name in _BUILT_IN_PRIORITIES:
            priority_class = RecordedPriorityClass(name, _BUILT_IN_PRIORITIES[name])
        elif priority_class is None and spec.get("priority") is None:
            raise DefaultingError(f"spec.priorityClassName: no PriorityClass with name {name} was found")
        value, policy = 0, "PreemptLowerPriority"
        if priority_class is not None:
            value, policy = priority_class.value, priority_class.preemption_policy
        _default(spec, "priority", value)
        _default(spec, "preemptionPolicy", policy)


def object_uid(kind: str, namespace: str, name: str) -> str:
    """Return the uid of an object that has none: the same for the same name, so that results can be compared."""
    return str(uuid.uuid5(_UIDS, f"{kind}/{namespace}/{name}"))


def _map(data: Data, key: str) -> Data:
    child = data.get(key)
    if not isinstance(child, dict):
        child = data[key] = {}
    return child


def _default(data: Data, key: str, value: Any) -> None:
    if data.get(key) in (None, ""):
        data[key] = value


def _containers(spec: Data) -> list[Data]:
    return [
        container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        if isinstance(container, dict)
    ]


def _container(container: Data, *, host_network: bool) -> None:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    if limits:
        container["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}
    for port in container.get("ports") or ():
        if isinstance(port, dict):
            _default(port, "protocol", "TCP")
            if host_network and not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort")


def _tolerations(spec: Data) -> None:
    tolerations = [*(spec.get("tolerations") or ())]
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_covers(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            )
    spec["tolerations"] = tolerations


def _covers(toleration: Mapping[str, Any], key: str) -> bool:
    return (toleration.get("key") or key) == key and (toleration.get("effect") or "NoExecute") == "NoExecute"


def _fold_label_keys(spec: Data, labels: Mapping[str, str]) -> None:
    """Turn matchLabelKeys and mismatchLabelKeys into requirements of the selectors, with the pod's own values."""
    for term in (*_affinity_terms(spec), *(spec.get("topologySpreadConstraints") or ())):
        selector = term.get("labelSelector")
        if selector is None:
            continue
        requirements = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field) or ()
            if key in labels
        ]
        if requirements:
            term["labelSelector"] = {
                **selector,
                "matchExpressions": [*(selector.get("matchExpressions") or ()), *requirements],
            }


def _affinity_terms(spec: Data) -> Iterable[Data]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        yield from terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            if weighted.get("podAffinityTerm"):
                yield weighted["podAffinityTerm"]


def _pod_level_requests(data: Data) -> None:
    """Where a pod has limits as a whole: its requests are its containers' sum, else those limits."""
    spec = data["spec"]
    resources = spec.get("resources") or {}
    limits = resources.get("limits") or {}
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    bare = {**data, "spec": {**spec, "resources": None, "overhead": None}}
    for name, amount in pod_requests(decode_pod(msgspec.json.encode(bare))).requests.items():
        if name in ("cpu", "memory") and name not in requests:
            requests[name] = format_milli(amount) if name == "cpu" else format_value(amount)
    for name, limit in limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, limit)
    spec["resources"] = {**resources, "requests": requests}
