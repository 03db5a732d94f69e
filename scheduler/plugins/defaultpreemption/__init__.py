"""DefaultPreemption: room for a pod that fits nowhere is made by taking away pods of lower priority.

plugins/defaultpreemption and framework/preemption of kube-scheduler 1.34. Extenders have no say, as there are none.
"""

import random
from collections.abc import Sequence

import numpy as np

from scheduler.catalog import ActionType, DefaultPreemptionArgs
from scheduler.framework import (
    POD,
    PREEMPTION_ATTEMPTS,
    SUCCESS,
    Code,
    CycleState,
    Hint,
    HintRegistration,
    NodeCodes,
    NodeView,
    PluginContext,
    PodInfo,
    PostFilterResult,
    Status,
    failure,
    unresolvable,
    unschedulable,
)
from scheduler.helpers.evicting import Evictions
from scheduler.helpers.preemption import Candidate, choose, dry_run, ineligible

_PREFIX = "preemption: "


class DefaultPreemption:
    """PostFilter chooses node and victims; PreEnqueue parks the pod while its victims are being deleted."""

    name = "DefaultPreemption"

    def __init__(self, args: DefaultPreemptionArgs, context: PluginContext) -> None:
        """Without a handle (simulation) nobody is evicted."""
        self._args = args
        self._filters = context.filters
        self._evictions = None if context.handle is None else Evictions(self.name, context.handle)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Park a pod whose preemption is under way."""
        if self._evictions is None or not self._evictions.running(pod):
            return SUCCESS
        return unresolvable("waiting for the preemption for this pod to be finished")

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Deletions un-gate a pod parked here; whether they help is for the plugins to say that rejected it."""
        return (HintRegistration(POD, ActionType.DELETE, lambda pod, old, new: Hint.SKIP),)

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """Nominate the node where preemption hurts least and start evicting, or say why it does not help."""
        state.count(PREEMPTION_ATTEMPTS)
        reason = ineligible(pod, view, codes)
        if reason is not None:
            return None, unschedulable(_PREFIX + reason)
        if self._filters is None:
            return None, failure(f"{_PREFIX}there are no filters to ask")
        rng = state.rng or random.Random(0)
        rows = codes.rows(Code.UNSCHEDULABLE)
        rows = np.roll(rows, -int(rng.random() * len(rows)))
        trial = dry_run(state, pod, view, self._filters, rows, self._wanted(len(rows)))
        if not trial.candidates:
            if trial.errors:
                return None, failure(_PREFIX + ", ".join(trial.errors))
            return PostFilterResult(""), unschedulable(_PREFIX + trial.message(len(view.rows)))
        chosen = choose(trial.candidates, view.now, rng)
        self._evict(pod, chosen, view)
        return PostFilterResult(chosen.node, chosen.victims), SUCCESS

    def _wanted(self, nodes: int) -> int:
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(nodes, max(share, self._args.min_candidate_nodes_absolute))

    def _evict(self, pod: PodInfo, chosen: Candidate, view: NodeView) -> None:
        if self._evictions is None:
            return
        displaced = [
            one
            for one in view.nominations.get(chosen.node, ())
            # One whose nomination the API server does not show has nothing to be cleared there.
            if one.priority < pod.priority and one.nominated_node
        ]
        self._evictions.start(pod, chosen, displaced)
