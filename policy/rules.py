"""The rules of the policy pack, as plain functions from properties to messages; no SDK, so that they are easily tested.

They check the resources of any program, so they assume nothing about their shape. A value that a preview cannot know
yet is `UNKNOWN` and is not checked. May import `scheduler.config` and nothing else of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, get_args

from pydantic import BaseModel

from scheduler.catalog import UNDECIDED_RULES
from scheduler.config import (
    KIND,
    OURS,
    ConfigurationError,
    Flavour,
    InvalidSpecError,
    SecondarySchedulerSpec,
    UnknownFlavourError,
    flavour_of,
    load_configuration,
    parse_spec,
    read_document,
)

SECONDARY_SCHEDULER = "kubernetes:operator.openshift.io/v1:SecondaryScheduler"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
CONFIG_KEY = "config.yaml"
UNKNOWN: Final = object()
_DEFAULT_NAME = "default-scheduler"
# Fields of the CRD that our operator does not act on; they are upstream's.
_UPSTREAM_FIELDS = frozenset({"unsupportedConfigOverrides", "observedConfig"})
_SECRET = re.compile(r"token|password|secret|bearer|credential", re.IGNORECASE)
_NOT_SECRET = re.compile(r"(file|path|name|seconds)$", re.IGNORECASE)
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_TAG = re.compile(r":([\w][\w.-]{0,127})$")

Properties = Mapping[str, Any]


def configuration_problems(scheduler: Properties, config_maps: Iterable[Properties]) -> Iterator[str]:
    """Yield the errors in the configuration that a SecondaryScheduler refers to, found by the scheduler's own code for
    the SecondaryScheduler's image. A ConfigMap that the program does not create is not checked."""
    spec = _mapping(scheduler.get("spec"))
    config_map = _config_map_of(scheduler, config_maps)
    if config_map is None:
        return
    name, data = config_map["metadata"]["name"], _mapping(config_map.get("data"))
    text = data.get(CONFIG_KEY)
    if text is UNKNOWN:
        return
    if not isinstance(text, str):
        keys = ", ".join(sorted(data)) or "none"
        yield f"ConfigMap {name}: no key {CONFIG_KEY}, which the scheduler reads (keys: {keys}); put the {KIND} there"
        return
    try:
        load_configuration(
            text,
            source=f"ConfigMap {name}, {CONFIG_KEY}",
            flavour=_flavour(spec.get("schedulerImage")),
            # Separate rules report these.
            allow_token_in_config_map=True,
            allow_default_scheduler_name=True,
            into_cluster=True,
            credential_rules=replace(
                UNDECIDED_RULES, allow_insecure=spec.get("allowInsecureMetricCredentials") in (True, UNKNOWN)
            ),
        )
    except ConfigurationError as error:
        yield from map(str, error.problems)


def default_name_problems(scheduler: Properties, config_maps: Iterable[Properties]) -> Iterator[str]:
    """Yield profiles named like the cluster's own scheduler, unless the SecondaryScheduler allows it explicitly."""
    config_map = _config_map_of(scheduler, config_maps)
    if config_map is None or _mapping(scheduler.get("spec")).get("allowDefaultSchedulerName") in (True, UNKNOWN):
        return
    text = _mapping(config_map.get("data")).get(CONFIG_KEY)
    for index, profile in enumerate(_profiles(text)):
        if profile.get("schedulerName") in (None, "", _DEFAULT_NAME):
            place = f"ConfigMap {config_map['metadata']['name']}, {CONFIG_KEY}: profiles[{index}].schedulerName"
            yield f"{place}: two schedulers named {_DEFAULT_NAME} would schedule the same pods; give it another name"


def token_problems(config_map: Properties) -> Iterator[str]:
    """Yield literal secrets in scheduler configurations, under any key of a ConfigMap; messages do not quote them."""
    for key, text in _mapping(config_map.get("data")).items():
        for path in _literal_secrets(_configuration(text), ()):
            place = f"data[{key}].{'.'.join(path)}"
            yield f"{place}: anyone who can read ConfigMaps can read it; use a Secret (spec.metricCredentials)"


