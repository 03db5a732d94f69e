"""What `compatibility: upstream` changes in CapacityScheduling: pkg/capacityscheduling of scheduler-plugins 0.34.7 as
it is."""

from collections.abc import Iterable, Sequence

from scheduler.catalog import ActionType
from scheduler.framework import POD, CycleState, HintRegistration, NodeView, PodInfo, Resources
from scheduler.helpers.upstreamsums import upstream_requests
from scheduler.plugins.capacityscheduling.quotas import ELASTIC_QUOTA
from scheduler.plugins.capacityscheduling.rules import QuotaRules, attempt_of, exceeds_quotas
from scheduler.preemption import NodeError, ReprieveResult

UPSTREAM_EVENTS = (HintRegistration(POD, ActionType.DELETE), HintRegistration(ELASTIC_QUOTA, ActionType.ALL))


class UpstreamQuotaRules(QuotaRules):
    """SelectVictimsOnNode without the repairs."""

    def no_victims_reasons(self, pod: PodInfo, nodes: Sequence[str]) -> Iterable[str]:
        """Yield a text per node, which fills the status of a pod on a large cluster."""
        return (f"No victims found on node {node} for preemptor pod {pod.name}" for node in nodes)

    def rejection_after_removal(self, state: CycleState, row: int) -> str:
        """Judge without the nominated pods: victims go, and the pod is rejected all the same in its next attempt."""
        attempt = attempt_of(state)
        return self.quota_rejection(attempt, attempt.request, attempt.request, row) if attempt.own is not None else ""

    def reprieve(self, state: CycleState, view: NodeView, row: int, other: PodInfo, fits: bool) -> ReprieveResult:
        """Judge a pod that has been put back; a victim that only the quotas demand counts no PDB violation.

        Raises:
            NodeError: the filters reject the pod and the quotas do as well. Upstream then removes it from the node
                twice, and the second removal fails.
        """
        result = super().reprieve(state, view, row, other, fits)
        if result is not ReprieveResult.EVICTED:
            return result
        if fits:
            return ReprieveResult.EVICTED_UNCOUNTED
        attempt = attempt_of(state)
        if attempt.own is not None:
            without = attempt.clone()
            without.move(other, row, -1)
            if exceeds_quotas(without, row):
                raise NodeError(f"no corresponding pod {other.name} in pods of node {view.name(row)}")
        return result


def try_every_node(nodes: int) -> int:
    """Return how many candidates to look for: upstream tries every node."""
    return nodes


def requests_of(pod: PodInfo) -> Resources:
    """Return what a pod requests by upstream's sum."""
    return upstream_requests(pod.spec)
