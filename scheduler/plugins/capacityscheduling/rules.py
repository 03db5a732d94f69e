"""Which pods may be evicted under quotas (SelectVictimsOnNode of pkg/capacityscheduling, scheduler-plugins 0.34.7)."""

from functools import lru_cache

import numpy as np

from scheduler.framework import CycleState, NodeView, PodClause, PodInfo, PodQuery, Resources, RowArray
from scheduler.kube.primitives import EVERYTHING
from scheduler.plugins.capacityscheduling.attempt import Attempt
from scheduler.preemption import ReprieveResult, VictimRules

NAME = "CapacityScheduling"
_QUOTA_EXCEEDED = "global quota max exceeded"
_MAX_QUERIES = 32
"""Borrowing namespaces whose nodes are looked up; with more of them, hardly any node would be ruled out."""


class QuotaRules(VictimRules):
    """Three cases (SelectVictimsOnNode).

    With the pod its namespace uses more than its min: victims are pods of that namespace with lower priority. Within
    its min: victims are pods of namespaces that use more than theirs, whatever their priority. Without a quota: victims
    are pods of lower priority whose namespaces have none either.
    """

    def blocks_preemption(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Tell whether a terminating pod on the nominated node makes room for this one."""
        if not other.deleting:
            return False
        attempt = attempt_of(state)
        quota = attempt.quota(other.namespace)
        less_important = other.priority < pod.priority
        if attempt.own is None or quota is None:
            return attempt.own is None and quota is None and less_important
        if other.namespace == pod.namespace:
            return less_important
        return not _exceeds_min(attempt) and attempt.exceeds_min(quota)

    def rows_with_victims(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> RowArray:
        """Return the rows with pods of the namespaces that may have to give."""
        attempt = attempt_of(state)
        if attempt.own is None:
            return super().rows_with_victims(state, pod, view, rows)
        if _exceeds_min(attempt):
            rows = super().rows_with_victims(state, pod, view, rows)
            return rows[view.pods_by_node(_pods_in_namespace(pod.namespace))[rows] > 0]
        borrowers = attempt.borrowers()
        if len(borrowers) > _MAX_QUERIES:
            return rows
        mask = np.zeros(len(rows), dtype=np.bool_)
        for namespace in borrowers:
            mask |= view.pods_by_node(_pods_in_namespace(namespace))[rows] > 0
        return rows[mask]

    def potential_victims(self, state: CycleState, pod: PodInfo, view: NodeView, row: int) -> list[PodInfo]:
        """Return the pods of a node that may go."""
        attempt, others = attempt_of(state), view.pods_on(row)
        if attempt.own is None:
            return [
                other for other in others if attempt.quota(other.namespace) is None and other.priority < pod.priority
            ]
        if _exceeds_min(attempt):
            return [other for other in others if other.namespace == pod.namespace and other.priority < pod.priority]
        return attempt.victims_from_borrowers(pod, self.by_importance(others, view.now)[::-1])

    def rejection_after_removal(self, state: CycleState, row: int) -> str:
        """Return why the quotas leave no room though all potential victims are gone; "" where they do."""
        attempt = attempt_of(state)
        if attempt.own is None:
            return ""
        return self.quota_rejection(attempt, attempt.request_in_quota, attempt.request_in_total, row)

    @staticmethod
    def quota_rejection(attempt: Attempt, in_quota: Resources, in_total: Resources, row: int) -> str:
        """Return upstream's words where a request exceeds the namespace's max, or one exceeds the sum of all mins."""
        exceeds = attempt.exceeds_max(in_quota, row) or attempt.exceeds_total_min(in_total, row)
        return _QUOTA_EXCEEDED if exceeds else ""

    def reprieve(self, state: CycleState, view: NodeView, row: int, other: PodInfo, fits: bool) -> ReprieveResult:
        """Judge a pod that has been put back by the filters and by the quotas."""
        attempt = attempt_of(state)
        if fits and (attempt.own is None or not exceeds_quotas(attempt, row)):
            return ReprieveResult.REPRIEVED
        return ReprieveResult.EVICTED


@lru_cache(maxsize=1024)
def _pods_in_namespace(namespace: str) -> PodQuery:
    return PodQuery((PodClause(frozenset((namespace,)), EVERYTHING),))


def attempt_of(state: CycleState) -> Attempt:
    """Return what PreFilter wrote."""
    attempt = state.read(NAME, Attempt)
    if attempt is None:
        raise LookupError("its PreFilter has not run")
    return attempt


def _exceeds_min(attempt: Attempt) -> bool:
    """Tell whether the pod's namespace uses more than it is guaranteed, as things are, with the pod and nominated
    ones."""
    own = attempt.own
    return own is not None and own.exceeds_min(attempt.request_in_quota, attempt.used(own.namespace))


def exceeds_quotas(attempt: Attempt, row: int) -> bool:
    """Tell whether the pod, with nominated ones, exceeds its max or the sum of all mins in a what-if run on a node."""
    return attempt.exceeds_max(attempt.request_in_quota, row) or attempt.exceeds_total_min(
        attempt.request_in_total, row
    )
