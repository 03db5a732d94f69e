"""Which devices there are, and which are allocated: kept up to date by every change of a slice or a claim.

One ledger per store of objects, so all profiles share it. Allocated is what claims say, as they are assumed to be, and
what an attempt has reserved and not yet written (in flight). Everything runs on the loop's thread, and a reservation
reads and writes the ledger without giving way in between: no device is given twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from scheduler.framework import Objects
from scheduler.helpers import DoubleAllocations
from scheduler.kube.model import Amount, ClaimAllocation, DeviceTaintRule, ResourceClaim, ResourceSlice
from scheduler.plugins.dynamicresources.capacity import AllocationError, billionths, own_name
from scheduler.plugins.dynamicresources.devices import DeviceID, OfferedSlice, PlaceOf, Pool, PoolID, gather_pools
from scheduler.plugins.dynamicresources.results import CLAIM, RULE, SLICE

_K = TypeVar("_K")
ConflictWatcher = Callable[[DeviceID, Collection[str]], None]
"""Takes a device, and the UIDs of the claims that have it."""
_MAX_CHANGES = 20_000
_NOTHING: Mapping[str, int] = {}
SHARERS = ""
"""Stands beside the names of capacities for how many claims share a device: of one without capacity, too."""


class Ledger:
    """Slices by node and pool, devices in use."""

    def __init__(self, objects: Objects) -> None:
        self._slices: dict[str, OfferedSlice] = {}
        self._of_node: dict[str, dict[str, OfferedSlice]] = {}
        self._shared: dict[str, OfferedSlice] = {}
        self._counted: set[str] = set()
        self._of_pool: dict[PoolID, dict[str, OfferedSlice]] = {}
        self._pools: dict[str, tuple[Mapping[str, str], tuple[Pool, ...]]] = {}
        self._in_use: dict[DeviceID, list[str]] = {}
        """By device, the UIDs of the claims that have it; one that is being written may be there twice."""
        self._shares: dict[DeviceID, dict[str, int]] = {}
        """By device that several have, what they take of each capacity, in billionths."""
        self._in_flight: dict[str, ClaimAllocation] = {}
        self._watchers: list[ConflictWatcher] = []
        self._twice = objects.derived(DoubleAllocations).devices
        self._changes: list[str] = []
        self._changes_start = 0
        self._rules: dict[str, DeviceTaintRule] = {item.metadata.name: item for item in objects.every(RULE)}
        for item in objects.every(SLICE):
            self._slice_changed(None, item)
        for item in objects.every(CLAIM):
            self._claim_changed(None, objects.latest(CLAIM, item.metadata.namespace, item.metadata.name))
        objects.listen(RULE, self._rule_changed)
        objects.listen(SLICE, self._slice_changed)
        objects.listen(CLAIM, self._claim_changed)

    # Devices --------------------------------------------------------------------------------------------------------

    def slices_of_pool(self, pool: PoolID) -> Collection[OfferedSlice]:
        """Return all slices of a pool, of all generations."""
        return self._of_pool.get(pool, {}).values()

    def pools(self, place: PlaceOf) -> tuple[Pool, ...]:
        """Return the pools that a node can use.

        Raises:
            AllocationError: a slice's node selector cannot be read.
        """
        known = self._pools.get(place.name)
        if known is not None and (known[0] is place.labels or known[0] == place.labels):
            return known[1]
        own, shared = self._of_node.get(place.name, {}), self._shared
        pools = gather_pools(place, [*own.values(), *shared.values()], self.slices_of_pool)
        self._pools[place.name] = (place.labels, pools)
        return pools

    @property
    def has_shared_slices(self) -> bool:
        """Whether there are slices that belong to no single node."""
        return bool(self._shared)

    @property
    def has_counters(self) -> bool:
        """Whether some device shares counters with others: then free devices cannot be counted one by one."""
        return bool(self._counted)

    @property
    def change_end(self) -> int:
        """A number that grows with every change that concerns some node."""
        return self._changes_start + len(self._changes)

    def changed_since(self, end: int) -> Collection[str] | None:
        """Return the nodes whose devices or their use changed since a `change_end`; None where that is not known."""
        if end < self._changes_start:
            return None
        return self._changes[end - self._changes_start :]

    def _note_change(self, pool: PoolID) -> set[str]:
        """Note that something of a pool changed; return the nodes that have slices of it, "" for all."""
        nodes = {offered.own_node for offered in self._of_pool.get(pool, {}).values()}
        if "" in nodes or len(self._changes) > _MAX_CHANGES:
            # The next caller starts again.
            self._changes_start += len(self._changes) + 1
            self._changes.clear()
        else:
            self._changes += nodes
        return nodes

    def is_in_use(self, device: DeviceID) -> bool:
        """Tell whether a device is allocated, or about to be, to a claim that has it alone."""
        return device in self._in_use

    def shared(self, device: DeviceID) -> Mapping[str, int]:
        """Return what claims that share a device take of its capacities, in billionths; nothing where none does."""
        return self._shares.get(device, _NOTHING)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None:
            self._forget_pools(self._slices.get(old.metadata.name))
            self._drop_slice(old.metadata.name)
        if new is not None:
            offered = OfferedSlice(new)
            if self._rules:
                offered.follow(self._rules.values())
            name = new.metadata.name
            self._slices[name] = offered
            node = offered.own_node
            (self._of_node.setdefault(node, {}) if node else self._shared)[name] = offered
            self._of_pool.setdefault(offered.pool, {})[name] = offered
            if any(device.device.consumes_counters for device in offered.devices):
                self._counted.add(name)
            self._forget_pools(offered)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        changed = [rule for rule in (old, new) if rule is not None]
        for rule in changed:
            self._rules.pop(rule.metadata.name, None)
        if new is not None:
            self._rules[new.metadata.name] = new
        for offered in self._slices.values():
            if any(map(offered.may_be_named_by, changed)) and offered.follow(self._rules.values()):
                self._note_change(offered.pool)

    def _forget_pools(self, offered: OfferedSlice | None) -> None:
        """Gather the pools again of all nodes that a slice may concern."""
        if offered is None:
            return
        nodes = self._note_change(offered.pool)
        if "" in nodes:
            self._pools.clear()
        for node in nodes:
            self._pools.pop(node, None)

    def _drop_slice(self, name: str) -> None:
        offered = self._slices.pop(name, None)
        if offered is None:
            return
        self._shared.pop(name, None)
        self._counted.discard(name)
        _drop(self._of_node, offered.own_node, name)
        _drop(self._of_pool, offered.pool, name)

    # Use ------------------------------------------------------------------------------------------------------------

    def in_flight(self, claim: ResourceClaim) -> bool:
        """Tell whether a claim's allocation is being written."""
        return claim.metadata.uid in self._in_flight

    def take(self, claim: ResourceClaim, allocation: ClaimAllocation) -> None:
        """Account for an allocation that is about to be written."""
        self.release(claim)
        self._in_flight[claim.metadata.uid] = allocation
        self._count(claim, allocation, adding=True)

    def release(self, claim: ResourceClaim) -> None:
        """Forget an allocation that was to be written: it has been, or it will not be."""
        allocation = self._in_flight.pop(claim.metadata.uid, None)
        if allocation is not None:
            self._count(claim, allocation, adding=False)

    def on_conflict(self, watcher: ConflictWatcher) -> None:
        """Call a function where a device gets into two claims: another scheduler gives devices of the pool, too."""
        if not self._watchers:
            # One of the profiles is enough.
            self._watchers.append(watcher)

    def conflict(self, allocation: ClaimAllocation) -> DeviceID | None:
        """Return a device of an allocation that another claim has, too."""
        for result in allocation.devices.results:
            device = (result.driver, result.pool, result.device)
            holders = set(self._in_use.get(device, ()))
            # Who shares a device is none of its holders.
            if not result.admin_access and len(holders) > (0 if result.share_id is not None else 1):
                return device
        return None

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before = old.status.allocation if old is not None else None
        after = new.status.allocation if new is not None else None
        if before == after and old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            return
        if old is not None and before is not None:
            self._count(old, before, adding=False)
        if new is not None and after is not None:
            self._count(new, after, adding=True)

    def _count(self, claim: ResourceClaim, allocation: ClaimAllocation, *, adding: bool) -> None:
        uid, pools = claim.metadata.uid, set()
        for result in allocation.devices.results:
            if result.admin_access:
                # It keeps nobody else off.
                continue
            device = (result.driver, result.pool, result.device)
            pools.add(device[:2])
            if result.share_id is not None:
                self._share(device, result.consumed_capacity, 1 if adding else -1)
                continue
            holders = self._in_use.setdefault(device, [])
            if adding:
                if holders and uid not in holders:
                    for watcher in self._watchers:
                        watcher(device, {uid, *holders})
                holders.append(uid)
            elif uid in holders:
                holders.remove(uid)
            if not holders:
                del self._in_use[device]
            if len(holders) > 1 and len(set(holders)) > 1:
                self._twice.add("/".join(device))
            elif self._twice:
                self._twice.discard("/".join(device))
        for pool in pools:
            self._note_change(pool)

    def _share(self, device: DeviceID, consumed: Mapping[str, Amount], sign: int) -> None:
        shares = self._shares.setdefault(device, {})
        shares[SHARERS] = shares.get(SHARERS, 0) + sign
        for name, amount in consumed.items():
            with contextlib.suppress(AllocationError):
                short = own_name(name, device[0])
                # A negative amount would have others get what is in use.
                shares[short] = shares.get(short, 0) + sign * max(0, billionths(amount))
        if not any(shares.values()):
            del self._shares[device]


def _drop(groups: dict[_K, dict[str, OfferedSlice]], key: _K, name: str) -> None:
    group = groups.get(key)
    if group is not None:
        group.pop(name, None)
        if not group:
            del groups[key]
