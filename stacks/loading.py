"""Loading the running stack: a valid one, or an error that lists everything wrong with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi.runtime.config as runtime_config

from components.settings import CheckedConfiguration, MetricCredentialValues
from scheduler.config import ConfigurationError, Problem
from stacks.applied import applied, log_changes, log_plan, own_state
from stacks.checking import check
from stacks.clusteraccess import Late, NotAsked
from stacks.clustercheck import ask, judge, shared_objects
from stacks.kubeconfig import KUBECONFIG_KEY, context_of
from stacks.problems import locate
from stacks.removal import check_removals
from stacks.settings import StackSettings

PROJECT_DIRECTORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Stack:
    """A stack whose settings are valid.

    Attributes:
        name: the stack's name.
        settings: what its file says.
        profile: the scheduler's configuration that follows from them.
        credentials: for the metric source.
        kubeconfig: the kubeconfig's content, secret; None: the provider reads $KUBECONFIG.
    """

    name: str
    settings: StackSettings
    profile: CheckedConfiguration
    credentials: MetricCredentialValues
    kubeconfig: pulumi.Output[str] | None = None

    @property
    def cluster_identifier(self) -> str:
        """The name under which the engine remembers the cluster: another one means another cluster."""
        return self.settings.cluster.cluster_identifier or self.name


def load_stack() -> Stack:
    """Read and check the running program's configuration, before any resource is registered.

    Raises:
        pulumi.RunError: the configuration cannot be used; the message has one line per problem.
    """
    name, project = pulumi.get_stack(), pulumi.get_project()
    prefix = f"{project}:"
    values = {
        key.removeprefix(prefix): value for key, value in runtime_config.CONFIG.get().items() if key.startswith(prefix)
    }
    encrypted = {key for key in values if runtime_config.is_config_secret(prefix + key)}
    shown = f"stacks/Pulumi.{name}.yaml"
    file = PROJECT_DIRECTORY / shown
    try:
        settings, profile, credentials = check(values, encrypted, os.environ, file.parent)
    except ConfigurationError as error:
        problems = locate(error.problems, file, project, source=shown)
        raise pulumi.RunError("\n".join(map(str, problems))) from None
    for warning in locate(profile.warnings, file, project, source=shown):
        pulumi.log.warn(str(warning))
    if settings.cluster.cluster_identifier is None:
        pulumi.log.info(
            f'cluster.clusterIdentifier is not set: it is the stack\'s name, "{name}"; set it before you rename the '
            "stack, because with another one every object is replaced"
        )
    state = own_state()
    stack = Stack(name, settings, profile, credentials, pulumi.Config(project).get_secret("kubeconfig"))
    check_removals(state, settings, profile, stack.cluster_identifier)
    if settings.check_cluster and pulumi.runtime.is_dry_run():
        problems = _check_cluster(stack, state)
        located = locate(problems, file, project, source=shown)
        if errors := [str(problem) for problem in located if problem.severity == "error"]:
            raise pulumi.RunError("\n".join(errors))
        for warning in located:
            pulumi.log.warn(str(warning))
    old = applied(state, profile.configuration)
    log_changes(old, profile.configuration)
    if settings.plan is not None and pulumi.runtime.is_dry_run():
        log_plan(settings.plan, file.parent, old.configuration, profile.configuration)
    return stack


def _check_cluster(stack: Stack, state: Mapping[str, Any]) -> list[Problem]:
    """What the cluster says against this stack. An update is not held up by a cluster that a preview cannot ask."""
    content = runtime_config.CONFIG.get().get(f"{pulumi.get_project()}:{KUBECONFIG_KEY}")
    context = context_of(stack.settings.cluster, content, os.environ)
    try:
        shared = shared_objects(stack.settings, stack.profile)
        answers = ask(context, stack.settings.namespace, shared)
    except NotAsked as error:
        unchecked = "its version, another installation and the owner of the namespace"
        # The provider connects on its own, and a preview is not done before it has given up, too.
        then = "; the Kubernetes provider tries next, and may wait longer" if isinstance(error, Late) else ""
        pulumi.log.info(f"the cluster was not asked ({error}), so {unchecked} are not checked{then}")
        return []
    for unknown in answers.unknown:
        pulumi.log.info(f"not checked on the cluster: {unknown}")
    return list(judge(answers, stack.name, stack.settings, stack.profile, state))
