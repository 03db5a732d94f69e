"""How much namespaces are guaranteed and may use at most (scheduling.x-k8s.io/v1alpha1 of scheduler-plugins)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from scheduler.kube.model.meta import Object, ResourceList
from scheduler.kube.primitives.quantity import milli_value


class ElasticQuotaSpec(Struct, frozen=True, gc=False, rename="camel"):
    """ElasticQuotaSpec. None is another thing than an empty list: no `max` at all means no limit."""

    min: ResourceList | None = None
    max: ResourceList | None = None

    def __post_init__(self) -> None:
        """Raise QuantityError (a ValueError) for an amount that cannot be read."""
        for amounts in (self.min, self.max):
            for amount in (amounts or {}).values():
                milli_value(amount)


class ElasticQuotaStatus(Struct, frozen=True, gc=False, rename="camel"):
    """ElasticQuotaStatus; written by the controller, not read by the scheduler."""

    used: ResourceList = {}


class ElasticQuota(Object, frozen=True, gc=False, rename="camel"):
    """scheduling.x-k8s.io/v1alpha1 ElasticQuota of its namespace."""

    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()


def effective_quota(quotas: Iterable[ElasticQuota]) -> ElasticQuota | None:
    """Return the one of a namespace's quotas that counts: the oldest, of equally old ones the first by name."""
    return min(quotas, key=lambda quota: (quota.metadata.creation_timestamp, quota.metadata.name), default=None)
