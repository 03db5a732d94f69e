"""DefaultPreemption: room for a pod that fits nowhere is made by taking away pods of lower priority.

plugins/defaultpreemption and framework/preemption of kube-scheduler 1.34.
"""

from collections.abc import Collection, Sequence

from scheduler import framework as fw
from scheduler.catalog import ActionType, DefaultPreemptionArgs
from scheduler.preemption import (
    WAITING,
    WAITING_AS_GROUP,
    Evaluator,
    GangEvaluator,
    PreemptingPlugin,
    VictimRules,
    wanted_candidates,
)

_NAME = "DefaultPreemption"
_WAITING_FOR_VICTIMS = fw.unresolvable(WAITING, plugin=_NAME)
_GROUP_WAITS = fw.unresolvable(WAITING_AS_GROUP, plugin=_NAME)


class DefaultPreemption(fw.PreEnqueuePlugin, PreemptingPlugin, fw.GangPostFilter, fw.EnqueueExtensions):
    """PostFilter chooses node and victims, for a pod or a gang; PreEnqueue parks it while its victims are being
    deleted."""

    name = _NAME

    def __init__(self, args: DefaultPreemptionArgs, context: fw.PluginContext) -> None:
        """Without a handle (simulation) no pod is evicted."""
        self._args = args
        rules = VictimRules(context.kubernetes)
        self._evaluator = Evaluator(self.name, context, rules, self._candidates_wanted, prefix="preemption: ")
        self._gangs = GangEvaluator(context.filters, rules, self._evaluator.evictions)

    def pre_enqueue(self, pod: fw.PodInfo) -> fw.Status:
        """Park a pod whose preemption, or that of its group, is under way."""
        if not self._evaluator.awaits_watch(pod):
            return fw.SUCCESS
        evictions = self._evaluator.evictions
        return _GROUP_WAITS if evictions is not None and evictions.group_preempts(pod) else _WAITING_FOR_VICTIMS

    def post_filter_gang(
        self,
        preemptor: fw.Preemptor,
        view: fw.NodeView,
        trials: fw.GangTrials,
        work: fw.Work,
    ) -> tuple[fw.GangPostFilterResult | None, fw.Status]:
        """Nominate the members of a gang and start evicting, or say why preemption does not help."""
        return self._gangs.post_filter(preemptor, view, trials, work)

    def preemption_for_gang(self, preemptor: fw.Preemptor) -> str:
        """Say which pods are evicted for a gang, or why that did not help when it was tried last."""
        return self._gangs.said_of(preemptor)

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Deletions un-gate a pod parked here; whether they help is for the plugins to say that rejected it.

        A pod whose gate is closed is asked when a victim of its own goes: thousands may be parked.
        """
        concern = fw.Concern(self._evaluator.victims_of, _deleted, lambda old, new: True)
        return (fw.HintRegistration(fw.POD, ActionType.DELETE, lambda pod, old, new: fw.Hint.SKIP, concern),)

    def _candidates_wanted(self, nodes: int) -> int:
        return wanted_candidates(
            nodes, self._args.min_candidate_nodes_percentage, self._args.min_candidate_nodes_absolute
        )


def _deleted(old: object, new: object) -> Collection[str]:
    return (old.uid,) if isinstance(old, fw.PodInfo) else ()
