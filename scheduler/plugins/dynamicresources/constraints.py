"""Constraints of a claim between the devices it gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from scheduler.catalog import KubernetesVersion
from scheduler.kube.model import DeviceAttribute, DeviceConstraint
from scheduler.plugins.dynamicresources.amounts import AllocationError
from scheduler.plugins.dynamicresources.devices import Offered


class Constraint(Protocol):
    """Says whether a device may join those chosen so far. A `remove` undoes the last `add` that was True."""

    def add(self, request: str, subrequest: str, device: Offered) -> bool:
        """Take a device in, or refuse it.

        Raises:
            AllocationError: the device has a value that cannot be compared.
        """

    def remove(self, request: str, subrequest: str) -> None:
        """Undo."""


def constraint_of(source: DeviceConstraint, kubernetes: KubernetesVersion) -> Constraint | None:
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
