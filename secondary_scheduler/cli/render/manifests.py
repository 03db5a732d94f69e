"""What the program registered, as manifests: cleaned of what only Pulumi understands, ordered, written as YAML."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from scheduler.config import split_image
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.render.directory import MARK, RenderedFile

Manifest = dict[str, Any]
"""An object as it is applied."""
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_PROVIDERS_ANNOTATIONS = "pulumi.com/"
_MANAGED_BY = ("app.kubernetes.io/managed-by", "pulumi")
# What others need comes first; among those that depend on nothing of one another this is the order, then the name.
_KINDS = (
    *("CustomResourceDefinition", "Namespace", "PriorityClass", "ServiceAccount", "Secret", "ConfigMap"),
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "NetworkPolicy", "Service", "Deployment"),
)
_YAML_11_WORDS = re.compile(r"(?:y|n|yes|no|on|off|true|false|null|inf|nan)", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9 _./:@$(),=-]*")


@dataclass(frozen=True)
class RenderedObject:
    """One object.

    Attributes:
        manifest: as the API server takes it.
        left_out: why only a comment stands for it; empty if the object is written.
        wave: 0 if it depends on no other object, else one more than the highest of those that it depends on.
    """

    manifest: Mapping[str, Any]
    left_out: str = ""
    wave: int = 0

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.manifest["kind"])

    @property
    def title(self) -> str:
        """Kind, namespace and name."""
        metadata = self.manifest["metadata"]
        namespace = f"{metadata['namespace']}/" if "namespace" in metadata else ""
        return f"{self.kind} {namespace}{metadata['name']}"

    @property
    def text(self) -> str:
        """The YAML document, or the comment that stands for it."""
        return self.comment if self.left_out else dump(self.manifest)

    @property
    def comment(self) -> str:
        """What says that it is left out, and why."""
        return "".join(f"# {line}\n" for line in [f"{self.title} is left out:", *self.left_out.splitlines()])

    def file_name(self, number: int) -> str:
        """Name of its file, by which files sort as the objects are numbered."""
        name = re.sub(r"[^a-z0-9.-]+", "-", str(self.manifest["metadata"]["name"]).lower())
        return f"{number:02}-{self.kind.lower()}-{name}.yaml"


def build(objects: Sequence[Mapping[str, Any]], *, show_secrets: bool) -> list[RenderedObject]:
    """Order and clean what the program registered.

    Args:
        objects: `urn`, `inputs`, `dependencies` and `adopted` of each, as the recorder reports them. What is adopted is
            made by others in the cluster, by OLM for instance, and not written; what depends on it comes after what it
            depends on.
        show_secrets: write secret values in clear instead of leaving out the objects that hold them.

    Raises:
        CommandError: an object cannot be written without a cluster, or holds a secret where it must not.
    """
    return [
        replace(_render_object(registered["inputs"], show_secrets=show_secrets), wave=wave)
        for wave, registered in _ordered(objects)
        if not registered.get("adopted")
    ]


def stream(rendered: Iterable[RenderedObject], stack: str) -> str:
    """All objects as one text of several documents."""
    return "".join([heading(stack), *(f"---\n{obj.text}" for obj in rendered)])


def stream_json(rendered: Iterable[RenderedObject]) -> str:
    """The objects that are written as one List."""
    items = [obj.manifest for obj in rendered if not obj.left_out]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2) + "\n"


def files(rendered: Sequence[RenderedObject], stack: str) -> list[RenderedFile]:
    """One file per object, named so that `kubectl apply -f DIRECTORY` takes them in order."""
    return [
        RenderedFile(obj.file_name(number), f"{heading(stack)}{obj.text}", private=obj.kind == "Secret")
        for number, obj in enumerate(rendered)
    ]


def heading(stack: str) -> str:
    """The comment with which a file begins."""
    return f"# {MARK} from stack {stack}.\n"


def dump(manifest: Mapping[str, Any]) -> str:
    """One YAML document that readers of YAML 1.1 and 1.2 understand alike."""
    return yaml.dump(manifest, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, width=120)


@dataclass(order=True)
class _WaitingObject:
    rank: int
    kind: str
    place: tuple[str, str]
    item: Mapping[str, Any] = field(compare=False)


def _ordered(objects: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each with its wave. Dependencies first, then by kind and name: the order of registration differs from run to
    run."""
    by_urn = {registered["urn"]: registered for registered in objects}
    missing = {
        urn: {other for other in registered["dependencies"] if other in by_urn} for urn, registered in by_urn.items()
    }
    needed_by: dict[str, list[str]] = {urn: [] for urn in by_urn}
    for urn, others in missing.items():
        for other in others:
            needed_by[other].append(urn)
    ready = [_waiting(by_urn[urn]) for urn, others in missing.items() if not others]
    waves = dict.fromkeys(by_urn, 0)
    heapq.heapify(ready)
    while ready:
        registered = heapq.heappop(ready).item
        wave = waves[registered["urn"]]
        yield wave, registered
        for urn in needed_by[registered["urn"]]:
            waves[urn] = max(waves[urn], wave + 1)
            missing[urn].discard(registered["urn"])
            if not missing[urn]:
                heapq.heappush(ready, _waiting(by_urn[urn]))


