"""Where manifests name images, and what an image's reference consists of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.config import split_image

FIELDS_OF_KINDS: Mapping[str, tuple[str, ...]] = {
    "SecondaryScheduler": ("spec", "schedulerImage"),
    "CatalogSource": ("spec", "image"),
}
"""The fields of kinds whose images are not those of containers."""


@dataclass(frozen=True)
class ImageReference:
    """The parts of a reference; tag and digest may be empty."""

    repository: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, image: str) -> ImageReference:
        """Take a reference apart."""
        repository, tag = split_image(image)
        return cls(repository, tag, image.partition("@")[2])


def images_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The images that an object names: of its containers, or in a field of its kind."""
    value: Any = manifest
    for name in FIELDS_OF_KINDS.get(str(manifest["kind"]), ()):
        value = value.get(name) or {}
    if isinstance(value, str):
        yield value
    pod = ((manifest.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
        yield container["image"]
