"""What a program gives: completed (name, namespace), in the server's form, and refused where it cannot be right."""

import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from devcluster.pulumi_stand_ins.kubernetes_provider import wait_for
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    ANNOTATION_AUTONAMED,
    ANNOTATION_TIMEOUT,
    ANNOTATION_WAIT_FOR,
    annotation,
    is_annotated_true,
    is_built_in,
    metadata_of,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import (
    Object,
    contains_secret,
    contains_unknown,
    is_empty,
    is_unknown,
    reveal,
    secret,
    with_secrets_of,
    without_nulls,
)


class NamingMode(Enum):
    """What the engine's `pulumi:autonaming` configuration asks for."""

    PROPOSE = 0
    ENFORCE = 1
    DISABLE = 2


@dataclass(frozen=True)
class Naming:
    """How to name an object the program gave no name: the engine's proposal if it has one, else from its seed."""

    resource_name: str
    seed: bytes = b""
    proposal: str = ""
    mode: NamingMode = NamingMode.PROPOSE

    def name(self) -> str:
        """`<resource name>-<8 hex>`: the same in preview and update, as both get the same seed."""
        if self.proposal:
            return self.proposal
        digest = hashlib.sha256(self.seed or os.urandom(32)).hexdigest()
        return f"{self.resource_name}-{digest[:8]}"


@dataclass(frozen=True)
class CheckFailure:
    """Why a property cannot be accepted."""

    property: str
    reason: str


@dataclass(frozen=True)
class CheckResult:
    """The inputs to keep in state, with their secret marks, and what is wrong with them."""

    inputs: Object
    failures: list[CheckFailure]


def check(
    inputs: Object,
    old: Object,
    *,
    naming: Naming,
    default_namespace: str,
    is_namespaced: Callable[[str, str], bool],
) -> CheckResult:
    """Complete and validate `inputs` (secret marks kept). `old` are the inputs in state, empty for a new object.

    `naming` says how a nameless object gets its name. `default_namespace` is that of namespaced objects without one;
    `is_namespaced(api_version, kind)` is only called when the program gave no namespace.
    """
    obj = without_nulls(reveal(inputs))
    failures = list(_identity_failures(obj))
    if failures:
        return CheckResult(inputs, failures)
    obj = {**obj, "metadata": obj.get("metadata", {})}
    if not is_unknown(obj["metadata"]):
        named = _with_name(obj, reveal(old), naming)
        if named is None:
            reason = "automatic naming is disabled by pulumi:autonaming; give metadata.name"
            return CheckResult(inputs, [CheckFailure("metadata.name", reason)])
        obj = named
        if not metadata_of(obj).get("namespace") and is_namespaced(obj["apiVersion"], obj["kind"]):
            obj = _with_metadata(obj, namespace=default_namespace)
    failures = list(_value_failures(obj))
    return CheckResult(with_secrets_of(normalised(obj), _marks(inputs)), failures)


def refreshed(inputs: Object, live: Object) -> Object:
    """The inputs (free of secret marks) with what the cluster shows at the same places.

    Fields that are gone from the cluster are gone from the result, but not empty ones: those the server never shows.
    Lists are cut to the length that they have in the inputs, as the official provider does.
    """
    seen = _refreshed(inputs, live, keep_empty=is_built_in(inputs))
    if "metadata" in inputs and "metadata" in live:
        seen["metadata"] = _refreshed(inputs["metadata"], live["metadata"], keep_empty=True)
    result: Object = seen
    return result


def _refreshed(shape: Any, live: Any, *, keep_empty: bool) -> Any:
    if isinstance(shape, dict) and isinstance(live, dict):
        return {
            key: _refreshed(item, live[key], keep_empty=keep_empty) if key in live else item
            for key, item in shape.items()
            if key in live or (keep_empty and is_empty(item))
        }
    if isinstance(shape, list) and isinstance(live, list):
        return [_refreshed(a, b, keep_empty=keep_empty) for a, b in zip(shape, live, strict=False)]
    return live


def normalised(obj: Object) -> Object:
    """A Secret's `stringData` written as `data`: that is all the server ever returns. Others as they are."""
    text = obj.get("stringData")
    if obj.get("kind") != "Secret" or not isinstance(text, dict) or contains_unknown(text):
        return obj
    encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in text.items()}
    rest = {key: value for key, value in obj.items() if key != "stringData"}
    return {**rest, "data": {**(obj.get("data") or {}), **encoded}}


def _marks(inputs: Object) -> Object:
    """Where secrets are, for the normalised form: a secret stringData makes all of `data` secret."""
    if inputs.get("kind") == "Secret" and contains_secret(inputs.get("stringData")):
        return {**inputs, "data": secret({})}
    return inputs


def _with_metadata(obj: Object, **fields: Any) -> Object:
    return {**obj, "metadata": {**metadata_of(obj), **fields}}


def _with_name(obj: Object, old: Object, naming: Naming) -> Object | None:
    metadata = metadata_of(obj)
    if metadata.get("name") or metadata.get("generateName") or is_unknown(metadata.get("name")):
        return obj
    if is_annotated_true(old, ANNOTATION_AUTONAMED) and metadata_of(old).get("name"):
        name = metadata_of(old)["name"]
    elif naming.mode is NamingMode.DISABLE:
        return None
    else:
        name = naming.name()
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION_AUTONAMED: "true"}
    return _with_metadata(obj, name=name, annotations=annotations)


def _identity_failures(obj: Object) -> Iterator[CheckFailure]:
    for field in ("apiVersion", "kind"):
        if not isinstance(obj.get(field), str) or not obj[field]:
            yield CheckFailure(field, f"a Kubernetes object needs {field}")
    metadata = obj.get("metadata", {})
    if not isinstance(metadata, dict) and not is_unknown(metadata):
        yield CheckFailure("metadata", "must be an object")


def _value_failures(obj: Object) -> Iterator[CheckFailure]:
    metadata = metadata_of(obj)
    for field in ("labels", "annotations"):
        yield from _text_map(metadata.get(field), f"metadata.{field}")
    yield from _await_failures(obj)
    if obj.get("apiVersion") != "v1":
        return
    if obj["kind"] == "ConfigMap":
        yield from _text_map(obj.get("data"), "data")
    if obj["kind"] == "Secret":
        yield from _text_map(obj.get("stringData"), "stringData")
        data = obj.get("data")
        for key, value in data.items() if isinstance(data, dict) else ():
            if not is_unknown(value) and not _is_base64(value):
                yield CheckFailure(f"data.{key}", "must be base64; use stringData for plain text")


def _await_failures(obj: Object) -> Iterator[CheckFailure]:
    expression, timeout = annotation(obj, ANNOTATION_WAIT_FOR), annotation(obj, ANNOTATION_TIMEOUT)
    if expression is not None and not is_unknown(expression):
        try:
            wait_for.parse(expression)
        except wait_for.WaitForError as error:
            yield CheckFailure(f'metadata.annotations["{ANNOTATION_WAIT_FOR}"]', str(error))
    if timeout is not None and not is_unknown(timeout) and not timeout.isdecimal():
        yield CheckFailure(f'metadata.annotations["{ANNOTATION_TIMEOUT}"]', "must be a whole number of seconds")


def _text_map(value: Any, path: str) -> Iterator[CheckFailure]:
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if not isinstance(item, str):
            # The value itself is not shown: it may be a secret.
            yield CheckFailure(f"{path}.{key}", f"must be a string, not {type(item).__name__}; put it in quotes")


def _is_base64(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
