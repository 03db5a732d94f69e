"""Pods and their PodGroups, and what is remembered about a group for a while (pkg/coscheduling/core/core.go)."""

import math
from collections.abc import Callable, Collection, Hashable, Iterable

import numpy as np

from scheduler import framework as fw
from scheduler.kube.model import POD_GROUP_LABEL, PodGroup
from scheduler.kube.primitives import (
    TimestampError,
    epoch_seconds,
    parse_quantity,
    quantity_milli_value,
    quantity_value,
)

# Whether a cluster as a whole has the room that a group asks for (CheckClusterResource of pkg/coscheduling/core).

PODS = "pods"


def resource_gap(group: PodGroup, view: fw.NodeView, members: Iterable[tuple[fw.PodInfo, int]]) -> str:
    """Return upstream's words for what is missing, or "" when `minResources` and room for `minMember` pods are there.

    It is a sum over nodes: that it suffices does not prove that each pod fits on some node.

    Args:
        group: the group.
        view: the nodes.
        members: the group's own pods on nodes, with their rows; what they take counts as free.
    """
    wanted: dict[str, str | int | float] = {**(group.spec.min_resources or {}), PODS: group.spec.min_member}
    members_with_rows = list(members)
    missing = {}
    for resource, amount in wanted.items():
        free = _free_by_row(view, resource, members_with_rows)
        need = quantity_milli_value(amount) if resource == "cpu" else quantity_value(amount)
        # Upstream goes from node to node and stops asking for a resource once it has enough: an overcommitted node
        # further on takes nothing away.
        if not len(free) or np.maximum.accumulate(np.cumsum(free))[-1] < need:
            missing[resource] = _format_quantity(amount, free, resource)
    return (
        f"resource gap: map[{' '.join(f'{name}:{text}' for name, text in sorted(missing.items()))}]" if missing else ""
    )


def _free_by_row(view: fw.NodeView, resource: str, members: Iterable[tuple[fw.PodInfo, int]]) -> fw.FloatArray:
    rows = view.rows
    if resource == PODS:
        free: fw.FloatArray = (view.allowed_pods - view.pod_count).copy()
        for _, row in members:
            free[row] += 1
    else:
        free = view.allocatable(resource) - view.requested(resource)
        for pod, row in members:
            free[row] += pod.requests.get(resource, 0)
    return free[rows]


def _format_quantity(amount: str | int | float, free: fw.FloatArray, resource: str) -> str:
    """Return Go's print of the Quantity struct that is left after the subtractions."""
    left = parse_quantity(str(amount))
    mantissa, exponent = left.mantissa, left.exponent
    if free.any():
        unit = -3 if resource == "cpu" else 0
        lowest = min(exponent, unit)
        mantissa = mantissa * 10 ** (exponent - lowest) - int(free.sum()) * 10 ** (unit - lowest)
        exponent = lowest
    return f"{{{{{mantissa} {exponent}}} {{<nil>}}  {left.format}}}"


KIND = "PodGroup"
API_VERSION = "scheduling.x-k8s.io/v1alpha1"
_MAX_REMEMBERED = 10_000
DEFAULT_WAIT_SECONDS = 60.0
"""Used where neither the group nor the args set a time."""


def group_key_of(pod: fw.PodInfo) -> str:
    """Return `namespace/group`, or "" for a pod without a group."""
    name = pod.labels.get(POD_GROUP_LABEL, "")
    return f"{pod.namespace}/{name}" if name else ""


def wait_seconds(group: PodGroup | None, default: float) -> float:
    """Return how long a group may take: its own time, else the plugin's (util.GetWaitTimeDuration).

    A group's time of 0 is no time of its own.
    """
    own = group.spec.schedule_timeout_seconds if group is not None else None
    if own is not None:
        return float(own) or default
    return default or DEFAULT_WAIT_SECONDS


