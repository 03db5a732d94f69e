"""A kustomization of what a program registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from secondary_scheduler.cli.render.directory import RenderedFile
from secondary_scheduler.cli.render.manifests import (
    FIELDS_OF_KINDS,
    ImageReference,
    RenderedObject,
    dump,
    files,
    heading,
    images_of,
)

KUSTOMIZATION = "kustomization.yaml"
IMAGE_FIELDS = "image-fields.yaml"
SYNC_WAVE = "argocd.argoproj.io/sync-wave"


def kustomization(rendered: Sequence[RenderedObject], stack: str) -> list[RenderedFile]:
    """One file per object, with the wave in which Argo CD applies it, and the kustomization that lists them.

    Objects that are left out are comments in the kustomization: kustomize takes no file without an object.
    """
    written = [in_wave(obj) for obj in rendered if not obj.left_out]
    resources = files(written, stack)
    comments = "".join(obj.comment for obj in rendered if obj.left_out)
    kinds = {obj.kind for obj in written}
    fields = {kind: path for kind, path in FIELDS_OF_KINDS.items() if kind in kinds}
    content: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [file.path for file in resources],
        # Without it, kubectl sorts by a list of kinds that knows none of ours.
        "sortOptions": {"order": "fifo"},
    }
    images = sorted({image for obj in written for image in images_of(obj.manifest)})
    if images:
        content["images"] = [_image(ImageReference.parse(image)) for image in images]
    if fields:
        content["configurations"] = [IMAGE_FIELDS]
        specs = [{"kind": kind, "path": "/".join(path)} for kind, path in fields.items()]
        text = f"{heading(stack)}# Where kustomize finds images that are not those of containers.\n"
        resources.append(RenderedFile(IMAGE_FIELDS, text + dump({"images": specs})))
    return [RenderedFile(KUSTOMIZATION, heading(stack) + comments + dump(content)), *resources]


def in_wave(obj: RenderedObject) -> RenderedObject:
    """The object with the annotation by which Argo CD applies it after what it depends on."""
    metadata = obj.manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), SYNC_WAVE: str(obj.wave)}
    ordered = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    rest = {key: value for key, value in metadata.items() if key not in {*ordered, "annotations"}}
    return replace(obj, manifest={**obj.manifest, "metadata": {**ordered, "annotations": annotations, **rest}})


def _image(reference: ImageReference) -> Mapping[str, str]:
    """The entry that changes nothing, and shows what can be changed.

    kustomize drops the tag where it is given a digest: where there are both, the entry has neither.
    """
    entry = {"name": reference.repository, "newName": reference.repository}
    if reference.digest and not reference.tag:
        return {**entry, "digest": reference.digest}
    return entry if reference.digest or not reference.tag else {**entry, "newTag": reference.tag}
