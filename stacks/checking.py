"""Checking a stack: its settings, the scheduler's configuration that follows from them, and the credentials.

Does not import pulumi, so that the command line can check a stack file without an engine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.settings import (
    CheckedConfiguration,
    MetricCredentialValues,
    OptInPlan,
    build_profile,
    flavour_of_settings,
    plan_opt_in,
    plan_page,
    plan_rebalancer,
    scrape_problems,
)
from scheduler.config import ConfigurationError, Problem
from stacks.credentials import SECRET_KEYS, find_credentials, misplaced_secrets
from stacks.image import check_versions, cluster_minor, credential_warnings, overridden_key_warnings
from stacks.kubeconfig import KUBECONFIG_KEY, check_kubeconfig
from stacks.profile_file import configuration_from_file
from stacks.reading import read_stack_settings, separate_keys
from stacks.settings import StackSettings

OBJECTS = (
    "cluster",
    "plugins",
    "metricProvider",
    "operator",
    "profiles",
    "shadow",
    "extraPlugins",
    "optionalObjects",
    "alerts",
    "optIn",
    "rebalance",
    "page",
    "allowedImages",
    "forceConflicts",
    "egressPorts",
    "scrapeNamespaces",
    "resources",
    "nodePartition",
    "sharedNodes",
    "plan",
    "tracing",
)
DIRECTORY = Path(__file__).resolve().parent
BOOLEANS = (
    "protect",
    "allowDefaultSchedulerName",
    "installPluginCrds",
    "retainCrds",
    "adoptExisting",
    "allowRemoval",
    "checkCluster",
    "explainAnnotation",
)
NUMBERS = ("replicas", "readySeconds")


def check(
    values: Mapping[str, str],
    encrypted: Collection[str],
    environment: Mapping[str, str],
    directory: Path = DIRECTORY,
    *,
    with_kubeconfig: bool = True,
) -> tuple[StackSettings, CheckedConfiguration, MetricCredentialValues]:
    """Check the values of this project's keys and return settings, scheduler configuration and credentials.

    Args:
        values: text by key, without the project's prefix, as the engine passes them: structured values are JSON.
        encrypted: the keys that are encrypted in the stack file.
        environment: the environment variables of the `pulumi` process.
        directory: the folder of the stack file, which `configurationFile` is relative to.
        with_kubeconfig: also check the kubeconfig, which is not part of the stack file.

    Raises:
        ConfigurationError: with every problem found; `stacks.problems.locate` adds file and line.
    """
    problems = misplaced_secrets(encrypted, values)
    document = _document({key: value for key, value in values.items() if key not in SECRET_KEYS})
    problems += separate_keys(document, OBJECTS)
    read = read_stack_settings(document)
    problems += read.problems
    settings, later = read.settings, []
    if settings is not None and with_kubeconfig:
        later += check_kubeconfig(settings.cluster, values.get(KUBECONFIG_KEY), environment)
    profile, credentials = None, MetricCredentialValues()
    if settings is not None:
        provider = settings.metric_provider
        secrets = {key: values[key] for key in SECRET_KEYS if key in values}
        credentials, part_problems = find_credentials(provider.credentials if provider else None, secrets, environment)
        later += part_problems
        image = None if read.lacks("schedulerImage") else settings.scheduler_image
        flavour, part_problems = flavour_of_settings(settings, image)
        later += part_problems
        if not part_problems and not read.lacks("flavour", "extraPlugins"):
            minor = cluster_minor(settings)
            if settings.configuration_file is not None:
                profile, part_problems = configuration_from_file(settings, credentials, directory, flavour, minor)
            else:
                profile, part_problems = build_profile(settings, credentials, environment, flavour, minor)
            later += part_problems
        if profile is not None:
            versions = check_versions(settings, flavour) if settings.compatibility_check != "off" else []
            later += versions if settings.compatibility_check == "fail" else []
            version_warnings = versions if settings.compatibility_check == "warn" else []
            names = profile.configuration.scheduler_names
            _, opt_in = plan_opt_in(settings.opt_in, names, cluster_minor(settings))
            pruned_by = settings.rebalance_pruned_by
            _, rebalance = plan_rebalancer(settings.rebalance, profile.configuration, pruned_by=pruned_by)
            _, page = plan_page(settings.page, profile.configuration)
            planned = [*opt_in, *rebalance, *page, *_scrape_problems(settings)]
            later += [problem for problem in planned if problem.severity == "error"]
            warnings = [
                *profile.warnings,
                *version_warnings,
                *overridden_key_warnings(settings, profile.configuration),
                *credential_warnings(settings, flavour),
                *(problem for problem in planned if problem.severity == "warning"),
            ]
            profile = replace(profile, warnings=tuple(replace(warning, severity="warning") for warning in warnings))
    problems += [problem for problem in later if not read.concerns(problem)]
    if problems or settings is None or profile is None:
        raise ConfigurationError(problems)
    return settings, profile, credentials


def opt_in_of(settings: StackSettings, profile: CheckedConfiguration) -> OptInPlan | None:
    """Return what opts pods in, of a stack that has been checked; None if nothing does."""
    # Its problems have been reported with those of all other settings.
    plan, _ = plan_opt_in(settings.opt_in, profile.configuration.scheduler_names, cluster_minor(settings))
    return plan


def _scrape_problems(settings: StackSettings) -> list[Problem]:
    mode = settings.install_mode
    return scrape_problems(
        settings.scrape_namespaces,
        mode,
        upstream=settings.operator.is_upstream(mode),
        network_policy=settings.optional_objects.network_policy,
    )


def _document(values: Mapping[str, str]) -> dict[str, Any]:
    """The values with their types; a value that does not parse stays text, and the models reject it."""
    document: dict[str, Any] = {}
    for key, text in values.items():
        if key in OBJECTS:
            try:
                document[key] = json.loads(text)
            except ValueError:
                document[key] = text
        elif key in BOOLEANS and text in ("true", "false"):
            document[key] = text == "true"
        elif key in NUMBERS and text.isdecimal():
            document[key] = int(text)
        elif text:  # Pulumi.yaml's default of a required key is empty
            document[key] = text
    return document
