"""The scheduler's configuration of an installation, from the settings that a stack file has for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pulumi
from pydantic import BaseModel

from scheduler.catalog import OPERAND, Loc, cluster_role_name
from scheduler.config import ClusterVersions, Configuration, Problem, SchedulerSettings, kubernetes_minor, parse_version

from .document import CustomPlugin, PolicyRule
from .metric_credentials import MetricAccess
from .settings import (
    CREDENTIALS,
    TOKEN_IN_CONFIG_MAP,
    ManagedLoadWatcher,
    MetricCredentialValues,
    OptInPlan,
    OptInSettings,
    PagePlan,
    PageSettings,
    ProfileSettings,
    RebalancerPlan,
    RebalancerSettings,
    build_profile,
    flavour_of_settings,
    mounted_credentials,
    plan_opt_in,
    plan_page,
    plan_rebalancer,
    read_settings,
    scrape_problems,
)
from .settings_args import SettingsArgs

Model = TypeVar("Model", bound=BaseModel)

_TOKEN = {"secretKey": "prometheusToken"}
"""How settings say that the token is given beside them."""


@dataclass(frozen=True)
class DescribedScheduler:
    """What settings say about a scheduler.

    Attributes:
        content: the KubeSchedulerConfiguration as YAML.
        configuration: the same as the scheduler loads it.
        access: how it may read its metric source.
        flavour: of its image, if the settings say it.
        custom_plugins: plugins that only its image has.
        allow_default_scheduler_name: whether a profile may be named default-scheduler.
        load_watcher: what runs beside it for its plugins to ask, if anything.
        warnings: settings that are accepted but probably not intended.
    """

    content: str = field(repr=False)
    configuration: Configuration = field(repr=False)
    access: MetricAccess
    flavour: str
    custom_plugins: Sequence[CustomPlugin]
    allow_default_scheduler_name: bool
    load_watcher: ManagedLoadWatcher | None
    warnings: Sequence[Problem]


def describe_scheduler(
    settings: Mapping[str, Any], *, source: str, image: str, access: MetricAccess, operand: str = OPERAND
) -> DescribedScheduler:
    """Return the scheduler that settings describe, by the rules that a stack file is checked by.

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
    secret = credentials.existing_secret
    in_secret = not checked.holds_token
    return DescribedScheduler(
        checked.content,
        checked.configuration,
        MetricAccess(
            access.token if in_secret else None,
            access.certificate_authority if in_secret else None,
            existing_secret=secret.name if secret else None,
            existing_key=secret.key if secret else "token",
            cluster_role=credentials.cluster_role,
            audience=credentials.audience,
            rules=credentials.rules,
            in_configuration=checked.holds_token,
        ),
        described.flavour or "",
        custom_plugins(described),
        described.allow_default_scheduler_name,
        checked.load_watcher,
        [replace(warning, source=source) for warning in checked.warnings],
    )


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


def describe_opt_in(
    settings: Mapping[str, Any] | OptInPlan,
    kubernetes_version: str,
    scheduler_names: Sequence[str],
    component: pulumi.Resource,
    name: str,
) -> OptInPlan | None:
    """Return what opts pods in; None for nothing.

    Args:
        settings: with the names and types of a stack file's optIn; or what follows from them, which is returned.
        kubernetes_version: of the cluster; "" if it is not known.
        scheduler_names: of the profiles.
        component: what warnings are about.
        name: of the component.

    Raises:
        pulumi.RunError: they are wrong; one line per problem, all of them.
    """
    if isinstance(settings, OptInPlan):
        return settings
    _require_known(settings, "optIn", name)
    if kubernetes_version and parse_version(kubernetes_version) is None:
        problem = Problem(("kubernetesVersion",), f'"{kubernetes_version}" is not a version; write one such as "1.34"')
        raise _refusal([problem], name)
    read = _read(settings, OptInSettings, "optIn", name)
    minor = kubernetes_minor(ClusterVersions(kubernetes_version or None))
    plan, problems = plan_opt_in(read, scheduler_names, minor)
    _report(problems, component, name)
    return plan


