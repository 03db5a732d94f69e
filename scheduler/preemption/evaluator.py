"""PostFilter of the plugins that preempt (Evaluator.Preempt of kube-scheduler).

What an extender makes of the candidates of a preemption (ProcessPreemption and callExtenders of kube-scheduler
1.34).
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from scheduler.framework import (
    PREEMPTION_ATTEMPTS,
    SUCCESS,
    Asking,
    AskingPostFilter,
    Code,
    CycleState,
    Extender,
    ExtenderError,
    NodeCodes,
    NodeView,
    ObjectReader,
    Objects,
    PluginContext,
    PodInfo,
    PodReader,
    Pods,
    PostFilterPlugin,
    PostFilterResult,
    PreemptAnswer,
    PreemptQuestion,
    RowArray,
    Status,
    Victims,
    conclude,
    failure,
    unschedulable,
)
from scheduler.preemption.dryruns import DryRunCache
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.trials import dry_run
from scheduler.preemption.victims import LEAVING, Candidate, DryRunResult, VictimRules, choose, ineligible

WAITING = "waiting for the preemption for this pod to be finished"


def wanted_candidates(nodes: int, percentage: int, least: int) -> int:
    """Return after how many candidates among `nodes` the search may end (calculateNumCandidates)."""
    return min(nodes, max(nodes * percentage // 100, least))


class Evaluator:
    """What the PostFilter of a preempting plugin does; the plugin brings its rules."""

    def __init__(
        self,
        plugin: str,
        context: PluginContext,
        rules: VictimRules,
        limit: Callable[[int], int],
        *,
        prefix: str = "",
    ) -> None:
        """Without a handle (simulation) nobody is evicted.

        Args:
            plugin: its name.
            context: what the plugin was built with.
            rules: who may be evicted.
            limit: after how many candidates the search may end, given how many nodes there are to try.
            prefix: stands before every message.
        """
        self._filters = context.filters
        self._rules = rules
        rules.groups.reads_annotations = not context.upstream
        self._dry_runs = DryRunCache()
        self._limit = limit
        self._prefix = prefix
        self._reports_victims = context.kubernetes.reports_victims
        self._plugin = plugin
        self._handle = handle = context.handle
        self.evictions = (
            None if handle is None else Evictions(plugin, handle, context.kubernetes, upstream=context.upstream)
        )

    def use_objects(self, objects: Objects) -> None:
        """Take the store that holds the PodGroups."""
        self._rules.groups.use_objects(objects)

    def use_pods(self, pods: Pods) -> None:
        """Take the directory of pods."""
        self._rules.groups.use_pods(pods)

    def awaits_watch(self, pod: PodInfo) -> bool:
        """Tell whether victims of this pod have yet to be shown terminating, so that trying the pod is of no use."""
        return self.evictions is not None and self.evictions.awaits_watch(pod)

    def victims_of(self, pod: PodInfo) -> Collection[str]:
        """Return the UIDs of a pod's victims, while its preemption is remembered."""
        return () if self.evictions is None else self.evictions.victims_of(pod)

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes, extenders: Sequence[Extender] = ()
    ) -> Asking[tuple[PostFilterResult | None, Status]]:
        """Nominate the node where preemption hurts least and start evicting, or say why preemption does not help.

        Extenders have a say in which nodes are left as candidates, and in the victims (callExtenders of kube-scheduler
        1.34); without any, nothing is asked.
        """
        rows = self._rows_to_try(state, pod, view, codes)
        if isinstance(rows, Status):
            return None, rows
        assert self._filters is not None
        limit = self._limit(len(rows))
        if not extenders:
            result = self._dry_runs.search(state, pod, view, self._filters, rows, limit, self._rules, state.rng)
            return self._conclude(pod, view, result)
        # Tried afresh: an extender may want a node without victims, which what is remembered does not tell.
        trials = dry_run(state, pod, view, self._filters, rows, limit, self._rules, asks_extenders=True)
        if not trials.candidates:
            return self._conclude(pod, view, trials)
        candidates = {candidate.node: candidate for candidate in trials.candidates}
        try:
            for extender in extenders:
                if not candidates:
                    break
                victims = {node: Victims(each.victims, each.violations) for node, each in candidates.items()}
                answered = yield PreemptQuestion(extender, pod, victims)
                view = answered.view
                assert isinstance(answered.answer, PreemptAnswer)
                candidates = candidates_left(extender, state, pod, view, candidates, answered.answer, self._rules)
        except ExtenderError as error:
            return None, failure(f"{self._prefix}{error}")
        with_victims = [candidate for candidate in candidates.values() if candidate.victims]
        if not with_victims:
            return None, unschedulable(f"{self._prefix}{NO_CANDIDATE}")
        unstarted = self._rules.start_of_unstarted(view.now)
        return self._conclude(pod, view, choose(with_victims, unstarted, state.rng))

    def _rows_to_try(self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes) -> RowArray | Status:
        """Return the rows where removing pods may help, or why none is to be tried."""
        state.count(PREEMPTION_ATTEMPTS)
        reason = self._unfinished(pod, view) or ineligible(state, pod, view, codes, self._rules)
        if reason is not None:
            return unschedulable(self._prefix + reason)
        if self._filters is None:
            return failure(f"{self._prefix}there are no filters to ask")
        rows = codes.rows(Code.UNSCHEDULABLE)
        # Upstream, too, starts at a random node, so that the first nodes of the list do not lose all their pods.
        return np.roll(rows, -int(state.rng.random() * len(rows)))

    def _conclude(
        self, pod: PodInfo, view: NodeView, result: Candidate | DryRunResult
    ) -> tuple[PostFilterResult | None, Status]:
        if isinstance(result, Candidate):
            self._evict(pod, result, view)
            return PostFilterResult(result.node, result.victims), self._success(result)
        if result.errors:
            return None, failure(self._prefix + result.error)
        return PostFilterResult(""), unschedulable(self._prefix + result.message(len(view.rows)))

    def _success(self, chosen: Candidate) -> Status:
        if not self._reports_victims:
            return SUCCESS
        count = len(chosen.victims)
        text = f"found a potential placement for pod on node {chosen.node}, preempting {count} victims"
        return Status(Code.SUCCESS, (self._prefix + text,))

    def _unfinished(self, pod: PodInfo, view: NodeView) -> str | None:
        """Return why the pod must not preempt while an earlier preemption of its own is not over; None if it may."""
        if self.evictions is None:
            return None
        if self.evictions.is_running(pod.uid):
            return WAITING
        return LEAVING if self.evictions.has_victims_left(pod.uid, view) else None

    def _evict(self, pod: PodInfo, chosen: Candidate, view: NodeView) -> None:
        if self.evictions is None:
            return
        displaced = [
            nominee
            for nominee in view.nominations.get(chosen.node, ())
            # A nomination that the API server does not show yet has nothing to be cleared there.
            if nominee.priority < pod.priority and nominee.nominated_node
        ]
        self.evictions.start_for_pod(pod, chosen, displaced, view)
        if self._rules.groups.exist():
            self._warn_of_torn_groups(chosen, view)

    def _warn_of_torn_groups(self, chosen: Candidate, view: NodeView) -> None:
        """Say of the PodGroups that are to be preempted together or not at all that some of their pods stay."""
        assert self._handle is not None
        groups, uids = self._rules.groups, {victim.uid for victim in chosen.victims}
        of_groups = {groups.whole_group(victim): victim for victim in chosen.victims}
        for key, victim in of_groups.items():
            if key is None or all(member.pod.uid in uids for member in groups.placed(view, key)):
                continue
            whole = self._rules.keeps_groups_whole
            reason = "its pods have unlike priorities" if whole else f"{self._plugin} judges each pod by itself"
            note = f"{key} is not followed, as {reason}"
            self._handle.event(victim, "Warning", "DisruptionModeIgnored", "Preempting", note)


