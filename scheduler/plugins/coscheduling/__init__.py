"""Coscheduling: pods of a PodGroup run together or not at all (pkg/coscheduling of scheduler-plugins 0.34.7)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from scheduler import framework as fw
from scheduler.catalog import ActionType, CoschedulingArgs
from scheduler.helpers.annotations import DISRUPTION
from scheduler.kube.model import POD_GROUP_LABEL, PodGroup
from scheduler.plugins.coscheduling.groups import (
    API_VERSION,
    KIND,
    ExpiringSet,
    Groups,
    group_key_of,
    resource_gap,
    wait_seconds,
)
from scheduler.plugins.coscheduling.topologies import Topologies, UnreadAnnotations
from scheduler.plugins.coscheduling.topology import GroupTopology

NAME = "Coscheduling"
_URGENT, _ORDINARY = 0, 1
_CHECKED = "checked"
"""PreFilter has looked at the group of the pod."""
_MAX_WIDENING = 10_000
"""Groups whose time at a level of their topology is remembered."""
_PERMITTED_SECONDS, _BACKED_OFF_SECONDS = 3.0, 10.0
"""How long upstream's caches keep what is added for 0 s."""


class _Coscheduling(
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
    ABC,
):
    """What both have in common: the args, and where groups and pods are read."""

    name = NAME
    orders_by_first_attempt = True

    def __init__(
        self, args: CoschedulingArgs, context: fw.PluginContext, backed_off_seconds: float, *, reads_kueue: bool
    ) -> None:
        self._handle = context.handle
        self._clocks = context.clocks
        self._wait = float(args.permit_waiting_time_seconds)
        self._backoff = float(args.pod_group_backoff_seconds)
        self._backed_off = ExpiringSet(self._clocks.monotonic, backed_off_seconds)
        self.groups = Groups(context.handle)
        self._topologies = Topologies(self.groups, reads_kueue=reads_kueue)
        self._unread = UnreadAnnotations(context, self.groups, self._topologies)

    def use_objects(self, objects: fw.Objects) -> None:
        """Take the store that holds the PodGroups."""
        self.groups.use_objects(objects)

    def use_pods(self, pods: fw.Pods) -> None:
        """Take the directory of pods, and listen to which of them get a node."""
        self.groups.use_pods(pods, self._take_in)

    def _take_in(self, old: fw.PodInfo | None, new: fw.PodInfo | None) -> None:
        awaited = self._topologies.pod_changed(old, new)
        self._pod_changed(old, new)
        member = new or old
        if awaited and member is not None and self._handle is not None:
            self._handle.activate(self.groups.siblings(member))

    @abstractmethod
    def _pod_changed(self, old: fw.PodInfo | None, new: fw.PodInfo | None) -> None:
        """Take in a pod that comes, changes or goes."""

    def reserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> fw.Status:
        """Do nothing."""
        return fw.SUCCESS


