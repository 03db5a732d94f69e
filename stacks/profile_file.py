"""The scheduler's configuration from a KubeSchedulerConfiguration file next to the stack file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.settings import (
    SECRET_ARGUMENT,
    TOKEN_IN_CONFIG_MAP,
    CheckedConfiguration,
    CredentialFiles,
    MetricCredentialValues,
    ProfileSettings,
    checked_configuration,
)
from scheduler.catalog import CredentialRules, Loc
from scheduler.config import (
    Configuration,
    ConfigurationError,
    Flavour,
    Problem,
    bound_rules,
    find_configuration,
    render,
)
from stacks.settings import StackSettings

_KEY = "configurationFile"
_REPLACED_SETTINGS = ("schedulerName", "plugins", "profiles", "compatibility")
_SET_IN_FILE = {
    "nodePartition": "addedAffinity in the args of NodeAffinity",
    "sharedNodes": "recheckNodesAbovePercent in the args of SecondarySchedulerOptions",
    "shadow": "a second profile, and shadow in the args of SecondarySchedulerOptions",
    "explainAnnotation": "explainAnnotation in the args of SecondarySchedulerOptions",
}
_NOT_SECRET = re.compile(r"(file|path|seconds)$", re.IGNORECASE)


def configuration_from_file(
    settings: StackSettings,
    credentials: MetricCredentialValues,
    directory: Path,
    flavour: Flavour,
    cluster_minor: int | None = None,
) -> tuple[CheckedConfiguration | None, list[Problem]]:
    """Read and check the file that the settings refer to.

    Args:
        settings: with `configuration_file`.
        credentials: what the stack provides for the metric source.
        directory: the folder of the stack file.
        flavour: of the scheduler's image.
        cluster_minor: minor version of the cluster, which profiles follow that name none; None: not known.

    Returns:
        the configuration, or None and its problems; those of the file have its name, line and column.
    """
    name = settings.configuration_file or ""
    shown = f"{directory.name}/{name}"
    problems = list(_duplicate_settings(settings, name))
    provider = settings.metric_provider
    if provider is not None and provider.credentials is not None and provider.credentials.allow_token_in_config_map:
        message = f"is for plugins of the stack file; with {_KEY}, let {name} name a load-watcher (watcherAddress)"
        problems.append(Problem(TOKEN_IN_CONFIG_MAP, message))
    try:
        text = (directory / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        message = f'cannot read "{shown}": {reason}; give a file relative to the folder of the stack file'
        return None, [*problems, Problem((_KEY,), message)]

    def load(bound: CredentialRules | None) -> Configuration:
        return find_configuration(text, shown).load(
            flavour=flavour,
            allow_default_scheduler_name=settings.allow_default_scheduler_name,
            into_cluster=True,
            credential_rules=bound,
            cluster_minor=cluster_minor,
        )

    try:
        configuration = load(bound_rules(load(None), credentials.rules))
    except ConfigurationError as error:
        return None, [*problems, *(_from_file(problem) for problem in error.problems)]
    problems += _secrets_in_args(configuration.data, shown)
    if problems:
        return None, problems
    warnings = [_from_file(problem) for problem in configuration.warnings]
    warnings += _unused_token(configuration, credentials.files, shown)
    # Comments are dropped: the ConfigMap is immutable and its name depends only on the data.
    content = render(configuration.data)
    return checked_configuration(content, configuration, warnings, flavour, credentials.rules), []


def _duplicate_settings(settings: StackSettings, name: str) -> Iterator[Problem]:
    fields = {field.alias or key: (key, field) for key, field in ProfileSettings.model_fields.items()}
    for alias in _REPLACED_SETTINGS:
        key, field = fields[alias]
        if getattr(settings, key) != field.default:
            yield Problem((alias,), f"is already set in {name}; remove it here, or remove {_KEY}")
    for alias, place in _SET_IN_FILE.items():
        key, field = fields[alias]
        if getattr(settings, key) != field.default:
            yield Problem((alias,), f"has no effect on {name}; set {place} there, and remove it here")
    provider = settings.metric_provider
    if provider is not None and provider.load_watcher is not None:
        message = f"is for plugins of the stack file; with {_KEY}, let {name} name a load-watcher (watcherAddress)"
        yield Problem(("metricProvider", "loadWatcher"), message)
    elif provider is not None and provider.type is not None:
        message = f"the metric source is already set in {name}; keep only credentials here, or remove {_KEY}"
        yield Problem(("metricProvider",), message)


def _from_file(problem: Problem) -> Problem:
    if problem.loc[-2:] != ("metricProvider", "token"):
        return problem
    hint = "remove it; the stack's metricProvider.credentials mount the scheduler's token into its pod"
    return replace(problem, hint=hint)


def _secrets_in_args(data: Mapping[str, Any], source: str) -> Iterator[Problem]:
    """Yield what looks like a secret in args of unknown plugins; those of known plugins have been checked."""
    for index, profile in enumerate(data.get("profiles") or ()):
        for number, entry in enumerate(profile.get("pluginConfig") or ()):
            at: Loc = ("profiles", index, "pluginConfig", number, "args")
            for location in _secrets(entry.get("args"), at):
                message = f"must not hold {location[-1]}: it would end up in a ConfigMap; mount it from a Secret"
                yield Problem(location, message, source=source)


def _secrets(value: Any, at: Loc) -> Iterator[Loc]:
    if isinstance(value, dict):
        for key, nested in value.items():
            below = (*at, key)
            if isinstance(nested, str) and nested and SECRET_ARGUMENT.search(key) and not _NOT_SECRET.search(key):
                yield below
            else:
                yield from _secrets(nested, below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secrets(item, (*at, index))


def _unused_token(configuration: Configuration, files: CredentialFiles, source: str) -> Iterator[Problem]:
    if files.token is None or not configuration.flavour.is_ours:
        return
    if all(profile.options.load.token_file != files.token for profile in configuration.profiles):
        message = (
            f"the token is mounted at {files.token}, but no profile reads it; set it in the args of "
            f"SecondarySchedulerOptions: load: {{tokenFile: {files.token}}}"
        )
        yield Problem(("profiles",), message, source=source)
