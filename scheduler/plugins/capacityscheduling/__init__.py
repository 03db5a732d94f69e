"""CapacityScheduling: namespaces share a cluster by ElasticQuotas; what one is guaranteed and does not use, others may
borrow.

pkg/capacityscheduling of scheduler-plugins 0.34.7. What a namespace uses is the sum over the pods that have a node, on
the API server or by this scheduler's own choice; no counter is kept
beside it.
"""

from collections.abc import Sequence

from scheduler.catalog import ActionType
from scheduler.framework import (
    POD,
    SUCCESS,
    Asking,
    AskingPostFilter,
    CycleState,
    EnqueueExtensions,
    Extender,
    Hint,
    HintRegistration,
    NodeCodes,
    NodeView,
    Objects,
    PluginContext,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    Resources,
    Status,
    unschedulable,
)
from scheduler.kube.model import ElasticQuota
from scheduler.plugins.capacityscheduling.attempt import Attempt
from scheduler.plugins.capacityscheduling.quotas import ELASTIC_QUOTA, Quotas
from scheduler.plugins.capacityscheduling.rules import NAME, QuotaRules
from scheduler.plugins.capacityscheduling.upstream import (
    UPSTREAM_EVENTS,
    UpstreamQuotaRules,
    requests_of,
    try_every_node,
)
from scheduler.preemption import Evaluator, wanted_candidates


def occupied(pod: PodInfo) -> Resources:
    """Return what a pod occupies: sidecars, resources of the pod as a whole and resizing in place count."""
    return pod.requests


class CapacityScheduling(
    PreFilterPlugin, PostFilterPlugin, AskingPostFilter, ReservePlugin, PreFilterExtensions, EnqueueExtensions
):
    """PreFilter holds pods to the quotas, PostFilter evicts pods of namespaces that borrowed."""

    name = NAME

    def __init__(self, args: object, context: PluginContext) -> None:
        """There are no args. Without a handle (simulation) no pod is evicted."""
        upstream = self._upstream = context.upstream
        self._amounts = requests_of if upstream else occupied
        self._events = UPSTREAM_EVENTS if upstream else _EVENTS
        rules = (UpstreamQuotaRules if upstream else QuotaRules)(context.kubernetes)
        self._evaluator = Evaluator(self.name, context, rules, try_every_node if upstream else _candidates_wanted)
        self._objects: Objects | None = None
        self._generation = -1
        self._quotas = Quotas()

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Register deleted and shrunk pods, which leave room in their quota, and changed quotas."""
        return self._events

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Reject a pod with which its namespace would exceed its limit, or all quotas together what they
        guarantee."""
        quotas = self._quotas_of(view.objects)
        state.work.charge(len(quotas.by_namespace), "ElasticQuotas")
        attempt = Attempt(pod, view, quotas, self._amounts)
        state.write(self.name, attempt)
        if attempt.own is None:
            return None, SUCCESS
        rejected = f"Pod {pod.key} is rejected in PreFilter because"
        if attempt.exceeds_max(attempt.request_in_quota):
            words = f"{rejected} ElasticQuota {pod.namespace} is more than Max"
            return None, self._rejection(words, attempt.excess_over_max())
        if attempt.exceeds_total_min(attempt.request_in_total):
            words = f"{rejected} total ElasticQuota used is more than min"
            return None, self._rejection(words, attempt.excess_over_total_min())
        return None, SUCCESS

    def _rejection(self, words: str, excess: str) -> Status:
        """Upstream's words name no resource and no amounts; under `compatibility: upstream` only `explain` does."""
        return unschedulable(words, detail=excess) if self._upstream else unschedulable(f"{words} ({excess})")

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, view: NodeView, row: int) -> None:
        """Count a pod put on a node for a what-if run."""
        attempt = state.read(self.name, Attempt)
        if attempt is not None:
            attempt.move(added, row, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, view: NodeView, row: int) -> None:
        """Count a pod taken from a node for a what-if run."""
        attempt = state.read(self.name, Attempt)
        if attempt is not None:
            attempt.move(removed, row, -1)

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """Nominate the node where preemption hurts least and start evicting, or say why it does not help."""
        return self._evaluator.post_filter(state, pod, view, codes)

    def post_filter_asking(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes, extenders: Sequence[Extender]
    ) -> Asking[tuple[PostFilterResult | None, Status]]:
        """As `post_filter`, with extenders that have a say."""
        return self._evaluator.post_filter_asking(state, pod, view, codes, extenders)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Nothing to reserve: the pod is among those with a node already."""
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Nothing to release: the pod is forgotten, and with it what it used."""

    def _quotas_of(self, objects: Objects) -> Quotas:
        generation = objects.generation(ELASTIC_QUOTA)
        if objects is not self._objects or generation != self._generation:
            self._objects, self._generation = objects, generation
            self._quotas = Quotas.of(objects.every(ELASTIC_QUOTA))
        return self._quotas


def _candidates_wanted(nodes: int) -> int:
    """Return how many candidates to look for: beyond some hundred, the search would hold up all other pods."""
    return wanted_candidates(nodes, 10, 100)


def _quota_spec_changed(pod: PodInfo, old: object, new: object) -> Hint:
    """The controller writes what is used into the status at every change: that is no news."""
    if isinstance(old, ElasticQuota) and isinstance(new, ElasticQuota) and old.spec == new.spec:
        return Hint.SKIP
    return Hint.QUEUE


_EVENTS = (
    HintRegistration(POD, ActionType.DELETE),
    HintRegistration(POD, ActionType.UPDATE_POD_SCALE_DOWN),
    HintRegistration(ELASTIC_QUOTA, ActionType.ALL, _quota_spec_changed),
)
