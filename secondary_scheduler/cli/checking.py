"""What a file is, and what is wrong with it: a configuration, a ConfigMap or SecondaryScheduler, or a stack file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from scheduler.catalog import UNDECIDED_RULES, CredentialRules
from scheduler.config import KIND, OURS, Configuration, ConfigurationError, Flavour, Problem, load_configuration
from secondary_scheduler.cli import stackfile
from secondary_scheduler.cli.resource import KIND as RESOURCE
from secondary_scheduler.cli.resource import Resource, read_resource

CONFIG_KEY = "config.yaml"
"""The key that the operator reads."""
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
    """

    file: str
    kind: str
    configuration: Configuration | None
    problems: tuple[Problem, ...]

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return all(problem.severity == "warning" for problem in self.problems)


@dataclass(frozen=True)
class Embedded:
    """A configuration inside another document, and how its lines and columns are found there."""

    text: str
    key: str
    first_line: int
    indent: int

    def in_outer_file(self, problem: Problem) -> Problem:
        """Return the problem with its place in the outer file."""
        loc = ("data", self.key, *problem.loc)
        if not self.first_line or not problem.line:
            return replace(problem, loc=loc, line=self.first_line, column=1 if self.first_line else 0)
        return replace(problem, loc=loc, line=problem.line + self.first_line - 1, column=problem.column + self.indent)


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
    roots = _documents(text)
    config_maps = [root for root in roots if _scalar(root, "kind") == "ConfigMap"]
    resources = [read_resource(root, str(path)) for root in roots if _scalar(root, "kind") == RESOURCE]
    for resource in resources:
        yield Checked(str(path), RESOURCE, None, resource.problems)
    if not config_maps and not resources:
        configuration, problems = _check(text, str(path), flavour, cluster_minor, allow_token=True, rules=rules)
        yield Checked(str(path), KIND, configuration, problems)
    for root in config_maps:
        owner = _owner(root, resources)
        if owner is None or owner.spec is None:
            yield _config_map(path, text, root, flavour, cluster_minor, allow_token=allow_token, rules=rules)
            continue
        allowed = allow_token or owner.spec.allow_token_in_config_map
        permitted = owner.spec.credential_rules
        yield _config_map(
            path, text, root, flavour or owner.flavour, cluster_minor, allow_token=allowed, rules=permitted
        )


def _check(
    text: str, source: str, flavour: Flavour | None, minor: int | None, *, allow_token: bool, rules: CredentialRules
) -> tuple[Configuration | None, tuple[Problem, ...]]:
    try:
        configuration = load_configuration(
            text,
            source=source,
            flavour=flavour or OURS,
            allow_token_in_config_map=allow_token,
            allow_default_scheduler_name=True,
            strict_names=True,
            credential_rules=rules,
            cluster_minor=minor,
        )
    except ConfigurationError as error:
        return None, (*error.problems, *error.warnings)
    return configuration, configuration.warnings


def _config_map(
    path: Path,
    text: str,
    root: MappingNode,
    flavour: Flavour | None,
    minor: int | None,
    *,
    allow_token: bool,
    rules: CredentialRules,
) -> Checked:
    data = _child_node(root, "data")
    entries = {str(key.value): value for key, value in data.value} if isinstance(data, MappingNode) else {}
    chosen = (
        CONFIG_KEY if CONFIG_KEY in entries else next((k for k, v in entries.items() if KIND in str(v.value)), None)
    )
    if chosen is None or not isinstance(entries[chosen], ScalarNode):
        line = root.start_mark.line + 1
        keys = ", ".join(entries) or "none"
        message = f"the ConfigMap has no key {CONFIG_KEY} (its keys: {keys})"
        hint = f"put the {KIND} there as text"
        return Checked(str(path), "ConfigMap", None, (Problem(("data",), message, line, 1, "error", hint, str(path)),))
    inner = _embedded(text, chosen, entries[chosen])
    configuration, inner_problems = _check(inner.text, str(path), flavour, minor, allow_token=allow_token, rules=rules)
    problems = [inner.in_outer_file(problem) for problem in inner_problems]
    if chosen != CONFIG_KEY:
        message = f"the operator reads the key {CONFIG_KEY}, not {chosen}"
        problems.append(
            Problem(("data",), message, inner.first_line, 1, "warning", "rename it for the operator", str(path))
        )
    return Checked(str(path), "ConfigMap", configuration, tuple(problems))


def _embedded(text: str, key: str, node: ScalarNode) -> Embedded:
    value = str(node.value)
    first = node.start_mark.line + 1
    if node.style != "|":
        return Embedded(value, key, first, 0)
    lines = text.splitlines()[first:]
    outer = next((line for line in lines if line.strip()), "")
    inner = next((line for line in value.splitlines() if line.strip()), "")
    return Embedded(value, key, first + 1, len(outer) - len(outer.lstrip()) - (len(inner) - len(inner.lstrip())))


def _stack(path: Path, text: str) -> Checked:
    configuration, problems = stackfile.check_stack(path, text)
    return Checked(str(path), "stack", configuration, problems)


def _documents(text: str) -> list[MappingNode]:
    """The maps among a text's documents; none where it is no YAML, which the check of the configuration reports."""
    try:
        return [root for root in YAML(pure=True).compose_all(text) if isinstance(root, MappingNode)]
    except (YAMLError, ValueError, RecursionError):
        return []


def _owner(config_map: MappingNode, resources: Iterable[Resource]) -> Resource | None:
    """The SecondaryScheduler of the same file that reads a ConfigMap, and so says for which image it is."""
    metadata = _child_node(config_map, "metadata")
    name = _scalar(metadata, "name") if isinstance(metadata, MappingNode) else ""
    return next((each for each in resources if each.spec is not None and each.spec.scheduler_config == name), None)


def _child_node(root: MappingNode, key: str) -> Node | None:
    return next((value for name, value in root.value if str(name.value) == key), None)


def _scalar(root: MappingNode, key: str) -> str:
    child = _child_node(root, key)
    return str(child.value) if isinstance(child, ScalarNode) else ""
