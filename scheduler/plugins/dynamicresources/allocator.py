"""The search for devices on one node: the order, and so the result, of kube-scheduler 1.36
(k8s.io/dynamic-resource-allocation/structured/internal/incubating, 0.36.3).

Depth first over claims, requests and their devices: the next device is the first in order that is free, selected and
agrees with the constraints; without a solution for what follows, the one after it is tried. Within a request later
devices only are tried, so that each set of devices is seen once. The first full solution is taken. Of 1.34 and 1.35,
whose order of pools and slices is random, it is one of the possible answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion
from scheduler.kube.model import ClaimAllocation, CounterConsumption, DeviceTaint, DeviceToleration, ResourceClaim
from scheduler.plugins.dynamicresources.capacity import AllocationError, Consumed, Counters, amounts
from scheduler.plugins.dynamicresources.devices import DeviceID, Offered, PlaceOf, Pool, PoolID
from scheduler.plugins.dynamicresources.requests import (
    ALL,
    MAX_RESULTS,
    Budget,
    ClassOf,
    NodeLacksDevices,
    Preparation,
    Request,
    SelectorCache,
    Wanted,
    consumed_by,
)
from scheduler.plugins.dynamicresources.results import Given, allocation_of

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"


class Allocator(NamedTuple):
    """What an allocation needs to know of the cluster.

    Attributes:
        class_of: device classes by name.
        is_in_use: whether a device is allocated to anybody, who then has it alone.
        shared: by capacity, what others take of a device that several may have; nothing where nobody does.
        selectors: compiled selectors.
        budget: of the attempt.
        kubernetes: the version to behave as.
    """

    class_of: ClassOf
    is_in_use: Callable[[DeviceID], bool]
    shared: Callable[[DeviceID], Mapping[str, int]]
    selectors: SelectorCache
    budget: Budget
    kubernetes: KubernetesVersion = DEFAULT_KUBERNETES

    def allocate(
        self, place: PlaceOf, pools: Sequence[Pool], claims: Sequence[ResourceClaim]
    ) -> list[ClaimAllocation] | str:
        """Return an allocation per claim, or why there is none on the node.

        Raises:
            AllocationError: something is wrong with a claim, class or slice.
            OutOfBudget: the attempt has been too much work.
        """
        kubernetes = self.kubernetes
        preparation = Preparation(place, pools, self.class_of, self.shared, self.selectors, self.budget, kubernetes)
        try:
            wanted = [preparation.prepare(claim) for claim in claims]
        except NodeLacksDevices as lacks:
            return str(lacks)
        search = _Search(wanted, pools, preparation, self)
        try:
            solved = search.run()
        except _TooManyResults:
            solved = False
        if not solved:
            if any(pool.problem == "invalid" for pool in pools):
                return INVALID_POOLS
            return CANNOT_ALLOCATE
        merge = kubernetes.merges_device_config
        return [
            allocation_of(each, search.given[index], search.chosen[index], place.name, merge_config=merge)
            for index, each in enumerate(wanted)
        ]


class _TooManyResults(Exception):
    """A claim would get more devices than it may: the caller tries an alternative that needs fewer."""


class _Search:
    """One search. `given` holds the devices of each claim, `chosen` the alternative of each of its requests."""

    def __init__(
        self,
        wanted: Sequence[Wanted],
        pools: Sequence[Pool],
        preparation: Preparation,
        known: Allocator,
    ) -> None:
        self._wanted = wanted
        self._devices = [device for pool in pools if not pool.problem for device in pool.devices]
        self._preparation = preparation
        self._is_in_use = known.is_in_use
        self._shared = known.shared
        self._budget = known.budget
        self._kubernetes = known.kubernetes
        self._follows_rules = known.kubernetes.follows_taint_rules
        self._pools = {pool.id: pool for pool in pools}
        self._counters: dict[PoolID, Counters] = {}
        self._taken: dict[DeviceID, set[int]] = {}
        """By device that one claim has alone, the claims; an administrator's may be more."""
        self._shares: dict[DeviceID, list[Mapping[str, int]]] = {}
        """By device that several may have, what this search takes of it."""
        self.given: list[list[Given]] = [[] for _ in wanted]
        self.chosen: list[list[Request]] = [[alternatives[0] for alternatives in each.requests] for each in wanted]

    def run(self) -> bool:
        """Return whether there is a solution."""
        return self._claim(0)

    def _claim(self, claim: int) -> bool:
        self._budget.spend()
        return claim >= len(self._wanted) or self._request(claim, 0)

    def _request(self, claim: int, index: int) -> bool:
        self._budget.spend()
        wanted = self._wanted[claim]
        if index >= len(wanted.requests):
            try:
                return self._claim(claim + 1)
            except _TooManyResults:
                # Another choice for this claim does not change that; one for an earlier claim may.
                return False
        alternatives = wanted.requests[index]
        if not wanted.has_alternatives(index):
            return self._device(claim, index, alternatives[0], 0, 0)
        all_exceed = True
        for request in alternatives:
            try:
                solved = self._device(claim, index, request, 0, 0)
            except _TooManyResults:
                continue
            all_exceed = False
            if solved:
                self.chosen[claim][index] = request
                return True
        if all_exceed:
            raise _TooManyResults
        return False

    def _device(self, claim: int, index: int, request: Request, number: int, start: int) -> bool:
        """Find the device of that number of a request, and all that follows; `start` is where to look from."""
        self._budget.spend()
        if request.spec.allocation_mode == ALL and not request.every:
            return False
        if number >= request.count:
            return self._request(claim, index + 1)
        if len(self.given[claim]) + request.count - number > MAX_RESULTS:
            raise _TooManyResults
        if request.every is not None:
            device = request.every[number]
            if not self._take(claim, request, device, must=True):
                return False
            return self._followed(claim, request, device, lambda: self._device(claim, index, request, number + 1, 0))
        wanted, selectable = self._wanted[claim].claim, self._preparation.is_selectable
        for at in range(start, len(self._devices)):
            device = self._devices[at]
            if self._is_taken(claim, request, device):
                continue
            if not selectable(wanted, request, device) or self._consumption(claim, request, device) is None:
                continue
            if not self._take(claim, request, device, must=False):
                continue
            following = at + 1

            def next_device(following: int = following) -> bool:
                return self._device(claim, index, request, number + 1, following)

            if self._followed(claim, request, device, next_device):
                return True
        return False

    def _followed(self, claim: int, request: Request, device: Offered, rest: Callable[[], bool]) -> bool:
        """Return whether the rest can be found, given the device that was just taken; else give it back."""
        solved = False
        try:
            solved = rest()
        finally:
            if not solved:
                self._give_back(claim, request, device)
        return solved

    def _is_taken(self, claim: int, request: Request, device: Offered) -> bool:
        holders = self._taken.get(device.id)
        if request.is_admin:
            return holders is not None and claim in holders
        return bool(holders) or self._is_in_use(device.id)

    def _take(self, claim: int, request: Request, device: Offered, *, must: bool) -> bool:
        self._budget.spend()
        if self._is_taken(claim, request, device) or self._is_kept_by_sharers(request, device):
            return False
        # Who shares a device takes nothing more of the counters than the first.
        counted = () if device.shared and self._has_sharers(device) else device.device.consumes_counters
        if counted and not self._counters_of(device.slice.pool).take(counted):
            return False
        if not self._agrees(claim, request, device, must=must):
            if counted:
                self._counters_of(device.slice.pool).give_back(counted)
            return False
        consumed = self._consumption(claim, request, device)
        if consumed is None:
            self._undo(claim, request, device, counted)
            return False
        if device.shared:
            self._shares.setdefault(device.id, []).append(amounts(consumed, device.id[0]))
        else:
            self._taken.setdefault(device.id, set()).add(claim)
        self.given[claim].append(Given(request, device, consumed, counted))
        return True

    def _consumption(self, claim_index: int, request: Request, device: Offered) -> Consumed | None:
        """Return what a request takes of a device's capacity; None where there is not enough."""
        more = self._shares.get(device.id, ())
        try:
            return consumed_by(request, device, self._shared(device.id), more, self._kubernetes)
        except AllocationError as error:
            claim = self._wanted[claim_index].claim.metadata.key
            raise AllocationError(
                f"claim {claim}, request {request.name}: checking capacity for device {'/'.join(device.id)}: {error}"
            ) from error

    def _is_kept_by_sharers(self, request: Request, device: Offered) -> bool:
        """Tell whether claims still share a device that is no longer for several."""
        keeps = self._kubernetes.keeps_sharers and not request.is_admin and not device.shared
        return keeps and self._has_sharers(device)

    def _has_sharers(self, device: Offered) -> bool:
        return bool(self._shared(device.id)) or bool(self._shares.get(device.id))

    def _agrees(self, claim: int, request: Request, device: Offered, *, must: bool) -> bool:
        """Tell whether taints and constraints allow a device, which the constraints then count with."""
        if is_kept_off(request, device, follows_rules=self._follows_rules):
            return False
        wanted = self._wanted[claim]
        for added, constraint in enumerate(wanted.constraints):
            try:
                if constraint.add(request.base, request.sub, device):
                    continue
            except AllocationError as error:
                raise AllocationError(f"claim {wanted.claim.metadata.key}, request {request.name}: {error}") from error
            for earlier in wanted.constraints[:added]:
                earlier.remove(request.base, request.sub)
            if must:
                raise AllocationError(
                    f"claim {wanted.claim.metadata.key}, request {request.name}: cannot add device "
                    f"{'/'.join(device.id)} because a claim constraint would not be satisfied"
                )
            return False
        return True

    def _counters_of(self, pool_id: PoolID) -> Counters:
        """Return what is left of a pool's counters."""
        counters = self._counters.get(pool_id)
        if counters is None:
            pool = self._pools[pool_id]
            allocated = (
                device.device.consumes_counters
                for device in (*pool.devices, *pool.elsewhere)
                if self._is_in_use(device.id) or self._shared(device.id)
            )
            counters = self._counters[pool_id] = Counters(pool.counters, allocated)
        return counters

    def _give_back(self, claim: int, request: Request, device: Offered) -> None:
        last = self.given[claim].pop()
        if device.shared:
            self._shares[device.id].pop()
        else:
            self._taken[device.id].discard(claim)
        self._undo(claim, request, device, last.counted)

    def _undo(self, claim: int, request: Request, device: Offered, counted: Sequence[CounterConsumption]) -> None:
        """Give counters back, and have the constraints forget a device."""
        if counted:
            self._counters_of(device.slice.pool).give_back(counted)
        for constraint in self._wanted[claim].constraints:
            constraint.remove(request.base, request.sub)


def is_kept_off(request: Request, device: Offered, *, follows_rules: bool) -> bool:
    """Tell whether a taint keeps a request off a device: one of its own, or of a DeviceTaintRule."""
    taints, tolerations = device.device.taints, request.spec.tolerations
    if follows_rules and device.rule_taints:
        taints = (*taints, *device.rule_taints)
    if not taints:
        return False
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and not any(_tolerates(each, taint) for each in tolerations)
        for taint in taints
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
