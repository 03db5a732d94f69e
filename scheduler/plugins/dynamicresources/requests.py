"""The requests of claims, checked and prepared for one node (the checks of Allocate in
k8s.io/dynamic-resource-allocation/structured/internal/incubating, 0.36.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from scheduler import cel
from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion
from scheduler.cel import CompileError, EvaluationError
from scheduler.framework import Work
from scheduler.kube.model import (
    DeviceAttribute,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
    ResourceClaim,
)
from scheduler.plugins.dynamicresources.capacity import AllocationError, Consumed, consumption
from scheduler.plugins.dynamicresources.devices import DeviceID, Offered, PlaceOf, Pool, device_usable

# How much work one attempt at a pod's claims may be. Upstream stops each node's search after `filterTimeout`. A
# decision here has no clock: the same snapshot gives the same answer on every machine. So steps are counted, of the
# search and of selectors, over all nodes of an attempt. What selectors remember stays, so that the next attempt gets
# further.

MAX_STEPS = 1_000_000
"""Steps of an attempt, 0.5 to 2 us each."""

_STEPS_PER_UNIT = 2

TIMED_OUT = "timed out trying to allocate devices"


class OutOfBudget(Exception):
    """The attempt has been too much work."""


class Budget:
    """Counts the steps of one attempt."""

    __slots__ = ("_left", "_uncharged")

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps
        self._uncharged = 0

    def spend(self, steps: int = 1) -> None:
        """Account for work.

        Raises:
            OutOfBudget: there is no more.
        """
        self._left -= steps
        self._uncharged += steps
        if self._left < 0:
            raise OutOfBudget

    def charge(self, work: Work) -> None:
        """Tell the meter of the attempt what steps there were since the last call.

        A pod alone is kept within its steps by this budget, which gives every node an answer; a thousand members of a
        gang are kept within theirs by the meter.

        Raises:
            OverBudgetError: the attempt ends.
        """
        steps, self._uncharged = self._uncharged, 0
        work.charge(steps // _STEPS_PER_UNIT, "steps of the search for devices and of their selectors")


# Constraints of a claim between the devices it gets.
class ChosenDevices(Protocol):
    """Says whether a device may join those chosen so far. A `remove` undoes the last `add` that was True."""

    def add(self, request: str, subrequest: str, device: Offered) -> bool:
        """Take a device in, or refuse it.

        Raises:
            AllocationError: the device has a value that cannot be compared.
        """

    def remove(self, request: str, subrequest: str) -> None:
        """Undo."""


def constraint_of(source: DeviceConstraint, kubernetes: KubernetesVersion) -> ChosenDevices | None:
    """Return the constraint, None where it is of a kind that is not known."""
    if source.match_attribute is not None:
        return _Match(source.requests, source.match_attribute, kubernetes)
    if source.distinct_attribute is not None:
        return _Distinct(source.requests, source.distinct_attribute, kubernetes)
    return None


class _Attributes(ABC):
    """The values of an attribute of the devices chosen for some requests; no requests are all."""

    def __init__(self, requests: tuple[str, ...], attribute: str, kubernetes: KubernetesVersion) -> None:
        self._refuses_unknown_values = kubernetes.refuses_unknown_values
        self._requests = frozenset(requests)
        self._attribute = attribute
        self._values: list[DeviceAttribute] = []

    def add(self, request: str, subrequest: str, device: Offered) -> bool:
        if not self._applies(request, subrequest):
            return True
        value = _lookup(device, self._attribute)
        if value is not None and self._refuses_unknown_values and not _is_known(value):
            raise AllocationError(f"device {'/'.join(device.id)}: unsupported attribute value for {self._attribute}")
        if value is None or not self._agrees(value):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self._applies(request, subrequest):
            self._values.pop()

    def _applies(self, request: str, subrequest: str) -> bool:
        names = self._requests
        return not names or request in names or (bool(subrequest) and f"{request}/{subrequest}" in names)

    @abstractmethod
    def _agrees(self, value: DeviceAttribute) -> bool: ...


class _Match(_Attributes):
    """matchAttribute: all devices have one value."""

    def _agrees(self, value: DeviceAttribute) -> bool:
        return not self._values or (value == self._values[0] and _is_known(value))


class _Distinct(_Attributes):
    """distinctAttribute: all devices have different values.

    Upstream before 1.37 compares with one device per request only, so that of three the first and the last may be
    equal.
    """

    def _agrees(self, value: DeviceAttribute) -> bool:
        return not self._values or (_is_known(value) and value not in self._values)


def _is_known(value: DeviceAttribute) -> bool:
    return any(each is not None for each in (value.int_, value.bool_, value.string, value.version))


def _lookup(device: Offered, name: str) -> DeviceAttribute | None:
    """Return an attribute by its full name; one of the driver's own domain may stand there without it."""
    attributes = device.device.attributes
    value = attributes.get(name)
    if value is not None:
        return value
    domain, separator, identifier = name.partition("/")
    return attributes.get(identifier) if separator and domain == device.driver else None


