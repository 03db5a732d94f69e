"""Capacity of devices that several claims may have at once (consumable_capacity.go of
k8s.io/dynamic-resource-allocation/structured/internal/incubating, 0.36.3).

Every request takes something of each capacity of a device: what it asks for, rounded as the device's policy says, else
the policy's default, else all of it. Amounts are billionths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from scheduler.catalog import KubernetesVersion
from scheduler.kube.model import Amount, CapacityRequestPolicy, CounterConsumption, CounterSet, Device, DeviceCapacity
from scheduler.kube.primitives import QuantityError, QuantityFormat, canonical, format_value, parse_quantity

# Counters that devices of a pool share: partitions of one GPU, for example, that together cannot be more than it is.
# A pool has sets of counters, and a device takes something of some of them while it is allocated
# (k8s.io/dynamic-resource-allocation/structured/internal/incubating, 0.36.3).

CounterID = tuple[str, str]
"""Set and counter."""


def counter_sets(sources: Iterable[Sequence[CounterSet]]) -> Mapping[str, Mapping[str, int]] | None:
    """Return a pool's sets, amounts in billionths; None where a name is there twice."""
    sets: dict[str, Mapping[str, int]] = {}
    for source in sources:
        for each in source:
            if each.name in sets:
                return None
            sets[each.name] = {name: billionths(counter.value) for name, counter in each.counters.items()}
    return sets


def are_known(consumed: Iterable[CounterConsumption], sets: Mapping[str, Mapping[str, int]]) -> bool:
    """Tell whether a pool has all counters that a device takes something of."""
    return all(each.counter_set in sets and each.counters.keys() <= sets[each.counter_set].keys() for each in consumed)


class Counters:
    """What is left of a pool's counters in one search."""

    def __init__(
        self, sets: Mapping[str, Mapping[str, int]], allocated: Iterable[Sequence[CounterConsumption]]
    ) -> None:
        self._left: dict[CounterID, int] = {
            (name, counter): amount for name, counters in sets.items() for counter, amount in counters.items()
        }
        for consumed in allocated:
            self._change(consumed, -1)

    def take(self, consumed: Sequence[CounterConsumption]) -> bool:
        """Take what a device needs; False, and nothing is taken, where the pool does not have it."""
        self._change(consumed, -1)
        # All of them, as upstream: where others have been given too much, nothing more is given.
        if min(self._left.values(), default=0) < 0:
            self._change(consumed, 1)
            return False
        return True

    def give_back(self, consumed: Sequence[CounterConsumption]) -> None:
        """Undo `take`."""
        self._change(consumed, 1)

    def _change(self, consumed: Sequence[CounterConsumption], sign: int) -> None:
        for each in consumed:
            for name, counter in each.counters.items():
                key = (each.counter_set, name)
                if key in self._left:
                    self._left[key] += sign * billionths(counter.value)


# Quantities of capacities and counters, for exact comparisons.

_MAX_SHIFT = 60


class AllocationError(Exception):
    """Something is wrong with a claim, a class or a slice: the attempt fails, on all nodes."""


