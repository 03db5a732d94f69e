"""Coscheduling as upstream has it: members wait in Permit, one by one, until enough of them hold a node
(pkg/coscheduling of scheduler-plugins 0.34.7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler import framework as fw
from scheduler.catalog import ActionType, CoschedulingArgs
from scheduler.kube.model import PodGroup
from scheduler.plugins.coscheduling.groups import KIND, ExpiringSet, Groups, group_key_of, resource_gap, wait_seconds

NAME = "Coscheduling"
_PERMITTED_SECONDS, _BACKED_OFF_SECONDS = 3.0, 10.0
"""How long upstream's caches keep what is added for 0 s."""


class UpstreamCoscheduling(
    fw.QueueSortPlugin,
    fw.PreFilterPlugin,
    fw.PostFilterPlugin,
    fw.ReservePlugin,
    fw.PermitPlugin,
    fw.EnqueueExtensions,
    fw.ObjectReader,
    fw.PodReader,
    fw.EventOrder,
    fw.FirstAttemptOrder,
):
    """QueueSort, PreFilter, PostFilter, Permit and Reserve under `compatibility: upstream`."""

    name = NAME
    orders_by_first_attempt = True

    def __init__(self, args: CoschedulingArgs, context: fw.PluginContext) -> None:
        self._handle = context.handle
        self._clocks = context.clocks
        self._wait = float(args.permit_waiting_time_seconds)
        self._backoff = float(args.pod_group_backoff_seconds)
        self._tolerated_gap = args.pod_group_reject_percentage / 100.0
        self._permitted = ExpiringSet(self._clocks.monotonic, _PERMITTED_SECONDS)
        self._backed_off = ExpiringSet(self._clocks.monotonic, _BACKED_OFF_SECONDS)
        self._assigned: dict[str, set[str]] = {}
        self.groups = Groups(context.handle)

    def use_objects(self, objects: fw.Objects) -> None:
        """Take the store that holds the PodGroups."""
        self.groups.use_objects(objects)

    def use_pods(self, pods: fw.Pods) -> None:
        """Take the directory of pods, and listen to which of them get a node."""
        self.groups.use_pods(pods, self._pod_changed)

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register new pods, and PodGroups that are created or change."""
        return (
            fw.HintRegistration(fw.POD, ActionType.ADD),
            fw.HintRegistration(KIND, ActionType.ADD | ActionType.UPDATE),
        )

    # Queue ----------------------------------------------------------------------------------------------------------

    def sort_key(self, pod: fw.PodInfo, queued_at: float) -> tuple[int, float, str]:
        """Return (priority descending, time of the group or the pod, `namespace/name` of the pod)."""
        return (-pod.priority, self.groups.queued_at(pod, queued_at), pod.key)

    def reordered_by(self, event: fw.ClusterEvent, old: object, new: object) -> Iterable[fw.PodInfo]:
        """Return the pods whose group is created or deleted: its creation time orders them."""
        changed = new or old
        if isinstance(changed, PodGroup) and (old is None or new is None):
            return self.groups.members(changed.metadata.namespace, changed.metadata.name)
        return ()

    # The attempt ----------------------------------------------------------------------------------------------------

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Reject a pod whose group failed recently, is not complete, or needs more than the cluster has."""
        problem = self._pre_filter_error(pod, view)
        return None, fw.unresolvable(problem) if problem else fw.SUCCESS

    def _pre_filter_error(self, pod: fw.PodInfo, view: fw.NodeView) -> str:
        group, group_key = self.groups.of(pod), group_key_of(pod)
        if group is None:
            return ""
        if group_key in self._backed_off:
            return f"podGroup {group_key} failed recently"
        siblings = self.groups.siblings(pod)
        needed = group.spec.min_member
        if len(siblings) < needed:
            return (
                f"pre-filter pod {pod.name} cannot find enough sibling pods, "
                f"current pods number: {len(siblings)}, minMember of group: {needed}"
            )
        if sum(1 for sibling in siblings if not sibling.spec.gates) < needed:
            return f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup"
        if group.spec.min_resources is None or group_key in self._permitted:
            return ""
        gap = resource_gap(group, view, self._members_on_nodes(pod, view))
        if not gap:
            self._permitted.add(group_key, self._wait)
        return gap

    def _members_on_nodes(self, pod: fw.PodInfo, view: fw.NodeView) -> Iterable[tuple[fw.PodInfo, int]]:
        for sibling in self.groups.siblings(pod):
            node = self.groups.node_of(sibling)
            row = view.row(node) if node else -1
            if row >= 0:
                yield sibling, row

    def post_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, codes: fw.NodeCodes
    ) -> tuple[fw.PostFilterResult | None, fw.Status]:
        """Reject the group's waiting pods, unless enough have a node, or all but a few."""
        group, group_key = self.groups.of(pod), group_key_of(pod)
        if group is None:
            return None, fw.unschedulable("can not find pod group")
        needed, assigned = group.spec.min_member, len(self._assigned.get(group_key, ()))
        if assigned >= needed:
            return None, fw.unschedulable()
        if (needed - assigned) / needed <= self._tolerated_gap:
            return None, fw.unschedulable()
        self._reject_waiting(group_key, "optimistic rejection in PostFilter")
        if self._backoff and len(self.groups.siblings(pod)) >= needed:
            self._backed_off.add(group_key, self._backoff)
        self._failed(group_key)
        return None, fw.unschedulable(
            f"PodGroup {group_key} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        )

    def permit(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> tuple[fw.Status, float]:
        """Let the pod wait until enough members have a node; then allow all of them."""
        group_key = group_key_of(pod)
        if not group_key:
            return fw.SUCCESS, 0.0
        group = self.groups.of(pod)
        if group is None:
            return fw.unschedulable("PodGroup not found"), 0.0
        assigned = self._assigned.setdefault(group_key, set())
        assigned.add(pod.name)
        if len(assigned) < group.spec.min_member:
            if len(assigned) == 1:
                # Only the first member activates its siblings: each doing so would cost much and change nothing.
                siblings = {sibling.uid: sibling for sibling in self.groups.siblings(pod) if sibling.uid != pod.uid}
                state.write(fw.PODS_TO_ACTIVATE, siblings)
            return fw.Status(fw.Code.WAIT), wait_seconds(group, self._wait)
        self.groups.clear_failed(group_key)
        if self._handle is not None:
            for waiting in self._handle.waiting_pods():
                if group_key_of(waiting) == group_key:
                    self._handle.allow_waiting(waiting, NAME)
        return fw.SUCCESS, 0.0

    def reserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> fw.Status:
        """Do nothing."""
        return fw.SUCCESS

    def unreserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> None:
        """Release the node, and reject all waiting pods of the group."""
        group_key = group_key_of(pod)
        if self.groups.of(pod) is None:
            return
        self._unassign(group_key, pod.name)
        self._reject_waiting(group_key, "rejection in Unreserve")
        self._failed(group_key)

    # Internals ------------------------------------------------------------------------------------------------------

    def _failed(self, group_key: str) -> None:
        self._permitted.discard(group_key)
        self.groups.mark_failed(group_key, self._clocks.wall())

    def _reject_waiting(self, group_key: str, message: str) -> None:
        if self._handle is None:
            return
        for waiting in self._handle.waiting_pods():
            if group_key_of(waiting) == group_key:
                self._handle.reject_waiting(waiting, NAME, message)

    def _pod_changed(self, old: fw.PodInfo | None, new: fw.PodInfo | None) -> None:
        """Count as upstream does: pods that are added with a node or deleted, but not those that are bound later."""
        if old is None and new is not None and new.node_name:
            self._assigned.setdefault(group_key_of(new), set()).add(new.name)
        elif new is None and old is not None and old.node_name:
            self._unassign(group_key_of(old), old.name)

    def _unassign(self, group_key: str, name: str) -> None:
        assigned = self._assigned.get(group_key)
        if assigned is not None:
            assigned.discard(name)
            if not assigned:
                del self._assigned[group_key]
