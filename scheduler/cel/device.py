"""Selectors: CEL expressions about a device (k8s.io/dynamic-resource-allocation/cel).

A selector's result is remembered by what the expression read, and nothing else. Evaluation is deterministic, so what it
reads first is always the same, and what it reads next follows from the values before: a tree of readings leads to the
result. A fleet of equal devices costs one evaluation per selector, and a device with a serial number that no selector
reads costs none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from scheduler.cel.errors import CelError, CompileError, EvaluationError
from scheduler.cel.evaluate import Evaluator, compiled
from scheduler.cel.scope import COST_LIMIT, Scope
from scheduler.cel.syntax import parse
from scheduler.cel.values import CelMap, Fields, MapValue, Quantity, Semver, Value, type_name
from scheduler.kube.primitives import QuantityError

MAX_RESULTS: Final = 20_000
"""Readings that a selector remembers; then it forgets all of them."""


class Attribute(Protocol):
    """A device's attribute: one of the values, or none that is known."""

    int_: int | None
    bool_: bool | None
    string: str | None
    version: str | None


class SelectableDevice(Protocol):
    """What a selector sees of a device.

    Names are those of the API: `domain/id`, or an id alone, whose domain is the driver.
    """

    @property
    def driver(self) -> str:
        """The driver's name."""

    @property
    def attributes(self) -> Mapping[str, Hashable]:
        """Attributes by name: of type `Attribute`."""

    @property
    def quantities(self) -> Mapping[str, Hashable]:
        """Capacities by name, as text or number."""

    @property
    def shared(self) -> bool:
        """Whether several claims may have it at once."""


class _Reading(NamedTuple):
    """Something an expression can read: an attribute, a capacity, or a property of the device as a whole."""

    kind: str
    domain: str = ""
    id: str = ""

    def of(self, device: SelectableDevice) -> Hashable:
        """Return what the device has; None for nothing."""
        if self.kind == "driver":
            return device.driver
        if self.kind == "shared":
            return device.shared
        source = device.attributes if self.kind == "attributes" else device.quantities
        if not self.id:
            return (device.driver, frozenset(source.items()))
        value = source.get(f"{self.domain}/{self.id}")
        return source.get(self.id) if value is None and self.domain == device.driver else value


class _Branch:
    """What to read next, and what follows from each value of it."""

    __slots__ = ("reading", "then")

    def __init__(self, reading: _Reading) -> None:
        self.reading = reading
        self.then: dict[Hashable, _Branch | bool | EvaluationError] = {}


class Outcome(NamedTuple):
    """A selector's answer, and the steps that it took; none where it was remembered."""

    matches: bool
    steps: int


class CompiledSelector:
    """A compiled selector, with what it remembers."""

    def __init__(self, expression: str) -> None:
        """Compile.

        Raises:
            CompileError: the expression is none, or uses something unknown; the text names it.
        """
        self.expression = expression
        try:
            self._evaluate: Evaluator = compiled(parse(expression), frozenset({"device"}))
        except RecursionError as error:
            raise CompileError("the expression is nested too deeply") from error
        self._known: _Branch | bool | EvaluationError | None = None
        self._results = 0

    def matches(self, device: SelectableDevice) -> Outcome:
        """Return whether the selector is true for a device.

        Raises:
            EvaluationError: it has no value for it.
        """
        known = self._known
        while type(known) is _Branch:
            known = known.then.get(known.reading.of(device))
        if known is None:
            return self._evaluated(device)
        if isinstance(known, EvaluationError):
            raise known
        assert isinstance(known, bool)
        return Outcome(known, 0)

    def _evaluated(self, device: SelectableDevice) -> Outcome:
        readings: dict[_Reading, Hashable] = {}
        scope = Scope({"device": _DeviceValue(device, readings)})
        result: bool | EvaluationError
        try:
            value = self._evaluate(scope)
            if type(value) is not bool:
                raise CelError(f"CEL result of type {type_name(value)} could not be converted to bool")
            result = value
        except EvaluationError as error:
            result = type(error)(*error.args) if error.args and isinstance(error, CelError) else error
        except RecursionError:
            result = CelError("the expression is nested too deeply")
        self._remember(readings, result)
        if isinstance(result, EvaluationError):
            raise result
        return Outcome(result, COST_LIMIT - scope.left)

    def _remember(self, readings: Mapping[_Reading, Hashable], result: bool | EvaluationError) -> None:
        if self._results >= MAX_RESULTS:
            self._known, self._results = None, 0
        self._results += 1
        if not readings:
            self._known = result
            return
        items = list(readings.items())
        if self._known is None:
            self._known = _Branch(items[0][0])
        branch = self._known
        for index, (reading, value) in enumerate(items):
            assert isinstance(branch, _Branch)
            assert branch.reading == reading
            if index + 1 == len(items):
                branch.then[value] = result
                return
            following = branch.then.get(value)
            if following is None:
                following = branch.then[value] = _Branch(items[index + 1][0])
            branch = following


