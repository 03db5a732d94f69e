"""Which changes of which kinds need a new object (pulumi-kubernetes `provider/diff.go`)."""

from collections.abc import Mapping

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import group_kind
from devcluster.pulumi_stand_ins.kubernetes_provider.paths import Path, parse
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object

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
