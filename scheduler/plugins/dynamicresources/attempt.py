"""One attempt at a pod with claims: what PreFilter learns, Filter asks, and Reserve takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scheduler.framework import (
    MAX_REASONS,
    SUCCESS,
    Code,
    IntArray,
    NodeView,
    Objects,
    PodInfo,
    RowArray,
    Status,
    Verdicts,
    failure,
    unresolvable,
)
from scheduler.kube.model import ClaimAllocation, DeviceClass, ResourceClaim
from scheduler.kube.primitives import CompiledNodeSelector, node_selector
from scheduler.plugins.dynamicresources.allocator import Allocator
from scheduler.plugins.dynamicresources.amounts import AllocationError
from scheduler.plugins.dynamicresources.budget import TIMED_OUT, Budget, OutOfBudget
from scheduler.plugins.dynamicresources.claims import CLASS, pod_claims
from scheduler.plugins.dynamicresources.columns import Columns, SearchColumn, Tools, plain_request
from scheduler.plugins.dynamicresources.conditions import will_not_be_ready
from scheduler.plugins.dynamicresources.devices import PlaceOf
from scheduler.plugins.dynamicresources.ledger import Ledger
from scheduler.plugins.dynamicresources.requests import SelectorCache
from scheduler.plugins.dynamicresources.results import rating

NOT_AVAILABLE = "resourceclaim not available on the node"
_SELECTORS = SelectorCache()
"""One for the process: what an expression gives for a device depends on nothing else."""


class Rejected(Exception):
    """The pod cannot be scheduled on any node now; the text says why."""


@dataclass(slots=True, eq=False)
class Attempt:
    """What an attempt knows.

    Attributes:
        pod: the pod.
        view: the cluster that PreFilter saw.
        ledger: devices, and which of them are in use.
        claims: the pod's claims.
        selectors: by claim, where an allocated one can be used.
        wanted: claims that have no devices yet.
        spoiled: by UID, allocated claims whose devices will not be ready.
        reserved: by claim, what Reserve took.
    """

    pod: PodInfo
    view: NodeView
    ledger: Ledger
    claims: list[ResourceClaim]
    selectors: dict[str, CompiledNodeSelector] = field(default_factory=dict)
    wanted: list[ResourceClaim] = field(default_factory=list)
    reserved: dict[str, ClaimAllocation] = field(default_factory=dict)
    spoiled: set[str] = field(default_factory=set)
    _unavailable: set[str] = field(default_factory=set)
    _searched: SearchColumn | None = None
    _budget: Budget = field(default_factory=Budget)

    def verdicts(self, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Return Filter's answers.

        Raises:
            AllocationError: something is wrong with a claim, a class or a slice.
        """
        rejections = self._shortage(view, rows) if self.wanted else {}
        for row in rows.tolist() if self.selectors or self.spoiled else ():
            if row not in rejections:
                place = _place(view, row)
                missing = [uid for uid, each in self.selectors.items() if not each.matches(place.name, place.labels)]
                missing += self.spoiled
                if missing:
                    self._unavailable.update(missing)
                    rejections[row] = NOT_AVAILABLE
        return _verdicts(rows, rejections)

    def _shortage(self, view: NodeView, rows: RowArray) -> dict[int, str]:
        """Return why nodes cannot serve the claims that have no devices yet."""
        columns = self.view.objects.derived(_columns)
        exact = plain_request(self.wanted)
        if exact is not None and not self.ledger.has_counters:
            counts = columns.counting(exact, self._class_of(exact.device_class_name))
            shortage = counts.shortage(view, rows, self.wanted[0], exact, Tools(_SELECTORS, self._budget))
        else:
            self._searched = columns.searching(self.wanted, self._class_of)
            shortage = self._searched.shortage(view, rows, self._rate)
        if shortage.erring is not None:
            # The search says what fails, and for which claim.
            self._allocate(_place(view, shortage.erring))
        return dict(shortage.reasons)

    def _class_of(self, name: str) -> DeviceClass | None:
        device_class: DeviceClass | None = self.view.objects.get(CLASS, "", name)
        return device_class

    def _allocate(self, place: PlaceOf) -> list[ClaimAllocation] | str:
        allocator = Allocator(self._class_of, self.ledger.is_in_use, self.ledger.shared, _SELECTORS, self._budget)
        return allocator.allocate(place, self.ledger.pools(place), self.wanted)

    def _rate(self, place: PlaceOf) -> int | str:
        """Return a node's rating, or why it cannot serve the claims."""
        outcome = self._allocate(place)
        if isinstance(outcome, str):
            return outcome
        return sum(rating(claim, allocation) for claim, allocation in zip(self.wanted, outcome, strict=True))

    def ratings(self, rows: RowArray) -> IntArray | None:
        """Return how early the alternatives are that nodes give; None where no claim has a choice."""
        known = sum(rating(claim, claim.status.allocation) for claim in self.claims if claim.status.allocation)
        if self._searched is None:
            return np.full(len(rows), known, dtype=np.int64) if known else None
        return self._searched.ratings[rows] + known

    def unavailable_claims(self) -> list[ResourceClaim]:
        """Return the claims whose devices could not be used from some node."""
        return [claim for claim in self.claims if claim.metadata.uid in self._unavailable]

    def reserve(self, node: str) -> Status:
        """Choose devices on a node, and take them.

        Filter asked the same question, but other members of a gang may have taken devices since.
        """
        if not self.wanted:
            return SUCCESS
        row = self.view.row(node)
        if row < 0:
            return failure("claim allocation not found for node")
        # An attempt that got this far is not to fail for the work that other nodes were.
        self._budget = Budget()
        try:
            outcome = self._allocate(_place(self.view, row))
        except AllocationError as error:
            return failure(str(error))
        except OutOfBudget:
            return unresolvable(TIMED_OUT)
        if isinstance(outcome, str):
            return unresolvable(outcome)
        for claim in self.wanted:
            if self.ledger.in_flight(claim):
                return unresolvable(_in_process(claim))
        for claim, allocation in zip(self.wanted, outcome, strict=True):
            self.ledger.take(claim, allocation)
            self.reserved[claim.metadata.uid] = allocation
        return SUCCESS

    def release(self) -> None:
        """Give back what Reserve took and nobody wrote."""
        for claim in self.wanted:
            if claim.metadata.uid in self.reserved:
                self.ledger.release(claim)
        self.reserved.clear()


