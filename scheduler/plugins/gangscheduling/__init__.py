"""GangScheduling: the pods of a PodGroup of scheduling.k8s.io run together or not at all (plugins/gangscheduling and
schedule_one_podgroup.go of kube-scheduler since 1.36).

The placing itself is the engine's (`scheduler.core.gang`), in kube-scheduler's order. Preemption for a group that does
not fit is the preempting plugins' concern (`scheduler.preemption.gangs`), and so is `disruptionMode`
(`scheduler.preemption.groups`). Groups with a CompositePodGroup as parent, or with ResourceClaims, are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.kube.model import SchedulingPodGroup
from scheduler.plugins.gangscheduling.conditions import PodGroupConditions
from scheduler.plugins.gangscheduling.words import NAME, words_of

_CLAIMS = 4
"""So many may a group have."""
_TIMEOUT_SECONDS = 300.0
"""Upstream's permitTimeoutDuration."""


class GangScheduling(
    fw.PreEnqueuePlugin,
    fw.PreFilterPlugin,
    fw.PermitPlugin,
    fw.EnqueueExtensions,
    fw.ObjectReader,
    fw.PodReader,
    fw.GangReporter,
):
    """PreEnqueue on the size of a group, PreFilter on what it asks for, and what the engine asks about gangs."""

    name = NAME

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args. In versions before 1.36 there are no PodGroups, and nothing happens."""
        version = context.kubernetes
        self._kind = version.pod_group_kind
        self._words = words_of(version)
        self._gives_up_early = version.gives_up_early
        self._preempts = version.preempts_for_groups
        # The same version queues a group as one, which waits until none of its pods has a gate.
        self._gated_as_one = version.gives_up_early
        self._is_entity = version.gives_up_early and context.upstream
        self._gated: dict[tuple[str, str, str], set[str]] = {}
        self._handle = context.handle
        self._objects: fw.Objects | None = None
        self._pods: fw.Pods | None = None
        self._conditions = (
            None if context.handle is None else PodGroupConditions(context.handle, self._kind, self._words, self._find)
        )

    def use_objects(self, objects: fw.Objects) -> None:
        """Take the store that holds the PodGroups."""
        self._objects = objects

    def use_pods(self, pods: fw.Pods) -> None:
        """Take the directory of pods."""
        self._pods = pods
        if self._kind:
            pods.index(fw.SCHEDULING_GROUP, self._pod_changed)

    def _pod_changed(self, old: fw.PodInfo | None, new: fw.PodInfo | None) -> None:
        """Wake the others where a pod that may not be tried itself makes them enough, or no longer keeps them. All
        other new members enter the active queue, and are tried with whoever waits."""
        if self._gated_as_one:
            if new is not None and _is_gated(new):
                self._gated.setdefault(_key(new), set()).add(new.uid)
            elif old is not None and _is_gated(old):
                self._let_go(old)
            return
        if old is not None or new is None or not _is_gated(new):
            return
        group = self._group_of(new)
        gang = group.spec.scheduling_policy.gang if group is not None else None
        members = self._members(new)
        if gang is not None and len(members) == gang.min_count and self._handle is not None:
            self._handle.activate([member for member in members if not member.spec.gates])

    def _let_go(self, pod: fw.PodInfo) -> None:
        """Wake a group once the last of its pods has no gate any more, or is gone."""
        gated = self._gated.get(_key(pod), set())
        gated.discard(pod.uid)
        if gated:
            return
        self._gated.pop(_key(pod), None)
        if self._handle is not None:
            self._handle.activate(self._members(pod))

    # Queue ----------------------------------------------------------------------------------------------------------

    def pre_enqueue(self, pod: fw.PodInfo) -> fw.Status:
        """Park a pod whose PodGroup does not exist, lacks pods for its minCount or, since 1.37, has one with a gate."""
        if not self.has_gang(pod):
            return fw.SUCCESS
        group = self._group_of(pod)
        if group is None:
            return fw.unresolvable(self._words.missing(pod.scheduling_group))
        gang = group.spec.scheduling_policy.gang
        if gang is not None and len(self._members(pod)) < gang.min_count:
            return fw.unresolvable(self._words.too_few(group))
        if _key(pod) in self._gated and not pod.spec.gates:
            return fw.unresolvable(self._words.gated)
        return fw.SUCCESS

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register new pods of the group, and the group itself."""
        if not self._kind:
            return ()
        return (
            fw.HintRegistration(fw.POD, ActionType.ADD, self._pod_added),
            fw.HintRegistration(self._kind, ActionType.ADD | ActionType.UPDATE, self._group_changed),
        )

    @staticmethod
    def _pod_added(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        same = (
            isinstance(new, fw.PodInfo)
            and new.namespace == pod.namespace
            and new.scheduling_group == pod.scheduling_group
            and pod.scheduling_group
        )
        return fw.Hint.QUEUE if same else fw.Hint.SKIP

    @staticmethod
    def _group_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """Wake the pods of a new group, and of one that needs fewer pods than before (it can change since 1.37)."""
        if not isinstance(new, SchedulingPodGroup) or not pod.scheduling_group:
            return fw.Hint.SKIP
        if (new.metadata.namespace, new.metadata.name) != (pod.namespace, pod.scheduling_group):
            return fw.Hint.SKIP
        if not isinstance(old, SchedulingPodGroup):
            return fw.Hint.QUEUE
        before, now = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
        fewer = before is not None and now is not None and now.min_count < before.min_count
        return fw.Hint.QUEUE if fewer else fw.Hint.SKIP

    # The attempt ----------------------------------------------------------------------------------------------------

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Reject a pod whose group asks for what is not followed: passed over, that would be a wrong placement."""
        return None, self._refusal(pod)

    def _refusal(self, pod: fw.PodInfo) -> fw.Status:
        group = self._group_of(pod)
        problem = "" if group is None else _not_followed(group)
        return fw.unresolvable(problem) if problem else fw.SUCCESS

    def permit(self, state: Any, pod: fw.PodInfo, node: str) -> tuple[fw.Status, float]:
        """Allow, as a gang gets here as a whole; but for a pod whose PodGroup is gone, as upstream, and for one whose
        group is refused, where PreFilter does not run."""
        if self.has_gang(pod) and self._group_of(pod) is None:
            missing = f'podgroup.scheduling.k8s.io "{pod.scheduling_group}" not found'
            reason = f"failed to get podGroup {pod.namespace}/{pod.scheduling_group}: {missing}"
            return fw.failure(f'running Permit plugin "{NAME}": {reason}'), 0.0
        return self._refusal(pod), 0.0

    # Gangs ----------------------------------------------------------------------------------------------------------

    def has_gang(self, pod: fw.PodInfo) -> bool:
        """Tell whether a pod names a PodGroup, in a version that has them."""
        return bool(pod.scheduling_group and self._kind)

    def gang_of(self, pod: fw.PodInfo) -> fw.Gang | None:
        """Return the gang of a pod as it is now; None once enough members have nodes: further ones, which may be
        thousands, are scheduled like any other pod, unless upstream's queue is followed. One that is refused is a gang,
        which says so as a whole."""
        group = self._group_of(pod)
        if group is None or self._pods is None:
            return None
        policy = group.spec.scheduling_policy.gang
        minimum = policy.min_count if policy is not None else 1
        refusal, key = _not_followed(group), self._topology_key(group)
        nodes: list[str] = []
        waiting = []
        for member in self._members(pod):
            if node := self._pods.node_of(member):
                nodes.append(node)
                if len(nodes) >= minimum and not key and not self._is_entity and not refusal:
                    return None
            elif not member.deleting and not member.spec.gates:
                waiting.append(member)
        gang = fw.Gang(
            f"pod group {pod.namespace}/{pod.scheduling_group} of scheduling.k8s.io",
            tuple(waiting),
            minimum,
            len(nodes),
            math.inf if self._is_entity else _TIMEOUT_SECONDS,
            fw.MemberTries.WHILE_POSSIBLE if self._gives_up_early else fw.MemberTries.EACH_ONCE,
            is_entity=self._is_entity,
            problem_of=self._check_of(group) if self._is_entity else None,
        )
        if refusal:
            return replace(gang, minimum=max(minimum, len(nodes) + 1), held_back=lambda *counts: refusal)
        return replace(
            gang,
            held_back=self._words.held_back(minimum, bool(key)),
            topology=fw.GangTopology((key,), nodes=tuple(dict.fromkeys(nodes)), is_scored=True) if key else None,
            of_members=self._words.of_members(group),
            preemptor=self._preemptor(group, waiting) if self._preempts and waiting else None,
        )

    def _preemptor(self, group: SchedulingPodGroup, waiting: Sequence[fw.PodInfo]) -> fw.Preemptor:
        """Return the group as the one that others are evicted for. Its pods have its priority; where some have less,
        which kube-scheduler calls an error, that counts."""
        return fw.group_as_preemptor(
            f"scheduling.k8s.io/{self._kind.rpartition('/')[2]}",
            group.metadata,
            waiting,
            fw.SCHEDULING_GROUP,
            priority=group.spec.priority or 0,
            may_preempt=group.spec.preemption_policy != "Never",
        )

    def _check_of(self, group: SchedulingPodGroup) -> Callable[[Sequence[fw.PodInfo]], str]:
        def check(waiting: Sequence[fw.PodInfo]) -> str:
            placed = [pod for pod in self._members(waiting[0]) if self._pods is not None and self._pods.node_of(pod)]
            return next(self._words.unlike(group, [*waiting, *placed]), "")

        return check

    @staticmethod
    def _topology_key(group: SchedulingPodGroup) -> str:
        """Return the label of which all pods must have one value; "" without one.

        It is followed wherever the API server serves the field, whatever the scheduler's gates are: a constraint that
        is passed over would be a wrong placement in silence.
        """
        constraints = group.spec.scheduling_constraints
        return "" if constraints is None else next((constraint.key for constraint in constraints.topology), "")

    def gang_placed(self, pod: fw.PodInfo) -> None:
        """Do nothing."""

    def gang_settled(self, pod: fw.PodInfo) -> None:
        """Do nothing."""

    def gang_failed(self, pod: fw.PodInfo) -> None:
        """Do nothing."""

    def report_gang(self, pod: fw.PodInfo, outcome: fw.Status) -> None:
        """Write the PodGroup's condition, in the words of the version."""
        group = self._group_of(pod)
        if group is None or self._conditions is None:
            return
        if refusal := _not_followed(group):
            outcome = fw.unschedulable(refusal)
        elif outcome.is_rejection:
            outcome = fw.unschedulable(self._words.of_group(outcome.message))
        self._conditions.publish(group, outcome)

    def _group_of(self, pod: fw.PodInfo) -> SchedulingPodGroup | None:
        return self._find(pod.namespace, pod.scheduling_group) if self.has_gang(pod) else None

    def _find(self, namespace: str, name: str) -> SchedulingPodGroup | None:
        group: SchedulingPodGroup | None = None
        if self._objects is not None:
            group = self._objects.get(self._kind, namespace, name)
        return group

    def _members(self, pod: fw.PodInfo) -> Collection[fw.PodInfo]:
        """Return the pods of a group that have not ended, with and without a node, of every scheduler."""
        if self._pods is None:
            return ()
        return self._pods.labelled(fw.SCHEDULING_GROUP, pod.namespace, pod.scheduling_group)


def _not_followed(group: SchedulingPodGroup) -> str:
    """Say what a group asks for that is not followed, and what to do; "" where there is nothing."""
    if parent := group.spec.parent_composite_pod_group_name:
        field = f"parentCompositePodGroupName {parent}"
    elif claims := group.spec.resource_claims:
        field = f"resourceClaims {', '.join(claim.name for claim in claims[:_CLAIMS])}"
    else:
        return ""
    remedy = "create the group without it, or leave its pods to a scheduler that follows it"
    return f"pod group {group.metadata.key}: spec.{field} is not followed, so none of its pods is placed: {remedy}"


def _is_gated(pod: fw.PodInfo) -> bool:
    """Tell whether a pod of a PodGroup has scheduling gates."""
    return bool(pod.spec.gates and pod.scheduling_group)


def _key(pod: fw.PodInfo) -> tuple[str, str, str]:
    """Return what the pods have in common that a scheduler queues as one."""
    return pod.scheduler_name, pod.namespace, pod.scheduling_group
