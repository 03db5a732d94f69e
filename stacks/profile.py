"""The scheduler's configuration that follows from a stack's settings, checked by the scheduler's own code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.catalog import ExtensionPoint, TrimaranArgs, lookup
from scheduler.config import Configuration, ConfigurationError, Flavour, Problem, load_configuration, render
from stacks.credentials import CredentialFiles, not_exported
from stacks.problems import Location, SettingsProblem, format_location, parse_location
from stacks.settings import MetricProvider, PluginChoice, ProfileSettings, ScorePlugin, source_url

OPTIONS = "SecondarySchedulerOptions"
_API_VERSION = "kubescheduler.config.k8s.io/v1"


@dataclass(frozen=True)
class Profile:
    """A configuration that is valid.

    Attributes:
        content: the KubeSchedulerConfiguration as YAML, the same bytes for the same settings.
        configuration: the same as the scheduler understands it.
        warnings: what is accepted but probably not meant.
        crds: CustomResourceDefinitions that enabled plugins read, as `plural.group`.
    """

    content: str
    configuration: Configuration
    warnings: tuple[SettingsProblem, ...] = ()
    crds: tuple[str, ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """What the stack tells of its profile: schedulerName, plugins beside the default ones, scorePlugins with
        weights, pluginArgs with secrets masked."""
        summary = self.configuration.profiles[0].summary()
        return {
            "schedulerName": summary["schedulerName"],
            "plugins": [name for name in self.configuration.profiles[0].enabled if not _is_default(name)],
            "scorePlugins": {plugin["name"]: plugin["weight"] for plugin in summary["score"]},
            "pluginArgs": summary["pluginConfig"],
            "configurationHash": self.configuration.hash,
        }


def build_profile(
    settings: ProfileSettings, files: CredentialFiles, environment: Mapping[str, str], flavour: Flavour
) -> tuple[Profile | None, list[SettingsProblem]]:
    """Return the profile, or None and what is wrong with the settings, told by the settings' own keys."""
    address, problems = _address(settings, environment)
    problems += [*_loads_without_source(settings), *_args_given_twice(settings)]
    data = _configuration(settings, files, address, flavour)
    content = render(data)
    places = _Places(data, settings)
    try:
        # Where the source itself is wrong, that is told once, by the settings' own key.
        configuration = load_configuration(
            content,
            source="stack configuration",
            flavour=flavour,
            allow_default_scheduler_name=settings.allow_default_scheduler_name,
            load_given=bool(problems),
        )
    except ConfigurationError as error:
        found = [places.told_by_settings(problem) for problem in error.problems]
        # A name that does not exist stands twice in the configuration, and once in the settings.
        once = {problem.location: problem for problem in reversed(found)}
        return None, [*problems, *reversed(once.values())]
    warnings = [places.told_by_settings(problem) for problem in configuration.warnings]
    # The scheduler starts with a plugin disabled that does not exist; in a stack it is a slip that does nothing.
    problems += [warning for warning in warnings if warning.location[2:3] == ("disabled",)]
    warnings += _token_in_clear(files, address)
    if files.token is not None and not flavour.is_ours:
        message = f"{flavour.name} cannot read a token from a Secret; let it ask a watcherAddress, in the plugin's args"
        warnings.append(SettingsProblem(("metricProvider", "credentials"), message))
    return (
        (None, problems)
        if problems
        else (Profile(content, configuration, tuple(warnings), _crds(configuration, flavour)), [])
    )


def _crds(configuration: Configuration, flavour: Flavour) -> tuple[str, ...]:
    found = (flavour.find(name) for profile in configuration.profiles for name in profile.enabled)
    return tuple(sorted({crd for descriptor in found if descriptor is not None for crd in descriptor.crds}))


def _address(settings: ProfileSettings, environment: Mapping[str, str]) -> tuple[str | None, list[SettingsProblem]]:
    provider = settings.metric_provider
    if provider is None or provider.address is None:
        return None, []
    if provider.address.url is not None:
        return provider.address.url, []
    location = ("metricProvider", "address", "fromEnv")
    name = provider.address.from_env or ""
    value = environment.get(name)
    if not value:
        return None, [SettingsProblem(location, not_exported(name))]
    try:
        return source_url(value), []
    except ValueError as error:
        return None, [SettingsProblem(location, f"the value of {name} {error}")]


def _token_in_clear(files: CredentialFiles, address: str | None) -> list[SettingsProblem]:
    if files.token is None or address is None or address.startswith("https://"):
        return []
    return [SettingsProblem(("metricProvider", "address"), "the token goes over the network in clear; use https")]


def reads_load(plugin: str) -> bool:
    """Whether a plugin scores by the nodes' measured load, and so needs a metric source."""
    descriptor = lookup(plugin)
    return (
        descriptor is not None and descriptor.args_model is not None and issubclass(descriptor.args_model, TrimaranArgs)
    )


def _loads_without_source(settings: ProfileSettings) -> list[SettingsProblem]:
    if settings.metric_provider is not None:
        return []
    return [
        SettingsProblem(
            ("metricProvider",), f"missing, and {plugin.name} scores by load; give it a type and an address"
        )
        for _, plugin in settings.plugins.chosen()
        if reads_load(plugin.name) and not plugin.args.get("watcherAddress")
    ][:1]


def _args_given_twice(settings: ProfileSettings) -> Iterator[SettingsProblem]:
    given: dict[str, Location] = {}
    for place, plugin in settings.plugins.chosen():
        if plugin.args and (first := given.setdefault(plugin.name, place)) != place:
            message = f"{plugin.name} has args at {format_location(first)} already; give them once"
            yield SettingsProblem((*place, "args"), message)


