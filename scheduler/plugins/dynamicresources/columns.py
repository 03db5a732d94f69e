"""Columns for the common case: one claim with one request for a number of devices, and nothing between them.

Then the search finds the first free devices in order that the request selects, so a node can serve the claim if it has
as many as are wanted. How many it has is kept per request and node, and brought up to date where something changed: an
attempt then costs one comparison of a column. Requests that are equal in what they select share a column, so the claims
of one template do.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.framework import BoolArray, IntArray, NodeView, RowArray
from scheduler.kube.model import DeviceClass, ExactRequest, ResourceClaim
from scheduler.plugins.dynamicresources.allocator import CANNOT_ALLOCATE, INVALID_POOLS, is_kept_off, unsupported_reason
from scheduler.plugins.dynamicresources.budget import TIMED_OUT, Budget, OutOfBudget
from scheduler.plugins.dynamicresources.devices import AllocationError, PlaceOf, Pool
from scheduler.plugins.dynamicresources.ledger import Ledger
from scheduler.plugins.dynamicresources.requests import EXACT_COUNT, MAX_RESULTS, Preparation, Request, SelectorCache

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


class Columns:
    """The columns of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._columns: dict[Hashable, Column] = {}

    def of(self, exact: ExactRequest, device_class: DeviceClass) -> Column:
        """Return the column of a request."""
        key = (device_class.metadata.name, exact.selectors, exact.tolerations)
        column = self._columns.pop(key, None)
        if column is None or column.device_class is not device_class:
            if len(self._columns) >= MAX_COLUMNS:
                del self._columns[next(iter(self._columns))]
            column = Column(self._ledger, device_class)
        self._columns[key] = column
        return column


class Shortage(NamedTuple):
    """What a column says of the nodes that do not pass: reasons by row, and the first row where the search fails."""

    reasons: Mapping[int, str]
    erring: int | None = None


class Column:
    """How many free devices each node has for a request."""

    def __init__(self, ledger: Ledger, device_class: DeviceClass) -> None:
        self.device_class = device_class
        self._ledger = ledger
        self._stamp: Hashable = None
        self._seen = 0
        self._free: IntArray = np.zeros(0, dtype=np.int64)
        self._known: BoolArray = np.zeros(0, dtype=np.bool_)
        self._erring: set[int] = set()
        self._reasons: dict[int, str] = {}

    def shortage(
        self, view: NodeView, rows: RowArray, claim: ResourceClaim, exact: ExactRequest, tools: Tools
    ) -> Shortage:
        """Return which nodes cannot serve a claim with the request, and why; the others can.

        A row is erring if a selector has no value for a device that the search would come to.
        """
        self._refresh(view)
        unknown = rows[~self._known[rows]]
        if len(unknown):
            self._learn(view, unknown.tolist(), claim, exact, tools)
        short = rows[(self._free[rows] < exact.count) | ~self._known[rows]].tolist()
        if self._erring:
            erring = next((row for row in short if row in self._erring), None)
            if erring is not None:
                return Shortage({}, erring)
        known = self._known
        return Shortage({row: self._reasons.get(row, CANNOT_ALLOCATE) if known[row] else TIMED_OUT for row in short})

    def _refresh(self, view: NodeView) -> None:
        """Forget what may have changed."""
        ledger = self._ledger
        stamp = (view.membership, view.size, view.topology if ledger.has_shared_slices else 0)
        changed = ledger.changed_since(self._seen) if stamp == self._stamp else None
        self._seen = ledger.change_end
        if changed is None:
            self._stamp = stamp
            self._free = np.zeros(view.size, dtype=np.int64)
            self._known = np.zeros(view.size, dtype=np.bool_)
            self._erring.clear()
            self._reasons.clear()
            return
        for name in changed:
            row = view.row(name)
            if row >= 0:
                self._known[row] = False
                self._erring.discard(row)
                self._reasons.pop(row, None)

    def _learn(self, view: NodeView, rows: list[int], claim: ResourceClaim, exact: ExactRequest, tools: Tools) -> None:
        """Count the devices of nodes, as far as the budget lasts."""
        request = Request(claim.spec.devices.requests[0].name, "", exact, self.device_class, exact.count)
        for row in rows:
            place = PlaceOf(view.name(row), view.info(row).labels)
            pools = self._ledger.pools(place)
            preparation = Preparation(place, pools, lambda name: self.device_class, tools.selectors, tools.budget)
            try:
                self._free[row] = self._count(row, pools, claim, request, preparation)
            except OutOfBudget:
                return
            self._known[row] = True

    def _count(
        self, row: int, pools: Sequence[Pool], claim: ResourceClaim, request: Request, preparation: Preparation
    ) -> int:
        free, unsupported = 0, ""
        if any(pool.problem == "invalid" for pool in pools):
            self._reasons[row] = INVALID_POOLS
        for device in (device for pool in pools if not pool.problem for device in pool.devices):
            if self._ledger.is_in_use(device.id):
                continue
            try:
                selectable = preparation.is_selectable(claim, request, device)
            except AllocationError:
                # What comes behind it counts for nobody: the search ends before it, or there.
                self._erring.add(row)
                break
            if not selectable:
                continue
            if device.unsupported:
                unsupported = unsupported or device.unsupported
            elif not is_kept_off(device.device.taints, request.spec.tolerations):
                free += 1
                if free == MAX_RESULTS:
                    # No request is for more.
                    break
        if unsupported:
            self._reasons.setdefault(row, unsupported_reason(unsupported))
        return free
