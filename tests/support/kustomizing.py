"""The part of kustomize that `render --format kustomize` uses, read a second time: resources, images by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import yaml

_KNOWN = {"apiVersion", "kind", "resources", "sortOptions", "images", "configurations"}


def build(directory: Path) -> list[dict[str, Any]]:
    """The objects that `kustomize build` prints of a directory.

    Raises:
        AssertionError: the kustomization has a field that is not implemented here.
    """
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert set(kustomization) <= _KNOWN, set(kustomization) - _KNOWN
    assert kustomization["sortOptions"] == {"order": "fifo"}
    objects = [yaml.safe_load((directory / name).read_text()) for name in kustomization["resources"]]
    fields = {
        spec["kind"]: spec["path"].split("/")
        for name in kustomization.get("configurations", ())
        for spec in yaml.safe_load((directory / name).read_text())["images"]
    }
    for manifest in objects:
        for holder, key in _images(manifest, fields):
            for entry in kustomization.get("images", ()):
                holder[key] = _replaced(holder[key], entry)
    return objects


def _images(
    manifest: dict[str, Any], fields: Mapping[str, list[str]]
) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    path = fields.get(manifest["kind"])
    if path is not None:
        holder = manifest
        for name in path[:-1]:
            holder = holder[name]
        yield holder, path[-1]
    pod = ((manifest.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in pod.get("containers", []):
        yield container, "image"


def _replaced(image: str, entry: Mapping[str, str]) -> str:
    reference, _, digest = image.partition("@")
    head, slash, last = reference.rpartition("/")
    name, _, tag = last.partition(":")
    if head + slash + name != entry["name"]:
        return image
    if "digest" in entry:
        tag, digest = "", entry["digest"]
    elif "newTag" in entry:
        tag, digest = entry["newTag"], ""
    name = entry.get("newName", entry["name"])
    return name + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
