"""What of an object goes into a snapshot: the fields that a scheduler reads, as they are, and no others.

The typed model says which these are; so environment variables, commands, probes, tokens' volumes' content and
whatever a new API version adds stay behind without being listed anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from scheduler.kube.model import Node

_ANNOTATION_DOMAINS = ("kubernetes.io", "k8s.io", "x-k8s.io", "secondary-scheduler.io", "karpenter.sh")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NUMBER_OR_TIME = re.compile(r"[0-9+.:TZ_ -]{1,40}", re.ASCII)
_META = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
)
Trim = Callable[[Any], Any]


def trim_object(data: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the part of an object that its model reads; metadata without what only tools wrote."""
    result: dict[str, Any] = _projection(kind)(data)
    result["metadata"] = trim_metadata(data.get("metadata") or {}, with_numbers=kind is Node)
    return result


def trim_metadata(meta: Mapping[str, Any], *, with_numbers: bool = False) -> dict[str, Any]:
    """Return metadata without managed fields, and with the annotations of Kubernetes, Karpenter and ours only; also
    those that are a number or a time in digits, if asked for: NodeMetadata may read them."""
    result = {field: meta[field] for field in _META if field in meta}
    annotations = {
        key: text
        for key, text in (meta.get("annotations") or {}).items()
        if (_is_kubernetes_annotation(key) and key != _LAST_APPLIED) or (with_numbers and _is_number(text))
    }
    if annotations:
        result["annotations"] = annotations
    return result


def _is_kubernetes_annotation(key: str) -> bool:
    domain = key.partition("/")[0]
    return any(domain == known or domain.endswith(f".{known}") for known in _ANNOTATION_DOMAINS)


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and _NUMBER_OR_TIME.fullmatch(text) is not None


@lru_cache
def _projection(kind: type[msgspec.Struct]) -> Trim:
    return _trim(msgspec.inspect.type_info(kind))


def _trim(info: Any) -> Trim:
    """Return what keeps of a value the part that a type reads."""
    if isinstance(info, msgspec.inspect.StructType):
        fields = {field.encode_name: _trim(field.type) for field in info.fields}
        return lambda value: _fields(value, fields)
    if isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        each = _trim(info.item_type)
        return lambda value: [each(item) for item in value] if isinstance(value, list) else value
    if isinstance(info, msgspec.inspect.UnionType):
        inner = [_trim(member) for member in info.types if isinstance(member, msgspec.inspect.StructType)]
        return inner[0] if inner else _unchanged_value
    return _unchanged_value


def _fields(value: Any, fields: Mapping[str, Trim]) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: trim(value[name]) for name, trim in fields.items() if name in value}


def _unchanged_value(value: Any) -> Any:
    return value
