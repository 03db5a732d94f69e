"""CapacityScheduling: namespaces share a cluster by ElasticQuotas; what one is guaranteed and does not use, others may
borrow.

pkg/capacityscheduling of scheduler-plugins 0.34.7. What a namespace uses is the sum over the pods that have a node, on
the API server or by this scheduler's own choice; no counter is kept
beside it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.helpers.upstreamsums import upstream_requests
from scheduler.kube.model import ElasticQuota
from scheduler.kube.primitives import EVERYTHING
from scheduler.plugins.capacityscheduling.quotas import ELASTIC_QUOTA, Attempt, Quotas
from scheduler.preemption import Evaluator, NodeError, ReprieveResult, VictimRules, wanted_candidates

# Which pods may be evicted under quotas (SelectVictimsOnNode of pkg/capacityscheduling, scheduler-plugins 0.34.7).

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

    def blocks_preemption(self, state: fw.CycleState, pod: fw.PodInfo, other: fw.PodInfo) -> bool:
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

    def rows_with_victims(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray
    ) -> fw.RowArray:
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

    def potential_victims(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, row: int) -> list[fw.PodInfo]:
        """Return the pods of a node that may go."""
        attempt, others = attempt_of(state), view.pods_on(row)
        if attempt.own is None:
            return [
                other for other in others if attempt.quota(other.namespace) is None and other.priority < pod.priority
            ]
        if _exceeds_min(attempt):
            return [other for other in others if other.namespace == pod.namespace and other.priority < pod.priority]
        return attempt.victims_from_borrowers(pod, self.by_importance(others, view.now)[::-1])

    def rejection_after_removal(self, state: fw.CycleState, row: int) -> str:
        """Return why the quotas leave no room though all potential victims are gone; "" where they do."""
        attempt = attempt_of(state)
        if attempt.own is None:
            return ""
        return self.quota_rejection(attempt, attempt.request_in_quota, attempt.request_in_total, row)

    @staticmethod
    def quota_rejection(attempt: Attempt, in_quota: fw.Resources, in_total: fw.Resources, row: int) -> str:
        """Return upstream's words where a request exceeds the namespace's max, or one exceeds the sum of all mins."""
        exceeds = attempt.exceeds_max(in_quota, row) or attempt.exceeds_total_min(in_total, row)
        return _QUOTA_EXCEEDED if exceeds else ""

    def reprieve(
        self, state: fw.CycleState, view: fw.NodeView, row: int, other: fw.PodInfo, fits: bool
    ) -> ReprieveResult:
        """Judge a pod that has been put back by the filters and by the quotas."""
        attempt = attempt_of(state)
        if fits and (attempt.own is None or not exceeds_quotas(attempt, row)):
            return ReprieveResult.REPRIEVED
        return ReprieveResult.EVICTED


@lru_cache(maxsize=1024)
def _pods_in_namespace(namespace: str) -> fw.PodQuery:
    return fw.PodQuery((fw.PodClause(frozenset((namespace,)), EVERYTHING),))


def attempt_of(state: fw.CycleState) -> Attempt:
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


# What `compatibility: upstream` changes in CapacityScheduling: pkg/capacityscheduling of scheduler-plugins 0.34.7 as
# it is.

UPSTREAM_EVENTS = (fw.HintRegistration(fw.POD, ActionType.DELETE), fw.HintRegistration(ELASTIC_QUOTA, ActionType.ALL))


class UpstreamQuotaRules(QuotaRules):
    """SelectVictimsOnNode without the repairs."""

    def no_victims_reasons(self, pod: fw.PodInfo, nodes: Sequence[str]) -> Iterable[str]:
        """Yield a text per node, which fills the status of a pod on a large cluster."""
        return (f"No victims found on node {node} for preemptor pod {pod.name}" for node in nodes)

    def rejection_after_removal(self, state: fw.CycleState, row: int) -> str:
        """Judge without the nominated pods: victims go, and the pod is rejected all the same in its next attempt."""
        attempt = attempt_of(state)
        return self.quota_rejection(attempt, attempt.request, attempt.request, row) if attempt.own is not None else ""

    def reprieve(
        self, state: fw.CycleState, view: fw.NodeView, row: int, other: fw.PodInfo, fits: bool
    ) -> ReprieveResult:
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


def requests_of(pod: fw.PodInfo) -> fw.Resources:
    """Return what a pod requests by upstream's sum."""
    return upstream_requests(pod.spec)


def occupied(pod: fw.PodInfo) -> fw.Resources:
    """Return what a pod occupies: sidecars, resources of the pod as a whole and resizing in place count."""
    return pod.requests