class _DeviceValue(Fields):
    """The variable `device`: notes what is read of it."""

    __slots__ = ("_device", "_readings")

    def __init__(self, device: SelectableDevice, readings: dict[_Reading, Hashable]) -> None:
        self._device = device
        self._readings = readings

    def entry(self, name: Value) -> Value | None:
        """Return a field."""
        if name == "driver":
            return self.read(_Reading("driver"))
        if name == "allowMultipleAllocations":
            return self.read(_Reading("shared"))
        return _Domains(self, name) if name in ("attributes", "capacity") else None

    def read(self, reading: _Reading) -> Hashable:
        """Return something of the device, and note it."""
        if reading not in self._readings:
            self._readings[reading] = reading.of(self._device)
        return self._readings[reading]

    def by_domain(self, kind: str) -> dict[str, dict[str, Value]]:
        """Return everything of a kind, by domain and id."""
        self.read(_Reading(kind))
        source = self._device.attributes if kind == "attributes" else self._device.quantities
        result: dict[str, dict[str, Value]] = {}
        for name, value in source.items():
            domain, separator, identifier = name.partition("/")
            place = (domain, identifier) if separator else (self._device.driver, name)
            result.setdefault(place[0], {})[place[1]] = _value_of(kind, value, name)
        return result

    def value(self, kind: str, domain: str, identifier: str) -> Value | None:
        """Return one attribute or capacity, None where the device has none of that name."""
        value = self.read(_Reading(kind, domain, identifier))
        return None if value is None else _value_of(kind, value, f"{domain}/{identifier}")


class _Domains(MapValue):
    """`device.attributes` or `device.capacity`: a domain that is absent is an empty map where it is looked up."""

    __slots__ = ("_device", "_kind")

    def __init__(self, device: _DeviceValue, kind: str) -> None:
        self._device = device
        self._kind = kind

    def entry(self, domain: Value) -> Value | None:
        """Return the map of a domain, which is never missing."""
        return _OfDomain(self._device, self._kind, domain) if type(domain) is str else CelMap()

    def __iter__(self) -> Iterator[Value]:
        """Yield the domains that the device has something of."""
        return iter(self._device.by_domain(self._kind))

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Yield the domains with their maps."""
        return ((domain, _OfDomain(self._device, self._kind, domain)) for domain in self)

    def __len__(self) -> int:
        return len(self._device.by_domain(self._kind))

    def has(self, key: Value) -> bool:
        """Tell whether the device has something of a domain."""
        return key in self._device.by_domain(self._kind)


class _OfDomain(MapValue):
    """The attributes or capacities of one domain."""

    __slots__ = ("_device", "_domain", "_kind")

    def __init__(self, device: _DeviceValue, kind: str, domain: str) -> None:
        self._device = device
        self._kind = kind
        self._domain = domain

    def entry(self, identifier: Value) -> Value | None:
        """Return a value, None where there is none."""
        if type(identifier) is not str or not identifier:
            return None
        return self._device.value(self._kind, self._domain, identifier)

    def __iter__(self) -> Iterator[Value]:
        """Yield the ids."""
        return iter(self._all())

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Yield the ids with their values."""
        return iter(self._all().items())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Value]:
        return self._device.by_domain(self._kind).get(self._domain, {})


def _value_of(kind: str, value: object, name: str) -> Value:
    if kind == "capacity":
        try:
            return Quantity.parse(str(value))
        except QuantityError as error:
            raise CelError(f"capacity {name}: {error}") from error
    int_, bool_, string, version = (getattr(value, field) for field in ("int_", "bool_", "string", "version"))
    if int_ is not None:
        return int_
    if bool_ is not None:
        return bool_
    if string is not None:
        return string
    parsed = Semver.parse(version) if version is not None else None
    if version is not None and parsed is None:
        raise CelError(f"attribute {name}: parse semantic version: {version[:64]}")
    if parsed is None:
        raise CelError(f"attribute {name}: unsupported attribute value")
    return parsed
