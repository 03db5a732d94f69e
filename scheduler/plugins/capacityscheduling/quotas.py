"""ElasticQuotas as numbers, and what exceeds them (pkg/capacityscheduling of scheduler-plugins 0.34.7)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from scheduler.framework import NodeView, PodAmounts, PodInfo, Resources
from scheduler.kube.model import ElasticQuota, add_amounts, amount_text, effective_quota, parse_resources

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


class Attempt:
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

    def clone(self) -> "Attempt":
        """Return a copy on which pods can be moved independently."""
        twin = object.__new__(Attempt)
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
