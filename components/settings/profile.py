"""The scheduler's configuration that settings describe, checked by the scheduler's own code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.catalog import (
    OPERAND,
    CredentialRules,
    ExtensionPoint,
    PolicyRule,
    cluster_role_name,
    lookup,
    nearest_kubernetes,
)
from scheduler.config import (
    Configuration,
    ConfigurationError,
    EffectiveProfile,
    Flavour,
    Problem,
    SchedulerSettings,
    check_size,
    default_configuration,
    disables_nothing,
    load_configuration,
    render,
)

from .credentials import TOKEN_IN_CONFIG_MAP, MetricCredentialValues
from .generated import SettingsLocations, desired_profiles, generate, idle_source
from .load_watcher import ManagedLoadWatcher, load_watcher_address, managed_load_watcher, unusable_load_watcher
from .opt_in import OptInPlan, OptInSettings, plan_opt_in
from .page import PagePlan, PageSettings, plan_page
from .partition import unenforced
from .profile_settings import ProfileSettings
from .rebalance import RebalancerPlan, RebalancerSettings, plan_rebalancer, pruned_by
from .scraping import scrape_problems
from .transport import sends_token, token_warnings, unusable_credentials

_SOURCE = "metricProvider"


@dataclass(frozen=True)
class CheckedConfiguration:
    """A valid configuration with one profile or several.

    Attributes:
        content: the KubeSchedulerConfiguration as YAML; the same settings always give the same bytes.
        configuration: the same as the scheduler loads it.
        warnings: settings that are accepted but probably not intended.
        crds: CustomResourceDefinitions that enabled plugins need, as `plural.group`.
        extra_roles: RBAC rules of enabled plugins that only a custom image has, by the name of their ClusterRole.
        credential_rules: what the scheduler may do with the credentials for its metric source.
        holds_token: whether the content has the metric source's token in it.
        load_watcher: what the installation runs for the scheduler's plugins to ask; None if they ask the source.
        opt_in, rebalance, page: what is to be installed beside it; None for nothing.
    """

    content: str = field(repr=False)
    configuration: Configuration = field(repr=False)
    warnings: tuple[Problem, ...] = ()
    crds: tuple[str, ...] = ()
    extra_roles: Mapping[str, tuple[PolicyRule, ...]] = field(default_factory=dict)
    credential_rules: CredentialRules = field(default_factory=CredentialRules)
    holds_token: bool = False
    load_watcher: ManagedLoadWatcher | None = None
    opt_in: OptInPlan | None = None
    rebalance: RebalancerPlan | None = None
    page: PagePlan | None = None

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """Of each profile the schedulerName, what is not in the default profile, and the hash of the configuration; of
        a profile that is tried beside it, under `shadow`, the same.

        Secrets are masked."""
        summaries = []
        for profile in self.configuration.served:
            summary = {**_summary(profile), "configurationHash": self.configuration.hash}
            if (shadow := profile.options.shadow) is not None:
                summary["shadow"] = _summary(self.configuration.profile(shadow.profile))
            summaries.append(summary)
        return summaries

    @property
    def outputs(self) -> dict[str, Any]:
        """The stack's outputs about its profiles: `profile`, or `profiles` where there are several."""
        summaries = self.summaries
        return {"profile": summaries[0]} if len(summaries) == 1 else {"profiles": summaries}


def build_profile(
    settings: ProfileSettings,
    credentials: MetricCredentialValues,
    environment: Mapping[str, str],
    flavour: Flavour,
    cluster_minor: int | None = None,
    operand: str = OPERAND,
) -> tuple[CheckedConfiguration | None, list[Problem]]:
    """Return the configuration, or None and the problems of the settings.

    Args:
        settings: the settings of the profiles.
        credentials: where the scheduler's pod finds token and certificate authority, what it may do with them, and the
            token if it goes into the configuration.
        environment: the environment variables of the `pulumi` process.
        flavour: of the scheduler's image.
        cluster_minor: minor version of the cluster, which the profiles are pinned to; None where it is not named.
        operand: name of the scheduler, which that of its load-watcher follows from.
    """
    rules = credentials.rules
    pinned = None if cluster_minor is None else nearest_kubernetes(cluster_minor).name
    watcher_address = load_watcher_address(operand)
    desired, problems = desired_profiles(settings, credentials, environment, flavour, pinned, watcher_address)
    problems += [*unusable_credentials(settings, desired, flavour), *unusable_load_watcher(settings, desired, flavour)]
    watcher = None
    if not problems:
        watcher, problems = managed_load_watcher(settings, environment, credentials)
    data = generate(desired, flavour, {plugin.name: plugin.args for plugin in settings.extra_plugins})
    content = render(data)
    places = SettingsLocations(
        data, desired, {plugin.name: index for index, plugin in enumerate(settings.extra_plugins)}
    )
    try:
        check_size(content, "stack configuration")
        # A mistake in the metric source's own settings is reported once, at its own key.
        configuration = load_configuration(
            data,
            source="stack configuration",
            flavour=flavour,
            allow_token_in_config_map=True,  # the stack's own switch has been judged
            allow_default_scheduler_name=settings.allow_default_scheduler_name,
            into_cluster=True,
            external_load=bool(problems),
            credential_rules=None if problems else rules,
            with_own_address=True,
        )
    except ConfigurationError as error:
        generated_problems = [places.in_settings(problem) for problem in error.problems]
        # A name that does not exist may occur twice in the configuration; in the settings it occurs once.
        once = {problem.loc: problem for problem in reversed(generated_problems)}
        return None, [*problems, *reversed(once.values())]
    # That a shadow is not served is what whoever sets it wants.
    shadows = {("profiles", index, "schedulerName") for index, each in enumerate(desired) if each.is_shadow}
    located = (places.in_settings(problem) for problem in configuration.warnings if problem.loc not in shadows)
    warnings = [warning for warning in located if warning.loc != TOKEN_IN_CONFIG_MAP]  # which has one of its own
    # The scheduler accepts an unknown plugin under disabled; in a stack it is a typing error, so it is refused.
    problems += [replace(warning, severity="error") for warning in warnings if disables_nothing(warning)]
    problems += unenforced(settings.node_partition, configuration)
    if settings.shared_nodes.recheck_above_percent is not None and not flavour.is_ours:
        message = f"{flavour.name} cannot do this; remove it"
        problems.append(Problem(("sharedNodes", "recheckAbovePercent"), message))
    if settings.explain_annotation and not flavour.is_ours:
        problems.append(Problem(("explainAnnotation",), f"{flavour.name} cannot do this; remove it"))
    if problems:
        return None, problems
    warnings += [*token_warnings(desired), *idle_source(settings, desired)]
    profile = checked_configuration(content, configuration, warnings, flavour, rules)
    return replace(profile, holds_token=any(sends_token(each) for each in desired), load_watcher=watcher), []


