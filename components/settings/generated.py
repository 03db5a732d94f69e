"""Generating a KubeSchedulerConfiguration from the settings, and mapping its problems back to the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.catalog import ExtensionPoint, Loc, lookup, takes_metric_provider
from scheduler.config import Flavour, Problem, path_text

from .credentials import TOKEN_IN_CONFIG_MAP, CredentialFiles, MetricCredentialValues, unset_variable
from .metric_settings import MetricProviderSettings
from .partition import KEY as PARTITION, NODE_AFFINITY, NodePartitionSettings, conflicting_args
from .profile_settings import (
    PluginChoice,
    PluginSettings,
    ProfileSettings,
    ScorePluginChoice,
    ScorePluginSelection,
    ShadowSettings,
)
from .values import source_url

OPTIONS = "SecondarySchedulerOptions"
SHADOW = "shadow"
SHADOW_SUFFIX = "-shadow"
"""Of the schedulerName of a profile that is tried beside another one."""
_PROVIDER = "metricProvider"
_BY_LOAD = PluginSettings(
    score=ScorePluginSelection(
        # Enough to outweigh spreading: a hot node scores some 35 points less than one with room.
        enabled=(ScorePluginChoice(name="TargetLoadPacking", weight=10),),
        # These two score by requests, which say nothing about load. NodeResourcesFit still filters.
        disabled=("NodeResourcesFit", "NodeResourcesBalancedAllocation"),
    )
)
"""The plugins of a stack that names a metric source and no plugin."""


@dataclass(frozen=True)
class DesiredProfile:
    """A profile as the settings describe it, the only one or one of several.

    Attributes:
        at: location of its settings; empty for the only profile, whose settings are the stack's.
        provider_at: location of its metric source's settings.
        address: of the metric source, resolved from the environment if the settings say so.
        files: token and certificate authority for that source.
        token: the token itself, if it goes into the configuration.
        watcher: address of a load-watcher that plugins ask instead of the source.
        partition: the nodes that the profile's pods are kept on.
        recheck_percent: from how full on nodes are read again before a Binding.
        explain_annotation: whether pods that fit nowhere get the command that explains why.
        kubernetes: the version of kube-scheduler to behave as; None: that of the cluster.
        shadow: schedulerName of the profile that is tried beside this one, and the share of decisions that are
            compared; None without one.
        is_shadow: whether it is such a profile.
    """

    at: Loc
    scheduler_name: str
    plugins: PluginSettings
    compatibility: str
    provider: MetricProviderSettings | None
    provider_at: Loc
    address: str | None
    files: CredentialFiles
    partition: NodePartitionSettings | None = None
    recheck_percent: int | None = None
    explain_annotation: bool = False
    kubernetes: str | None = None
    token: str | None = field(default=None, repr=False)
    watcher: str | None = None
    shadow: tuple[str, float] | None = None
    is_shadow: bool = False


def desired_profiles(
    settings: ProfileSettings,
    credentials: MetricCredentialValues,
    environment: Mapping[str, str],
    flavour: Flavour,
    kubernetes: str | None = None,
    load_watcher: str = "",
) -> tuple[list[DesiredProfile], list[Problem]]:
    """Return the profiles that the settings describe, and the problems that show before generating anything.

    `kubernetes` is the version of kube-scheduler that all of them behave as; None: that of the cluster. `load_watcher`
    is the address of the one that the settings may ask for.
    """
    top: Loc = (_PROVIDER,)
    has_watcher = settings.metric_provider is not None and settings.metric_provider.load_watcher is not None
    address, problems = resolved_address(settings.metric_provider, top, environment)
    shared = _Source(
        settings.metric_provider, top, address, credentials.files, credentials.config_map_token,
        load_watcher if has_watcher else None,
    )  # fmt: skip
    desired: list[DesiredProfile] = []

    def add(at: Loc, name: str, plugins: PluginSettings, source: _Source, compatibility: str) -> None:
        desired.append(
            DesiredProfile(
                at, name, plugins, compatibility, source.provider, source.at, source.address, source.files,
                settings.node_partition, settings.shared_nodes.recheck_above_percent, settings.explain_annotation,
                kubernetes, source.token, source.watcher,
            )
        )  # fmt: skip

    def add_shadow(shadow: ShadowSettings, live_source: _Source, compatibility: str) -> None:
        if shadow == ShadowSettings():
            return
        live = desired[-1]
        at: Loc = (*live.at, SHADOW)
        source, mistakes = live_source.overridden(shadow.metric_provider, at, shared, environment)
        problems.extend(mistakes)
        plugins = _by_load_if_none(shadow.plugins, source.provider, flavour)
        add(at, f"{live.scheduler_name}{SHADOW_SUFFIX}", plugins, source, shadow.compatibility or compatibility)
        shadowing = replace(desired[-1], is_shadow=True, recheck_percent=None, explain_annotation=False)
        desired[-2:] = [replace(live, shadow=(shadowing.scheduler_name, shadow.sample_ratio)), shadowing]
        if not flavour.is_ours:
            problems.append(Problem(at, f"{flavour.name} cannot do this; remove it"))
        elif _decides_by(shadowing) == _decides_by(live):
            message = "decides as the profile itself does; name plugins, args or a metric source to try"
            problems.append(Problem(at, message))

    if not settings.profiles:
        plugins = _by_load_if_none(settings.plugins, settings.metric_provider, flavour)
        add((), settings.scheduler_name, plugins, shared, settings.compatibility)
        add_shadow(settings.shadow, shared, settings.compatibility)
    else:
        problems += _misplaced(settings)
    for index, entry in enumerate(settings.profiles):
        at: Loc = ("profiles", index)
        source, mistakes = shared.overridden(entry.metric_provider, at, shared, environment)
        problems += mistakes
        compatibility = entry.compatibility or settings.compatibility
        add(at, entry.scheduler_name, entry.plugins, source, compatibility)
        add_shadow(entry.shadow, source, compatibility)
    problems += [problem for profile in desired for problem in _profile_problems(profile)]
    return desired, [*problems, *_conflicting_sources(desired)]


@dataclass(frozen=True)
class _Source:
    """Where a profile's plugins read the load, and what they may send there; see `DesiredProfile`."""

    provider: MetricProviderSettings | None
    at: Loc
    address: str | None
    files: CredentialFiles
    token: str | None = field(repr=False)
    watcher: str | None

    def overridden(
        self, own: MetricProviderSettings | None, at: Loc, shared: _Source, environment: Mapping[str, str]
    ) -> tuple[_Source, list[Problem]]:
        """Return the source of settings at a location that may name another one, and what is wrong with that.

        `shared` is the stack's, which alone has credentials.
        """
        if own is None:
            return self, []
        place = (*at, _PROVIDER)
        address, problems = resolved_address(own, place, environment)
        if own.credentials is not None:
            message = "may only be set in the stack's metricProvider: the scheduler mounts a single Secret"
            problems.append(Problem((*place, "credentials"), message))
        if own.load_watcher is not None:
            message = "may only be set in the stack's metricProvider: a load-watcher reads a single source"
            problems.append(Problem((*place, "loadWatcher"), message))
        if address != shared.address:
            # A token must only go to the server it was issued for.
            return _Source(own, place, address, CredentialFiles(), None, None), problems
        return _Source(own, place, address, shared.files, shared.token, shared.watcher), problems


