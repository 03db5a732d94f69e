"""Reading Kubernetes objects: identity, metadata, which kinds are built in and which of them are cluster-scoped."""

from dataclasses import dataclass
from typing import Any

from devcluster.pulumi_stand_ins.kubernetes_provider.values import (
    Object,
    contains_secret,
    reveal,
    secret,
    with_secrets_of,
)

ANNOTATION_AUTONAMED = "pulumi.com/autonamed"
ANNOTATION_FIELD_MANAGER = "pulumi.com/patchFieldManager"
ANNOTATION_FORCE = "pulumi.com/patchForce"
ANNOTATION_PROPAGATION = "pulumi.com/deletionPropagationPolicy"
ANNOTATION_SKIP_AWAIT = "pulumi.com/skipAwait"
ANNOTATION_TIMEOUT = "pulumi.com/timeoutSeconds"
ANNOTATION_WAIT_FOR = "pulumi.com/waitFor"

_BUILT_IN_GROUPS = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
_CLUSTER_SCOPED_GROUPS = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "certificates.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "node.k8s.io",
        "scheduling.k8s.io",
    }
)
_CLUSTER_SCOPED = frozenset(
    {
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "IPAddress"),
        ("networking.k8s.io", "ServiceCIDR"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("resource.k8s.io", "DeviceClass"),
        ("resource.k8s.io", "ResourceSlice"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("storage.k8s.io", "VolumeAttributesClass"),
    }
)


def group_of(api_version: str) -> str:
    """The API group: empty for the core group."""
    return api_version.rpartition("/")[0]


def group_kind(obj: Object) -> tuple[str, str]:
    """API group and kind."""
    return group_of(str(obj.get("apiVersion", ""))), str(obj.get("kind", ""))


def is_built_in(obj: Object) -> bool:
    """Whether the API server itself types the object (a custom resource keeps what it was given)."""
    return group_kind(obj)[0] in _BUILT_IN_GROUPS


def namespaced_built_in(api_version: str, kind: str) -> bool | None:
    """Whether a built-in kind lives in a namespace; None for kinds that only the server knows."""
    group = group_of(api_version)
    if group not in _BUILT_IN_GROUPS:
        return None
    return group not in _CLUSTER_SCOPED_GROUPS and (group, kind) not in _CLUSTER_SCOPED


def metadata_of(obj: Object) -> Object:
    """The metadata, or an empty object where it is absent or unknown."""
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def annotation(obj: Object, name: str) -> str | None:
    """An annotation's value."""
    annotations = metadata_of(obj).get("annotations")
    value = annotations.get(name) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else None


def is_annotated_true(obj: Object, name: str) -> bool:
    """Whether an annotation is "true", as the `pulumi.com/` switches are written."""
    return (annotation(obj, name) or "").lower() == "true"


def identity(obj: Object) -> str:
    """The resource's id in Pulumi: `namespace/name`, or the name alone."""
    metadata = metadata_of(obj)
    return "/".join(str(part) for part in (metadata.get("namespace"), metadata.get("name")) if part)


def describe(obj: Object) -> str:
    """Kind and identity for messages."""
    name = identity(obj) or str(metadata_of(obj).get("generateName", ""))
    return f"{obj.get('kind', 'object')} {name}".rstrip()


def split_identity(identifier: str) -> tuple[str, str]:
    """Namespace (may be empty) and name of an id."""
    namespace, _, name = identifier.rpartition("/")
    return namespace, name


def conditions(obj: Object) -> dict[str, Object]:
    """Status conditions by type; empty while there is no status (a new CRD's `conditions` is null)."""
    status = obj.get("status")
    entries: Any = status.get("conditions") if isinstance(status, dict) else None
    return {str(c["type"]): c for c in entries or () if isinstance(c, dict) and "type" in c}


def is_crd(obj: Object) -> bool:
    """Whether the object is a CustomResourceDefinition."""
    return group_kind(obj) == ("apiextensions.k8s.io", "CustomResourceDefinition")


_INPUTS = "__inputs"
_INITIAL_API_VERSION = "__initialApiVersion"
_FIELD_MANAGER = "__fieldManager"


@dataclass(frozen=True)
class Checkpoint:
    """The live object, the inputs it was made from (with their secret marks), and who owns its fields."""

    live: Object
    inputs: Object
    field_manager: str
    initial_api_version: str = ""

    def outputs(self) -> Object:
        """The form written to state: secretness of inputs carried over to the same places of the live object.

        A Secret with any secret input is secret in all of `data`, since the server turns stringData into data.
        """
        marked: Object = with_secrets_of(self.live, self.inputs)
        content = (self.inputs.get("data"), self.inputs.get("stringData"))
        if self.live.get("kind") == "Secret" and "data" in marked and any(contains_secret(part) for part in content):
            marked["data"] = secret(reveal(marked["data"]))
        return {
            **marked,
            _INPUTS: self.inputs,
            _INITIAL_API_VERSION: self.initial_api_version or self.live.get("apiVersion", ""),
            _FIELD_MANAGER: self.field_manager,
        }

    @classmethod
    def read(cls, outputs: Object, inputs: Object | None = None) -> "Checkpoint":
        """Read the form of `outputs()`; the live object loses its secret marks, the inputs keep theirs.

        `inputs`, where the engine sends them separately, win over those inside the outputs.
        """
        plain = reveal(outputs)
        inside = outputs.get(_INPUTS) or {}
        inside = inside if isinstance(inside, dict) else {}
        live = {key: value for key, value in plain.items() if not key.startswith("__")}
        own_inputs = inputs if inputs else inside
        return cls(live, own_inputs, str(plain.get(_FIELD_MANAGER) or ""), str(plain.get(_INITIAL_API_VERSION) or ""))
