"""One attempt at a pod with claims: what PreFilter learns, Filter asks, and Reserve takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct, field

from scheduler import framework as fw
from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion
from scheduler.kube.model import ClaimAllocation, DeviceClass, ResourceClaim
from scheduler.kube.primitives import CompiledNodeSelector
from scheduler.plugins.dynamicresources.allocator import Allocator
from scheduler.plugins.dynamicresources.binding import will_not_be_ready
from scheduler.plugins.dynamicresources.capacity import AllocationError
from scheduler.plugins.dynamicresources.columns import DeviceColumns, SearchColumn, Tools, plain_request
from scheduler.plugins.dynamicresources.devices import PlaceOf
from scheduler.plugins.dynamicresources.extended import CANNOT_USE_CLAIM, Extended, SpecialClaim, extended_of
from scheduler.plugins.dynamicresources.ledger import Ledger
from scheduler.plugins.dynamicresources.requests import TIMED_OUT, Budget, OutOfBudget, SelectorCache
from scheduler.plugins.dynamicresources.results import CLAIM, CLASS, pod_claims, rating, with_user

NOT_AVAILABLE = "resourceclaim not available on the node"
_NO_RESOURCES: frozenset[str] = frozenset()
_SELECTORS = SelectorCache()
"""One for the process: what an expression gives for a device depends on nothing else."""


class Rejected(Exception):
    """The pod cannot be scheduled on any node now; the text says why."""


class Attempt(Struct, eq=False):
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
        kubernetes: the version to behave as.
        extended: the pod's extended resources, where some may be devices.
        special: the claim for those that are devices on the reserved node.
    """

    pod: fw.PodInfo
    view: fw.NodeView
    ledger: Ledger
    claims: list[ResourceClaim]
    selectors: dict[str, CompiledNodeSelector] = field(default_factory=dict)
    wanted: list[ResourceClaim] = field(default_factory=list)
    reserved: dict[str, ClaimAllocation] = field(default_factory=dict)
    spoiled: set[str] = field(default_factory=set)
    kubernetes: KubernetesVersion = DEFAULT_KUBERNETES
    extended: Extended | None = None
    special: SpecialClaim | None = None
    _unavailable: set[str] = field(default_factory=set)
    _searched: dict[frozenset[str], SearchColumn] = field(default_factory=dict)
    _budget: Budget = field(default_factory=Budget)

    def charge(self, work: fw.Work) -> None:
        """Account for the steps since the last call."""
        self._budget.charge(work)

    def verdicts(self, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Return Filter's answers.

        Raises:
            AllocationError: something is wrong with a claim, a class or a slice.
        """
        rejections = self._shortages(view, rows)
        for row in rows.tolist() if self.selectors or self.spoiled else ():
            if row not in rejections:
                place = _place(view, row)
                missing = [uid for uid, each in self.selectors.items() if not each.matches(place.name, place.labels)]
                missing += self.spoiled
                if missing:
                    self._unavailable.update(missing)
                    rejections[row] = NOT_AVAILABLE
        return _verdicts(rows, rejections)

    def _shortages(self, view: fw.NodeView, rows: fw.RowArray) -> dict[int, str]:
        """Return why nodes cannot serve the claims without devices, the one for extended resources included."""
        if self.extended is None:
            return self._shortage(view, rows, _NO_RESOURCES) if self.wanted else {}
        if self.extended.stale is not None:
            return dict.fromkeys(rows.tolist(), CANNOT_USE_CLAIM)
        groups, refused = self.extended.groups(view, rows)
        reasons: dict[int, str] = {}
        for group in groups:
            if group.resources or self.wanted:
                reasons |= self._shortage(view, group.rows, group.resources)
        return reasons | refused

    def _claims_with(self, resources: frozenset[str]) -> list[ResourceClaim]:
        """Return the claims to allocate on nodes where these extended resources have to be devices."""
        if not resources:
            return self.wanted
        assert self.extended is not None
        return [*self.wanted, self.extended.claim_for(resources).claim]

    def _shortage(self, view: fw.NodeView, rows: fw.RowArray, resources: frozenset[str]) -> dict[int, str]:
        wanted = self._claims_with(resources)
        columns = self.view.objects.derived(_columns)
        exact = plain_request(wanted)
        if exact is not None and not self.ledger.has_counters:
            counts = columns.counting(exact, self._class_of(exact.device_class_name), self.kubernetes)
            tools = Tools(_SELECTORS, self._budget, self.kubernetes)
            shortage = counts.shortage(view, rows, wanted[0], exact, tools)
        else:
            searched = columns.searching(wanted, self._class_of, self.kubernetes)
            self._searched[resources] = searched
            shortage = searched.shortage(view, rows, lambda place: self._rate(place, wanted))
        if shortage.erring is not None:
            # The search says what fails, and for which claim.
            self._allocate(_place(view, shortage.erring), wanted)
        return dict(shortage.reasons)

    def _class_of(self, name: str) -> DeviceClass | None:
        device_class: DeviceClass | None = self.view.objects.get(CLASS, "", name)
        return device_class

    def _allocate(self, place: PlaceOf, wanted: Sequence[ResourceClaim]) -> list[ClaimAllocation] | str:
        ledger = self.ledger
        allocator = Allocator(
            self._class_of, ledger.is_in_use, ledger.shared, _SELECTORS, self._budget, self.kubernetes
        )
        return allocator.allocate(place, ledger.pools(place), wanted)

    def _rate(self, place: PlaceOf, wanted: Sequence[ResourceClaim]) -> int | str:
        """Return a node's rating, or why it cannot serve the claims."""
        outcome = self._allocate(place, wanted)
        if isinstance(outcome, str):
            return outcome
        return sum(rating(claim, allocation) for claim, allocation in zip(wanted, outcome, strict=True))

    def ratings(self, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Return how early the alternatives are that nodes give; None where no claim has a choice."""
        known = sum(rating(claim, claim.status.allocation) for claim in self.claims if claim.status.allocation)
        if not self._searched:
            return np.full(len(rows), known, dtype=np.int64) if known else None
        if self.extended is None:
            return self._searched[_NO_RESOURCES].ratings[rows] + known
        ratings = np.full(len(rows), known, dtype=np.int64)
        for group in self.extended.groups(view, rows)[0]:
            searched = self._searched.get(group.resources)
            if searched is not None:
                ratings[np.isin(rows, group.rows)] += searched.ratings[group.rows]
        return ratings

    def unavailable_claims(self) -> list[ResourceClaim]:
        """Return the claims whose devices could not be used from some node."""
        return [claim for claim in self.claims if claim.metadata.uid in self._unavailable]

    def reserve(self, node: str) -> fw.Status:
        """Choose devices on a node, and take them.

        Filter asked the same question, but other members of a gang may have taken devices since.
        """
        if not self.wanted and self.extended is None:
            return fw.SUCCESS
        row = self.view.row(node)
        if row < 0:
            return fw.failure("claim allocation not found for node")
        wanted = self.wanted
        if self.extended is not None:
            resources = self.extended.resources_on(self.view, row)
            self.special = self.extended.claim_for(resources) if resources else None
            if self.special is not None:
                wanted = [*wanted, self.special.claim]
            elif not wanted:
                return fw.SUCCESS
        # An attempt that got this far is not to fail for the work that other nodes were.
        self._budget = Budget()
        try:
            outcome = self._allocate(_place(self.view, row), wanted)
        except AllocationError as error:
            return fw.failure(str(error))
        except OutOfBudget:
            return fw.unresolvable(TIMED_OUT)
        if isinstance(outcome, str):
            return fw.unresolvable(outcome)
        for claim in wanted:
            if self.ledger.in_flight(claim):
                return fw.unresolvable(_in_process(claim))
        for claim, allocation in zip(wanted, outcome, strict=True):
            self.ledger.take(claim, allocation)
            self.reserved[claim.metadata.uid] = allocation
        return fw.SUCCESS

    def show_as_written(self) -> None:
        """Have others see the claims as they would be after PreBind."""
        objects = self.view.objects
        for claim in self.claims:
            meta, allocation = claim.metadata, self.reserved.pop(claim.metadata.uid, None)
            latest: ResourceClaim | None = objects.latest(CLAIM, meta.namespace, meta.name)
            if latest is None:
                continue
            status = with_user(latest.status, self.pod)
            if allocation is not None:
                status = msgspec.structs.replace(status, allocation=allocation)
            objects.assume(CLAIM, msgspec.structs.replace(latest, status=status))
            self.ledger.release(claim)

    def special_created(self, claim: ResourceClaim) -> None:
        """Go on with the special claim as it is on the API server: what was taken for it is taken by this one."""
        assert self.special is not None
        allocation = self.reserved.pop(self.special.claim.metadata.uid)
        self.ledger.release(self.special.claim)
        self.ledger.take(claim, allocation)
        self.reserved[claim.metadata.uid] = allocation
        self.special = self.special._replace(claim=claim)

    def release(self) -> None:
        """Give back what Reserve took and nobody wrote."""
        special = (self.special.claim,) if self.special is not None else ()
        for claim in (*self.wanted, *special):
            if claim.metadata.uid in self.reserved:
                self.ledger.release(claim)
        self.reserved.clear()


def _columns(objects: fw.Objects) -> DeviceColumns:
    return DeviceColumns(objects.derived(Ledger))


def _verdicts(rows: fw.RowArray, rejections: Mapping[int, str]) -> fw.Verdicts | None:
    if not rejections:
        return None
    bits = np.zeros(len(rows), dtype=np.int64)
    numbers = {
        reason: min(number, fw.MAX_REASONS - 1) for number, reason in enumerate(dict.fromkeys(rejections.values()))
    }
    for index, row in enumerate(rows.tolist()):
        reason = rejections.get(row)
        if reason is not None:
            bits[index] = 1 << numbers[reason]
    codes = np.where(bits != 0, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 0).astype(np.int8)
    return fw.Verdicts(codes, bits, tuple(numbers)[: fw.MAX_REASONS])


def begin(pod: fw.PodInfo, view: fw.NodeView, binding_timeout: float, kubernetes: KubernetesVersion) -> Attempt:
    """Return what PreFilter finds out. Devices have `binding_timeout` seconds to become ready.

    Raises:
        ClaimProblem, Rejected: the pod cannot be scheduled now.
        ValueError: something of a claim cannot be read.
    """
    ledger = view.objects.derived(Ledger)
    attempt = Attempt(pod, view, ledger, pod_claims(pod, view.objects), kubernetes=kubernetes)
    if kubernetes.backs_extended_resources:
        attempt.extended = extended_of(pod, view.objects)
    for claim in attempt.claims:
        allocation = claim.status.allocation
        if allocation is None:
            _require_allocatable(claim, ledger, view)
            attempt.wanted.append(claim)
            continue
        if will_not_be_ready(claim, view.now, binding_timeout):
            attempt.spoiled.add(claim.metadata.uid)
        if allocation.node_selector is not None:
            selector = allocation.node_selector.compiled
            if selector.errors:
                raise ValueError(selector.errors[0])
            attempt.selectors[claim.metadata.uid] = selector
    return attempt


def _require_allocatable(claim: ResourceClaim, ledger: Ledger, view: fw.NodeView) -> None:
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


def _place(view: fw.NodeView, row: int) -> PlaceOf:
    return PlaceOf(view.name(row), view.info(row).labels)