def _configuration(
    settings: ProfileSettings, files: CredentialFiles, address: str | None, flavour: Flavour
) -> dict[str, Any]:
    sections: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for point, selection in settings.plugins.by_point():
        section: dict[str, list[dict[str, Any]]] = {
            "enabled": [
                {"name": plugin.name, "weight": plugin.weight}
                if isinstance(plugin, ScorePlugin)
                else {"name": plugin.name}
                for plugin in selection.enabled
            ],
            "disabled": [{"name": name} for name in selection.disabled],
        }
        sections[point] = {key: names for key, names in section.items() if names}
    if pre_score := [{"name": name} for name in _implied_pre_scores(settings)]:
        sections.setdefault("preScore", {}).setdefault("enabled", []).extend(pre_score)
    profile: dict[str, Any] = {"schedulerName": settings.scheduler_name}
    if sections:
        profile["plugins"] = sections
    if plugin_config := list(_plugin_config(settings, files, address, flavour)):
        profile["pluginConfig"] = plugin_config
    return {"apiVersion": _API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def _implied_pre_scores(settings: ProfileSettings) -> list[str]:
    """Plugins that prepare their scores at a point of its own, which nobody should have to name twice."""
    plugins = settings.plugins
    named = {choice.name for choice in (*plugins.pre_score.enabled, *plugins.multi_point.enabled)}
    disabled = set(plugins.pre_score.disabled)
    return [
        plugin.name
        for plugin in plugins.score.enabled
        if _has_pre_score(plugin.name) and plugin.name not in named | disabled
    ]


def _is_default(plugin: str) -> bool:
    descriptor = lookup(plugin)
    return descriptor is not None and descriptor.default


def _has_pre_score(plugin: str) -> bool:
    # Default plugins have theirs from the default profile; naming one again would move it in the order.
    descriptor = lookup(plugin)
    return descriptor is not None and not descriptor.default and ExtensionPoint.PRE_SCORE in descriptor.points


def _plugin_config(
    settings: ProfileSettings, files: CredentialFiles, address: str | None, flavour: Flavour
) -> Iterator[dict[str, Any]]:
    provider = settings.metric_provider
    # Whoever gives args at one point need not repeat them at another.
    chosen: dict[str, PluginChoice] = {}
    for _, plugin in settings.plugins.chosen():
        if plugin.name not in chosen or not chosen[plugin.name].args:
            chosen[plugin.name] = plugin
    for plugin in chosen.values():
        if args := _args(plugin, provider, address):
            yield {"name": plugin.name, "args": args}
    if options := _options(settings, files) if flavour.is_ours else {}:
        yield {"name": OPTIONS, "args": options}


def _options(settings: ProfileSettings, files: CredentialFiles) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if settings.compatibility != "safe":
        options["compatibility"] = settings.compatibility
    if (provider := settings.metric_provider) is not None:
        load = {
            "tokenFile": files.token,
            "caFile": files.certificate_authority,
            "window": provider.window,
            "refreshSeconds": provider.refresh_seconds,
            "maxAgeSeconds": provider.max_age_seconds,
            "timeoutSeconds": provider.timeout_seconds,
            "whenStale": provider.when_stale,
            "whenAbsent": provider.when_absent,
            "whenNoneFresh": provider.when_none_fresh,
            "nodeLabel": provider.node_label,
            "queries": provider.queries,
        }
        options["load"] = {key: value for key, value in load.items() if value is not None}
    return options


def _args(plugin: PluginChoice, provider: MetricProvider | None, address: str | None) -> dict[str, Any]:
    if provider is None or not reads_load(plugin.name) or plugin.args.get("watcherAddress"):
        return plugin.args
    source = {"type": provider.type} if address is None else {"type": provider.type, "address": address}
    return {**plugin.args, "metricProvider": source}


class _Places:
    """Where in the settings a field of the generated configuration comes from."""

    def __init__(self, data: Mapping[str, Any], settings: ProfileSettings) -> None:
        profile = data["profiles"][0]
        self._places: dict[str, Location] = {}
        for place, choice in settings.plugins.chosen():
            if choice.name not in self._places or choice.args:
                self._places[choice.name] = place
        self._own_pre_scores = len(settings.plugins.pre_score.enabled)
        pre_score = profile.get("plugins", {}).get("preScore", {}).get("enabled", [])
        self._pre_score = [plugin["name"] for plugin in pre_score]
        self._plugin_config = [entry["name"] for entry in profile.get("pluginConfig", [])]

    def told_by_settings(self, problem: Problem) -> SettingsProblem:
        message = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
        return SettingsProblem(self._location(parse_location(problem.path)), message)

    def _location(self, location: Location) -> Location:
        match location[2:]:
            case ("schedulerName", *_):
                return ("schedulerName",)
            case ("plugins", str() as point, "disabled", int() as index, *_):
                return ("plugins", point, "disabled", index)
            case ("plugins", "preScore", "enabled", int() as index, *_) if index >= self._own_pre_scores:
                return self._places[self._pre_score[index]]
            case ("plugins", *rest):
                return ("plugins", *rest)
            case ("pluginConfig", int() as index, *rest):
                return self._entry(self._plugin_config[index], tuple(rest))
        return ("plugins",)

    def _entry(self, name: str, rest: Location) -> Location:
        match rest:
            case ("args", "load", *field) if name == OPTIONS:
                return ("metricProvider", *field)
            case ("args", "metricProvider", *field):
                return ("metricProvider", *field)
        return (*self._places[name], *rest)
