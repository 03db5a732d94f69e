"""The scheduler's configuration of an installation, from the settings that a stack file has for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pulumi
from pydantic import BaseModel

from scheduler.catalog import OPERAND, Loc
from scheduler.config import ClusterVersions, Problem, SchedulerSettings, kubernetes_minor, parse_version

from .document import CustomPlugin, PolicyRule
from .metric_credentials import MetricAccess
from .settings import (
    CREDENTIALS,
    TOKEN_IN_CONFIG_MAP,
    CheckedConfiguration,
    MetricCredentialValues,
    OptInSettings,
    PageSettings,
    ProfileSettings,
    RebalancerSettings,
    build_profile,
    flavour_of_settings,
    mounted_credentials,
    plan_beside,
    read_settings,
)
from .settings_args import SettingsArgs

Model = TypeVar("Model", bound=BaseModel)

_TOKEN = {"secretKey": "prometheusToken"}
"""How settings say that the token is given beside them."""


def describe_scheduler(
    settings: Mapping[str, Any], *, source: str, image: str, access: MetricAccess, operand: str = OPERAND
) -> tuple[CheckedConfiguration, ProfileSettings, MetricAccess]:
    """Return what settings describe, by the rules that a stack file is checked by: the scheduler's configuration, the
    settings themselves, and how it may read its metric source.

    Args:
        settings: with the names and types of a stack file's settings.
        source: their name in messages.
        image: the scheduler's.
        access: the token for the metric source, if any, and the certificate authority of that source.
        operand: name of the scheduler, which that of its load-watcher follows from.

    Raises:
        pulumi.RunError: they are wrong; one line per problem, all of them.
    """
    if problems := [*_not_known(settings, ()), *_of_stack_files(settings)]:
        raise _refusal(problems, source)
    document = _with_token(settings, access)
    read = read_settings(document, ProfileSettings)
    problems, described, checked, later = [*read.problems], read.settings, None, list[Problem]()
    credentials = MetricCredentialValues()
    if described is not None:
        credentials, part = _credentials(described, access)
        later += part
        flavour, part = flavour_of_settings(described, image)
        later += part
        if not part and not read.lacks("flavour", "extraPlugins"):
            checked, part = build_profile(described, credentials, {}, flavour, operand=operand)
            later += part
    problems += [problem for problem in later if not read.concerns(problem)]
    if problems or described is None or checked is None:
        raise _refusal(problems, source)
    held = checked.holds_token
    reads = MetricAccess.of(credentials, access.token, access.certificate_authority, in_configuration=held)
    return checked, described, reads


def describe_settings(args: SettingsArgs, *, openshift: bool, name: str) -> SchedulerSettings:
    """Return the settings among a component's Args, by the rules that a stack file is checked by.

    Args:
        args: of the component.
        openshift: whether the cluster is OpenShift, which decides what is created by default.
        name: of the component.

    Raises:
        pulumi.RunError: they are wrong; one line per problem, all of them.
    """
    fields = SchedulerSettings.model_fields.items()
    values: dict[str, Any] = {field.alias or key: getattr(args, key) for key, field in fields}
    objects = {"optionalObjects": args.objects.model_dump(by_alias=True)}
    if problems := list(_not_known(values, ())):
        raise _refusal(problems, name)
    read = read_settings({**values, **objects}, SchedulerSettings)
    if read.settings is None or read.problems:
        raise _refusal(read.problems, name)
    return read.settings.model_copy(update={"objects": read.settings.objects.on(openshift=openshift)})


def describe_beside(
    checked: CheckedConfiguration,
    mode: str,
    settings: SchedulerSettings,
    *,
    opt_in: Mapping[str, Any],
    kubernetes_version: str,
    rebalance: Mapping[str, Any],
    page: Mapping[str, Any],
    upstream: bool,
    component: pulumi.Resource,
    name: str,
) -> CheckedConfiguration:
    """Return the configuration with what is to be installed beside the scheduler.

    Args:
        checked: the scheduler's configuration.
        mode: how the operator is installed, if there is one.
        settings: of the installation.
        opt_in, rebalance, page: with the names and types of a stack file's keys.
        kubernetes_version: of the cluster; "" if it is not known.
        upstream: the operator is upstream's.
        component: what warnings are about.
        name: of the component.

    Raises:
        pulumi.RunError: they are wrong; one line per problem, all of them.
    """

    def read(key: str, values: Mapping[str, Any], model: type[Model]) -> Model:
        if problems := list(_not_known(values, (key,))):
            raise _refusal(problems, name)
        reading = read_settings(dict(values), model)
        if reading.problems or reading.settings is None:
            raise _refusal([replace(problem, loc=(key, *problem.loc)) for problem in reading.problems], name)
        return reading.settings

    if kubernetes_version and parse_version(kubernetes_version) is None:
        problem = Problem(("kubernetesVersion",), f'"{kubernetes_version}" is not a version; write one such as "1.34"')
        raise _refusal([problem], name)
    planned, problems = plan_beside(
        checked,
        settings,
        opt_in=read("optIn", opt_in, OptInSettings),
        rebalance=read("rebalance", rebalance, RebalancerSettings),
        page=read("page", page, PageSettings),
        mode=mode,
        upstream=upstream,
        minor=kubernetes_minor(ClusterVersions(kubernetes_version or None)),
    )
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise _refusal(errors, name)
    for warning in problems:
        pulumi.log.warn(str(replace(warning, source=name)), component)
    return planned


def custom_plugins(settings: ProfileSettings) -> list[CustomPlugin]:
    """Return the plugins that only a custom image has."""
    return [
        CustomPlugin(
            plugin.name,
            [str(point) for point in plugin.points],
            [PolicyRule(rule.api_groups, rule.resources, rule.verbs, rule.resource_names) for rule in plugin.rbac],
            plugin.crds,
        )
        for plugin in settings.extra_plugins
    ]


def _refusal(problems: Sequence[Problem], source: str) -> pulumi.RunError:
    return pulumi.RunError("\n".join(str(replace(problem, source=source)) for problem in problems))


def _not_known(value: Any, at: Loc) -> Iterator[Problem]:
    """What is only known during the update: the configuration is checked, and named after its content, before."""
    if isinstance(value, pulumi.Output):
        yield Problem(at, "must be known before the update, and is an Output; only the token may be one")
    elif isinstance(value, Mapping):
        for key, nested in value.items():
            yield from _not_known(nested, (*at, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, nested in enumerate(value):
            yield from _not_known(nested, (*at, index))


def _of_stack_files(value: Any, at: Loc = ()) -> Iterator[Problem]:
    """References to the environment of a stack: a component reads none, so that it is the same everywhere."""
    if isinstance(value, Mapping):
        for key, nested in value.items():
            if key in ("fromEnv", "fromFileInEnv"):
                remedy = "give the token and the certificate authority in metric_access" if "File" in key else "set it"
                yield Problem((*at, key), f"is for stack files: a component reads no environment; {remedy}")
            elif key != "args":
                yield from _of_stack_files(nested, (*at, str(key)))
    elif isinstance(value, list | tuple):
        for index, nested in enumerate(value):
            yield from _of_stack_files(nested, (*at, index))


def _with_token(settings: Mapping[str, Any], access: MetricAccess) -> dict[str, Any]:
    """The settings, which need not mention a token that is given beside them."""
    document = copy.deepcopy(dict(settings))
    provider = document.get("metricProvider")
    if access.token is not None and isinstance(provider, dict):
        credentials = provider.setdefault("credentials", {})
        if isinstance(credentials, dict) and not {"existingSecret", "serviceAccount"} & set(credentials):
            credentials.setdefault("token", dict(_TOKEN))
    return document


def _credentials(settings: ProfileSettings, access: MetricAccess) -> tuple[MetricCredentialValues, list[Problem]]:
    """The credentials for the metric source; their values are in `access`."""
    credentials = settings.metric_provider.credentials if settings.metric_provider else None
    values = mounted_credentials(credentials, has_authority=access.certificate_authority is not None)
    if credentials is None or credentials.token is None:
        if access.token is None:
            return values, []
        message = "does not say that a token is sent, and metric_access has one; remove one of the two"
        return values, [Problem(CREDENTIALS if credentials else CREDENTIALS[:1], message)]
    if access.token is None:
        return values, [Problem((*CREDENTIALS, "token"), "refers to a token; give it as token of metric_access")]
    if not credentials.allow_token_in_config_map:
        return values, []
    if not isinstance(access.token, str):
        message = "needs a token that is known before the update, as the configuration's name follows from its content"
        return values, [Problem(TOKEN_IN_CONFIG_MAP, message)]
    return replace(values, config_map_token=access.token), []