@lru_cache(maxsize=10_000)
def billionths(amount: Amount) -> int:
    """Return a quantity in billionths.

    Raises:
        AllocationError: it is none.
    """
    try:
        parsed = parse_quantity(str(amount))
    except QuantityError as error:
        raise AllocationError(str(error)) from error
    shift = parsed.exponent + 9
    unit: int = 10 ** min(abs(shift), _MAX_SHIFT)
    return parsed.mantissa * unit if shift >= 0 else -(-parsed.mantissa // unit)


Consumed = Mapping[str, Amount]
"""By capacity, what a request takes of it."""

_UNIT = 10**9
_NEGATIVE = "capacity value is negative"


def own_name(name: str, driver: str) -> str:
    """Return the name of a capacity without its domain, where that is the driver: both mean the same."""
    return name.removeprefix(f"{driver}/")


def consumption(
    device: Device,
    driver: str,
    requested: Mapping[str, Amount],
    others: Iterable[Mapping[str, int]],
    kubernetes: KubernetesVersion,
) -> Consumed | None:
    """Return what a request takes of a device; None where the device does not have it.

    Args:
        device: the device.
        driver: its driver.
        requested: the capacities that the request names.
        others: what others use already, by `own_name`.
        kubernetes: the version to behave as.

    Raises:
        AllocationError: no device can serve the request.
    """
    qualifies = kubernetes.qualifies_capacity
    wanted = _as_published(device, driver, requested) if qualifies else requested
    if wanted.keys() - device.capacity.keys():
        return None
    used_by_others = [*others]
    result: dict[str, Amount] = {}
    for name, capacity in device.capacity.items():
        request = wanted.get(name)
        amount = _consumed(request, capacity, as_steps=kubernetes.writes_capacity_as_steps)
        if kubernetes.refuses_negative_capacity:
            named = f"{driver}/{name}" if qualifies and "/" not in name else name
            # Before it was rounded: a policy may hide that.
            if qualifies and request is not None and billionths(request) < 0:
                raise AllocationError(f'capacity "{named}": {_NEGATIVE}: request {canonical(request)}')
            if billionths(amount) < 0:
                raise AllocationError(f'capacity "{named}": {_NEGATIVE}')
        if _violates(amount, capacity.request_policy):
            return None
        used = sum(each.get(own_name(name, driver), 0) for each in used_by_others)
        if used + billionths(amount) > billionths(capacity.value):
            return None
        result[name] = amount
    return result


def _as_published(device: Device, driver: str, requested: Mapping[str, Amount]) -> Mapping[str, Amount]:
    """Return a request by the names that a device has for its capacities.

    Raises:
        AllocationError: it names one twice, with and without its domain.
    """
    published = {own_name(name, driver): name for name in device.capacity}
    wanted: dict[str, tuple[str, Amount]] = {}
    for name, amount in requested.items():
        short = own_name(name, driver)
        key = published.get(short, name)
        if key in wanted:
            raise AllocationError(f'capacity "{short}" requested both as "{wanted[key][0]}" and as "{name}"')
        wanted[key] = name, amount
    return {key: amount for key, (_, amount) in wanted.items()}


def amounts(consumed: Consumed, driver: str) -> dict[str, int]:
    """Return what a request takes in billionths, by `own_name`."""
    return {own_name(name, driver): billionths(amount) for name, amount in consumed.items()}


def _consumed(requested: Amount | None, capacity: DeviceCapacity, *, as_steps: bool) -> Amount:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return canonical(capacity.value if default is None else default)
    if policy is None:
        return canonical(requested)
    valid = policy.valid_range
    if valid is not None and valid.min_ is not None:
        if billionths(requested) < billionths(valid.min_):
            return canonical(valid.min_)
        if valid.step is None:
            return canonical(requested)
        step, least = _whole(valid.step), _whole(valid.min_)
        family = parse_quantity(str(valid.step)).format if as_steps else QuantityFormat.BINARY_SI
        return format_value(least + -(-(_whole(requested) - least) // step) * step, family)
    values = (value for value in policy.valid_values if billionths(requested) <= billionths(value))
    return canonical(next(values, requested))


def _violates(amount: Amount, policy: CapacityRequestPolicy | None) -> bool:
    """Tell whether a device refuses to give as much as that."""
    if policy is None or (policy.default is not None and billionths(amount) == billionths(policy.default)):
        return False
    valid = policy.valid_range
    if valid is not None:
        if valid.max_ is not None and billionths(amount) > billionths(valid.max_):
            return True
        if valid.step is None:
            return False
        least = _whole(valid.min_) if valid.min_ is not None else 0
        return (_whole(amount) - least) % _whole(valid.step) != 0
    values = policy.valid_values
    return bool(values) and all(billionths(amount) != billionths(value) for value in values)


def _whole(amount: Amount) -> int:
    return -(-billionths(amount) // _UNIT)
