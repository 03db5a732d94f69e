"""PodGroups as victims: which pods are preempted together, and which of them is more important (getCrossNodesVictims
and MoreImportantVictim of kube-scheduler 1.37 and 1.38).

Those of scheduling.k8s.io say it in `disruptionMode`, those of scheduling.x-k8s.io in an annotation of ours."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from scheduler.catalog import KubernetesVersion
from scheduler.framework import SCHEDULING_GROUP, NodeView, Objects, PodInfo, Pods
from scheduler.helpers.annotations import DISRUPTION, is_disrupted_as_one
from scheduler.kube.model import POD_GROUP_LABEL, PodGroup, SchedulingPodGroup

_POD, _GROUP = 0, 1
_ALL: Final = "all"
_ANNOTATED: Final = "PodGroup"
"""The kind of scheduling.x-k8s.io, as the store of objects calls it."""


class Member(NamedTuple):
    """A pod that goes, and its row; -1 where its node is gone."""

    row: int
    pod: PodInfo


class PreemptionUnit(Struct, frozen=True, eq=False):
    """What is preempted together or not at all: a pod, or the placed pods of a PodGroup, all of one priority.

    Attributes:
        members: the pods; at least one.
        rank: the higher one is more important, where priorities are equal.
        uids: of the pods.
        earliest: when the first of them started; NaN where none has.
        waits: whether one of them has not started.
    """

    members: tuple[Member, ...]
    rank: int
    uids: frozenset[str]
    earliest: float
    waits: bool

    @property
    def pods(self) -> tuple[PodInfo, ...]:
        """The pods without their rows."""
        return tuple(member.pod for member in self.members)

    @property
    def priority(self) -> int:
        """That of each of its pods."""
        return self.members[0].pod.priority

    def importance(self, unstarted: float) -> tuple[int, int, int, float, str]:
        """Return what units are ordered by, the most important first; `unstarted`: when a pod counts as started that
        has not."""
        start = self.earliest
        if self.waits:
            start = unstarted if math.isnan(start) else min(start, unstarted)
        return -self.priority, -self.rank, -len(self.members), start, self.members[0].pod.uid


class GroupKey(NamedTuple):
    """A PodGroup: the label by which pods name it, as `Pods.index` knows it, and its namespace and name."""

    label: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Say where it asks for its pods to go together."""
        if self.label == SCHEDULING_GROUP:
            return f"spec.disruptionMode all of PodGroup {self.name}"
        return f"annotation {DISRUPTION} All of PodGroup {self.name}"


class PlacedGroups:
    """The PodGroups with pods on nodes, as far as a preempting plugin has to know them.

    Without the directory of pods, and where the scheduler does not read PodGroups, every pod is a unit.

    Attributes:
        reads_annotations: whether the annotation of PodGroups of scheduling.x-k8s.io is followed.
    """

    def __init__(self, kubernetes: KubernetesVersion) -> None:
        self.reads_annotations = False
        self._kind = kubernetes.pod_group_kind if kubernetes.disrupts_groups else ""
        self._favours_members = kubernetes.favours_members
        self._pods: Pods | None = None
        self._objects: Objects | None = None

    def use_pods(self, pods: Pods) -> None:
        """Take the directory of pods."""
        self._pods = pods

    def use_objects(self, objects: Objects) -> None:
        """Take the store that holds the PodGroups."""
        self._objects = objects

    def exist(self) -> bool:
        """Tell whether the pods of any PodGroup are preempted together."""
        objects = self._objects
        if objects is None:
            return False
        if self._kind and objects.latest_by(self._kind, _mode, _ALL):
            return True
        return self.reads_annotations and bool(objects.latest_by(_ANNOTATED, _annotated_mode, _ALL))

    def rank(self, pod: PodInfo) -> int:
        """Return a higher number for a pod that is more important than others of its priority as it is in a group."""
        if self._pods is None:
            return _POD
        if not (pod.scheduling_group and self._kind and self._favours_members):
            return _POD if self.whole_group(pod) is None else _GROUP
        # Where no plugin reads PodGroups, their pods are in no directory, and are pods as any other.
        return _GROUP if self._pods.labelled(SCHEDULING_GROUP, pod.namespace, pod.scheduling_group) else _POD

    def whole_group(self, pod: PodInfo) -> GroupKey | None:
        """Return a pod's group where that is preempted as one; None where it is not."""
        objects = self._objects
        if objects is None or not names_group(pod):
            return None
        if pod.scheduling_group and self._kind:
            group: SchedulingPodGroup | None = objects.latest(self._kind, pod.namespace, pod.scheduling_group)
            if group is not None and group.spec.is_disrupted_as_one:
                return GroupKey(SCHEDULING_GROUP, pod.namespace, pod.scheduling_group)
        name = pod.labels.get(POD_GROUP_LABEL, "") if self.reads_annotations else ""
        annotated: PodGroup | None = objects.latest(_ANNOTATED, pod.namespace, name) if name else None
        if annotated is not None and is_disrupted_as_one(annotated.metadata.annotations):
            return GroupKey(POD_GROUP_LABEL, pod.namespace, name)
        return None

    def placed(self, view: NodeView, group: GroupKey) -> Iterator[Member]:
        """Yield the pods of a group that have a node, assumed ones included."""
        members = () if self._pods is None else self._pods.labelled(*group)
        for pod in members:
            node = self._pods.node_of(pod) if self._pods is not None else ""
            row = view.row(node) if node else -1
            if node and row < 0:
                yield Member(-1, pod)
            elif node:
                yield from (Member(row, other) for other in view.pods_on(row) if other.uid == pod.uid)


