"""Which fields of a pod this node supports. Everything else is refused by name: a pod never runs with half its spec.

Pure. A field listed here is either implemented or has no meaning on this node (scheduling fields, for instance); the
package's description says which accepted fields have no effect.
"""

from collections.abc import Iterator
from typing import Any

from devcluster.node_agent.objects import Obj
from devcluster.node_agent.security import DEFAULT_CAPABILITIES
from devcluster.node_agent.volumes.sources import PROJECTED, SOURCES

_POD = frozenset(
    [
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsPolicy",
        "enableServiceLinks",
        "hostNetwork",
        "hostUsers",
        "imagePullSecrets",
        "hostname",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "restartPolicy",
        "schedulerName",
        "schedulingGates",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "overhead",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    ]
)
_CONTAINER = frozenset(
    [
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "securityContext",
        "startupProbe",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "volumeMounts",
        "workingDir",
    ]
)
_POD_SECURITY = frozenset(
    [
        "fsGroup",
        "fsGroupChangePolicy",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "seLinuxOptions",
        "seccompProfile",
        "appArmorProfile",
        "supplementalGroups",
        "supplementalGroupsPolicy",
    ]
)
_SECURITY = frozenset(
    [
        "allowPrivilegeEscalation",
        "capabilities",
        "privileged",
        "readOnlyRootFilesystem",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "seLinuxOptions",
        "seccompProfile",
        "appArmorProfile",
        "procMount",
    ]
)
_PROBE = frozenset(
    [
        "exec",
        "failureThreshold",
        "httpGet",
        "initialDelaySeconds",
        "periodSeconds",
        "successThreshold",
        "tcpSocket",
        "timeoutSeconds",
        "terminationGracePeriodSeconds",
    ]
)
_MOUNT = frozenset(("mountPath", "name", "readOnly", "subPath", "mountPropagation", "recursiveReadOnly"))
_HANDLERS = frozenset(("exec", "httpGet", "sleep"))
_PROFILES = ("RuntimeDefault", "Unconfined")


def unsupported_fields(pod: Obj) -> list[str]:
    """The fields of a pod that this node does not support, as paths (``spec.volumes[1].hostPath``)."""
    spec = pod["spec"]
    return [
        *_unknown(spec, _POD, "spec"),
        *_security(spec.get("securityContext") or {}, _POD_SECURITY, "spec.securityContext"),
        *(
            path
            for index, item in enumerate(spec.get("volumes") or [])
            for path in _volume(item, f"spec.volumes[{index}]")
        ),
        *_containers(spec, "initContainers"),
        *_containers(spec, "containers"),
    ]


def _unknown(fields: dict[str, Any], known: frozenset[str], path: str) -> Iterator[str]:
    for name, value in fields.items():
        # The API server fills in false and empty values; they ask for nothing.
        if name not in known and value not in (None, False, "", [], {}):
            yield f"{path}.{name}"


def _containers(spec: Obj, section: str) -> Iterator[str]:
    for index, container in enumerate(spec.get(section) or []):
        path = f"spec.{section}[{index}]"
        yield from _unknown(container, _CONTAINER, path)
        yield from _security(container.get("securityContext") or {}, _SECURITY, f"{path}.securityContext")
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            yield from _unknown(container.get(name) or {}, _PROBE, f"{path}.{name}")
        for hook, handler in (container.get("lifecycle") or {}).items():
            yield from _unknown({hook: True}, frozenset(("preStop",)), f"{path}.lifecycle")
            yield from _unknown(handler if isinstance(handler, dict) else {}, _HANDLERS, f"{path}.lifecycle.{hook}")
        for number, mount in enumerate(container.get("volumeMounts") or []):
            yield from _mount(mount, f"{path}.volumeMounts[{number}]")
        for number, port in enumerate(container.get("ports") or []):
            if port.get("hostPort") and not spec.get("hostNetwork"):
                yield f"{path}.ports[{number}].hostPort"
        if (container.get("resources") or {}).get("claims"):
            yield f"{path}.resources.claims"


def _mount(mount: Obj, path: str) -> Iterator[str]:
    yield from _unknown(mount, _MOUNT, path)
    if mount.get("mountPropagation") not in (None, "None"):
        yield f"{path}.mountPropagation"
    if mount.get("recursiveReadOnly") not in (None, "Disabled", "IfPossible"):
        yield f"{path}.recursiveReadOnly"


def _volume(volume: Obj, path: str) -> Iterator[str]:
    for name in volume:
        if name != "name" and name not in SOURCES:
            yield f"{path}.{name}"
    for index, source in enumerate((volume.get("projected") or {}).get("sources") or []):
        yield from (f"{path}.projected.sources[{index}].{name}" for name in source if name not in PROJECTED)


def _security(fields: dict[str, Any], known: frozenset[str], path: str) -> Iterator[str]:
    yield from _unknown(fields, known, path)
    if fields.get("privileged"):
        yield f"{path}.privileged"
    if fields.get("procMount") not in (None, "Default"):
        yield f"{path}.procMount"
    for name in ("seccompProfile", "appArmorProfile"):
        if (fields.get(name) or {}).get("type") not in (None, *_PROFILES):
            yield f"{path}.{name}"
    for name in (fields.get("capabilities") or {}).get("add") or []:
        if name.upper().removeprefix("CAP_") not in DEFAULT_CAPABILITIES:
            yield f"{path}.capabilities.add[{name}]"
