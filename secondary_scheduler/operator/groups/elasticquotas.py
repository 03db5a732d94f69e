"""What the status of an ElasticQuota should be (elasticquota_controller.go of scheduler-plugins 0.34.7).

It is what the running pods of the namespace request together, counted as the scheduler counts it: each pod's effective
request, with sidecars, resources of the pod as a whole, and the overhead that upstream adds up and drops.
"""

from collections.abc import Iterable, Iterator, Mapping

from scheduler.kube.model import ElasticQuota, Pod, ResourceList
from scheduler.kube.primitives import (
    QuantityError,
    QuantityFormat,
    format_milli,
    format_value,
    quantity_milli_value,
    quantity_value,
)

Amounts = Mapping[str, int]
"""CPU in milli-units, everything else in whole units."""

_BYTES = ("memory", "ephemeral-storage")


def requests_of(pod: Pod) -> dict[str, int]:
    """Return what a pod requests.

    Raises:
        QuantityError: an amount cannot be read.
    """
    total = _sum(container.resources.requests for container in pod.spec.containers)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        amounts = dict(_read(container.resources.requests))
        if container.restart_policy == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            _take_maximum(peak, sidecars)
        else:
            _add(amounts, sidecars)
            _take_maximum(peak, amounts)
    _take_maximum(total, peak)
    if pod.spec.resources is not None:
        total.update(_read(pod.spec.resources.requests))
    _add(total, dict(_read(pod.spec.overhead)))
    return total


def used_of(quota: ElasticQuota, pods: Iterable[Amounts]) -> dict[str, int]:
    """Return what the running pods of a quota's namespace use; resources the quota names are there even when nobody
    uses them."""
    used = dict.fromkeys([*(quota.spec.min or {}), *(quota.spec.max or {})], 0)
    for amounts in pods:
        _add(used, amounts)
    return used


def is_reported(quota: ElasticQuota, used: Amounts) -> bool:
    """Tell whether a quota's status says this, in whatever notation."""
    try:
        return dict(_read(quota.status.used)) == used
    except QuantityError:
        return False


def resource_list(used: Amounts) -> dict[str, str]:
    """Return amounts as they stand in an object."""
    return {name: _text(name, amount) for name, amount in sorted(used.items())}


def _text(name: str, amount: int) -> str:
    if name == "cpu":
        return format_milli(amount)
    return format_value(
        amount, QuantityFormat.BINARY_SI if name in _BYTES or "hugepages-" in name else QuantityFormat.DECIMAL_SI
    )


def _read(amounts: ResourceList) -> Iterator[tuple[str, int]]:
    for name, amount in amounts.items():
        yield name, quantity_milli_value(amount) if name == "cpu" else quantity_value(amount)


def _sum(lists: Iterable[ResourceList]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amounts in lists:
        _add(total, dict(_read(amounts)))
    return total


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _take_maximum(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = max(total.get(name, 0), amount)