def checked_configuration(
    content: str, configuration: Configuration, warnings: list[Problem], flavour: Flavour, rules: CredentialRules
) -> CheckedConfiguration:
    """Return a configuration that has been loaded, with what follows from it.

    Args:
        content: its text.
        configuration: as the scheduler loaded it.
        warnings: about it.
        flavour: of the scheduler's image.
        rules: what the scheduler may do with credentials for its metric source.
    """
    enabled = dict.fromkeys(name for profile in configuration.profiles for name in profile.enabled)
    plugins = (flavour.find(name) for name in enabled)
    crds = sorted({crd for descriptor in plugins if descriptor is not None for crd in descriptor.crds})
    extra = {
        cluster_role_name(name): flavour.extra[name].rules
        for name in enabled
        if name in flavour.extra and flavour.extra[name].rules
    }
    bound = configuration.bound_rules(rules)
    return CheckedConfiguration(content, configuration, tuple(warnings), tuple(crds), extra, bound)


def plan_beside(
    checked: CheckedConfiguration,
    settings: SchedulerSettings,
    *,
    opt_in: OptInSettings,
    rebalance: RebalancerSettings,
    page: PageSettings,
    mode: str,
    upstream: bool,
    minor: int | None,
) -> tuple[CheckedConfiguration, list[Problem]]:
    """Return the configuration with what is to be installed beside its scheduler, and the problems of the settings.

    Args:
        checked: the scheduler's configuration.
        settings: of the installation.
        opt_in, rebalance, page: the settings of these keys.
        mode: how the operator is installed, if there is one.
        upstream: the operator is upstream's.
        minor: of the cluster's Kubernetes; None where it is not known.
    """
    configuration = checked.configuration
    opted_in, problems = plan_opt_in(opt_in, configuration.scheduler_names, minor)
    pruned = pruned_by(mode, upstream=upstream)
    rebalancer, of_rebalancer = plan_rebalancer(rebalance, configuration, pruned_by=pruned)
    served, of_page = plan_page(page, configuration)
    network_policy = settings.objects.network_policy
    scraped = scrape_problems(settings.scrape_namespaces, mode, upstream=upstream, network_policy=network_policy)
    planned = replace(checked, opt_in=opted_in, rebalance=rebalancer, page=served)
    return planned, [*problems, *of_rebalancer, *of_page, *scraped]


def _summary(profile: EffectiveProfile) -> dict[str, Any]:
    """What the profile has and the default one has not. Weight 0: the plugin scores by default, and does not here."""
    minor = profile.kubernetes.minor
    default = default_configuration(allow_default_scheduler_name=True, cluster_minor=minor).profiles[0]
    weights, usual = (_weights(each) for each in (profile, default))
    changed = {name: weight for name, weight in weights.items() if usual.get(name) != weight}
    changed |= dict.fromkeys((name for name in usual if name not in weights), 0)
    args, usual_args = (each.summary()["pluginConfig"] for each in (profile, default))
    own_args = {name: _changed_args(name, value, usual_args.get(name)) for name, value in args.items()}
    summary = {
        "schedulerName": profile.scheduler_name,
        "kubernetesVersion": profile.options.kubernetes_version,
        "plugins": [name for name in profile.enabled if not _is_default(name) and name not in changed],
        "scorePlugins": changed,
        "pluginArgs": {name: value for name, value in own_args.items() if value},
    }
    return {key: value for key, value in summary.items() if value}


def _weights(profile: EffectiveProfile) -> dict[str, int]:
    return {plugin.name: plugin.weight for plugin in profile.plugins(ExtensionPoint.SCORE)}


def _changed_args(plugin: str, args: dict[str, Any], usual: dict[str, Any] | None) -> dict[str, Any]:
    """The args without defaults, and without the metric source, which the stack file names once for all plugins."""
    descriptor = lookup(plugin)
    if usual is None:
        model = descriptor.args_model if descriptor is not None else None
        usual = model().to_dict() if model is not None else {}
    return {key: value for key, value in args.items() if key != _SOURCE and usual.get(key) != value}


def _is_default(plugin: str) -> bool:
    descriptor = lookup(plugin)
    return descriptor is not None and descriptor.default
