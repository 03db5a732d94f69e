"""CapacityScheduling: namespaces share a cluster by ElasticQuotas; what one is guaranteed and does not use, others may
borrow.

pkg/capacityscheduling of scheduler-plugins 0.34.7. What a namespace uses is the sum over the pods that have a node, on
the API server or by this scheduler's own choice; no counter is kept
beside it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct, field

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.framework import NodeView, PodAmounts, PodInfo, Resources
from scheduler.helpers.upstreamsums import upstream_requests
from scheduler.kube.model import ElasticQuota, add_amounts, amount_text, effective_quota, parse_resources
from scheduler.kube.primitives import EVERYTHING
from scheduler.preemption import Evaluator, NodeError, PreemptingPlugin, ReprieveResult, VictimRules, wanted_candidates

ELASTIC_QUOTA = "ElasticQuota"
_ALWAYS_COMPARED = ("cpu", "memory", "ephemeral-storage")
"""These are always compared; a list that leaves one out means 0."""
NO_RESOURCES: Resources = {}


class Quota(Struct, frozen=True):
    """A namespace's quota: what it is guaranteed (`min`), and its limit (`max`; None: it has none)."""

    namespace: str
    least: Resources
    most: Resources | None

    def exceeds_max(self, request: Resources, used: Resources, moved: Resources = NO_RESOURCES) -> bool:
        """Tell whether a request on top of what is used exceeds the limit; other resources than cpu, memory and
        ephemeral-storage count where the request and the limit name them."""
        return self.most is not None and _exceeds(request, used, moved, self.most, unlisted_is_unlimited=True)

    def over_max(self, request: Resources, used: Resources) -> list[str]:
        """Return the resources of which a request on top of what is used exceeds the limit, by name."""
        if self.most is None:
            return []
        return sorted(set(_exceeded(request, used, NO_RESOURCES, self.most, unlisted_is_unlimited=True)))

    def exceeds_min(self, request: Resources, used: Resources) -> bool:
        """Tell whether a request on top of what is used exceeds what is guaranteed, of which there is none unless it
        is named. Other resources than cpu, memory and ephemeral-storage count where the request names them."""
        return _exceeds(request, used, NO_RESOURCES, self.least)


class Quotas(Struct, frozen=True):
    """The quotas in force, by namespace."""

    by_namespace: Mapping[str, Quota] = field(default_factory=dict)
    least: Resources = field(default_factory=dict)
    """What all of them guarantee together."""

    @classmethod
    def of(cls, objects: Iterable[ElasticQuota]) -> "Quotas":
        """Return the quotas of ElasticQuota objects, one per namespace."""
        grouped: dict[str, list[ElasticQuota]] = {}
        for elastic_quota in objects:
            grouped.setdefault(elastic_quota.metadata.namespace, []).append(elastic_quota)
        by_namespace: dict[str, Quota] = {}
        least: dict[str, int] = {}
        for namespace, candidates in grouped.items():
            chosen = effective_quota(candidates)
            if chosen is None:
                continue
            most = chosen.spec.max
            quota = Quota(
                namespace,
                parse_resources(chosen.spec.min or {}),
                None if most is None else parse_resources(most),
            )
            by_namespace[namespace] = quota
            add_amounts(least, quota.least)
        return cls(by_namespace, least)

    def exceeds_total_min(self, request: Resources, used: Resources, moved: Resources) -> bool:
        """Tell whether a request on top of what all namespaces with a quota use exceeds what they are guaranteed
        together."""
        return _exceeds(request, used, moved, self.least) or _exceeds(used, request, moved, self.least)

    def over_total_min(self, request: Resources, used: Resources) -> list[str]:
        """Return the resources of which a request on top of what is used exceeds that, by name."""
        least = self.least
        over = {*_exceeded(request, used, NO_RESOURCES, least), *_exceeded(used, request, NO_RESOURCES, least)}
        return sorted(over)


def _exceeds(
    request: Resources, used: Resources, moved: Resources, limits: Resources, *, unlisted_is_unlimited: bool = False
) -> bool:
    """Tell whether a request on top of what is used exceeds limits; arguments as of `_exceeded`."""
    exceeded = _exceeded(request, used, moved, limits, unlisted_is_unlimited=unlisted_is_unlimited)
    return next(exceeded, None) is not None


