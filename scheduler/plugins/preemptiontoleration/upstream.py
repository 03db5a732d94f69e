"""What `compatibility: upstream` changes in PreemptionToleration: pkg/preemptiontoleration of scheduler-plugins 0.34.7
as it is."""

from collections.abc import Iterable, Sequence

from scheduler.framework import PodInfo
from scheduler.plugins.preemptiontoleration.rules import TolerationRules
from scheduler.preemption import NodeError

_NANO = 1_000_000_000


class UpstreamTolerationRules(TolerationRules):
    """SelectVictimsOnNode and ExemptedFromPreemption without the repairs."""

    def no_victims_reasons(self, pod: PodInfo, nodes: Sequence[str]) -> Iterable[str]:
        """Yield a text per node, which fills the status of a pod on a large cluster."""
        return (f"No victims found on node {node} for preemptor pod {pod.name}" for node in nodes)

    def exempts_without_class(self, other: PodInfo) -> bool:
        """Fail for the whole node.

        Raises:
            NodeError: always.
        """
        raise NodeError(f'priorityclass.scheduling.k8s.io "{other.priority_class}" not found')

    def toleration_seconds(self, seconds: int) -> int:
        """Return the time as Go's int64 of nanoseconds has it: three centuries overflow into the past."""
        nanoseconds = seconds * _NANO + (1 << 63)
        return (nanoseconds % (1 << 64) - (1 << 63)) // _NANO
