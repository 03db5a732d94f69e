"""What the status of an ElasticQuota should be (elasticquota_controller.go of scheduler-plugins 0.34.7).

It is what the running pods of the namespace request together, counted as the scheduler counts it: with sidecars,
resources of the pod as a whole, resizes in place, and the overhead that upstream adds up and drops.
"""

from collections.abc import Iterable, Iterator, Mapping

from scheduler.kube.model import ElasticQuota, Pod, ResourceList, add_amounts, amount_text, pod_requests
from scheduler.kube.primitives import QuantityError, quantity_milli_value, quantity_value

Amounts = Mapping[str, int]
"""CPU in milli-units, everything else in whole units."""


def requests_of(pod: Pod) -> dict[str, int]:
    """Return what a pod occupies.

    Raises:
        QuantityError: an amount cannot be read.
    """
    return pod_requests(pod, use_status=True).requests


def used_of(quota: ElasticQuota, pods: Iterable[Amounts]) -> dict[str, int]:
    """Return what the running pods of a quota's namespace use; resources the quota names are there even when nobody
    uses them."""
    used = dict.fromkeys([*(quota.spec.min or {}), *(quota.spec.max or {})], 0)
    for amounts in pods:
        add_amounts(used, amounts)
    return used


def is_reported(quota: ElasticQuota, used: Amounts) -> bool:
    """Tell whether a quota's status says this, in whatever notation."""
    try:
        return dict(_read(quota.status.used)) == used
    except QuantityError:
        return False


def resource_list(used: Amounts) -> dict[str, str]:
    """Return amounts as they stand in an object."""
    return {name: amount_text(name, amount) for name, amount in sorted(used.items())}


def _read(amounts: ResourceList) -> Iterator[tuple[str, int]]:
    for name, amount in amounts.items():
        yield name, quantity_milli_value(amount) if name == "cpu" else quantity_value(amount)
