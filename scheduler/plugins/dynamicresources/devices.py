"""Devices as the allocator sees them: slices prepared once, and the pools that a node can use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import NamedTuple

from scheduler.kube.model import Device, DeviceTaint, DeviceTaintRule, ResourceSlice
from scheduler.kube.primitives import CompiledNodeSelector
from scheduler.plugins.dynamicresources.capacity import AllocationError, are_known, counter_sets

DeviceID = tuple[str, str, str]
"""Driver, pool, device."""
PoolID = tuple[str, str]
"""Driver, pool."""


class PlaceOf(NamedTuple):
    """A node that devices may be used from."""

    name: str
    labels: Mapping[str, str]


class Offered:
    """A device of a slice, as selectors see it."""

    __slots__ = ("attributes", "device", "driver", "id", "plain", "quantities", "rule_taints", "slice")

    def __init__(self, device: Device, offered: OfferedSlice) -> None:
        self.device = device
        self.slice = offered
        self.driver = offered.driver
        self.id: DeviceID = (*offered.pool, device.name)
        self.attributes: Mapping[str, Hashable] = device.attributes
        self.quantities: Mapping[str, Hashable] = (
            {name: capacity.value for name, capacity in device.capacity.items()} if device.capacity else {}
        )
        self.rule_taints: tuple[DeviceTaint, ...] = ()
        """Taints of DeviceTaintRules, beside its own."""
        self.plain = not self.shared and all(each.request_policy is None for each in device.capacity.values())
        """Whether a request that asks for no capacity can have it while it is free."""

    @property
    def shared(self) -> bool:
        """Whether several claims may have it at once."""
        return bool(self.device.allow_multiple_allocations)


class OfferedSlice:
    """A ResourceSlice with its devices."""

    __slots__ = ("devices", "driver", "generation", "matches", "name", "own_node", "pool", "slice", "total")

    def __init__(self, item: ResourceSlice) -> None:
        spec = item.spec
        self.slice = item
        self.name = item.metadata.name
        self.driver = spec.driver
        self.pool: PoolID = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.total = spec.pool.resource_slice_count
        self.own_node = spec.node_name or ""
        self.devices = tuple(Offered(device, self) for device in spec.devices)
        self.matches = self._matcher()

    def may_be_named_by(self, rule: DeviceTaintRule) -> bool:
        """Tell whether a rule may be for some device of the slice."""
        selector = rule.spec.device_selector
        if selector is None:
            # As the API has it; upstream before 1.38 takes it for all devices.
            return False
        return selector.driver in (None, self.driver) and selector.pool in (None, self.pool[1])

    def follow(self, rules: Iterable[DeviceTaintRule]) -> bool:
        """Give the devices the taints of rules, in place of those of earlier rules; tell whether that changed any."""
        mine = [rule.spec for rule in rules if self.may_be_named_by(rule)]
        changed = False
        for offered in self.devices:
            taints = tuple(
                [
                    spec.taint
                    for spec in mine
                    if spec.device_selector is None or spec.device_selector.device in (None, offered.device.name)
                ]
            )
            changed |= taints != offered.rule_taints
            offered.rule_taints = taints
        return changed

    @property
    def per_device(self) -> bool:
        """Whether each device says on which nodes it can be used."""
        return bool(self.slice.spec.per_device_node_selection)

    def _matcher(self) -> Callable[[PlaceOf], bool]:
        """Return what says whether the slice is relevant for a node."""
        spec = self.slice.spec
        if spec.shared_counters:
            # They belong to the devices of their pool, wherever these are.
            return lambda place: False
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            selector = spec.node_selector.compiled if spec.node_selector is not None else None
            return lambda place: _is_usable(place, spec.node_name, spec.all_nodes, selector, self.name)
        if self.per_device:
            return lambda place: any(device_usable(device, place) for device in self.devices)
        return lambda place: False


def device_usable(offered: Offered, place: PlaceOf) -> bool:
    """Tell whether a device that says where it can be used can be used from a node."""
    device = offered.device
    selector = device.node_selector.compiled if device.node_selector is not None else None
    return _is_usable(place, device.node_name, device.all_nodes, selector, offered.slice.name)


def _is_usable(
    place: PlaceOf, node: str | None, everywhere: bool | None, selector: CompiledNodeSelector | None, name: str
) -> bool:
    if node:
        return place.name == node
    if everywhere:
        return True
    if selector is None:
        return False
    if selector.errors:
        raise AllocationError(
            f"gather pool information: failed to perform node selection for slice {name}: "
            f"failed to parse node selector: {selector.errors[0]}"
        )
    return selector.matches(place.name, place.labels)


class Pool(NamedTuple):
    """A pool as one node sees it."""

    id: PoolID
    devices: tuple[Offered, ...] = ()
    problem: str = ""
    """"incomplete" or "invalid": no device of it can be given."""
    counters: Mapping[str, Mapping[str, int]] = {}
    """The sets of counters that its devices share."""
    elsewhere: tuple[Offered, ...] = ()
    """Devices of the pool that cannot be used from the node, and that share counters with those that can."""

    @property
    def title(self) -> str:
        """Return its name for messages."""
        return "/".join(self.id)


def gather_pools(
    place: PlaceOf, slices: Iterable[OfferedSlice], all_of_pool: Callable[[PoolID], Collection[OfferedSlice]]
) -> tuple[Pool, ...]:
    """Return the pools that a node can use, in the order in which the allocator takes devices from them.

    Args:
        place: the node.
        slices: its own ones, and those that belong to no single node.
        all_of_pool: every slice of a pool, wherever it is.

    Raises:
        AllocationError: a slice's node selector cannot be read.
    """
    by_pool: dict[PoolID, list[OfferedSlice]] = {}
    for each in slices:
        if not each.matches(place):
            continue
        known = by_pool.get(each.pool)
        if known is None or each.generation > known[0].generation:
            by_pool[each.pool] = [each]
        elif each.generation == known[0].generation:
            known.append(each)
    pools = []
    for pool_id in sorted(by_pool):
        pool = _pool(pool_id, by_pool[pool_id], all_of_pool)
        if pool is not None:
            pools.append(pool)
    # What must be made ready first is taken last.
    return tuple(sorted(pools, key=_has_conditions))


def _pool(
    pool_id: PoolID, slices: list[OfferedSlice], all_of_pool: Callable[[PoolID], Collection[OfferedSlice]]
) -> Pool | None:
    """Return a pool from the slices that are relevant for a node; None while it is being replaced by a newer one."""
    generation, total = slices[0].generation, slices[0].total
    everywhere = all_of_pool(pool_id)
    counting = [each for each in everywhere if each.slice.spec.shared_counters]
    if any(each.generation > generation for each in counting):
        return None
    counting = [each for each in counting if each.generation == generation]
    current = [each for each in everywhere if each.generation == generation]
    if len(slices) + len(counting) != total:
        if any(each.generation > generation for each in everywhere):
            return None
        if len(current) != total:
            return Pool(pool_id, problem="incomplete")
    slices.sort(key=lambda each: each.name)
    devices = tuple(device for each in slices for device in each.devices)
    sets = counter_sets(each.slice.spec.shared_counters for each in counting)
    if len({device.id for device in devices}) != len(devices) or sets is None:
        return Pool(pool_id, problem="invalid")
    elsewhere: tuple[Offered, ...] = ()
    if len(slices) + len(counting) != len(current):
        own = {each.name for each in (*slices, *counting)}
        elsewhere = tuple(
            device
            for each in current
            if each.name not in own
            for device in each.devices
            if device.device.consumes_counters
        )
    if not all(are_known(device.device.consumes_counters, sets) for device in (*devices, *elsewhere)):
        return Pool(pool_id, problem="invalid")
    return Pool(pool_id, devices, "", sets, elsewhere)


def _has_conditions(pool: Pool) -> bool:
    return any(device.device.binding_conditions for device in pool.devices)
