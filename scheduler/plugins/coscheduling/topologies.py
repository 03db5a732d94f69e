"""The topologies of groups: what their own annotations ask for, and Kueue's of their members; what is not read."""

from __future__ import annotations

from typing import Final, NamedTuple

from scheduler.framework import PluginContext, PodInfo
from scheduler.helpers.annotations import disruption_problem
from scheduler.kube.model import PodGroup
from scheduler.plugins.coscheduling.groups import Groups, group_key_of
from scheduler.plugins.coscheduling.peers import is_managed_by_kueue, joined, kueue_annotations, unread
from scheduler.plugins.coscheduling.topology import SLICE_SIZE, GroupTopology, read_topology

_MAX_REMEMBERED: Final = 10_000


class _Known(NamedTuple):
    group: PodGroup
    topology: GroupTopology | None
    problem: str


class Topologies:
    """Each is read once as long as neither the group nor what its members say of it changes.

    Args:
        groups: looks up the members.
        reads_kueue: whether Kueue's annotations of members count.
    """

    def __init__(self, groups: Groups, *, reads_kueue: bool = True) -> None:
        self._groups = groups
        self._reads_kueue = reads_kueue
        self._read: dict[str, _Known] = {}
        self._annotated: dict[str, set[str]] = {}
        """UIDs of members with annotations of other schedulers, by group."""

    def pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> bool:
        """Take in a member that comes, changes or goes; true where others wait for that and no event tells them: of
        other annotations, or of one that kept them off."""
        if _says(old) == _says(new):
            return False
        awaited = False
        for pod, stays in ((old, False), (new, True)):
            if pod is None:
                continue
            group_key = group_key_of(pod)
            annotated = self._annotated.get(group_key, set())
            if not annotated and not pod.peer_topology:
                continue
            known = self._read.pop(group_key, None)
            awaited = awaited or (old is not None and (new is not None or bool(known and known.problem)))
            if stays and pod.peer_topology and not pod.deleting:
                self._annotated.setdefault(group_key, annotated).add(pod.uid)
            else:
                annotated.discard(pod.uid)
                if not annotated:
                    self._annotated.pop(group_key, None)
        return awaited

    def of(self, group: PodGroup) -> tuple[GroupTopology | None, str]:
        """Return what a group asks for, or why it cannot be told."""
        group_key = group.metadata.key
        if not group.metadata.annotations and group_key not in self._annotated:
            return None, ""
        known = self._read.get(group_key)
        if known is None or known.group is not group:
            if len(self._read) >= _MAX_REMEMBERED:
                self._read.clear()
            known = self._read[group_key] = self._ask(group)
        return known.topology, known.problem

    def _ask(self, group: PodGroup) -> _Known:
        try:
            of_members = kueue_annotations(self._members(group)) if self._reads_kueue else {}
        except ValueError as error:
            return _Known(group, None, str(error))
        if problem := disruption_problem(group.metadata.annotations):
            return _Known(group, None, problem)
        try:
            topology = read_topology(joined(group.metadata.annotations, of_members))
            if topology is not None and topology.slice_size and group.spec.min_member % topology.slice_size:
                raise ValueError(
                    f"minMember {group.spec.min_member} is no multiple of {SLICE_SIZE} {topology.slice_size}"
                )
        except ValueError as error:
            note = " (annotations kueue.x-k8s.io/podset-… of its pods count as these)" if of_members else ""
            return _Known(group, None, f"{error}{note}")
        return _Known(group, topology, "")

    def unread(self, group: PodGroup) -> str:
        """Say which annotation of another scheduler is not followed, and what to write instead; "" where there is none,
        or where the group asks for a topology by itself."""
        annotations = group.metadata.annotations
        if self.of(group) != (None, "") or not (annotations or group.metadata.key in self._annotated):
            return ""
        return unread(annotations, self._members(group), reads_kueue=self._reads_kueue)

    def _members(self, group: PodGroup) -> list[PodInfo]:
        if group.metadata.key not in self._annotated:
            return []
        members = self._groups.members(group.metadata.namespace, group.metadata.name)
        return [pod for pod in members if not pod.deleting]


class UnreadAnnotations:
    """Tells users, once per group and by an Event, of an annotation of another scheduler that is not followed."""

    def __init__(self, context: PluginContext, groups: Groups, topologies: Topologies) -> None:
        self._handle = context.handle
        self._scheduler_name = context.scheduler_name
        self._groups = groups
        self._topologies = topologies
        self._told: dict[str, None] = {}

    def warn(self, pod: PodInfo) -> None:
        """Tell it of the group of a pod that was tried; of another profile's pod that profile tells it."""
        group = self._groups.of(pod)
        if group is None or self._handle is None or pod.scheduler_name != self._scheduler_name:
            return
        uid = group.metadata.uid
        if uid in self._told or not (note := self._topologies.unread(group)):
            return
        if len(self._told) >= _MAX_REMEMBERED:
            del self._told[next(iter(self._told))]
        self._told[uid] = None
        note = f"pod group {group.metadata.key}: {note}"
        self._handle.event(pod, "Warning", "TopologyIgnored", "Scheduling", note)


def _says(pod: PodInfo | None) -> tuple[object, ...] | None:
    """Return what of a member its group's topology follows from."""
    if pod is None:
        return None
    return group_key_of(pod), pod.peer_topology, pod.deleting, bool(pod.peer_topology) and is_managed_by_kueue(pod)