def image_problems(scheduler: Properties, *, require_digest: bool = False) -> Iterator[str]:
    """Yield an image reference that is not pinned to a version, or with `require_digest` to a digest."""
    image = _mapping(scheduler.get("spec")).get("schedulerImage")
    if image is UNKNOWN:
        return
    if not isinstance(image, str) or not image:
        yield "spec.schedulerImage: missing; the operator has no default: write registry/repository:tag"
    elif _DIGEST.search(image):
        return
    elif require_digest:
        yield f"spec.schedulerImage: {image} has no digest; write registry/repository@sha256:…"
    elif (tag := _TAG.search(image)) is None or tag[1] == "latest":
        yield f"spec.schedulerImage: {image} has no version; use a tag other than latest, or a digest"


def field_problems(scheduler: Properties) -> Iterator[str]:
    """Yield fields of a SecondaryScheduler that the CRD does not have, and values that the operator cannot act on."""
    spec = _without_unknowns(_mapping(scheduler.get("spec")))
    for path, allowed in _unknown_fields(SecondarySchedulerSpec, spec, ("spec",), _UPSTREAM_FIELDS):
        yield f"{'.'.join(path)}: unknown field; allowed: {', '.join(sorted(allowed))}"
    try:
        parse_spec({"spec": spec})
    except InvalidSpecError as error:
        yield str(error)


def _config_map_of(scheduler: Properties, config_maps: Iterable[Properties]) -> Properties | None:
    name = _mapping(scheduler.get("spec")).get("schedulerConfig")
    namespace = _mapping(scheduler.get("metadata")).get("namespace")
    if not isinstance(name, str):
        return None
    for config_map in config_maps:
        metadata = _mapping(config_map.get("metadata"))
        if metadata.get("name") == name and UNKNOWN not in (namespace, metadata.get("namespace")):
            return config_map if metadata.get("namespace") == namespace else None
    return None


def _flavour(image: Any) -> Flavour:
    try:
        return flavour_of(image) if isinstance(image, str) and image else OURS
    except UnknownFlavourError:
        return OURS


def _configuration(text: Any) -> Mapping[str, Any]:
    """The KubeSchedulerConfiguration in a text; empty if it holds none."""
    if not isinstance(text, str) or KIND not in text:
        return {}
    try:
        document = read_document(text, "configuration").data
    except ConfigurationError:
        return {}
    return document if isinstance(document, Mapping) and document.get("kind") == KIND else {}


def _profiles(text: Any) -> Iterator[Mapping[str, Any]]:
    profiles = _configuration(text).get("profiles") or [{}] if _configuration(text) else []
    yield from (profile for profile in profiles if isinstance(profile, Mapping))


def _literal_secrets(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            key_path = (*path, str(key))
            if isinstance(item, str) and item and _SECRET.search(str(key)) and not _NOT_SECRET.search(str(key)):
                yield key_path
            else:
                yield from _literal_secrets(item, key_path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _literal_secrets(item, (*path[:-1], f"{path[-1]}[{index}]"))


def _unknown_fields(
    model: type[BaseModel], data: Mapping[str, Any], path: tuple[str, ...], also: frozenset[str] = frozenset()
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, value in data.items():
        if key in fields:
            inner = next(_models(fields[key].annotation), None)
            if inner is not None and isinstance(value, Mapping):
                yield from _unknown_fields(inner, value, (*path, key))
        elif key not in also:
            yield (*path, key), [*fields, *also]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _without_unknowns(value: Any) -> Any:
    """The value without `UNKNOWN` parts, and whole numbers as int: on the wire every number is a double."""
    if isinstance(value, Mapping):
        return {key: _without_unknowns(item) for key, item in value.items() if item is not UNKNOWN}
    if isinstance(value, list):
        return [_without_unknowns(item) for item in value if item is not UNKNOWN]
    return int(value) if isinstance(value, float) and value.is_integer() else value