def _waiting(registered: Mapping[str, Any]) -> _WaitingObject:
    kind = str(registered["inputs"].get("kind"))
    metadata = _unwrap(registered["inputs"].get("metadata") or {})
    rank = _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
    return _WaitingObject(rank, kind, (str(metadata.get("namespace", "")), str(metadata.get("name", ""))), registered)


def _render_object(inputs: Mapping[str, Any], *, show_secrets: bool) -> RenderedObject:
    manifest = _clean_manifest(_unwrap(inputs))
    rendered = RenderedObject(manifest)
    if (path := _unknown_path(manifest, ())) is not None:
        raise CommandError(
            f"{rendered.title}: {'.'.join(path)} is known only once the stack exists; it cannot be rendered"
        )
    if show_secrets or not _holds_secret(inputs):
        return rendered
    if rendered.kind != "Secret":
        raise CommandError(f"{rendered.title} holds a secret value outside a Secret; it is not rendered")
    keys = sorted({**manifest.get("stringData", {}), **manifest.get("data", {})})
    arguments = " ".join(f"--from-file={key}=FILE" for key in keys)
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    reason = (
        "it holds secret values. Make it once the namespace exists, or render with --show-secrets:\n"
        f"  kubectl --namespace {namespace} create secret generic {name} {arguments}"
    )
    return RenderedObject(manifest, reason)


def _unwrap(value: Any) -> Any:
    """Without the engine's wrapping of secrets, and whole numbers as such: on the wire every number is a double."""
    if isinstance(value, Mapping):
        if value.get(_SIGNATURE) == _SECRET:
            return _unwrap(value["value"])
        return {key: _unwrap(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unwrap(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get(_SIGNATURE) == _SECRET or any(_holds_secret(item) for item in value.values())
    return isinstance(value, list) and any(_holds_secret(item) for item in value)


def _unknown_path(value: Any, path: tuple[str, ...]) -> tuple[str, ...] | None:
    if isinstance(value, Mapping):
        pairs: Iterable[tuple[object, Any]] = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        return path if value == _UNKNOWN else None
    return next((unknown for key, item in pairs if (unknown := _unknown_path(item, (*path, str(key))))), None)


def _clean_manifest(inputs: Mapping[str, Any]) -> Manifest:
    """Without what only Pulumi's provider reads, and in the order in which people write manifests."""
    metadata = dict(inputs.get("metadata") or {})
    if "name" not in metadata:
        raise CommandError(f"a {inputs.get('kind')} has no metadata.name; a generated name needs a cluster")
    annotations = {
        key: value
        for key, value in (metadata.pop("annotations", None) or {}).items()
        if not key.startswith(_PROVIDERS_ANNOTATIONS)
    }
    label, pulumi = _MANAGED_BY
    labels = {
        key: value
        for key, value in (metadata.pop("labels", None) or {}).items()
        if (key, value) != (label, pulumi)  # whoever applies the file manages it
    }
    ordered = {key: metadata.pop(key) for key in ("name", "namespace") if key in metadata}
    ordered |= {"labels": _sorted(labels)} if labels else {}
    ordered |= {"annotations": _sorted(annotations)} if annotations else {}
    rest = {key: value for key, value in inputs.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    head = {"apiVersion": inputs["apiVersion"], "kind": inputs["kind"]}
    return {**head, "metadata": {**ordered, **_sorted(metadata)}, **_sorted(rest)}


def _sorted(value: Any) -> Any:
    """On the wire a map has no order of its own: sorted, so that one input gives one text."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


class _ManifestDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif not _PLAIN.fullmatch(text) or _YAML_11_WORDS.fullmatch(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_ManifestDumper.add_representer(str, _represent)


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
    content: Manifest = {
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


_SIGNATURE, _SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
