"""The data that goes into a reconcile and comes out of it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from secondary_scheduler.operator.reconcile.names import RESOURCES, InstanceNames, names_of

Json = dict[str, Any]

_VOLATILE_METADATA = frozenset({"resourceVersion", "managedFields", "generation", "creationTimestamp"})
_FOREIGN_ANNOTATIONS = frozenset({"deployment.kubernetes.io/revision"})


class ObjectKey(NamedTuple):
    """Identity of an object; `namespace` is empty for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> "ObjectKey":
        """The key of a whole object, which must carry its kind."""
        metadata = obj["metadata"]
        kind = str(obj["kind"])
        return cls(kind, str(metadata.get("namespace", "")) if RESOURCES[kind].namespaced else "", metadata["name"])


@dataclass(frozen=True)
class AppliedRecord:
    """Digests of what was applied and of the object that resulted.

    As long as both stay the same there is nothing to apply. This finds drift without knowing the server's defaults,
    mutating webhooks or the canonical form of quantities.
    """

    desired: str
    live: str


@dataclass(frozen=True)
class ApiFailure:
    """The API server's refusal of the last write to an object, or of watching a kind."""

    status: int
    message: str

    @property
    def forbidden(self) -> bool:
        """Whether authorization or admission refused it."""
        return self.status in (401, 403)


@dataclass(frozen=True)
class Observed:
    """Everything a reconcile may look at."""

    resource: Json
    """The SecondaryScheduler itself."""
    now: datetime
    """Time zone aware; becomes lastTransitionTime."""
    version: str
    """The operator's own version, reported in the status."""
    openshift: bool = False
    """Whether the cluster serves security.openshift.io, whose admission picks the numeric user itself."""
    kubernetes_minor: int | None = None
    """The API server's, of Kubernetes 1.x; None where it is not known."""
    objects: Mapping[ObjectKey, Json] = field(default_factory=dict)
    applied: Mapping[ObjectKey, AppliedRecord] = field(default_factory=dict)
    failures: Mapping[ObjectKey, ApiFailure] = field(default_factory=dict)
    """Writes that failed in the last round and have not succeeded since."""
    unreadable: Mapping[str, ApiFailure] = field(default_factory=dict)
    """Kinds that could not be listed: their absence from `objects` says nothing."""
    unserved: frozenset[str] = frozenset()
    """Kinds that this cluster does not have."""
    secrets: frozenset[str] | None = None
    """Names of the Secrets that are watched: nothing is known of others. None: all are."""
    others: tuple[Json, ...] = ()
    """The other SecondarySchedulers that this operator serves."""

    @property
    def namespace(self) -> str:
        """The instance's namespace."""
        return str(self.resource["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The instance's name."""
        return str(self.resource["metadata"]["name"])

    @property
    def names(self) -> InstanceNames:
        """How the instance's objects are called."""
        return names_of(self.namespace, self.name)

    def get(self, kind: str, name: str) -> Json | None:
        """The object of that kind and name in the instance's namespace (or in the cluster), if it is known."""
        return self.objects.get(ObjectKey(kind, self.namespace if RESOURCES[kind].namespaced else "", name))

    def has_secret(self, name: str) -> bool | None:
        """Whether a Secret exists in the instance's namespace; None if that is not known."""
        if "Secret" in self.unreadable or (self.secrets is not None and name not in self.secrets):
            return None
        return self.get("Secret", name) is not None

    @property
    def terminating_namespace(self) -> Json | None:
        """Metadata of the instance's namespace if it is being deleted."""
        namespace = self.get("Namespace", self.namespace)
        return namespace["metadata"] if namespace is not None and is_terminating(namespace) else None

    def of_kind(self, kind: str) -> Iterator[Json]:
        """The known objects of a kind, of the cluster or in the instance's namespace, in order of name."""
        for key in sorted(self.objects):
            if key.kind == kind and key.namespace in ("", self.namespace):
                yield self.objects[key]

    def of_other(self, resource: Json) -> "Observed":
        """The same, as another instance sees it."""
        return replace(self, resource=resource)


@dataclass(frozen=True)
class Apply:
    """Server-side apply, forced, with the operator's field manager; not tried when a `requires` failed this round."""

    body: Json
    requires: tuple[ObjectKey, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """The object's identity."""
        return ObjectKey.of(self.body)


@dataclass(frozen=True)
class Delete:
    """Delete exactly the object that was seen: the UID is a precondition."""

    key: ObjectKey
    uid: str
    why: str


@dataclass(frozen=True)
class SetFinalizers:
    """Replace the instance's finalizers, unless it changed since `resource_version`."""

    key: ObjectKey
    finalizers: tuple[str, ...]
    resource_version: str


Action = Apply | Delete | SetFinalizers


@dataclass(frozen=True)
class Condition:
    """A condition before it has a time."""

    type: str
    status: bool | None
    reason: str
    message: str

    @property
    def status_text(self) -> str:
        """As the API spells it."""
        return {True: "True", False: "False", None: "Unknown"}[self.status]


@dataclass(frozen=True)
class EventDraft:
    """An Event about the instance. `warning` chooses between the types Warning and Normal."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True)
class ReconcilePlan:
    """What a reconcile decided: writes in order, the status (None: leave it), events to send after that status."""

    actions: tuple[Action, ...] = ()
    status: Json | None = None
    events: tuple[EventDraft, ...] = ()
    requeue_after: float | None = None
    """Seconds after which to look again even if nothing changes."""


def is_terminating(obj: Json) -> bool:
    """Whether an object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def digest(value: object) -> str:
    """Hash of any JSON value, independent of key order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(live: Json) -> str:
    """Hash of what may drift in an object: everything but its status and the server's bookkeeping."""
    metadata = {k: v for k, v in live["metadata"].items() if k not in _VOLATILE_METADATA}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _FOREIGN_ANNOTATIONS}
    rest = {k: v for k, v in live.items() if k not in ("metadata", "status", "apiVersion", "kind")}
    return digest({**rest, "metadata": {**metadata, "annotations": annotations}})
