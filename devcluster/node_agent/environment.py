"""The environment of a container. Pure.

Source of the order: k8s.io/kubernetes/pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables.
"""

import re
from collections.abc import Mapping
from typing import Any

from devcluster.node_agent.objects import (
    ContainerConfigError,
    DataKind,
    NotSyncedError,
    Obj,
    container_resource,
    pod_field,
)
from devcluster.node_agent.volumes.sources import VolumeContext, object_data

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


def container_environment(container: Obj, context: VolumeContext, service: Mapping[str, str]) -> dict[str, str]:
    """Environment variables by name: the API server's address, then envFrom, then env.

    Raises ContainerConfigError for a missing mandatory reference, FieldError for a field we cannot give.
    """
    result: dict[str, str] = dict(service)
    for source in container.get("envFrom") or []:
        result |= _all_keys(source, context)
    for variable in container.get("env") or []:
        if "valueFrom" in variable:
            value = _value_from(variable["valueFrom"], container["name"], context)
        else:
            value = expand(variable.get("value") or "", result)
        if value is not None:
            result[variable["name"]] = value
    return result


def base_environment(image: Mapping[str, str], hostname: str) -> dict[str, str]:
    """What a runtime sets before the pod's own variables."""
    return {"PATH": DEFAULT_PATH, "HOSTNAME": hostname, "HOME": "/", **image}


def _find(kind: DataKind, name: str, optional: bool, context: VolumeContext) -> dict[str, bytes] | None:
    try:
        obj = context.store.get(kind, context.pod["metadata"]["namespace"], name)
    except NotSyncedError as error:
        raise ContainerConfigError(str(error)) from error
    if obj is not None:
        return object_data(kind, obj)
    if optional:
        return None
    raise ContainerConfigError(f'{kind.lower()} "{name}" not found')


def _all_keys(source: dict[str, Any], context: VolumeContext) -> dict[str, str]:
    kind: DataKind = "ConfigMap" if "configMapRef" in source else "Secret"
    reference = source["configMapRef" if kind == "ConfigMap" else "secretRef"]
    data = _find(kind, reference["name"], bool(reference.get("optional")), context) or {}
    prefix = source.get("prefix") or ""
    return {prefix + key: _text(value) for key, value in data.items() if _NAME.fullmatch(prefix + key)}


def _value_from(source: dict[str, Any], container: str, context: VolumeContext) -> str | None:
    if "fieldRef" in source:
        return pod_field(context.pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return container_resource(context.pod, container, source["resourceFieldRef"], context.allocatable)
    kind: DataKind = "ConfigMap" if "configMapKeyRef" in source else "Secret"
    reference = source["configMapKeyRef" if kind == "ConfigMap" else "secretKeyRef"]
    optional = bool(reference.get("optional"))
    data = _find(kind, reference["name"], optional, context)
    if data is None:
        return None
    if reference["key"] not in data:
        if optional:
            return None
        object_name = f"{context.pod['metadata']['namespace']}/{reference['name']}"
        raise ContainerConfigError(f"couldn't find key {reference['key']} in {kind} {object_name}")
    return _text(data[reference["key"]])


def _text(value: bytes) -> str:
    # A NUL cannot stand in an environment block; a runtime refuses the container.
    text = value.decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise ContainerConfigError("a value for an environment variable contains a NUL byte")
    return text


_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; an unknown name stays as written; ``$$`` gives one ``$``.

    Source: k8s.io/kubernetes/third_party/forked/golang/expansion.
    """

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return variables.get(name, match.group(0))

    return _REFERENCE.sub(replace, text)