class CapacityScheduling(
    fw.PreFilterPlugin,
    fw.PostFilterPlugin,
    fw.AskingPostFilter,
    fw.ReservePlugin,
    fw.PreFilterExtensions,
    fw.EnqueueExtensions,
):
    """PreFilter holds pods to the quotas, PostFilter evicts pods of namespaces that borrowed."""

    name = NAME

    def __init__(self, args: object, context: fw.PluginContext) -> None:
        """There are no args. Without a handle (simulation) no pod is evicted."""
        upstream = self._upstream = context.upstream
        self._amounts = requests_of if upstream else occupied
        self._events = UPSTREAM_EVENTS if upstream else _EVENTS
        rules = (UpstreamQuotaRules if upstream else QuotaRules)(context.kubernetes)
        self._evaluator = Evaluator(self.name, context, rules, try_every_node if upstream else _candidates_wanted)
        self._objects: fw.Objects | None = None
        self._generation = -1
        self._quotas = Quotas()

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register deleted and shrunk pods, which leave room in their quota, and changed quotas."""
        return self._events

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Reject a pod with which its namespace would exceed its limit, or all quotas together what they
        guarantee."""
        quotas = self._quotas_of(view.objects)
        state.work.charge(len(quotas.by_namespace), "ElasticQuotas")
        attempt = Attempt(pod, view, quotas, self._amounts)
        state.write(self.name, attempt)
        if attempt.own is None:
            return None, fw.SUCCESS
        rejected = f"Pod {pod.key} is rejected in PreFilter because"
        if attempt.exceeds_max(attempt.request_in_quota):
            words = f"{rejected} ElasticQuota {pod.namespace} is more than Max"
            return None, self._rejection(words, attempt.excess_over_max())
        if attempt.exceeds_total_min(attempt.request_in_total):
            words = f"{rejected} total ElasticQuota used is more than min"
            return None, self._rejection(words, attempt.excess_over_total_min())
        return None, fw.SUCCESS

    def _rejection(self, words: str, excess: str) -> fw.Status:
        """Upstream's words name no resource and no amounts; under `compatibility: upstream` only `explain` does."""
        return fw.unschedulable(words, detail=excess) if self._upstream else fw.unschedulable(f"{words} ({excess})")

    def add_pod(self, state: fw.CycleState, pod: fw.PodInfo, added: fw.PodInfo, view: fw.NodeView, row: int) -> None:
        """Count a pod put on a node for a what-if run."""
        attempt = state.read(self.name, Attempt)
        if attempt is not None:
            attempt.move(added, row, 1)

    def remove_pod(
        self, state: fw.CycleState, pod: fw.PodInfo, removed: fw.PodInfo, view: fw.NodeView, row: int
    ) -> None:
        """Count a pod taken from a node for a what-if run."""
        attempt = state.read(self.name, Attempt)
        if attempt is not None:
            attempt.move(removed, row, -1)

    def post_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, codes: fw.NodeCodes
    ) -> tuple[fw.PostFilterResult | None, fw.Status]:
        """Nominate the node where preemption hurts least and start evicting, or say why it does not help."""
        return fw.conclude(self._evaluator.post_filter(state, pod, view, codes))

    def post_filter_asking(
        self,
        state: fw.CycleState,
        pod: fw.PodInfo,
        view: fw.NodeView,
        codes: fw.NodeCodes,
        extenders: Sequence[fw.Extender],
    ) -> fw.Asking[tuple[fw.PostFilterResult | None, fw.Status]]:
        """As `post_filter`, with extenders that have a say."""
        return self._evaluator.post_filter(state, pod, view, codes, extenders)

    def reserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> fw.Status:
        """Nothing to reserve: the pod is among those with a node already."""
        return fw.SUCCESS

    def unreserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> None:
        """Nothing to release: the pod is forgotten, and with it what it used."""

    def _quotas_of(self, objects: fw.Objects) -> Quotas:
        generation = objects.generation(ELASTIC_QUOTA)
        if objects is not self._objects or generation != self._generation:
            self._objects, self._generation = objects, generation
            self._quotas = Quotas.of(objects.every(ELASTIC_QUOTA))
        return self._quotas


def _candidates_wanted(nodes: int) -> int:
    """Return how many candidates to look for: beyond some hundred, the search would hold up all other pods."""
    return wanted_candidates(nodes, 10, 100)


def _quota_spec_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    """The controller writes what is used into the status at every change: that is no news."""
    if isinstance(old, ElasticQuota) and isinstance(new, ElasticQuota) and old.spec == new.spec:
        return fw.Hint.SKIP
    return fw.Hint.QUEUE


_EVENTS = (
    fw.HintRegistration(fw.POD, ActionType.DELETE),
    fw.HintRegistration(fw.POD, ActionType.UPDATE_POD_SCALE_DOWN),
    fw.HintRegistration(ELASTIC_QUOTA, ActionType.ALL, _quota_spec_changed),
)
