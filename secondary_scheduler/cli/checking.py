"""What a file is, and what is wrong with it: a configuration, a ConfigMap or SecondaryScheduler, or a stack file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scheduler.catalog import UNDECIDED_RULES, CredentialRules
from scheduler.config import (
    CONFIG_KEY,
    OURS,
    Configuration,
    ConfigurationError,
    Flavour,
    FoundConfiguration,
    Manifests,
    Problem,
)
from secondary_scheduler.cli import stackfile
from secondary_scheduler.cli.resource import Resource, read_resource
from secondary_scheduler.clusterstatus.customresource import KIND as RESOURCE

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
    for each in embedded:
        owner = next((resource for resource in resources if _reads(resource, each)), None)
        permitted, allowed, image = rules, allow_token or not each.key, flavour
        if owner is not None and owner.spec is not None:
            permitted, image = owner.spec.credential_rules, flavour or owner.flavour
            allowed = allow_token or owner.spec.allow_token_in_config_map
        yield _check(each, image, cluster_minor, allow_token=allowed, rules=permitted)


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
    configuration, problems = stackfile.check_stack(path, text)
    return Checked(str(path), "stack", configuration, problems)