def describe_rebalancer(
    settings: Mapping[str, Any] | RebalancerPlan,
    configuration: Configuration,
    component: pulumi.Resource,
    name: str,
    *,
    pruned_by: str = "",
) -> RebalancerPlan | None:
    """Return the rebalancer that runs beside a scheduler; None for none.

    Args:
        settings: with the names and types of a stack file's rebalance; or what follows from them, which is returned.
        configuration: of the scheduler.
        component: what warnings are about.
        name: of the component.
        pruned_by: why no operator can run it; "" if one of ours can.

    Raises:
        pulumi.RunError: they are wrong; one line per problem, all of them.
    """
    if isinstance(settings, RebalancerPlan):
        return settings
    _require_known(settings, "rebalance", name)
    read = _read(settings, RebalancerSettings, "rebalance", name)
    plan, problems = plan_rebalancer(read, configuration, pruned_by=pruned_by)
    _report(problems, component, name)
    return plan


def describe_page(
    settings: Mapping[str, Any] | PagePlan, configuration: Configuration, component: pulumi.Resource, name: str
) -> PagePlan | None:
    """Return the page that is served beside a scheduler; None for none.

    Args:
        settings: with the names and types of a stack file's page; or what follows from them, which is returned.
        configuration: of the scheduler.
        component: what warnings are about.
        name: of the component.

    Raises:
        pulumi.RunError: they are wrong; one line per problem, all of them.
    """
    if isinstance(settings, PagePlan):
        return settings
    _require_known(settings, "page", name)
    read = _read(settings, PageSettings, "page", name)
    plan, problems = plan_page(read, configuration)
    _report(problems, component, name)
    return plan


def check_scrape_namespaces(
    namespaces: Sequence[str],
    mode: str,
    component: pulumi.Resource,
    name: str,
    *,
    upstream: bool,
    network_policy: bool,
) -> None:
    """Refuse namespaces that cannot be, or that would limit nothing; as `scrape_problems`.

    Raises:
        pulumi.RunError: one line per problem, all of them.
    """
    _require_known(namespaces, "scrapeNamespaces", name)
    _report(scrape_problems(namespaces, mode, upstream=upstream, network_policy=network_policy), component, name)


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


def _require_known(settings: Any, key: str, name: str) -> None:
    """Refuse settings of a component that the program does not know yet."""
    if problems := list(_not_known(settings, (key,))):
        raise _refusal(problems, name)


def _read(settings: Mapping[str, Any], model: type[Model], key: str, name: str) -> Model:
    """Return what a component was given as a stack file's `key`; all that is wrong with it is refused."""
    read = read_settings(dict(settings), model)
    if read.problems or read.settings is None:
        raise _refusal([replace(problem, loc=(key, *problem.loc)) for problem in read.problems], name)
    return read.settings


def _report(problems: Sequence[Problem], component: pulumi.Resource, name: str) -> None:
    """Refuse errors; log warnings at the component."""
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise _refusal(errors, name)
    for warning in problems:
        pulumi.log.warn(str(replace(warning, source=name)), component)


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


def crds_of(configuration: Configuration) -> list[str]:
    """CRDs that enabled plugins read."""
    plugins = (configuration.flavour.find(name) for profile in configuration.profiles for name in profile.enabled)
    return sorted({crd for plugin in plugins if plugin is not None for crd in plugin.crds})


def extra_roles(configuration: Configuration) -> dict[str, Any]:
    """Rules of enabled plugins that are not in the catalogue, by the name of the ClusterRole."""
    extra = configuration.flavour.extra
    enabled = dict.fromkeys(name for profile in configuration.profiles for name in profile.enabled)
    return {cluster_role_name(name): extra[name].rules for name in enabled if name in extra and extra[name].rules}