def _misplaced(settings: ProfileSettings) -> Iterator[Problem]:
    """Yield what stands beside `profiles` and belongs into its entries."""
    if settings.plugins != PluginSettings():
        yield Problem(("plugins",), "belong in each entry of profiles; move them there, or remove profiles")
    if settings.scheduler_name != ProfileSettings.model_fields["scheduler_name"].default:
        yield Problem(("schedulerName",), "belongs in each entry of profiles; remove it here, or remove profiles")
    if settings.shadow != ShadowSettings():
        yield Problem((SHADOW,), "belongs in an entry of profiles; move it there, or remove profiles")


def _decides_by(profile: DesiredProfile) -> tuple[object, ...]:
    return profile.plugins, profile.compatibility, profile.provider, profile.address


def generate(
    desired: list[DesiredProfile], flavour: Flavour, extra_args: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the configuration's data in the newest version that the image reads.

    Args:
        desired: the profiles.
        flavour: the image.
        extra_args: default args, by name, of plugins that only the image has.
    """
    return {
        "apiVersion": f"kubescheduler.config.k8s.io/{flavour.versions[0]}",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [_profile(profile, flavour, extra_args) for profile in desired],
    }


def idle_source(settings: ProfileSettings, desired: list[DesiredProfile]) -> Iterator[Problem]:
    """Yield a warning if no profile places pods by load, which is what most users install this scheduler for."""
    if any(takes_metric_provider(choice.name) for profile in desired for _, choice in profile.plugins.chosen()):
        return
    if settings.metric_provider is not None:
        message = "is not used: no plugin that is enabled scores by load; enable one, such as TargetLoadPacking"
        yield Problem((_PROVIDER,), message)
    elif all(profile.plugins == PluginSettings() for profile in desired):
        message = (
            "missing, and no plugin is enabled: pods are placed by requests, as the default scheduler places them, and "
            "not by the nodes' load; set type and address of a metric source, which enables TargetLoadPacking"
        )
        yield Problem((_PROVIDER,), message)


def _by_load_if_none(
    plugins: PluginSettings, provider: MetricProviderSettings | None, flavour: Flavour
) -> PluginSettings:
    """The plugins of the only profile or of a shadow, where a metric source alone says what is meant. A custom image
    may lack TargetLoadPacking, so it gets only what is named."""
    source = provider is not None and provider.type is not None
    if plugins == PluginSettings() and source and flavour.family != "custom":
        return _BY_LOAD
    return plugins


def resolved_address(
    provider: MetricProviderSettings | None, at: Loc, environment: Mapping[str, str]
) -> tuple[str | None, list[Problem]]:
    """Return the address of a metric source at a location of the settings, or None and what is wrong with it."""
    if provider is None or provider.address is None:
        return None, []
    if provider.address.url is not None:
        return provider.address.url, []
    location = (*at, "address", "fromEnv")
    name = provider.address.from_env or ""
    value = environment.get(name)
    if not value:
        return None, [Problem(location, unset_variable(name))]
    try:
        return source_url(value), []
    except ValueError as error:
        return None, [Problem(location, f"the value of {name} {error}")]


def _profile_problems(desired: DesiredProfile) -> Iterator[Problem]:
    chosen = list(desired.plugins.chosen())
    if desired.provider is not None and desired.provider.type is None:
        message = "missing; allowed: Prometheus, KubernetesMetricsServer, SignalFx"
        yield Problem((*desired.provider_at, "type"), message)
    elif desired.provider is None:
        reading = [
            plugin.name
            for _, plugin in chosen
            if takes_metric_provider(plugin.name) and not plugin.args.get("watcherAddress")
        ]
        for name in reading[:1]:
            message = f"missing, and {name} scores by load; set its type and address"
            yield Problem(desired.provider_at, message)
    first_places: dict[str, Loc] = {}
    for below, plugin in chosen:
        place = (*desired.at, *below)
        if plugin.args and (first := first_places.setdefault(plugin.name, place)) != place:
            message = f"{plugin.name} already has args at {path_text(first)}; set them once"
            yield Problem((*place, "args"), message)
        if plugin.name == NODE_AFFINITY and desired.partition is not None and conflicting_args(plugin.args):
            message = f"conflicts with {PARTITION}, which sets it; remove one of the two"
            yield Problem((*place, "args", "addedAffinity"), message)


def _conflicting_sources(desired: list[DesiredProfile]) -> Iterator[Problem]:
    """Yield profiles that read one source with different settings: the scheduler has one collector per source."""
    first: dict[tuple[str | None, str | None], DesiredProfile] = {}
    for profile in desired:
        if profile.provider is None:
            continue
        other = first.setdefault((profile.provider.type, profile.address), profile)
        excluded = {"credentials", "address", "load_watcher", "limit"}
        other_provider = other.provider or profile.provider
        if profile.provider.model_dump(exclude=excluded) != other_provider.model_dump(exclude=excluded):
            message = f"reads the same source with other settings than {path_text(other.provider_at)}"
            yield Problem(profile.provider_at, message, hint="use the same settings for both")


def _profile(desired: DesiredProfile, flavour: Flavour, extra_args: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    sections: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for point, selection in desired.plugins.by_point():
        section: dict[str, list[dict[str, Any]]] = {
            "enabled": [
                {"name": plugin.name, "weight": plugin.weight}
                if isinstance(plugin, ScorePluginChoice)
                else {"name": plugin.name}
                for plugin in selection.enabled
            ],
            "disabled": [{"name": name} for name in selection.disabled],
        }
        sections[point] = {key: names for key, names in section.items() if names}
    if pre_score := [{"name": name} for name in _implied_pre_scores(desired.plugins)]:
        sections.setdefault("preScore", {}).setdefault("enabled", []).extend(pre_score)
    profile: dict[str, Any] = {"schedulerName": desired.scheduler_name}
    if sections:
        profile["plugins"] = sections
    if plugin_config := list(_plugin_config(desired, flavour, extra_args)):
        profile["pluginConfig"] = plugin_config
    return profile


def _implied_pre_scores(plugins: PluginSettings) -> list[str]:
    """Score plugins that also have a preScore point, which the user need not name a second time."""
    named = {choice.name for choice in (*plugins.pre_score.enabled, *plugins.multi_point.enabled)}
    disabled = set(plugins.pre_score.disabled)
    return [
        plugin.name
        for plugin in plugins.score.enabled
        if _has_pre_score(plugin.name) and plugin.name not in named | disabled
    ]


def _has_pre_score(plugin: str) -> bool:
    # Default plugins get preScore from the default profile; naming one again would change its position.
    descriptor = lookup(plugin)
    return descriptor is not None and not descriptor.default and ExtensionPoint.PRE_SCORE in descriptor.points


def _plugin_config(
    desired: DesiredProfile, flavour: Flavour, extra_args: Mapping[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    # Args given at one extension point apply at all others too.
    chosen: dict[str, PluginChoice] = {}
    for _, plugin in desired.plugins.chosen():
        if plugin.name not in chosen or not chosen[plugin.name].args:
            chosen[plugin.name] = plugin
    if desired.partition is not None and NODE_AFFINITY not in chosen:
        yield {"name": NODE_AFFINITY, "args": {"addedAffinity": desired.partition.added_affinity()}}
    for plugin in chosen.values():
        if args := _args(plugin, desired) or extra_args.get(plugin.name, {}):
            yield {"name": plugin.name, "args": args}
    if options := _options(desired) if flavour.is_ours else {}:
        yield {"name": OPTIONS, "args": options}


def _args(plugin: PluginChoice, desired: DesiredProfile) -> dict[str, Any]:
    provider, address = desired.provider, desired.address
    if plugin.name == NODE_AFFINITY and desired.partition is not None:
        return {**plugin.args, "addedAffinity": desired.partition.added_affinity()}
    if desired.watcher is not None and (key := watcher_argument(plugin.name)):
        return {key: desired.watcher, **plugin.args}
    if provider is None or not takes_metric_provider(plugin.name) or plugin.args.get("watcherAddress"):
        return plugin.args
    source = {"type": provider.type, "address": address, "token": desired.token}
    return {**plugin.args, _PROVIDER: {key: value for key, value in source.items() if value is not None}}


def watcher_argument(plugin: str) -> str | None:
    """Return the argument of a plugin that names a load-watcher; None if it has none."""
    if takes_metric_provider(plugin):
        return "watcherAddress"
    return "WatcherAddress" if plugin == "Peaks" else None


def _options(desired: DesiredProfile) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if desired.compatibility != "safe":
        options["compatibility"] = desired.compatibility
    if desired.kubernetes is not None:
        options["kubernetesVersion"] = desired.kubernetes
    if desired.recheck_percent is not None:
        options["recheckNodesAbovePercent"] = desired.recheck_percent
    if desired.explain_annotation:
        options["explainAnnotation"] = True
    if desired.shadow is not None:
        name, ratio = desired.shadow
        options["shadow"] = {"profile": name} | ({} if ratio == 1 else {"sampleRatio": ratio})
    if (provider := desired.provider) is not None:
        load = {
            "tokenFile": desired.files.token,
            "caFile": desired.files.certificate_authority,
            "window": provider.window,
            "refreshSeconds": provider.refresh_seconds,
            "maxAgeSeconds": provider.max_age_seconds,
            "timeoutSeconds": provider.timeout_seconds,
            "whenStale": provider.when_stale,
            "whenAbsent": provider.when_absent,
            "whenNoneFresh": provider.when_none_fresh,
            "nodeLabel": provider.node_label,
            "queries": provider.queries,
            "limit": provider.limit,
        }
        options["load"] = {key: value for key, value in load.items() if value is not None}
    return options


class SettingsLocations:
    """Maps locations in the generated configuration to locations in the settings."""

    def __init__(self, data: Mapping[str, Any], desired: list[DesiredProfile], extra: Mapping[str, int]) -> None:
        """`extra` maps plugin names to their index in `extraPlugins`."""
        self._profiles = [
            _ProfileLocations(desired_profile, profile, extra)
            for desired_profile, profile in zip(desired, data["profiles"], strict=True)
        ]

    def in_settings(self, problem: Problem) -> Problem:
        """Return the problem at the location of the setting that caused it; `stacks.problems.locate` adds the file."""
        return replace(problem, loc=self._location(problem.loc), source="")

    def _location(self, loc: Loc) -> Loc:
        match loc:
            case ("profiles", int() as index, *rest) if index < len(self._profiles):
                return self._profiles[index].location(tuple(rest))
            case ("apiVersion",):
                return ("schedulerImage",)
        return ("plugins",)


class _ProfileLocations:
    def __init__(self, desired: DesiredProfile, profile: Mapping[str, Any], extra: Mapping[str, int]) -> None:
        self._desired = desired
        self._extra = extra
        self._choices: dict[str, tuple[Loc, bool]] = {}
        for below, choice in desired.plugins.chosen():
            if choice.name not in self._choices or choice.args:
                self._choices[choice.name] = ((*desired.at, *below), bool(choice.args))
        self._own_pre_scores = len(desired.plugins.pre_score.enabled)
        pre_score = profile.get("plugins", {}).get("preScore", {}).get("enabled", [])
        self._pre_score = [plugin["name"] for plugin in pre_score]
        self._plugin_config = [entry["name"] for entry in profile.get("pluginConfig", [])]

    def location(self, rest: Loc) -> Loc:
        at = self._desired.at
        match rest:
            case ("schedulerName", *_):
                return at if self._desired.is_shadow else (*at, "schedulerName")
            case ("plugins", str() as point, "disabled", int() as index, *_):
                return (*at, "plugins", point, "disabled", index)
            case ("plugins", "preScore", "enabled", int() as index, *_) if index >= self._own_pre_scores:
                return self._choices[self._pre_score[index]][0]
            case ("plugins", *below):
                return (*at, "plugins", *below)
            case ("pluginConfig", int() as index, *below):
                return self._entry(self._plugin_config[index], tuple(below))
        return (*at, "plugins")

    def _entry(self, name: str, rest: Loc) -> Loc:
        match rest:
            case ("args", "load", *field) if name == OPTIONS:
                return (*self._desired.provider_at, *field)
            case ("args", "shadow", *_) if name == OPTIONS:
                return (*self._desired.at, SHADOW)
            case ("args", "metricProvider", "token"):
                return TOKEN_IN_CONFIG_MAP
            case ("args", "metricProvider", *field):
                return (*self._desired.provider_at, *field)
        if name == OPTIONS:
            return (*self._desired.at, "compatibility")
        if name == NODE_AFFINITY and name not in self._choices:
            return (PARTITION,)
        place, has_args = self._choices[name]
        if not has_args and name in self._extra:
            return ("extraPlugins", self._extra[name], *rest)
        return (*place, *rest)