class PreemptingPlugin(PostFilterPlugin, AskingPostFilter, ObjectReader, PodReader):
    """Base of the plugins that preempt: their PostFilter is that of `_evaluator`."""

    _evaluator: Evaluator

    def use_objects(self, objects: Objects) -> None:
        """Take the store of objects."""
        self._evaluator.use_objects(objects)

    def use_pods(self, pods: Pods) -> None:
        """Take the directory of pods."""
        self._evaluator.use_pods(pods)

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """Nominate the node where preemption hurts least and start evicting, or say why it does not help."""
        return conclude(self._evaluator.post_filter(state, pod, view, codes))

    def post_filter_asking(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes, extenders: Sequence[Extender]
    ) -> Asking[tuple[PostFilterResult | None, Status]]:
        """As `post_filter`, with extenders that have a say."""
        return self._evaluator.post_filter(state, pod, view, codes, extenders)


NO_CANDIDATE = "no candidate node for preemption"


def candidates_left(
    extender: Extender,
    state: CycleState,
    pod: PodInfo,
    view: NodeView,
    offered: Mapping[str, Candidate],
    answer: PreemptAnswer,
    rules: VictimRules,
) -> dict[str, Candidate]:
    """Return the candidates that an extender leaves, with the victims that it names, by node.

    It may take victims away and add others of the node, which must be of lower priority than the preemptor: upstream
    would evict any pod that an extender names. What goes with a victim goes, named or not. A node that was offered
    without victims may be left so, for the next extender to name some.

    Raises:
        ExtenderError: it failed, or what it says cannot be done; not where its failures are ignored.
    """
    try:
        if answer.error:
            raise ExtenderError(answer.error)
        named = {
            node: _candidate(extender, state, pod, view, offered[node], uids, violations, rules)
            for node, (uids, violations) in answer.victims.items()
        }
    except ExtenderError:
        if extender.ignorable:
            return dict(offered)
        raise
    left = {}
    for node, candidate in named.items():
        if candidate.victims or not offered[node].victims:
            left[node] = candidate
        elif not extender.ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{node}"')
    return left


def _candidate(
    extender: Extender,
    state: CycleState,
    pod: PodInfo,
    view: NodeView,
    offered: Candidate,
    uids: tuple[str, ...],
    violations: int,
    rules: VictimRules,
) -> Candidate:
    row = view.row(offered.node)
    expected = {victim.uid for victim in offered.victims}
    known = {other.uid: other for other in view.pods_on(row)} if row >= 0 else {}
    units = rules.units_in(state, view)
    if units is not None:
        # Pods of other nodes are offered, too: those that go with pods of this one.
        for unit in units.units(row, [other for other in known.values() if other.uid in expected]):
            known |= {member.uid: member for member in unit.pods}
    victims: dict[str, PodInfo] = {}
    for uid in uids:
        victim = known.get(uid)
        if victim is None:
            # Upstream's words; it prints a pointer to the pod's identifier.
            raise ExtenderError(
                f"extender: {extender.url} claims to preempt pod (UID: &{{{uid}}}) on node: {offered.node}, but the "
                "pod is not found on that node"
            )
        if uid not in expected and victim.priority >= pod.priority:
            raise ExtenderError(
                f"extender: {extender.url} claims to preempt pod {victim.key} on node: {offered.node}, which is not "
                "of lower priority"
            )
        together = (victim,) if units is None else units.unit_of(row, victim).pods
        victims |= {member.uid: member for member in together}
    return Candidate(offered.node, tuple(rules.by_importance(victims.values(), view.now)), violations)