class ExpiringSet:
    """Keys that are remembered for some seconds, as upstream's go-cache does: a key that is there keeps its time."""

    def __init__(self, monotonic: Callable[[], fw.MonotonicSeconds], default_seconds: float) -> None:
        """`default_seconds` is how long a key stays that is added for 0 s."""
        self._monotonic = monotonic
        self._default = default_seconds
        self._until: dict[Hashable, fw.MonotonicSeconds] = {}

    def __contains__(self, key: Hashable) -> bool:
        until = self._until.get(key)
        if until is None:
            return False
        if self._monotonic() > until:
            del self._until[key]
            return False
        return True

    def add(self, key: Hashable, seconds: float) -> None:
        """Remember a key, unless it is remembered already."""
        if key in self:
            return
        if len(self._until) > _MAX_REMEMBERED:
            self._until = {remembered: until for remembered, until in self._until.items() if until >= self._monotonic()}
        self._until[key] = self._monotonic() + (seconds or self._default)

    def discard(self, key: Hashable) -> None:
        """Forget a key."""
        self._until.pop(key, None)


class Groups:
    """Looks up groups and siblings, and marks groups that failed: a marked group is requeued at the end."""

    def __init__(self, handle: fw.Handle | None) -> None:
        self._handle = handle
        self._objects: fw.Objects | None = None
        self._pods: fw.Pods | None = None
        self._failed: dict[str, float] = {}
        self._created: dict[str, float] = {}

    def use_objects(self, objects: fw.Objects) -> None:
        """Take the store that holds the PodGroups."""
        self._objects = objects

    def use_pods(self, pods: fw.Pods, listener: fw.PodListener | None = None) -> None:
        """Take the directory of pods; `listener` is called for every pod that has a group."""
        self._pods = pods
        pods.index(POD_GROUP_LABEL, listener)

    def of(self, pod: fw.PodInfo) -> PodGroup | None:
        """Return a pod's group; None when it names none, or one that does not exist."""
        name = pod.labels.get(POD_GROUP_LABEL)
        if not name or self._objects is None:
            return None
        group: PodGroup | None = self._objects.get(KIND, pod.namespace, name)
        return group

    def siblings(self, pod: fw.PodInfo) -> Collection[fw.PodInfo]:
        """Return all pods of a pod's group that have not ended, itself among them."""
        return self.members(pod.namespace, pod.labels.get(POD_GROUP_LABEL, ""))

    def members(self, namespace: str, name: str) -> Collection[fw.PodInfo]:
        """Return all pods of a group that have not ended."""
        if self._pods is None or not name:
            return ()
        return self._pods.labelled(POD_GROUP_LABEL, namespace, name)

    def node_of(self, pod: fw.PodInfo) -> str:
        """Return the node a pod is bound or assumed to, or ""."""
        return self._pods.node_of(pod) if self._pods is not None else ""

    # Order ----------------------------------------------------------------------------------------------------------

    def queued_at(self, pod: fw.PodInfo, own: float) -> float:
        """Return the time that orders a pod in the queue: its group's last failure, else the group's creation, else
        its own (GetCreationTimestamp)."""
        group_key = group_key_of(pod)
        if not group_key:
            return own
        failed = self._failed.get(group_key)
        if failed is not None:
            return failed
        group = self.of(pod)
        return own if group is None else self._creation(group)

    def _creation(self, group: PodGroup) -> float:
        text = group.metadata.creation_timestamp
        if not text:
            return -math.inf
        seconds = self._created.get(text)
        if seconds is None:
            try:
                seconds = epoch_seconds(text)
            except TimestampError:
                seconds = -math.inf
            if len(self._created) > _MAX_REMEMBERED:
                self._created.clear()
            self._created[text] = seconds
        return seconds

    def mark_failed(self, group_key: str, now: float) -> None:
        """Requeue a group as if it were created now."""
        self._failed.pop(group_key, None)
        self._failed[group_key] = now
        if len(self._failed) > _MAX_REMEMBERED:
            # Drop the oldest mark: most likely its group has long been deleted.
            del self._failed[next(iter(self._failed))]
        self.reorder(group_key)

    def clear_failed(self, group_key: str) -> None:
        """Sort a group by its creation time again."""
        if self._failed.pop(group_key, None) is not None:
            self.reorder(group_key)

    def reorder(self, group_key: str) -> None:
        """Make the queue sort a group's pods again."""
        if self._handle is not None:
            namespace, _, name = group_key.partition("/")
            self._handle.reorder(self.members(namespace, name))
