"""Columns: what is known of each node, for claims that ask for the same.

The common case is one claim with one request for a number of devices, and nothing between them.

Then the search finds the first free devices in order that the request selects, so a node can serve the claim if it has
as many as are wanted. How many it has is kept per request and node, and brought up to date where something changed: an
attempt then costs one comparison of a column. Requests that are equal in what they select share a column, so the claims
of one template do. Of other claims, the search's answer is kept likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from scheduler.catalog import KubernetesVersion
from scheduler.framework import BoolArray, IntArray, NodeView, RowArray
from scheduler.kube.model import DeviceClass, ExactRequest, ResourceClaim
from scheduler.plugins.dynamicresources.allocator import (
    CANNOT_ALLOCATE,
    INVALID_POOLS,
    is_kept_off,
)
from scheduler.plugins.dynamicresources.capacity import AllocationError
from scheduler.plugins.dynamicresources.devices import PlaceOf, Pool
from scheduler.plugins.dynamicresources.ledger import Ledger
from scheduler.plugins.dynamicresources.requests import (
    EXACT_COUNT,
    MAX_RESULTS,
    TIMED_OUT,
    Budget,
    ClassOf,
    OutOfBudget,
    Preparation,
    Request,
    SelectorCache,
    consumed_by,
)

MAX_COLUMNS = 64
"""Of requests that differ; the one that was not asked for longest goes."""


def plain_request(claims: list[ResourceClaim]) -> ExactRequest | None:
    """Return the only request of the only claim, where the columns can answer for it."""
    if len(claims) != 1:
        return None
    devices = claims[0].spec.devices
    if len(devices.requests) != 1 or devices.constraints:
        return None
    exact = devices.requests[0].exactly
    if exact is None or exact.allocation_mode != EXACT_COUNT or exact.admin_access:
        return None
    # What the checks of a claim refuse is left to them.
    usable = 0 < exact.count <= MAX_RESULTS and all(selector.cel is not None for selector in exact.selectors)
    return exact if usable else None


class Tools(NamedTuple):
    """What counting devices needs."""

    selectors: SelectorCache
    budget: Budget
    kubernetes: KubernetesVersion


class DeviceShortage(NamedTuple):
    """What a column says of the nodes that do not pass: reasons by row, and the first row where the search fails."""

    reasons: Mapping[int, str]
    erring: int | None = None


class _ByNode:
    """Answers per node, as long as nothing has changed that they follow from: the devices that the node can use, which
    of them are in use, and, where there are devices beyond nodes, the nodes' labels."""

    def __init__(self, ledger: Ledger, classes: Sequence[DeviceClass | None]) -> None:
        self.classes = classes
        self._ledger = ledger
        self._stamp: Hashable = None
        self._seen = 0
        self._known: BoolArray = np.zeros(0, dtype=np.bool_)
        self._erring: set[int] = set()
        self._reasons: dict[int, str] = {}

    def _unknown(self, view: NodeView, rows: RowArray) -> Iterator[tuple[int, PlaceOf]]:
        """Forget what may have changed; yield the rows without an answer, which is known once the next is asked for."""
        ledger = self._ledger
        stamp = (view.membership, view.size, view.topology if ledger.has_shared_slices else 0)
        changed = ledger.changed_since(self._seen) if stamp == self._stamp else None
        self._seen, self._stamp = ledger.change_end, stamp
        if changed is None:
            self._begin(view.size)
        else:
            for row in map(view.row, changed):
                if row >= 0:
                    self._known[row] = False
                    self._erring.discard(row)
                    self._reasons.pop(row, None)
        for row in rows[~self._known[rows]].tolist():
            yield row, PlaceOf(view.name(row), view.info(row).labels)
            self._known[row] = True

    def _begin(self, size: int) -> None:
        self._known = np.zeros(size, dtype=np.bool_)
        self._erring.clear()
        self._reasons.clear()

    def _shortage(self, short: list[int], default: str) -> DeviceShortage:
        if self._erring:
            erring = next((row for row in short if row in self._erring), None)
            if erring is not None:
                return DeviceShortage({}, erring)
        known = self._known
        return DeviceShortage({row: self._reasons.get(row, default) if known[row] else TIMED_OUT for row in short})


class SearchColumn(_ByNode):
    """What the search says of each node, for claims that ask for the same."""

    def __init__(self, ledger: Ledger, classes: Sequence[DeviceClass | None]) -> None:
        super().__init__(ledger, classes)
        self._fits: BoolArray = np.zeros(0, dtype=np.bool_)
        self.ratings: IntArray = np.zeros(0, dtype=np.int64)
        """Of the nodes that can serve the claims: how early the alternatives are that they get."""

    def _begin(self, size: int) -> None:
        super()._begin(size)
        self._fits = np.zeros(size, dtype=np.bool_)
        self.ratings = np.zeros(size, dtype=np.int64)

    def shortage(self, view: NodeView, rows: RowArray, search: Callable[[PlaceOf], int | str]) -> DeviceShortage:
        """Return which nodes cannot serve the claims, and why; `search` gives a text for such a node, else its
        rating."""
        try:
            for row, place in self._unknown(view, rows):
                self._fits[row] = False
                try:
                    outcome = search(place)
                except AllocationError:
                    self._erring.add(row)
                    continue
                if isinstance(outcome, str):
                    self._reasons[row] = outcome
                else:
                    self._fits[row] = True
                    self.ratings[row] = outcome
        except OutOfBudget:
            # The next attempt goes on from there.
            pass
        return self._shortage(rows[~(self._fits[rows] & self._known[rows])].tolist(), CANNOT_ALLOCATE)