def _columns(objects: Objects) -> Columns:
    return Columns(objects.derived(Ledger))


def _verdicts(rows: RowArray, rejections: Mapping[int, str]) -> Verdicts | None:
    if not rejections:
        return None
    bits = np.zeros(len(rows), dtype=np.int64)
    numbers = {reason: min(number, MAX_REASONS - 1) for number, reason in enumerate(dict.fromkeys(rejections.values()))}
    for index, row in enumerate(rows.tolist()):
        reason = rejections.get(row)
        if reason is not None:
            bits[index] = 1 << numbers[reason]
    codes = np.where(bits != 0, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 0).astype(np.int8)
    return Verdicts(codes, bits, tuple(numbers)[:MAX_REASONS])


def begin(pod: PodInfo, view: NodeView, binding_timeout: float) -> Attempt:
    """Return what PreFilter finds out. Devices have `binding_timeout` seconds to become ready.

    Raises:
        ClaimProblem, Rejected: the pod cannot be scheduled now.
        ValueError: something of a claim cannot be read.
    """
    ledger = view.objects.derived(Ledger)
    attempt = Attempt(pod, view, ledger, pod_claims(pod, view.objects))
    for claim in attempt.claims:
        allocation = claim.status.allocation
        if allocation is None:
            _require_allocatable(claim, ledger, view)
            attempt.wanted.append(claim)
            continue
        if will_not_be_ready(claim, view.now, binding_timeout):
            attempt.spoiled.add(claim.metadata.uid)
        if allocation.node_selector is not None:
            selector = node_selector(allocation.node_selector.node_selector_terms)
            if selector.errors:
                raise ValueError(selector.errors[0])
            attempt.selectors[claim.metadata.uid] = selector
    return attempt


def _require_allocatable(claim: ResourceClaim, ledger: Ledger, view: NodeView) -> None:
    if ledger.in_flight(claim):
        raise Rejected(_in_process(claim))
    for request in claim.spec.devices.requests:
        title = f"resource claim {claim.metadata.key}, request {request.name}"
        if request.exactly is not None:
            wanted = [(request.name, request.exactly)]
        elif request.first_available:
            wanted = [(f"{request.name}/{each.name}", each) for each in request.first_available]
        else:
            raise Rejected(f"{title}: unknown request type")
        for name, spec in wanted:
            if not spec.device_class_name:
                raise ValueError(f"request {name}: unsupported request type")
            if view.objects.get(CLASS, "", spec.device_class_name) is None:
                raise Rejected(f"request {name}: device class {spec.device_class_name} does not exist")


def _in_process(claim: ResourceClaim) -> str:
    return f"resource claim {claim.metadata.key} is in the process of being allocated"


def _place(view: NodeView, row: int) -> PlaceOf:
    return PlaceOf(view.name(row), view.info(row).labels)