class UnitsInView:
    """What is preempted together among the pods that an attempt sees; found once for each group."""

    def __init__(self, groups: PlacedGroups, view: NodeView) -> None:
        self.view = view
        self._groups = groups
        self._of_groups: dict[GroupKey, PreemptionUnit | None] = {}

    def unit_of(self, row: int, pod: PodInfo) -> PreemptionUnit:
        """Return what a pod on a row is preempted with."""
        whole = self._of_group(pod)
        if whole is not None and pod.uid in whole.uids:
            return whole
        return unit_of_pod(row, pod, self._groups.rank(pod))

    def units(self, row: int, pods: Iterable[PodInfo]) -> list[PreemptionUnit]:
        """Return what pods on a row are preempted with, each unit once."""
        units = {id(unit): unit for unit in [self.unit_of(row, pod) for pod in pods]}
        return list(units.values())

    def whole(self, row: int, pods: Sequence[PodInfo], may_go: Callable[[PreemptionUnit], bool]) -> list[PodInfo]:
        """Return those of some pods on a row that may go with all that have to go with them."""
        uids: set[str] = set()
        for unit in self.units(row, pods):
            if may_go(unit):
                uids |= unit.uids
        return [pod for pod in pods if pod.uid in uids]

    def _of_group(self, pod: PodInfo) -> PreemptionUnit | None:
        """Return the placed pods of a pod's group where they are preempted as one.

        Those of unlike priorities are not: one pod of high priority would protect all others, or go with them. Upstream
        places no such group.
        """
        key = self._groups.whole_group(pod)
        if key is None:
            return None
        if key not in self._of_groups:
            members = list(self._groups.placed(self.view, key))
            alike = len({member.pod.priority for member in members}) == 1
            self._of_groups[key] = _unit(members, _GROUP) if alike else None
        return self._of_groups[key]


def unit_of_pod(row: int, pod: PodInfo, rank: int) -> PreemptionUnit:
    """Return a pod that is preempted by itself."""
    return _unit([Member(row, pod)], rank)


def _unit(members: Sequence[Member], rank: int) -> PreemptionUnit:
    starts = [member.pod.started_at for member in members]
    earliest = min((start for start in starts if start == start), default=math.nan)
    ordered = sorted(members, key=lambda member: member.pod.uid)
    uids = frozenset(member.pod.uid for member in members)
    return PreemptionUnit(tuple(ordered), rank, uids, earliest, any(math.isnan(start) for start in starts))


def names_group(pod: PodInfo) -> bool:
    """Tell whether a pod names a group that may be preempted as one."""
    return bool(pod.scheduling_group) or POD_GROUP_LABEL in pod.labels


def _mode(group: SchedulingPodGroup) -> str:
    return _ALL if group.spec.is_disrupted_as_one else ""


def _annotated_mode(group: PodGroup) -> str:
    return _ALL if is_disrupted_as_one(group.metadata.annotations) else ""
