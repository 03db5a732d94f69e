"""Coscheduling as it is by default: a gang is placed as a whole, or holds nothing.

The placing itself is the engine's (`scheduler.core.gang`); this plugin says who belongs together, in which order, and
parks pods whose gang cannot be tried at all, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.catalog import ActionType, CoschedulingArgs
from scheduler.framework import (
    NODE,
    POD,
    SUCCESS,
    ClusterEvent,
    Code,
    CycleState,
    Gang,
    Hint,
    HintRegistration,
    NodeCodes,
    NodeView,
    Objects,
    PluginContext,
    PodInfo,
    Pods,
    PostFilterResult,
    PreFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler.kube.model import PodGroup
from scheduler.plugins.coscheduling.groups import KIND, Expiring, Groups, full_name, wait_seconds
from scheduler.plugins.coscheduling.resources import resource_gap

NAME = "Coscheduling"
_URGENT, _ORDINARY = 0, 1


class SafeCoscheduling:
    """QueueSort, PreFilter and the knowledge of gangs under `compatibility: safe`."""

    name = NAME
    orders_by_first_attempt = True

    def __init__(self, args: CoschedulingArgs, context: PluginContext) -> None:
        self._handle = context.handle
        self._clock = context.clock
        self._wait = float(args.permit_waiting_time_seconds)
        self._backoff = float(args.pod_group_backoff_seconds)
        self._backed_off = Expiring(self._clock, 0.0)
        self._bound: dict[str, set[str]] = {}
        self._under_way: set[str] = set()
        self._lacking: set[str] = set()
        self._answered: tuple[str, float, int] = ("", 0.0, 0)
        self._answer = SUCCESS
        self.groups = Groups(context.handle)

    def use_objects(self, objects: Objects) -> None:
        """Take the store that holds the PodGroups."""
        self.groups.use_objects(objects)

    def use_pods(self, pods: Pods) -> None:
        """Take the directory of pods."""
        self.groups.use_pods(pods, self._pod_changed)

    # Queue ----------------------------------------------------------------------------------------------------------

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, int, float, str]:
        """Return (gangs that hold nodes and lack members first, priority descending, time of the group or the pod,
        `namespace/name` of the pod)."""
        urgency = _URGENT if self._is_partial(pod) else _ORDINARY
        return (urgency, -pod.priority, self.groups.queued_at(pod, queued_at), pod.key)

    def _is_partial(self, pod: PodInfo) -> bool:
        full = full_name(pod)
        if not full or (full not in self._under_way and full not in self._bound):
            return False
        group = self.groups.of(pod)
        if group is None:
            return False
        return full in self._under_way or len(self._bound[full]) < group.spec.min_member

    def reordered_by(self, event: ClusterEvent, old: object, new: object) -> Iterable[PodInfo]:
        """Return the pods whose group comes, goes or changes its size."""
        changed = new or old
        if not isinstance(changed, PodGroup) or (isinstance(old, PodGroup) and old.spec == changed.spec and new):
            return ()
        return self.groups.members(changed.metadata.namespace, changed.metadata.name)

    def _pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        """Keep who of a group has a node and stays; the order of the others depends on it."""
        pod = new or old
        if pod is None:
            return
        full = full_name(pod)
        bound = self._bound.get(full, set())
        before = len(bound)
        if new is not None and new.node_name and not new.deleting:
            self._bound.setdefault(full, bound).add(pod.uid)
        else:
            bound.discard(pod.uid)
            if not bound:
                self._bound.pop(full, None)
        group = self.groups.of(pod)
        if group is not None and {before, len(bound)} & {0, group.spec.min_member} and before != len(bound):
            self.groups.reorder(full)

    def events_to_register(self) -> Sequence[HintRegistration]:
        """What changes a group or its members; where the cluster as a whole was too small, also what gives room."""
        return (
            HintRegistration(KIND, ActionType.ADD | ActionType.UPDATE | ActionType.DELETE, self._group_changed),
            HintRegistration(POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL, self._sibling_changed),
            HintRegistration(POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN, self._room_came),
            HintRegistration(NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE, self._room_came),
        )

    @staticmethod
    def _group_changed(pod: PodInfo, old: object, new: object) -> Hint:
        changed = new or old
        if not isinstance(changed, PodGroup) or changed.metadata.key != full_name(pod):
            return Hint.SKIP
        # The controller writes the status all the time.
        return Hint.SKIP if isinstance(old, PodGroup) and new and old.spec == changed.spec else Hint.QUEUE

    @staticmethod
    def _sibling_changed(pod: PodInfo, old: object, new: object) -> Hint:
        return Hint.QUEUE if isinstance(new, PodInfo) and full_name(new) == full_name(pod) else Hint.SKIP

    def _room_came(self, pod: PodInfo, old: object, new: object) -> Hint:
        return Hint.QUEUE if full_name(pod) in self._lacking else Hint.SKIP

    # The attempt ----------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Park a pod whose group does not exist, is not complete, failed just now, or asks for more than there is."""
        full = full_name(pod)
        if not full:
            return None, SUCCESS
        # The members of a gang are decided one after the other on one snapshot, and all get the same answer: what the
        # earlier ones were given counts as free for the later ones.
        attempt = (full, view.now, view.assignments.end)
        if self._answered != attempt:
            self._lacking.discard(full)
            self._answer = self._judge(full, pod, view)
            self._answered = attempt
        return None, self._answer

    def _judge(self, full: str, pod: PodInfo, view: NodeView) -> Status:
        group = self.groups.of(pod)
        if group is None:
            return _pending(f"pod group {full} does not exist")
        if full in self._backed_off:
            return unresolvable(f"podGroup {full} failed recently")
        needed = group.spec.min_member
        siblings = [sibling for sibling in self.groups.siblings(pod) if not sibling.deleting]
        if len(siblings) < needed:
            return _pending(f"pod group {full}: {len(siblings)} of at least {needed} members exist")
        ready = sum(1 for sibling in siblings if not sibling.spec.gates)
        if ready < needed:
            return _pending(f"pod group {full}: {ready} of at least {needed} members have no scheduling gates")
        if group.spec.min_resources is None:
            return SUCCESS
        held = ((sibling, view.row(node)) for sibling in siblings if (node := self.groups.node_of(sibling)))
        gap = resource_gap(group, view, [(sibling, row) for sibling, row in held if row >= 0])
        if not gap:
            return SUCCESS
        self._lacking.add(full)
        return unresolvable(f"pod group {full}: {gap}")

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """Nothing: nobody waits who would have to be rejected."""
        return None, unschedulable()

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        """Let through: a gang gets here as a whole."""
        return SUCCESS, 0.0

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Nothing."""
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Nothing."""

    # Gangs ----------------------------------------------------------------------------------------------------------

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the gang of a pod as it is now; None for a pod that belongs to none that can be tried."""
        full, group = full_name(pod), self.groups.of(pod)
        if group is None or full in self._backed_off:
            return None
        if len(self._bound.get(full, ())) >= group.spec.min_member and full not in self._under_way:
            # Enough run: its further pods, be they thousands, are pods like any other.
            return None
        placed, waiting = 0, []
        for sibling in self.groups.siblings(pod):
            if sibling.deleting:
                continue
            if self.groups.node_of(sibling):
                placed += 1
            elif not sibling.spec.gates:
                waiting.append(sibling)
        if placed + len(waiting) < group.spec.min_member:
            return None
        timeout = wait_seconds(group, self._wait)
        return Gang(f"pod group {full}", tuple(waiting), group.spec.min_member, placed, timeout)

    def gang_placed(self, pod: PodInfo) -> None:
        """Enough members hold nodes: until they are bound, one that loses its own goes first."""
        full = full_name(pod)
        self._under_way.add(full)
        self.groups.clear_failed(full)

    def gang_settled(self, pod: PodInfo) -> None:
        """The gang is complete, or gone."""
        full = full_name(pod)
        self._under_way.discard(full)
        self.groups.reorder(full)

    def gang_failed(self, pod: PodInfo) -> None:
        """Queue up again at the end, after the configured back-off."""
        full = full_name(pod)
        self.groups.mark_failed(full, self._clock())
        if self._backoff and full not in self._backed_off:
            self._backed_off.add(full, self._backoff)
            if self._handle is not None:
                self._handle.call_later(self._backoff, lambda: self._try_again(pod))

    def _try_again(self, pod: PodInfo) -> None:
        self._backed_off.discard(full_name(pod))
        if self._handle is not None:
            self._handle.activate(self.groups.siblings(pod))


def _pending(reason: str) -> Status:
    return Status(Code.PENDING, (reason,))