class NodeLacksDevices(Exception):
    """A claim cannot be allocated on this node; the text says why."""


MAX_RESULTS = 32
"""Devices of one claim (AllocationResultsMaxSize)."""
ALL, EXACT_COUNT = "All", "ExactCount"

ClassOf = Callable[[str], DeviceClass | None]
"""Returns a device class by its name."""


class SelectorCache:
    """Compiled selectors by their text; what each remembers of devices goes with it."""

    _MAX = 1_000

    def __init__(self) -> None:
        self._selectors: dict[str, cel.CompiledSelector | CompileError] = {}

    def get(self, expression: str) -> cel.CompiledSelector:
        """Return a selector.

        Raises:
            CompileError: it cannot be compiled.
        """
        selector = self._selectors.pop(expression, None)
        if selector is None:
            if len(self._selectors) >= self._MAX:
                del self._selectors[next(iter(self._selectors))]
            try:
                selector = cel.CompiledSelector(expression)
            except CompileError as error:
                selector = error
        # The last one used goes last.
        self._selectors[expression] = selector
        if isinstance(selector, CompileError):
            raise selector
        return selector


class Request(Struct, eq=False):
    """A request, or one of its alternatives.

    Attributes:
        base: name of the request.
        sub: name of the alternative, "" for a request without any.
        spec: what is asked for.
        device_class: the class.
        count: how many devices.
        every: for allocationMode All, the devices, in order.
    """

    base: str
    sub: str
    spec: ExactRequest
    device_class: DeviceClass
    count: int = 0
    every: tuple[Offered, ...] | None = None

    @property
    def name(self) -> str:
        """Return its own name, as upstream's errors have it."""
        return self.sub or self.base

    @property
    def full_name(self) -> str:
        """Return the name that results and configurations have."""
        return f"{self.base}/{self.sub}" if self.sub else self.base

    @property
    def is_admin(self) -> bool:
        """Whether it asks for an administrator's access, which takes nothing from others."""
        return bool(self.spec.admin_access)


_NOTHING: Consumed = {}


def consumed_by(
    request: Request,
    device: Offered,
    others: Mapping[str, int],
    more: Sequence[Mapping[str, int]] = (),
    kubernetes: KubernetesVersion = DEFAULT_KUBERNETES,
) -> Consumed | None:
    """Return what a request takes of a device's capacity; None where there is not enough.

    Args:
        request: the request.
        device: the device, free, or one that several may have.
        others: what others have taken of it.
        more: what the same search has taken.
        kubernetes: the version to behave as.

    Raises:
        AllocationError: the request cannot be served by any device.
    """
    capacity = request.spec.capacity
    if device.plain and capacity is None and not others:
        return _NOTHING
    amounts = capacity.requests if capacity is not None else {}
    return consumption(device.device, device.id[0], amounts, (others, *more), kubernetes)


class Wanted(Struct):
    """A claim to allocate: its requests, each with its alternatives (one for a plain request), and constraints."""

    claim: ResourceClaim
    requests: list[tuple[Request, ...]]
    constraints: list[ChosenDevices]

    def has_alternatives(self, index: int) -> bool:
        """Tell whether a request is a list of alternatives."""
        return bool(self.claim.spec.devices.requests[index].first_available)


_NO_KEY = "no such key:"
_ADVICE = (
    "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() "
    "for optional fields"
)


def _selector_error(title: str, text: str, device: Offered, kubernetes: KubernetesVersion) -> str:
    if not kubernetes.explains_selectors:
        return f"{title}: CEL runtime error: {text}"
    advice = f". {_ADVICE}" if _NO_KEY in text else ""
    return f"{title} on device {'/'.join(device.id)}: CEL runtime error: {text}{advice}"