def _exceeded(
    request: Resources, used: Resources, moved: Resources, limits: Resources, *, unlisted_is_unlimited: bool = False
) -> Iterator[str]:
    """Yield the resources of which a request on top of what is used exceeds limits (cmp2 of elasticquota.go).

    Args:
        request: the amounts that are requested.
        used: what is used already.
        moved: what a what-if run adds; negative where it removes.
        limits: the amounts that must not be exceeded.
        unlisted_is_unlimited: whether a scalar resource that `limits` does not list has no limit, instead of 0.
    """
    for name in _ALWAYS_COMPARED:
        if request.get(name, 0) + used.get(name, 0) + moved.get(name, 0) > limits.get(name, 0):
            yield name
    for name, amount in request.items():
        if name in _ALWAYS_COMPARED or (unlisted_is_unlimited and name not in limits):
            continue
        if amount + used.get(name, 0) + moved.get(name, 0) > limits.get(name, 0):
            yield name


# CapacityScheduling's state of one attempt: what each namespace uses, and what it would use if pods were moved.

_MAX_NAMED = 4
"""Resources that a rejection names: a pod may ask for any number of them."""


class QuotaAttempt:
    """One pod against the quotas.

    Pods that a what-if run puts on a node or takes from it count for that node's row only: nodes are tried together,
    and what happens on one of them does not happen on the others.

    Attributes:
        request: what the pod requests.
        in_quota: that, and what pods of its namespace request that are nominated and no less important.
        in_total: that, and what nominated pods of other namespaces request that keep within their guarantee.
    """

    def __init__(self, pod: PodInfo, view: NodeView, quotas: Quotas, amounts: PodAmounts) -> None:
        self._quotas = quotas
        self._used = view.requests_by_namespace(amounts)
        self._amounts = amounts
        self._moved_by_row: dict[int, dict[str, dict[str, int]]] = {}
        self._total: dict[str, int] | None = None
        self.own = quotas.by_namespace.get(pod.namespace)
        self.request = amounts(pod)
        request_in_quota, request_in_total = dict(self.request), dict(self.request)
        if self.own is not None:
            for other in _nominated(pod, view):
                quota = quotas.by_namespace.get(other.namespace)
                if quota is None:
                    continue
                if other.namespace == pod.namespace:
                    if other.priority >= pod.priority:
                        add_amounts(request_in_quota, amounts(other))
                        add_amounts(request_in_total, amounts(other))
                elif not self.exceeds_min(quota):
                    add_amounts(request_in_total, amounts(other))
        self.request_in_quota: Resources = request_in_quota
        self.request_in_total: Resources = request_in_total

    def clone(self) -> "QuotaAttempt":
        """Return a copy on which pods can be moved independently."""
        twin = object.__new__(QuotaAttempt)
        twin.__dict__.update(self.__dict__)
        twin._moved_by_row = {
            row: {namespace: dict(amounts) for namespace, amounts in moved.items()}
            for row, moved in self._moved_by_row.items()
        }
        return twin

    def quota(self, namespace: str) -> Quota | None:
        """Return the quota of a namespace."""
        return self._quotas.by_namespace.get(namespace)

    def move(self, pod: PodInfo, row: int, sign: int) -> None:
        """Count a pod as put on a row (+1) or taken from it (-1)."""
        if pod.namespace in self._quotas.by_namespace:
            moved = self._moved_by_row.setdefault(row, {}).setdefault(pod.namespace, {})
            add_amounts(moved, self._amounts(pod), sign)

    def used(self, namespace: str) -> Resources:
        """Return what a namespace uses now, without what-if runs."""
        return self._used.get(namespace, NO_RESOURCES)

    def exceeds_min(self, quota: Quota) -> bool:
        """Tell whether a namespace uses more than it is guaranteed."""
        return quota.exceeds_min(self.used(quota.namespace), NO_RESOURCES)

    def exceeds_max(self, request: Resources, row: int = -1) -> bool:
        """Tell whether the pod's namespace would exceed its limit with a request."""
        own = self.own
        if own is None:
            return False
        moved = self._moved_by_row.get(row, {}).get(own.namespace, NO_RESOURCES)
        return own.exceeds_max(request, self._used.get(own.namespace, NO_RESOURCES), moved)

    def exceeds_total_min(self, request: Resources, row: int = -1) -> bool:
        """Tell whether all quotas together would be exceeded with a request."""
        moved: dict[str, int] = {}
        for amounts in self._moved_by_row.get(row, {}).values():
            add_amounts(moved, amounts)
        return self._quotas.exceeds_total_min(request, self._total_used(), moved)

    def _total_used(self) -> Resources:
        if self._total is None:
            self._total = {}
            for namespace in self._quotas.by_namespace:
                add_amounts(self._total, self.used(namespace))
        return self._total

    def excess_over_max(self) -> str:
        """Return of which resources the pod's namespace would exceed its limit, in words with amounts."""
        own = self.own
        if own is None or own.most is None:
            return ""
        used = self.used(own.namespace)
        over = own.over_max(self.request_in_quota, used)
        return self._excess(over, self.request_in_quota, used, own.most, "max")

    def excess_over_total_min(self) -> str:
        """Return of which resources all quotas together would be exceeded, in words with amounts."""
        used = self._total_used()
        over = self._quotas.over_total_min(self.request_in_total, used)
        return self._excess(over, self.request_in_total, used, self._quotas.least, "min of all quotas")

    def _excess(self, over: Sequence[str], request: Resources, used: Resources, limits: Resources, limit: str) -> str:
        texts = []
        for name in over[:_MAX_NAMED]:
            own = self.request.get(name, 0)
            # What is nominated counts as used.
            others = used.get(name, 0) + request.get(name, 0) - own
            most = amount_text(name, limits[name]) if name in limits else "0, as it is not listed"
            texts.append(
                f"{name}: {amount_text(name, own)} requested, {amount_text(name, others)} used, {limit} {most}"
            )
        return "; ".join([*texts, *([f"{len(over) - _MAX_NAMED} more"] if len(over) > _MAX_NAMED else [])])

    def borrowers(self) -> list[str]:
        """Return the other namespaces that use more than they are guaranteed."""
        return [
            quota.namespace
            for quota in self._quotas.by_namespace.values()
            if quota is not self.own and self.exceeds_min(quota)
        ]

    def victims_from_borrowers(self, pod: PodInfo, others: Sequence[PodInfo]) -> list[PodInfo]:
        """Return the pods of other namespaces to evict, in the order given, until each of these namespaces is within
        its min."""
        left: dict[str, dict[str, int]] = {}
        chosen: list[PodInfo] = []
        for other in others:
            quota = self._quotas.by_namespace.get(other.namespace)
            if quota is None or other.namespace == pod.namespace:
                continue
            used = left.get(other.namespace)
            if used is None:
                used = left[other.namespace] = dict(self.used(other.namespace))
            if quota.exceeds_min(used, NO_RESOURCES):
                chosen.append(other)
                add_amounts(used, self._amounts(other), -1)
        return chosen


