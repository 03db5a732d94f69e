"""Which workload a pod belongs to, and whether that workload stands still.

A workload is what a user made: the Deployment where a ReplicaSet has one. Where its object is not known, or has no
numbers, its pods say what they can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.framework import PodInfo
from scheduler.kube.model import OwnerReference
from secondary_scheduler.rebalancing.objects import CountedReplicationController, Workload

REPLACING = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController", "Job"})
"""Kinds of controllers that make another pod for one that was evicted. Of other kinds nobody can know."""
WAITING_FOR_THE_END = frozenset({"StatefulSet"})
"""Kinds that make the other pod only once the first one has gone."""
_REVISIONS = ("pod-template-hash", "controller-revision-hash")
_Key = tuple[str, str, str]


def is_ready(pod: PodInfo) -> bool:
    """Tell whether a pod runs and serves."""
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.conditions)
    return pod.phase == "Running" and ready


@dataclass(slots=True)
class WorkloadState:
    """A workload as it is.

    Attributes:
        key: kind, namespace, name.
        pods: those that have not ended, pending ones included.
        unsettled: why it does not stand still; "" if it does.
        counted: whether its object says how many pods it wants.
    """

    key: _Key
    pods: list[PodInfo] = field(default_factory=list)
    unsettled: str = ""
    counted: bool = False

    @property
    def title(self) -> str:
        """How messages name it."""
        kind, namespace, name = self.key
        return f"{kind} {namespace}/{name}"

    @property
    def replicas(self) -> int:
        """How many of its pods are ready."""
        return sum(is_ready(pod) and not pod.deleting for pod in self.pods)


class Workloads:
    """The workloads of a cluster.

    Args:
        pods: on nodes and pending.
        objects: by kind, namespace and name.
    """

    def __init__(self, pods: Iterable[PodInfo], objects: Mapping[_Key, Workload]) -> None:
        self._objects = objects
        self._states: dict[_Key, WorkloadState] = {}
        for pod in pods:
            key = self.key_of(pod)
            if key is not None:
                self._states.setdefault(key, WorkloadState(key)).pods.append(pod)
        for state in self._states.values():
            item = objects.get(state.key)
            state.counted = item is not None and item.spec.replicas is not None
            state.unsettled = next(_signs_of_change(state, item), "")

    def key_of(self, pod: PodInfo) -> _Key | None:
        """Return the workload of a pod; None for a pod without a controller."""
        owner = pod.controller
        if owner is None:
            return None
        if owner.kind == "ReplicaSet":
            above = self._owner(owner, pod.namespace)
            if above is not None:
                return above.kind, pod.namespace, above.name
        return owner.kind, pod.namespace, owner.name

    def of(self, pod: PodInfo) -> WorkloadState | None:
        """Return the workload of a pod; None for a pod without a controller."""
        key = self.key_of(pod)
        return None if key is None else self._states.get(key)

    def controller(self, pod: PodInfo) -> tuple[bool, int | None]:
        """Return whether the pod's controller may exist, and how many pods that wants; None where it does not say.

        A controller that is another object than the pod names (its UID) has not made the pod, and replaces nothing.
        """
        owner = pod.controller
        if owner is None:
            return False, None
        item = self._objects.get((owner.kind, pod.namespace, owner.name))
        if item is None:
            return True, None
        same = not owner.uid or not item.metadata.uid or owner.uid == item.metadata.uid
        return same, item.spec.replicas

    @property
    def uncounted(self) -> Sequence[WorkloadState]:
        """Workloads about which only their pods are known."""
        return [state for state in self._states.values() if not state.counted]

    def _owner(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        item = self._objects.get((owner.kind, namespace, owner.name))
        return None if item is None else item.metadata.controller


def _signs_of_change(state: WorkloadState, item: Workload | None) -> Iterator[str]:
    """Yield why a workload is not at rest, by its object first."""
    if item is not None:
        yield from _changes_of_object(item)
    revisions = {revision for pod in state.pods for revision in [revision_of(pod)] if revision}
    if len(revisions) > 1:
        yield f"its pods are of {len(revisions)} revisions"
    for pod in state.pods:
        if pod.deleting:
            yield f"{pod.key} is being deleted"
        elif not is_ready(pod):
            yield f"{pod.key} is not ready"


def _changes_of_object(item: Workload) -> Iterator[str]:
    wanted, status = item.spec.replicas, item.status
    observed = status.observed_generation
    if observed is not None and observed < item.metadata.generation:
        yield "its controller has not seen its newest version"
    if wanted is None:
        return
    updated = None if isinstance(item, CountedReplicationController) else status.updated_replicas
    for count, words in ((status.replicas, "exist"), (updated, "are up to date"), (status.ready_replicas, "are ready")):
        if count is not None and count != wanted:
            yield f"{count} of its {wanted} pods {words}"
            return
    if wanted and status.replicas is not None and status.ready_replicas is None:
        # The API leaves out a zero.
        yield f"none of its {wanted} pods is ready"


def revision_of(pod: PodInfo) -> str:
    """Return the revision of the template that a pod was made from; "" where its labels do not say."""
    return next((pod.labels[label] for label in _REVISIONS if label in pod.labels), "")
