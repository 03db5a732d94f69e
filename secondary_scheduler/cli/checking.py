"""What a file is, and what is wrong with it: a configuration, a ConfigMap or SecondaryScheduler, or a stack file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from scheduler.catalog import INSTANCE_NAME, LOG_VERBOSITY, UNDECIDED_RULES, CredentialRules, Loc
from scheduler.config import (
    CONFIG_KEY,
    OURS,
    ClusterVersions,
    Configuration,
    ConfigurationError,
    Flavour,
    FoundConfiguration,
    InvalidSpecError,
    Manifests,
    Problem,
    SecondarySchedulerSpec,
    UnknownFlavourError,
    custom_flavour,
    flavour_named,
    incompatibilities,
    nearest,
    parse_spec,
)
from secondary_scheduler.cli import stackfile
from secondary_scheduler.clusterstatus.installations import API_VERSION, KIND as RESOURCE

UNREADABLE = "file"
"""Kind of a file that could not be checked at all."""


@dataclass(frozen=True)
class Checked:
    """The result for one configuration in a file.

    Attributes:
        file: as the user named it.
        kind: `KubeSchedulerConfiguration`, `ConfigMap`, `SecondaryScheduler` or `stack`; `file` where it could not be
            read.
        configuration: what it means; None if it is not valid, and for a SecondaryScheduler.
        problems: errors and warnings in the order of the file.
        title: which configuration of the file it is; empty if it is the file.
    """

    file: str
    kind: str
    configuration: Configuration | None
    problems: tuple[Problem, ...]
    title: str = ""

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return all(problem.severity == "warning" for problem in self.problems)


def unreadable(file: str, error: Exception) -> Checked:
    """The result for a file that could not be checked at all."""
    problem = Problem((), str(error).removeprefix(f"{file}: "), source=file)
    return Checked(file, UNREADABLE, None, (problem,))


def check_file(
    path: Path,
    text: str,
    flavour: Flavour | None,
    *,
    allow_token: bool,
    rules: CredentialRules = UNDECIDED_RULES,
    cluster_minor: int | None = None,
) -> Iterator[Checked]:
    """Check every configuration in a file. `flavour` overrides the one of a stack's image; the default is ours.

    `rules` say which credentials for metric sources are allowed; a stack's file says so itself. `cluster_minor` is the
    minor version of the cluster; None where it is not known, or the stack's file says it.
    """
    if stackfile.is_stack_file(path, text):
        yield _stack(path, text)
        return
    source = str(path)
    manifests = Manifests(text, source)
    resources = [read_resource(root, source) for root in manifests.of_kind(RESOURCE)]
    for resource in resources:
        yield Checked(source, RESOURCE, None, resource.problems)
    try:
        embedded = manifests.configurations()
    except ConfigurationError as error:
        if not resources or manifests.of_kind("ConfigMap"):
            yield Checked(source, UNREADABLE, None, error.problems)
        return
    for document in embedded:
        owner = next((resource for resource in resources if _reads(resource, document)), None)
        permitted, allowed, image = rules, allow_token or not document.key, flavour
        if owner is not None and owner.spec is not None:
            permitted, image = owner.spec.credential_rules, flavour or owner.flavour
            allowed = allow_token or owner.spec.allow_token_in_config_map
        yield _check(document, image, cluster_minor, allow_token=allowed, rules=permitted)


def _check(
    embedded: FoundConfiguration,
    flavour: Flavour | None,
    minor: int | None,
    *,
    allow_token: bool,
    rules: CredentialRules,
) -> Checked:
    configuration: Configuration | None = None
    problems: tuple[Problem, ...]
    try:
        configuration = embedded.load(
            flavour=flavour or OURS,
            allow_token_in_config_map=allow_token,
            allow_default_scheduler_name=True,
            into_cluster=True,
            credential_rules=rules,
            cluster_minor=minor,
        )
        problems = configuration.warnings
    except ConfigurationError as error:
        problems = (*error.problems, *error.warnings)
    if embedded.key not in ("", CONFIG_KEY):
        message, hint = f"the operator reads the key {CONFIG_KEY}, not {embedded.key}", "rename it for the operator"
        problems += (Problem(("data",), message, embedded.line, 1, "warning", hint, embedded.source),)
    return Checked(embedded.source, embedded.kind, configuration, problems, embedded.title)


def _reads(resource: Resource, embedded: FoundConfiguration) -> bool:
    """Whether a SecondaryScheduler reads the ConfigMap, and so says for which image it is."""
    return bool(embedded.key) and resource.spec is not None and resource.spec.scheduler_config == embedded.owner


def _stack(path: Path, text: str) -> Checked:
    stack = stackfile.examine_stack(path, text)
    return Checked(str(path), "stack", stack.configuration, stack.problems)


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
        for incompatibility in incompatibilities(ClusterVersions(), None, resource.spec.scheduler_image, flavour):
            message, _, hint = incompatibility.message.partition("; ")
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