class CountColumn(_ByNode):
    """How many free devices each node has for a request."""

    def __init__(self, ledger: Ledger, classes: Sequence[DeviceClass | None]) -> None:
        super().__init__(ledger, classes)
        self._free: IntArray = np.zeros(0, dtype=np.int64)

    def _begin(self, size: int) -> None:
        super()._begin(size)
        self._free = np.zeros(size, dtype=np.int64)

    def shortage(
        self, view: NodeView, rows: RowArray, claim: ResourceClaim, exact: ExactRequest, tools: Tools
    ) -> DeviceShortage:
        """Return which nodes cannot serve a claim with the request, and why; the others can.

        A row is erring if a selector has no value for a device that the search would come to.
        """
        (device_class,) = self.classes
        assert device_class is not None, "PreFilter has seen it"
        request = Request(claim.spec.devices.requests[0].name, "", exact, device_class, exact.count)
        try:
            for row, place in self._unknown(view, rows):
                pools, shared = self._ledger.pools(place), self._ledger.shared
                preparation = Preparation(
                    place, pools, lambda name: device_class, shared, tools.selectors, tools.budget
                )
                self._free[row] = self._count(row, pools, claim, request, preparation, tools.kubernetes)
        except OutOfBudget:
            # The next attempt goes on from there.
            pass
        return self._shortage(rows[(self._free[rows] < exact.count) | ~self._known[rows]].tolist(), CANNOT_ALLOCATE)

    def _count(
        self,
        row: int,
        pools: Sequence[Pool],
        claim: ResourceClaim,
        request: Request,
        preparation: Preparation,
        kubernetes: KubernetesVersion,
    ) -> int:
        free = 0
        follows_rules = kubernetes.follows_taint_rules
        if any(pool.problem == "invalid" for pool in pools):
            self._reasons[row] = INVALID_POOLS
        for device in (device for pool in pools if not pool.problem for device in pool.devices):
            shared = self._ledger.shared(device.id)
            if self._ledger.is_in_use(device.id) or (kubernetes.keeps_sharers and shared and not device.shared):
                continue
            try:
                selectable = preparation.is_selectable(claim, request, device)
                enough = selectable and consumed_by(request, device, shared, (), kubernetes) is not None
            except AllocationError:
                # What comes behind it counts for nobody: the search ends before it, or there.
                self._erring.add(row)
                break
            if enough and not is_kept_off(request, device, follows_rules=follows_rules):
                free += 1
                if free == MAX_RESULTS:
                    # No request is for more.
                    break
        return free


_Column = TypeVar("_Column", bound=_ByNode)


class DeviceColumns:
    """The columns of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._columns: dict[Hashable, _ByNode] = {}

    def counting(
        self, exact: ExactRequest, device_class: DeviceClass | None, kubernetes: KubernetesVersion
    ) -> CountColumn:
        """Return the column of a request."""
        capacity = tuple(sorted(exact.capacity.requests.items())) if exact.capacity is not None else None
        key = (exact.device_class_name, exact.selectors, exact.tolerations, capacity, kubernetes.minor)
        return self._column(CountColumn, key, (device_class,))

    def searching(
        self, claims: Sequence[ResourceClaim], class_of: ClassOf, kubernetes: KubernetesVersion
    ) -> SearchColumn:
        """Return the column of claims: those that ask for the same, by names that are the same, share it."""
        wanted = [(claim.spec.devices.requests, claim.spec.devices.constraints) for claim in claims]
        names = [
            each.device_class_name
            for claim in claims
            for request in claim.spec.devices.requests
            for each in (request.exactly, *request.first_available)
            if each is not None
        ]
        key = (msgspec.msgpack.encode(wanted), kubernetes.minor)
        return self._column(SearchColumn, key, [class_of(name) for name in names])

    def _column(
        self, kind: Callable[[Ledger, Sequence[DeviceClass | None]], _Column], key: Hashable, classes: Sequence[Any]
    ) -> _Column:
        column: Any = self._columns.pop((kind, key), None)
        if column is None or any(old is not new for old, new in zip(column.classes, classes, strict=True)):
            if len(self._columns) >= MAX_COLUMNS:
                del self._columns[next(iter(self._columns))]
            column = kind(self._ledger, classes)
        self._columns[kind, key] = column
        kept: _Column = column
        return kept