class Preparation:
    """Prepares claims for one node."""

    def __init__(
        self,
        place: PlaceOf,
        pools: Sequence[Pool],
        class_of: ClassOf,
        shared: Callable[[DeviceID], Mapping[str, int]],
        selectors: SelectorCache,
        budget: Budget,
        kubernetes: KubernetesVersion = DEFAULT_KUBERNETES,
    ) -> None:
        self._place = place
        self._kubernetes = kubernetes
        self._pools = pools
        self._class_of = class_of
        self._shared = shared
        self._selectors = selectors
        self._budget = budget
        self._selectable: dict[tuple[int, int], bool] = {}

    def prepare(self, claim: ResourceClaim) -> Wanted:
        """Check a claim.

        Raises:
            NodeLacksDevices: it cannot be allocated on this node.
            AllocationError: it cannot be allocated on any node.
        """
        requests, least = [], 0
        for source in claim.spec.devices.requests:
            alternatives = tuple(self._request(claim, source, spec) for spec in source.first_available)
            if not alternatives:
                alternatives = (self._request(claim, source, source.exactly or ExactRequest()),)
            requests.append(alternatives)
            fewest = min(each.count for each in alternatives)
            if self._kubernetes.counts_by_request and fewest > MAX_RESULTS - least:
                raise AllocationError(
                    f"claim {claim.metadata.key}, request {source.name}: adding {fewest} devices exceeds the claim "
                    f"limit of {MAX_RESULTS}, with {least} already accounted for"
                )
            least += fewest
        if least > MAX_RESULTS:
            too_many = f"number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {claim.metadata.key}: {too_many}")
        constraints = []
        for index, constraint in enumerate(claim.spec.devices.constraints):
            compiled = constraint_of(constraint, self._kubernetes)
            if compiled is None:
                raise AllocationError(
                    f"claim {claim.metadata.key}, constraint #{index}: empty constraint (unsupported constraint type?)"
                )
            constraints.append(compiled)
        return Wanted(claim, requests, constraints)

    def _request(self, claim: ResourceClaim, source: DeviceRequest, spec: ExactRequest) -> Request:
        sub = spec.name if source.first_available else ""
        title = f"claim {claim.metadata.key}, request {sub or source.name}"
        for index, selector in enumerate(spec.selectors):
            if selector.cel is None:
                raise AllocationError(f"{title}, selector #{index}: CEL expression empty (unsupported selector type?)")
        if not spec.device_class_name:
            raise AllocationError(f"{title}: missing device class name (unsupported request type?)")
        device_class = self._class_of(spec.device_class_name)
        if device_class is None:
            name = spec.device_class_name
            raise AllocationError(
                f'{title}: could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}" not found'
            )
        request = Request(source.name, sub, spec, device_class, spec.count)
        if spec.allocation_mode == ALL:
            request.every = self._every(claim, request, title)
            request.count = len(request.every)
        elif spec.allocation_mode != EXACT_COUNT:
            raise AllocationError(f"{title}: unsupported count mode {spec.allocation_mode}")
        return request

    def _every(self, claim: ResourceClaim, request: Request, title: str) -> tuple[Offered, ...]:
        """Return all devices that a request can have, whether in use or not."""
        devices = []
        for pool in self._pools:
            if pool.problem:
                state = "being updated" if pool.problem == "incomplete" else "invalid"
                text = f"{title}: asks for all devices, but resource pool {pool.title} is currently {state}"
                raise NodeLacksDevices(text) if self._kubernetes.fails_all_on_node else AllocationError(text)
            devices += [
                device
                for device in pool.devices
                if self.is_selectable(claim, request, device) and self._can_have(title, request, device)
            ]
        return tuple(devices)

    def _can_have(self, title: str, request: Request, device: Offered) -> bool:
        try:
            return consumed_by(request, device, self._shares(device), (), self._kubernetes) is not None
        except AllocationError as error:
            raise AllocationError(f"{title}: checking capacity for device {device.id[2]}: {error}") from error

    def _shares(self, device: Offered) -> Mapping[str, int]:
        """Return what others take of a device that is to be one of all."""
        return {} if self._kubernetes.waits_for_all_shares else self._shared(device.id)

    def is_selectable(self, claim: ResourceClaim, request: Request, device: Offered) -> bool:
        """Tell whether the selectors of class and request choose a device, and it can be used from the node.

        Raises:
            AllocationError: a selector has no value for the device, or cannot be compiled.
        """
        key = (id(request), id(device))
        known = self._selectable.get(key)
        if known is None:
            self._budget.spend()
            device_class = request.device_class
            known = (
                self._match(f"class {device_class.metadata.name}", device_class.spec.selectors, device)
                and self._match(f"claim {claim.metadata.key}", request.spec.selectors, device)
                and (not device.slice.per_device or device_usable(device, self._place))
            )
            self._selectable[key] = known
        return known

    def _match(self, title: str, selectors: Sequence[DeviceSelector], device: Offered) -> bool:
        for index, source in enumerate(selectors):
            try:
                selector = self._selectors.get(source.cel.expression if source.cel is not None else "")
            except CompileError as error:
                raise AllocationError(f"{title}: selector #{index}: CEL compile error: {error}") from error
            try:
                matches, steps = selector.matches(device)
            except EvaluationError as error:
                text = _selector_error(f"{title}: selector #{index}", str(error), device, self._kubernetes)
                raise AllocationError(text) from error
            if steps:
                self._budget.spend(steps)
            if not matches:
                return False
        return True