def _nominated(pod: PodInfo, view: NodeView) -> Sequence[PodInfo]:
    """Return the other pods that are nominated to existing nodes."""
    nominations: Mapping[str, Sequence[PodInfo]] = view.nominations
    return [
        other
        for node, others in nominations.items()
        if others and view.row(node) >= 0
        for other in others
        if other.uid != pod.uid
    ]


# Which pods may be evicted under quotas (SelectVictimsOnNode of pkg/capacityscheduling, scheduler-plugins 0.34.7).

NAME = "CapacityScheduling"
_QUOTA_EXCEEDED = "global quota max exceeded"
_MAX_QUERIES = 32
"""Borrowing namespaces whose nodes are looked up; with more of them, hardly any node would be ruled out."""


class QuotaRules(VictimRules):
    """Three cases (SelectVictimsOnNode).

    With the pod its namespace uses more than its min: victims are pods of that namespace with lower priority. Within
    its min: victims are pods of namespaces that use more than theirs, whatever their priority. Without a quota: victims
    are pods of lower priority whose namespaces have none either. Each pod is judged by its namespace's quota: PodGroups
    that are to be preempted as one are not.
    """

    keeps_groups_whole = False

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
    def quota_rejection(attempt: QuotaAttempt, in_quota: fw.Resources, in_total: fw.Resources, row: int) -> str:
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


def attempt_of(state: fw.CycleState) -> QuotaAttempt:
    """Return what PreFilter wrote."""
    attempt = state.read(NAME, QuotaAttempt)
    if attempt is None:
        raise LookupError("its PreFilter has not run")
    return attempt


def _exceeds_min(attempt: QuotaAttempt) -> bool:
    """Tell whether the pod's namespace uses more than it is guaranteed, as things are, with the pod and nominated
    ones."""
    own = attempt.own
    return own is not None and own.exceeds_min(attempt.request_in_quota, attempt.used(own.namespace))


def exceeds_quotas(attempt: QuotaAttempt, row: int) -> bool:
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
    PreemptingPlugin,
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
        attempt = QuotaAttempt(pod, view, quotas, self._amounts)
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
        attempt = state.read(self.name, QuotaAttempt)
        if attempt is not None:
            attempt.move(added, row, 1)

    def remove_pod(
        self, state: fw.CycleState, pod: fw.PodInfo, removed: fw.PodInfo, view: fw.NodeView, row: int
    ) -> None:
        """Count a pod taken from a node for a what-if run."""
        attempt = state.read(self.name, QuotaAttempt)
        if attempt is not None:
            attempt.move(removed, row, -1)

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
