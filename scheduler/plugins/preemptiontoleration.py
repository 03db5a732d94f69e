"""PreemptionToleration: preemption as by default, except that a PriorityClass can protect its pods for a time.

pkg/preemptiontoleration of scheduler-plugins 0.34.7; it takes the place of DefaultPreemption.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler import framework as fw
from scheduler.catalog import PreemptionTolerationArgs
from scheduler.kube.model import PriorityClass
from scheduler.kube.primitives import TimestampError, epoch_seconds
from scheduler.preemption import Evaluator, NodeError, PreemptingPlugin, VictimRules, wanted_candidates

# Which pods may be evicted: those of lower priority, unless their PriorityClass protects them for now
# (pkg/preemptiontoleration of scheduler-plugins 0.34.7).

PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
MINIMUM = f"{PREFIX}minimum-preemptable-priority"
SECONDS = f"{PREFIX}toleration-seconds"
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_PRIORITY_CLASS = "PriorityClass"


class Policy(NamedTuple):
    """Pods of the class tolerate preemption by pods of less than a priority for so long after they were scheduled; a
    negative time means for ever."""

    minimum_preemptable_priority: int
    toleration_seconds: int


def policy_of(priority_class: PriorityClass) -> Policy:
    """Return a class's policy (parsePreemptionTolerationPolicy).

    Raises:
        ValueError: an annotation holds no integer of its size.
    """
    annotations = priority_class.metadata.annotations
    minimum, seconds = annotations.get(MINIMUM), annotations.get(SECONDS)
    return Policy(
        priority_class.value + 1 if minimum is None else _integer(minimum, 32),
        0 if seconds is None else _integer(seconds, 64),
    )


def _integer(text: str, bits: int) -> int:
    if _INTEGER.fullmatch(text):
        number = int(text)
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return number
    raise ValueError(f"{text!r} is not an integer of {bits} bits")


class TolerationRules(VictimRules):
    """Pods of lower priority may be evicted, unless their class protects them."""

    def blocks_preemption(self, state: fw.CycleState, pod: fw.PodInfo, other: fw.PodInfo) -> bool:
        """Tell whether a pod is terminating, for whatever reason."""
        return other.deleting and other.priority < pod.priority

    def potential_victims(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, row: int) -> list[fw.PodInfo]:
        """Return the pods of lower priority that are not exempted, and none of those that would go with them is."""
        others = [other for other in view.pods_on(row) if self._may_go(pod, other, view)]
        return self.with_their_groups(
            state, view, row, others, lambda unit: all(self._may_go(pod, member, view) for member in unit.pods)
        )

    def _may_go(self, pod: fw.PodInfo, other: fw.PodInfo, view: fw.NodeView) -> bool:
        return other.priority < pod.priority and not self._is_exempted(pod, other, view)

    def exempts_without_class(self, other: fw.PodInfo) -> bool:
        """Tell whether a pod is exempted whose PriorityClass is gone.

        It is not: whoever deleted the class took its protection away, and no pod could run on a node that nobody may
        judge.
        """
        return False

    def toleration_seconds(self, seconds: int) -> int:
        """Return how long a policy's time lasts."""
        return seconds

    def _is_exempted(self, pod: fw.PodInfo, other: fw.PodInfo, view: fw.NodeView) -> bool:
        """Tell whether a pod's class protects it from this preemptor (ExemptedFromPreemption)."""
        if not other.priority_class:
            return False
        priority_class = view.objects.get(_PRIORITY_CLASS, "", other.priority_class)
        if priority_class is None:
            return self.exempts_without_class(other)
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
        try:
            since = epoch_seconds(scheduled.last_transition_time) if scheduled.last_transition_time else 0.0
        except TimestampError:
            since = 0.0
        return since + self.toleration_seconds(policy.toleration_seconds) > view.now


# What `compatibility: upstream` changes in PreemptionToleration: pkg/preemptiontoleration of scheduler-plugins 0.34.7
# as it is.

_NANO = 1_000_000_000


class UpstreamTolerationRules(TolerationRules):
    """SelectVictimsOnNode and ExemptedFromPreemption without the repairs."""

    def no_victims_reasons(self, pod: fw.PodInfo, nodes: Sequence[str]) -> Iterable[str]:
        """Yield a text per node, which fills the status of a pod on a large cluster."""
        return (f"No victims found on node {node} for preemptor pod {pod.name}" for node in nodes)

    def exempts_without_class(self, other: fw.PodInfo) -> bool:
        """Fail for the whole node.

        Raises:
            NodeError: always.
        """
        raise NodeError(f'priorityclass.scheduling.k8s.io "{other.priority_class}" not found')

    def toleration_seconds(self, seconds: int) -> int:
        """Return the time as Go's int64 of nanoseconds has it: three centuries overflow into the past."""
        nanoseconds = seconds * _NANO + (1 << 63)
        return (nanoseconds % (1 << 64) - (1 << 63)) // _NANO


NAME = "PreemptionToleration"


class PreemptionToleration(PreemptingPlugin):
    """PostFilter chooses node and victims."""

    name = NAME

    def __init__(self, args: PreemptionTolerationArgs, context: fw.PluginContext) -> None:
        """Without a handle (simulation) no pod is evicted."""
        self._args = args
        rules = (UpstreamTolerationRules if context.upstream else TolerationRules)(context.kubernetes)
        self._evaluator = Evaluator(self.name, context, rules, self._candidates_wanted)

    def _candidates_wanted(self, nodes: int) -> int:
        return wanted_candidates(
            nodes, self._args.min_candidate_nodes_percentage, self._args.min_candidate_nodes_absolute
        )
