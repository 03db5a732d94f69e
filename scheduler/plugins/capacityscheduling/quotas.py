"""ElasticQuotas as numbers, and what exceeds them (pkg/capacityscheduling of scheduler-plugins 0.34.7)."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from scheduler.framework import Resources
from scheduler.kube.model import ElasticQuota, add_amounts, effective_quota, parse_resources

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
