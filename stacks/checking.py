"""Checking a stack: its settings, the scheduler's configuration that follows from them, and the credentials.

Does not import pulumi, so that the command line can check a stack file without an engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from components.settings import (
    CREDENTIALS,
    SECRET_ARGUMENT,
    TOKEN_IN_CONFIG_MAP,
    CheckedConfiguration,
    CredentialFiles,
    CredentialSettings,
    MetricCredentialValues,
    OptInPlan,
    ProfileSettings,
    ReadSettings,
    build_profile,
    checked_configuration,
    flavour_of_settings,
    mounted_credentials,
    plan_beside,
    read_settings,
    shown_value,
    unset_variable,
)
from scheduler.catalog import Loc
from scheduler.config import (
    Configuration,
    ConfigurationError,
    Flavour,
    Problem,
    find_configuration,
    render,
)
from stacks.image import check_versions, cluster_minor, credential_warnings, overridden_key_warnings
from stacks.kubeconfig import KUBECONFIG_KEY, check_kubeconfig
from stacks.settings import StackSettings

DIRECTORY = Path(__file__).resolve().parent


def _keys(is_such: Callable[[Any], bool]) -> frozenset[str]:
    """The settings of such a type, or of one that may also be absent."""
    return frozenset(
        field.alias or name
        for name, field in StackSettings.model_fields.items()
        if any(is_such(_bare(kind)) for kind in (field.annotation, *get_args(field.annotation)))
    )


def _bare(kind: Any) -> Any:
    """The type without the limits of a value that may also be absent: `Annotated[int, …] | None`."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


# What the engine passes as text; structured values are JSON.
_BOOLEANS, _NUMBERS = _keys(lambda kind: kind is bool), _keys(lambda kind: kind is int)
_OBJECTS = _keys(
    lambda kind: get_origin(kind) in (tuple, dict) or (isinstance(kind, type) and issubclass(kind, BaseModel))
)


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
    problems += separate_keys(document, _OBJECTS)
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
            profile, planned = plan_beside(
                profile,
                settings,
                opt_in=settings.opt_in,
                rebalance=settings.rebalance,
                page=settings.page,
                mode=settings.install_mode,
                upstream=settings.operator.is_upstream(settings.install_mode),
                minor=cluster_minor(settings),
            )
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


def opt_in_of(_settings: StackSettings, profile: CheckedConfiguration) -> OptInPlan | None:
    """Return what opts pods in; the command line asks so, of projects of other versions too."""
    return profile.opt_in


def _document(values: Mapping[str, str]) -> dict[str, Any]:
    """The values with their types; a value that does not parse stays text, and the models reject it."""
    document: dict[str, Any] = {}
    for key, text in values.items():
        if key in _OBJECTS:
            try:
                document[key] = json.loads(text)
            except ValueError:
                document[key] = text
        elif key in _BOOLEANS and text in ("true", "false"):
            document[key] = text == "true"
        elif key in _NUMBERS and text.isdecimal():
            document[key] = int(text)
        elif text:  # Pulumi.yaml's default of a required key is empty
            document[key] = text
    return document


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

    try:
        configuration = find_configuration(text, shown).load(
            flavour=flavour,
            allow_default_scheduler_name=settings.allow_default_scheduler_name,
            into_cluster=True,
            credential_rules=credentials.rules,
            with_own_address=True,
            cluster_minor=cluster_minor,
        )
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


TOKEN_KEY = "prometheusToken"  # noqa: S105 - the name of the key
SECRET_KEYS = ("kubeconfig", TOKEN_KEY)


def find_credentials(
    credentials: CredentialSettings | None, secrets: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[MetricCredentialValues, list[Problem]]:
    """Read the credentials from the stack's encrypted keys and from files named by environment variables.

    Returns the values and the problems found; values that could not be read are missing.
    """
    if credentials is None or credentials.token is None:
        return mounted_credentials(credentials), []
    problems: list[Problem] = []
    token, authority = "", ""
    if credentials.token.secret_key is not None:
        token = secrets.get(TOKEN_KEY, "").strip()
        if not token:
            hint = f"set it: pulumi config set --secret {TOKEN_KEY}"
            problems.append(Problem((TOKEN_KEY,), f"missing, but metricProvider.credentials refers to it; {hint}"))
    else:
        token = _read((*CREDENTIALS, "token"), credentials.token.from_file_in_env or "", environment, problems)
    if credentials.allow_token_in_config_map:
        return replace(mounted_credentials(credentials), config_map_token=token), problems
    if credentials.ca_file is not None:
        authority = _read((*CREDENTIALS, "caFile"), credentials.ca_file.from_file_in_env, environment, problems)
    values = mounted_credentials(credentials, has_authority=bool(authority))
    return replace(values, token=token, certificate_authority=authority or None), problems


def misplaced_secrets(encrypted: Collection[str], present: Collection[str]) -> list[Problem]:
    """Return a problem for each secret in plain text, and for each encrypted value under a key that is not secret."""
    problems = [
        Problem((key,), f"is stored in plain text; encrypt it: pulumi config set --secret {key}")
        for key in SECRET_KEYS
        if key in present and key not in encrypted
    ]
    hint = f"secrets belong under {' or '.join(SECRET_KEYS)}"
    problems += [
        Problem((key,), f"holds an encrypted value, which would be stored in plain text; {hint}")
        for key in sorted(encrypted)
        if key not in SECRET_KEYS
    ]
    return problems


def _read(at: Loc, name: str, environment: Mapping[str, str], problems: list[Problem]) -> str:
    location = (*at, "fromFileInEnv")
    path = environment.get(name)
    if not path:
        problems.append(Problem(location, unset_variable(name)))
        return ""
    try:
        content = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        problems.append(Problem(location, f"cannot read {path} (from {name}): {reason}"))
        return ""
    if not content:
        problems.append(Problem(location, f"{path} (from {name}) is empty"))
    return content


_OPERATOR_IMAGE = ("operatorImage", "localhost/secondary-scheduler/operator:0")
_STAND_INS = {
    "schedulerImage": ("schedulerImage", "localhost/secondary-scheduler/kube-scheduler:0"),
    "operatorImage": _OPERATOR_IMAGE,
    "operator_image": _OPERATOR_IMAGE,  # as pydantic calls it where its default is wrong
}
"""Images in place of wrong or missing ones, so that everything else can be checked."""


def read_stack_settings(document: dict[str, Any]) -> ReadSettings[StackSettings]:
    """Read the settings; a wrong one is left out, so that the others can still be checked against each other."""
    return read_settings(document, StackSettings, _STAND_INS)


def separate_keys(document: MutableMapping[str, Any], structured: Collection[str]) -> list[Problem]:
    """Take keys such as `cluster.context` out of the document, and return a problem for each.

    `pulumi config set` without --path makes such a key of its own, which means nothing."""
    problems = []
    for key in [key for key in document if "." in key and key.partition(".")[0].partition("[")[0] in structured]:
        value = shown_value((key,), document.pop(key))
        commands = f"pulumi config rm {quote(key)} && pulumi config set --path {quote(key)} {value}"
        problems.append(Problem((key,), f"is a key of its own, because --path was missing; run: {commands}"))
    return problems
