"""Volumes by storage class."""

from collections.abc import Sequence

from scheduler.framework import Objects
from scheduler.helpers.volumes import VOLUME, volume_class
from secondary_scheduler.kube.model import PersistentVolume


class VolumesByClass:
    """An index that is made anew when a volume changed: once per pod that asks, at most."""

    def __init__(self) -> None:
        self._of: Objects | None = None
        self._generation = -1
        self._volumes: dict[str, list[PersistentVolume]] = {}

    def of(self, objects: Objects, storage_class: str) -> Sequence[PersistentVolume]:
        """Return the volumes of a class, assumed changes included."""
        generation = objects.generation(VOLUME)
        if self._of is not objects or self._generation != generation:
            self._of, self._generation, self._volumes = objects, generation, {}
            for volume in objects.every_latest(VOLUME):
                self._volumes.setdefault(volume_class(volume), []).append(volume)
        return self._volumes.get(storage_class, ())