class SafeCoscheduling(_Coscheduling, fw.GangPlugin):
    """QueueSort and PreFilter under `compatibility: safe`, and what the engine asks about gangs (`GangPlugin`)."""

    def __init__(self, args: CoschedulingArgs, context: fw.PluginContext) -> None:
        super().__init__(args, context, 0.0, reads_kueue=True)
        self._bound: dict[str, set[str]] = {}
        self._binding_groups: set[str] = set()
        self._short_of_resources: set[str] = set()
        self._refused_since: dict[str, fw.MonotonicSeconds] = {}
        """Groups that do not fit at a level of their topology, and since when."""
        self._widening: set[str] = set()
        """Those of them that are tried again at the next level."""
        self._checked_attempt: tuple[str, float, int] = ("", 0.0, 0)
        self._checked_status = fw.SUCCESS

    # Queue ----------------------------------------------------------------------------------------------------------

    def sort_key(self, pod: fw.PodInfo, queued_at: float) -> tuple[int, int, float, str]:
        """Return (gangs that hold nodes and lack members first, priority descending, time of the group or the pod,
        `namespace/name` of the pod)."""
        urgency = _URGENT if self._is_partly_bound(pod) else _ORDINARY
        return (urgency, -pod.priority, self.groups.queued_at(pod, queued_at), pod.key)

    def _is_partly_bound(self, pod: fw.PodInfo) -> bool:
        group_key = group_key_of(pod)
        if not group_key or (group_key not in self._binding_groups and group_key not in self._bound):
            return False
        group = self.groups.of(pod)
        if group is None:
            return False
        return group_key in self._binding_groups or len(self._bound[group_key]) < group.spec.min_member

    def reordered_by(self, event: fw.ClusterEvent, old: object, new: object) -> Iterable[fw.PodInfo]:
        """Return the pods whose group is created, deleted or changes its size."""
        changed = new or old
        if not isinstance(changed, PodGroup) or (isinstance(old, PodGroup) and new and _asks_the_same(old, changed)):
            return ()
        return self.groups.members(changed.metadata.namespace, changed.metadata.name)

    def _pod_changed(self, old: fw.PodInfo | None, new: fw.PodInfo | None) -> None:
        """Keep track of the members that have a node and stay; the order of the others depends on them."""
        pod = new or old
        if pod is None:
            return
        group_key = group_key_of(pod)
        bound = self._bound.get(group_key, set())
        before = len(bound)
        if new is not None and new.node_name and not new.deleting:
            self._bound.setdefault(group_key, bound).add(pod.uid)
        else:
            bound.discard(pod.uid)
            if not bound:
                self._bound.pop(group_key, None)
        group = self.groups.of(pod)
        if group is not None and {before, len(bound)} & {0, group.spec.min_member} and before != len(bound):
            self.groups.reorder(group_key)

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register changes of a group and its members; where the cluster was too small, also what adds capacity."""
        return (
            fw.HintRegistration(KIND, ActionType.ADD | ActionType.UPDATE | ActionType.DELETE, self._group_changed),
            fw.HintRegistration(fw.POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL, self._sibling_changed),
            fw.HintRegistration(fw.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN, self._pod_gone),
            fw.HintRegistration(
                fw.NODE,
                ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL,
                self._node_changed,
            ),
        )

    @staticmethod
    def _group_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        changed = new or old
        if not isinstance(changed, PodGroup) or changed.metadata.key != group_key_of(pod):
            return fw.Hint.SKIP
        unchanged = isinstance(old, PodGroup) and new and _asks_the_same(old, changed)
        return fw.Hint.SKIP if unchanged else fw.Hint.QUEUE

    def _node_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """Wake the members of a group with a topology where a node comes with one of its labels, or loses it, too."""
        if self._capacity_changed(pod, old, new) is fw.Hint.QUEUE:
            return fw.Hint.QUEUE
        group = self.groups.of(pod)
        topology = self._topologies.of(group)[0] if group is not None else None
        if topology is None or not isinstance(new, fw.NodeInfo):
            return fw.Hint.SKIP
        before = old.labels if isinstance(old, fw.NodeInfo) else {}
        changed = any(before.get(label) != new.labels.get(label) for label in topology.levels)
        return fw.Hint.QUEUE if changed else fw.Hint.SKIP

    @staticmethod
    def _sibling_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        return fw.Hint.QUEUE if isinstance(new, fw.PodInfo) and group_key_of(new) == group_key_of(pod) else fw.Hint.SKIP

    def _capacity_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        return fw.Hint.QUEUE if group_key_of(pod) in self._short_of_resources else fw.Hint.SKIP

    def _pod_gone(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """Wake members where one is gone that may have kept the others from a domain, too."""
        if isinstance(old, fw.PodInfo) and new is None and group_key_of(old) == group_key_of(pod):
            return fw.Hint.QUEUE
        return self._capacity_changed(pod, old, new)

    # The attempt ----------------------------------------------------------------------------------------------------

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Reject a pod whose group does not exist, is not complete, failed recently, or needs more than there is."""
        group_key = group_key_of(pod)
        if not group_key:
            return None, fw.SUCCESS
        # The members of a gang are decided one after the other on one snapshot, and all get the same answer: what the
        # earlier ones were given counts as free for the later ones.
        state.write(NAME, _CHECKED)
        attempt = (group_key, view.now, view.assignments.end)
        if self._checked_attempt != attempt:
            self._short_of_resources.discard(group_key)
            status = self._check_group(group_key, pod)
            self._checked_status = self._check_resources(group_key, pod, view) if status.is_success else status
            self._checked_attempt = attempt
        return None, self._checked_status

    def _check_group(self, group_key: str, pod: fw.PodInfo) -> fw.Status:
        group = self.groups.of(pod)
        if group is None:
            return _pending(f"pod group {group_key} does not exist")
        if problem := self._topologies.of(group)[1]:
            return fw.unresolvable(f"pod group {group_key}: {problem}")
        if group_key in self._backed_off:
            return fw.unresolvable(f"podGroup {group_key} failed recently")
        needed = group.spec.min_member
        siblings = [sibling for sibling in self.groups.siblings(pod) if not sibling.deleting]
        if len(siblings) < needed:
            return _pending(f"pod group {group_key}: {len(siblings)} of at least {needed} members exist")
        ready = sum(1 for sibling in siblings if not sibling.spec.gates)
        if ready < needed:
            return _pending(f"pod group {group_key}: {ready} of at least {needed} members have no scheduling gates")
        return self._check_slices(group_key, group, siblings)

    def _check_slices(self, group_key: str, group: PodGroup, members: Sequence[fw.PodInfo]) -> fw.Status:
        topology = self._topologies.of(group)[0]
        if topology is not None and topology.slice_size:
            try:
                topology.slices_of(members, ())
            except ValueError as error:
                return fw.unresolvable(f"pod group {group_key}: {error}")
        return fw.SUCCESS

    def _check_resources(self, group_key: str, pod: fw.PodInfo, view: fw.NodeView) -> fw.Status:
        group = self.groups.of(pod)
        if group is None or group.spec.min_resources is None:
            return fw.SUCCESS
        members_with_rows = (
            (sibling, view.row(node))
            for sibling in self.groups.siblings(pod)
            if not sibling.deleting and (node := self.groups.node_of(sibling))
        )
        gap = resource_gap(group, view, [(sibling, row) for sibling, row in members_with_rows if row >= 0])
        if not gap:
            return fw.SUCCESS
        self._short_of_resources.add(group_key)
        return fw.unresolvable(f"pod group {group_key}: {gap}")

    def post_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, codes: fw.NodeCodes
    ) -> tuple[fw.PostFilterResult | None, fw.Status]:
        """Do nothing: no sibling waits in Permit that would have to be rejected."""
        return None, fw.unschedulable()

    def permit(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> tuple[fw.Status, float]:
        """Allow: a gang gets here as a whole. Where PreFilter does not run, reject the pod of a group that cannot be
        tried, which is then no gang."""
        group_key = group_key_of(pod)
        checked: str | None = state.read(NAME, str)
        if not group_key or checked:
            return fw.SUCCESS, 0.0
        return self._check_group(group_key, pod), 0.0

    def unreserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> None:
        """Do nothing."""

    # Gangs ----------------------------------------------------------------------------------------------------------

    def has_gang(self, pod: fw.PodInfo) -> bool:
        """Tell whether a pod has the label of a group."""
        return POD_GROUP_LABEL in pod.labels

    def gang_of(self, pod: fw.PodInfo) -> fw.Gang | None:
        """Return the gang of a pod as it is now; None for a pod that belongs to none that can be tried."""
        group_key, group = group_key_of(pod), self.groups.of(pod)
        if group is None or group_key in self._backed_off:
            return None
        topology, problem = self._topologies.of(group)
        if problem:
            return None
        if (
            topology is None
            and len(self._bound.get(group_key, ())) >= group.spec.min_member
            and group_key not in self._binding_groups
        ):
            # Enough members run: further ones, which may be thousands, are scheduled like any other pod.
            return None
        placed, waiting = [], []
        for sibling in self.groups.siblings(pod):
            if sibling.deleting:
                continue
            if node := self.groups.node_of(sibling):
                placed.append((sibling, node))
            elif not sibling.spec.gates:
                waiting.append(sibling)
        if len(placed) + len(waiting) < group.spec.min_member:
            return None
        try:
            nodes = self._where(group_key, topology, waiting, placed)
        except ValueError:
            # PreFilter says it.
            return None
        seconds = wait_seconds(group, self._wait)
        name = f"pod group {group_key}"
        runs = len(placed) >= group.spec.min_member
        # Those beyond the minimum, which may be thousands, are decided in one attempt, each for itself.
        tries = fw.MemberTries.EACH_ONCE if runs else fw.MemberTries.UNTIL_ENOUGH
        return fw.Gang(
            name,
            tuple(waiting),
            group.spec.min_member,
            len(placed),
            seconds,
            tries,
            topology=nodes,
            preemptor=fw.group_as_preemptor(
                API_VERSION, group.metadata, waiting, POD_GROUP_LABEL, compares_victims=True
            )
            if waiting
            else None,
        )

    def _where(
        self,
        group_key: str,
        topology: GroupTopology | None,
        waiting: Sequence[fw.PodInfo],
        placed: Sequence[tuple[fw.PodInfo, str]],
    ) -> fw.GangTopology | None:
        """Return where a gang's members may go; ValueError where slices cannot be made of them."""
        if topology is None:
            return None
        slices = topology.slices_of(waiting, placed) if topology.slice_size else ()
        return topology.after(self._refused_for(group_key), tuple(dict.fromkeys(node for _, node in placed)), slices)

    def _refused_for(self, group_key: str) -> float:
        """Return for how many seconds a gang has not fitted."""
        since = self._refused_since.get(group_key)
        return 0.0 if since is None else self._clocks.monotonic() - since

    def gang_placed(self, pod: fw.PodInfo) -> None:
        """Note that enough members hold nodes: until they are bound, one that loses its node is tried first."""
        group_key = group_key_of(pod)
        self._binding_groups.add(group_key)
        self._refused_since.pop(group_key, None)
        self.groups.clear_failed(group_key)
        self._unread.warn(pod)

    def gang_settled(self, pod: fw.PodInfo) -> None:
        """Note that the gang is bound, or gone."""
        group_key = group_key_of(pod)
        self._binding_groups.discard(group_key)
        self.groups.reorder(group_key)

    def gang_failed(self, pod: fw.PodInfo) -> None:
        """Requeue the group at the end, after the configured backoff."""
        group_key = group_key_of(pod)
        self.groups.mark_failed(group_key, self._clocks.wall())
        self._widen_later(pod)
        self._unread.warn(pod)
        if self._backoff and group_key not in self._backed_off:
            self._backed_off.add(group_key, self._backoff)
            if self._handle is not None:
                self._handle.call_later(self._backoff, lambda: self._end_backoff(pod))

    def _widen_later(self, pod: fw.PodInfo) -> None:
        """Try a gang again when it may go to wider domains, as no event tells."""
        group, group_key = self.groups.of(pod), group_key_of(pod)
        topology = self._topologies.of(group)[0] if group is not None else None
        if topology is None or not topology.widen_after or self._handle is None:
            return
        if group_key not in self._refused_since:
            if len(self._refused_since) >= _MAX_WIDENING:
                del self._refused_since[next(iter(self._refused_since))]
            self._refused_since[group_key] = self._clocks.monotonic()
        waited = self._refused_for(group_key)
        if waited < topology.widest_after and group_key not in self._widening:
            self._widening.add(group_key)
            self._handle.call_later(topology.widen_after - waited % topology.widen_after, lambda: self._widen(pod))

    def _widen(self, pod: fw.PodInfo) -> None:
        self._widening.discard(group_key_of(pod))
        self._activate(pod)

    def _activate(self, pod: fw.PodInfo) -> None:
        if self._handle is not None:
            self._handle.activate(self.groups.siblings(pod))

    def _end_backoff(self, pod: fw.PodInfo) -> None:
        self._backed_off.discard(group_key_of(pod))
        self._activate(pod)


def _asks_the_same(old: PodGroup, new: PodGroup) -> bool:
    """Tell whether a change of a group concerns its status alone, which the controller keeps writing."""
    return old.spec == new.spec and old.metadata.annotations == new.metadata.annotations


def _pending(reason: str) -> fw.Status:
    return fw.Status(fw.Code.PENDING, (reason,))


# As upstream has it: members wait in Permit, one by one, until enough of them hold a node.
class UpstreamCoscheduling(_Coscheduling):
    """QueueSort, PreFilter, PostFilter, Permit and Reserve under `compatibility: upstream`."""

    def __init__(self, args: CoschedulingArgs, context: fw.PluginContext) -> None:
        super().__init__(args, context, _BACKED_OFF_SECONDS, reads_kueue=False)
        self._tolerated_gap = args.pod_group_reject_percentage / 100.0
        self._permitted = ExpiringSet(self._clocks.monotonic, _PERMITTED_SECONDS)
        self._assigned: dict[str, set[str]] = {}

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
        topology, problem = self._topologies.of(group)
        only_safe = "its topology" if topology is not None else ""
        if not only_safe and DISRUPTION in group.metadata.annotations:
            only_safe = f"annotation {DISRUPTION}"
        if only_safe or problem:
            problem = problem or f"{only_safe} is followed with compatibility: safe only; upstream has no such thing"
            return f"pod group {group_key}: {problem}"
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
        self._unread.warn(pod)
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
        self._unread.warn(pod)
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


def coscheduling(args: CoschedulingArgs, context: fw.PluginContext) -> SafeCoscheduling | UpstreamCoscheduling:
    """Return the plugin as the profile's `compatibility` wants it."""
    return UpstreamCoscheduling(args, context) if context.upstream else SafeCoscheduling(args, context)
