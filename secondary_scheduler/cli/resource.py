"""Checking the manifest of a SecondaryScheduler: what the operator would say about its spec, with lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from scheduler.catalog import INSTANCE_NAME, LOG_VERBOSITY, CredentialRules, Loc
from scheduler.config import (
    ClusterVersions,
    Flavour,
    InvalidSpecError,
    Problem,
    SecondarySchedulerSpec,
    UnknownFlavourError,
    custom_flavour,
    flavour_named,
    incompatibilities,
    nearest,
    parse_spec,
)
from secondary_scheduler.clusterstatus.customresource import API_VERSION

_OF_UPSTREAM = frozenset({"observedConfig", "unsupportedConfigOverrides"})
"""Fields that upstream's operator has and ours does not read."""


@dataclass(frozen=True)
class Resource:
    """A SecondaryScheduler as a manifest has it.

    Attributes:
        spec: None if the operator could not act on it.
        problems: in the order of the file.
    """

    spec: SecondarySchedulerSpec | None
    problems: tuple[Problem, ...]

    @property
    def flavour(self) -> Flavour | None:
        """What its image is; None without an image."""
        if self.spec is None or not self.spec.scheduler_image:
            return None
        flavour = self.spec.image_flavour
        return custom_flavour(self.spec.extra_image_plugins) if flavour.family == "custom" else flavour

    def rules(self, otherwise: CredentialRules) -> CredentialRules:
        """What it permits with credentials."""
        return otherwise if self.spec is None else self.spec.credential_rules


def read_resource(root: MappingNode, source: str) -> Resource:
    """Read and check one document."""
    data: dict[str, Any] = _data(root)
    problems = [
        Problem(loc, message, *_position(root, loc), source=source, hint=hint) for loc, message, hint in _problems(data)
    ]
    try:
        resource = Resource(parse_spec(data), ())
    except InvalidSpecError:
        return Resource(None, tuple(problems))
    for loc, message, hint in _doubts(data, resource):
        problems.append(Problem(loc, message, *_position(root, loc), "warning", hint, source))
    return replace(resource, problems=tuple(sorted(problems, key=lambda problem: (problem.line, problem.column))))


def _doubts(data: dict[str, Any], resource: Resource) -> Iterator[tuple[Loc, str, str]]:
    """Location, message and hint of what is valid and may not do what is meant."""
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(name, str) and name != INSTANCE_NAME:
        message = f'upstream\'s operator acts on the SecondaryScheduler named "{INSTANCE_NAME}" only'
        hint = f"call it {INSTANCE_NAME}, or run this project's operator, which takes any name"
        yield ("metadata", "name"), message, hint
    flavour = resource.flavour
    if resource.spec is not None and flavour is not None:
        for known in incompatibilities(ClusterVersions(), None, resource.spec.scheduler_image, flavour):
            message, _, hint = known.message.partition("; ")
            yield ("spec", "schedulerImage"), message, hint


def _problems(data: dict[str, Any]) -> Iterator[tuple[Loc, str, str]]:
    """Location, message and hint of everything that is wrong."""
    if data.get("apiVersion") != API_VERSION:
        yield ("apiVersion",), f"must be {API_VERSION}", ""
    spec = data.get("spec")
    if not isinstance(spec, dict):
        yield ("spec",), "must be a map", "name schedulerConfig and schedulerImage"
        return
    yield from _unknown_fields(spec, SecondarySchedulerSpec, ("spec",), _OF_UPSTREAM)
    try:
        parsed = parse_spec(data)
    except InvalidSpecError as error:
        for text in str(error).split("; spec."):
            path, _, message = text.removeprefix("spec.").partition(": ")
            yield ("spec", *_parts(path)), message, ""
        return
    for field, value, hint in (
        ("schedulerConfig", parsed.scheduler_config, "name the ConfigMap with the configuration"),
        ("schedulerImage", parsed.scheduler_image, "name the scheduler's image"),
    ):
        if not value and parsed.management_state != "Removed":
            yield ("spec", field), "missing", hint
    for field, level in (("logLevel", parsed.log_level), ("operatorLogLevel", parsed.operator_log_level)):
        if level and level not in LOG_VERBOSITY:
            yield (
                ("spec", field),
                f'"{level}" is not allowed',
                nearest(level, LOG_VERBOSITY) or ", ".join(LOG_VERBOSITY),
            )
    if parsed.flavour:
        try:
            flavour_named(parsed.flavour)
        except UnknownFlavourError as error:
            yield ("spec", "flavour"), str(error), ""


def _unknown_fields(
    value: Any, model: type[BaseModel], at: Loc, beside: frozenset[str] = frozenset()
) -> Iterator[tuple[Loc, str, str]]:
    """The API server drops fields that the CRD does not have; here they are mistakes."""
    if not isinstance(value, dict):
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, inner in value.items():
        if key in fields:
            for nested in _models(fields[key].annotation):
                for index, item in enumerate(inner if isinstance(inner, list) else [inner]):
                    place: Loc = (*at, key, index) if isinstance(inner, list) else (*at, key)
                    yield from _unknown_fields(item, nested, place)
        elif key not in beside:
            yield (*at, str(key)), f'unknown field "{key}"', nearest(str(key), fields) or ""


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _parts(path: str) -> Loc:
    return tuple(int(part) if part.isdecimal() else part for part in path.split(".") if part)


def _data(root: MappingNode) -> dict[str, Any]:
    data: dict[str, Any] = YAML(typ="safe", pure=True).constructor.construct_document(root)
    return data


def _position(root: Node, loc: Loc) -> tuple[int, int]:
    """Line and column of a field, or of the closest one around it that is there."""
    node, mark = root, root.start_mark
    for part in loc:
        if isinstance(node, MappingNode):
            entry = next(((key, value) for key, value in node.value if key.value == part), None)
            if entry is None:
                break
            mark, node = entry[0].start_mark, entry[1]
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            mark = node.start_mark
        else:
            break
    return mark.line + 1, mark.column + 1
