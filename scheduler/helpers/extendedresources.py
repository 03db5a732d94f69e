"""Which extended resources are devices of a DeviceClass (deviceclass/extendedresourcecache of
k8s.io/dynamic-resource-allocation, 0.36.3).

A class names one in `spec.extendedResourceName`, and each has an implicit one made of its own name. Of several classes
with one name the youngest counts, and of equally old ones that whose name comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.framework import Objects
from scheduler.kube.model import DeviceClass

DEVICE_CLASS: Final = "DeviceClass"
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"


def may_be_devices(resource: str) -> bool:
    """Tell whether a resource's name is one that a DeviceClass can stand for (IsDRAExtendedResourceName)."""
    if resource.startswith(_IMPLICIT):
        return True
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def asks_for_devices(requests: Mapping[str, int]) -> bool:
    """Tell whether some of the amounts may be devices."""
    return any("/" in resource and amount > 0 and may_be_devices(resource) for resource, amount in requests.items())


def implicit_name(device_class: DeviceClass) -> str:
    """Return the name of the resource that each class is."""
    return _IMPLICIT + device_class.metadata.name


class ExtendedResources:
    """The classes by resource, as they are now. One per store: `objects.derived(ExtendedResources)`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._classes: dict[str, str] = {}
        self.generation = 0
        """Grows with every change."""
        objects.listen(DEVICE_CLASS, self._changed)
        self._changed(None, None)

    def class_of(self, resource: str) -> str | None:
        """Return the name of the class whose devices a resource is, None where it is no class's."""
        return self._classes.get(resource)

    def _changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        classes: list[DeviceClass] = sorted(self._objects.every(DEVICE_CLASS), key=lambda each: each.metadata.name)
        # The API writes times so that their order is that of the text.
        classes.sort(key=lambda each: each.metadata.creation_timestamp, reverse=True)
        by_resource: dict[str, str] = {}
        for each in classes:
            if each.spec.extended_resource_name:
                by_resource.setdefault(each.spec.extended_resource_name, each.metadata.name)
        by_resource |= {implicit_name(each): each.metadata.name for each in classes}
        if by_resource != self._classes:
            self._classes = by_resource
            self.generation += 1
