"""PreemptionToleration: preemption as by default, except that a PriorityClass can protect its pods for a time.

pkg/preemptiontoleration of scheduler-plugins 0.34.7; it takes the place of DefaultPreemption.
"""

from collections.abc import Iterable, Sequence

from scheduler.catalog import PreemptionTolerationArgs
from scheduler.framework import (
    CycleState,
    NodeCodes,
    NodeView,
    PluginContext,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    Status,
)
from scheduler.kube.primitives.timestamps import TimestampError, epoch_seconds
from scheduler.plugins.preemptiontoleration.policy import policy_of
from scheduler.preemption import Evaluator, NodeError, VictimRules, wanted_candidates

NAME = "PreemptionToleration"
_PRIORITY_CLASS = "PriorityClass"
_NANO = 1_000_000_000


class TolerationRules(VictimRules):
    """Pods of lower priority may go, unless their class protects them."""

    def __init__(self, *, upstream: bool) -> None:
        self._upstream = upstream

    def blocks_preemption(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Tell whether a pod is terminating, for whatever reason."""
        return other.deleting and other.priority < pod.priority

    def potential_victims(self, state: CycleState, pod: PodInfo, view: NodeView, row: int) -> list[PodInfo]:
        """Return the pods of lower priority that are not exempted; NodeError for a class that is gone (upstream)."""
        return [
            other
            for other in view.pods_on(row)
            if other.priority < pod.priority and not self._is_exempted(pod, other, view)
        ]

    def no_victims_reasons(self, pod: PodInfo, nodes: Sequence[str]) -> Iterable[str]:
        """Yield what the pod is told: upstream names every node, which fills the status of a pod on a large
        cluster."""
        if self._upstream:
            return (f"No victims found on node {node} for preemptor pod {pod.name}" for node in nodes)
        return super().no_victims_reasons(pod, nodes)

    def _is_exempted(self, pod: PodInfo, other: PodInfo, view: NodeView) -> bool:
        if not other.priority_class:
            return False
        priority_class = view.objects.get(_PRIORITY_CLASS, "", other.priority_class)
        if priority_class is None:
            if self._upstream:
                raise NodeError(f'priorityclass.scheduling.k8s.io "{other.priority_class}" not found')
            # Whoever deleted the class took its protection away; no pod can run on what nobody may judge.
            return False
        try:
            policy = policy_of(priority_class)
        except ValueError:
            return False
        if pod.priority >= policy.minimum_preemptable_priority:
            return False
        if policy.toleration_seconds < 0:
            return True
        scheduled = next((condition for condition in other.conditions if condition.type == "PodScheduled"), None)
        if scheduled is None or scheduled.status != "True":
            return True
        return self._is_within_toleration(scheduled.last_transition_time, policy.toleration_seconds, view.now)

    def _is_within_toleration(self, scheduled_at: str | None, seconds: int, now: float) -> bool:
        """Tell whether a time after a moment is not over; in Go, a time of three centuries is one in the past."""
        if self._upstream:
            nanoseconds = seconds * _NANO + (1 << 63)
            seconds = (nanoseconds % (1 << 64) - (1 << 63)) // _NANO
        try:
            since = epoch_seconds(scheduled_at) if scheduled_at else 0.0
        except TimestampError:
            since = 0.0
        return since + seconds > now


class PreemptionToleration:
    """PostFilter chooses node and victims."""

    name = NAME

    def __init__(self, args: PreemptionTolerationArgs, context: PluginContext) -> None:
        """Without a handle (simulation) nobody is evicted."""
        self._args = args
        self._evaluator = Evaluator(
            self.name, context, TolerationRules(upstream=context.upstream), self._candidates_wanted
        )

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """Nominate the node where preemption hurts least and start evicting, or say why it does not help."""
        return self._evaluator.post_filter(state, pod, view, codes)

    def _candidates_wanted(self, nodes: int) -> int:
        return wanted_candidates(
            nodes, self._args.min_candidate_nodes_percentage, self._args.min_candidate_nodes_absolute
        )


# Checked by mypy: the extension points of the descriptor, and the optional Protocols that the framework looks for.
_POST_FILTER: type[PostFilterPlugin] = PreemptionToleration
