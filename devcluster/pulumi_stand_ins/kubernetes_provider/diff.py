"""What a program's new inputs change about an object, and whether that needs a new one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    ANNOTATION_AUTONAMED,
    group_kind,
    is_annotated_true,
    is_built_in,
    metadata_of,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import (
    Object,
    Path,
    at,
    covers,
    is_empty,
    overlaps,
    parse,
    prune,
)
from scheduler.kube.primitives import QuantityError, exact_quantity

_QUANTITY_PARENTS = frozenset({"limits", "requests", "capacity", "hard", "overhead", "min", "max", "default"})
_QUANTITY_FIELDS = frozenset({"sizeLimit", "divisor"})


class ChangeKind(Enum):
    """How a property changes."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True)
class PropertyChange:
    """One property that changes; `replaces` if the object must be recreated for it."""

    path: Path
    kind: ChangeKind
    replaces: bool = False


@dataclass(frozen=True)
class Difference:
    """All changes of one object; `delete_first` if the old one is in the new one's way."""

    changes: Sequence[PropertyChange]
    delete_first: bool

    @property
    def replaces(self) -> bool:
        """Whether a new object is needed."""
        return any(change.replaces for change in self.changes)


def difference(
    old_state: Object,
    old_inputs: Object,
    new: Object,
    *,
    ignore: Iterable[Path] = (),
    mutable_kinds: frozenset[str] = frozenset(),
    cluster_scoped: bool = False,
) -> Difference:
    """Compare the object as last seen on the cluster, in the shape of the old inputs, with the new inputs.

    Fields that only the server set never count. Changes on the cluster count once a refresh has seen them. All objects
    must be free of secret marks. `ignore` are the paths of ignoreChanges; `mutable_kinds` change in place where they
    would be replaced (ConfigMap, Secret); for a `cluster_scoped` kind a namespace is ignored.
    """
    base = prune(old_state, old_inputs)
    if cluster_scoped:
        base, new = _without_namespace(base), _without_namespace(new)
    ignored = list(ignore)
    raw = _changes(base, new, (), built_in=is_built_in(new))
    # The server leaves out empty values of its own types; what was asked for before, and is still, is not a change.
    changes = [c for c in raw if not _is_left_out(c, old_inputs, new) and not any(covers(i, c.path) for i in ignored)]
    replacing = replacing_paths(old_inputs or old_state, new, mutable_kinds=mutable_kinds)
    marked = [PropertyChange(c.path, c.kind, any(overlaps(pattern, c.path) for pattern in replacing)) for c in changes]
    return Difference(marked, delete_first=any(c.replaces for c in marked) and _has_same_identity(old_state, new))


def _without_namespace(obj: Object) -> Object:
    return {**obj, "metadata": {k: v for k, v in metadata_of(obj).items() if k != "namespace"}}


def _has_same_identity(old: Object, new: Object) -> bool:
    before, after = metadata_of(old), metadata_of(new)
    same_name = before.get("name") == after.get("name")
    same_namespace = before.get("namespace", "default") == after.get("namespace", before.get("namespace", "default"))
    return same_name and same_namespace and not is_annotated_true(new, ANNOTATION_AUTONAMED)


def _changes(old: Any, new: Any, path: Path, *, built_in: bool) -> Iterator[PropertyChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            inner = (*path, key)
            if key not in new:
                yield PropertyChange(inner, ChangeKind.DELETE)
            elif key not in old:
                yield PropertyChange(inner, ChangeKind.ADD)
            else:
                yield from _changes(old[key], new[key], inner, built_in=built_in)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            inner = (*path, index)
            if index >= len(new):
                yield PropertyChange(inner, ChangeKind.DELETE)
            elif index >= len(old):
                yield PropertyChange(inner, ChangeKind.ADD)
            else:
                yield from _changes(old[index], new[index], inner, built_in=built_in)
    elif not _same(old, new, path, built_in=built_in):
        yield PropertyChange(path, ChangeKind.UPDATE)


def _same(old: Any, new: Any, path: Path, *, built_in: bool) -> bool:
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if old == new:
        return True
    return built_in and _is_quantity(path) and _quantity(old) is not None and _quantity(old) == _quantity(new)


def _is_quantity(path: Path) -> bool:
    return path[-1] in _QUANTITY_FIELDS or (len(path) > 1 and path[-2] in _QUANTITY_PARENTS)


def _quantity(value: Any) -> Decimal | None:
    """The value of a quantity, however it is spelled; None for other text."""
    try:
        return exact_quantity(str(value))
    except QuantityError:
        return None


def _is_left_out(change: PropertyChange, old_inputs: Object, new: Object) -> bool:
    if change.kind is not ChangeKind.ADD:
        return False
    new_value = at(new, change.path)
    if not is_empty(new_value):
        return False
    if change.path[:1] == ("metadata",):
        return True
    return is_built_in(new) and at(old_inputs, change.path) == new_value


_ALWAYS = (".metadata.name", ".metadata.namespace")

_POD_SPEC = [
    "affinity",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostname",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "volumes",
]
_CONTAINER = [
    "args",
    "command",
    "env",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resources",
    "securityContext",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
]
_VOLUME_SOURCES = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
]

_BY_KIND: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apps", "Deployment"): (".spec.selector",),
    ("apps", "DaemonSet"): (".spec.selector",),
    ("apps", "StatefulSet"): tuple(
        f".spec.{name}"
        for name in ("podManagementPolicy", "revisionHistoryLimit", "selector", "serviceName", "volumeClaimTemplates")
    ),
    ("batch", "Job"): (".spec.completions", ".spec.parallelism", ".spec.selector", ".spec.template"),
    ("rbac.authorization.k8s.io", "RoleBinding"): (".roleRef",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (".roleRef",),
    ("storage.k8s.io", "StorageClass"): (".parameters", ".provisioner"),
    ("", "PersistentVolume"): tuple(f".spec.{name}" for name in _VOLUME_SOURCES),
    ("", "PersistentVolumeClaim"): (".spec",),
    ("", "Pod"): (
        *(f".spec.{name}" for name in _POD_SPEC),
        *(f".spec.{section}[*].{name}" for section in ("containers", "initContainers") for name in _CONTAINER),
    ),
    ("", "ResourceQuota"): (".spec.scopes",),
    ("", "Service"): (".spec.clusterIP",),
}

# Content that changes in place only with the provider's enable…Mutable switch, and not in an immutable object.
_CONTENT: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "ConfigMap"): (".data", ".binaryData"),
    ("", "Secret"): (".data", ".stringData"),
}
_ALWAYS_FIXED: Mapping[tuple[str, str], tuple[str, ...]] = {("", "Secret"): (".type",)}


def replacing_paths(old: Object, new: Object, *, mutable_kinds: frozenset[str]) -> list[Path]:
    """The paths at which a change means a new object. `mutable_kinds` are those whose content may change in place."""
    kind = group_kind(new)
    texts = [*_ALWAYS, *_BY_KIND.get(kind, ()), *_ALWAYS_FIXED.get(kind, ())]
    if kind in _CONTENT:
        if old.get("immutable") is True:
            texts += [*_CONTENT[kind], ".immutable"]
        elif kind[1] not in mutable_kinds or new.get("immutable") is True:
            texts += _CONTENT[kind]
    return [parse(text) for text in texts]
