"""From the engine's configuration and the environment to a stack that is known to be valid, or to a refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi.runtime.config as runtime_config
from pydantic import ValidationError

from stacks.credentials import SECRET_KEYS, MetricCredentialValues, find_credentials, misplaced_secrets
from stacks.problems import SettingsProblem, from_validation_error, locate
from stacks.profile import Profile, build_profile
from stacks.settings import ProfileSettings, StackSettings

PROJECT_DIRECTORY = Path(__file__).resolve().parent.parent
_OBJECTS = ("cluster", "plugins", "metricProvider")
_BOOLEANS = ("protect",)


@dataclass(frozen=True)
class Stack:
    """A stack whose settings are valid.

    Attributes:
        name: the stack's name.
        settings: what its file says.
        profile: the scheduler's configuration that follows.
        credentials: for the metric source.
        kubeconfig: content of the kubeconfig, secret; None: the provider reads $KUBECONFIG.
    """

    name: str
    settings: StackSettings
    profile: Profile
    credentials: MetricCredentialValues
    kubeconfig: pulumi.Output[str] | None = None


class SettingsProblems(Exception):
    """Everything that is wrong with a stack's configuration."""

    def __init__(self, problems: list[SettingsProblem]) -> None:
        super().__init__("; ".join(f"{problem.path}: {problem.message}" for problem in problems))
        self.problems = problems


def load_stack() -> Stack:
    """Read and check the running program's configuration; every mistake is told at once, before any resource exists.

    Raises:
        pulumi.RunError: the configuration cannot be used; one line per problem.
    """
    name, project = pulumi.get_stack(), pulumi.get_project()
    prefix = f"{project}:"
    values = {
        key.removeprefix(prefix): value for key, value in runtime_config.CONFIG.get().items() if key.startswith(prefix)
    }
    encrypted = {key for key in values if runtime_config.is_config_secret(prefix + key)}
    file = Path("stacks") / f"Pulumi.{name}.yaml"
    try:
        settings, profile, credentials = check(values, encrypted, os.environ)
    except SettingsProblems as found:
        problems = locate(found.problems, PROJECT_DIRECTORY / file, project)
        raise pulumi.RunError("\n".join(problem.render(str(file)) for problem in problems)) from None
    for warning in profile.warnings:
        pulumi.log.warn(warning.render(str(file)))
    return Stack(name, settings, profile, credentials, pulumi.Config(project).get_secret("kubeconfig"))


def check(
    values: Mapping[str, str], encrypted: Collection[str], environment: Mapping[str, str]
) -> tuple[StackSettings, Profile, MetricCredentialValues]:
    """Check the values of this project's keys as the engine hands them over: text, structured ones as JSON.

    Raises:
        SettingsProblems: all mistakes found.
    """
    problems = misplaced_secrets(encrypted, values)
    document = _document({key: value for key, value in values.items() if key not in SECRET_KEYS})
    settings: StackSettings | None = None
    profile_settings: ProfileSettings | None = None
    try:
        profile_settings = settings = StackSettings.model_validate_json(json.dumps(document))
    except ValidationError as error:
        found = list(from_validation_error(error, StackSettings))
        problems += found
        profile_settings = _profile_settings(document, {problem.location[0] for problem in found})
    profile, credentials = None, MetricCredentialValues()
    if profile_settings is not None:
        provider = profile_settings.metric_provider
        secrets = {key: values[key] for key in SECRET_KEYS if key in values}
        credentials, found = find_credentials(provider.credentials if provider else None, secrets, environment)
        problems += found
        profile, found = build_profile(profile_settings, credentials.files, environment)
        problems += found
    if problems or settings is None or profile is None:
        raise SettingsProblems(problems)
    return settings, profile, credentials


def _document(values: Mapping[str, str]) -> dict[str, Any]:
    """The values with their types; what does not parse stays text, which the models then refuse."""
    document: dict[str, Any] = {}
    for key, text in values.items():
        if key in _OBJECTS:
            try:
                document[key] = json.loads(text)
            except ValueError:
                document[key] = text
        elif key in _BOOLEANS and text in ("true", "false"):
            document[key] = text == "true"
        elif text:  # Pulumi.yaml's default of a required key is empty
            document[key] = text
    return document


def _profile_settings(document: Mapping[str, Any], wrong_keys: set[str | int]) -> ProfileSettings | None:
    """The profile's part of the settings if only others are wrong, so that its mistakes are told in the same go."""
    keys = [field.alias or name for name, field in ProfileSettings.model_fields.items()]
    if wrong_keys & set(keys):
        return None
    return ProfileSettings.model_validate_json(json.dumps({key: document[key] for key in keys if key in document}))
