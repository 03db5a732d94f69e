"""The scheduler's configuration that follows from a stack's settings, checked by the scheduler's own code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.catalog import ExtensionPoint, TrimaranArgs, lookup
from scheduler.config import Configuration, ConfigurationError, Flavour, Problem, load_configuration, render
from stacks.credentials import CredentialFiles, not_exported
from stacks.problems import Location, SettingsProblem, parse_location
from stacks.settings import ProfileSettings, ScorePlugin, source_url

OPTIONS = "SecondarySchedulerOptions"
_API_VERSION = "kubescheduler.config.k8s.io/v1"


@dataclass(frozen=True)
class Profile:
    """A configuration that is valid.

    Attributes:
        content: the KubeSchedulerConfiguration as YAML, the same bytes for the same settings.
        configuration: the same as the scheduler understands it.
        warnings: what is accepted but probably not meant.
    """

    content: str
    configuration: Configuration
    warnings: tuple[SettingsProblem, ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """What the stack tells of its profile: schedulerName, scorePlugins with weights, pluginArgs, secrets masked."""
        summary = self.configuration.profiles[0].summary()
        return {
            "schedulerName": summary["schedulerName"],
            "scorePlugins": {plugin["name"]: plugin["weight"] for plugin in summary["score"]},
            "pluginArgs": summary["pluginConfig"],
            "configurationHash": self.configuration.hash,
        }


def build_profile(
    settings: ProfileSettings, files: CredentialFiles, environment: Mapping[str, str], flavour: Flavour
) -> tuple[Profile | None, list[SettingsProblem]]:
    """Return the profile, or None and what is wrong with the settings, told by the settings' own keys."""
    address, problems = _address(settings, environment)
    problems += _loads_without_source(settings)
    data = _configuration(settings, files, address, flavour)
    content = render(data)
    places = _Places(data)
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
    problems += [warning for warning in warnings if warning.location[:3] == ("plugins", "score", "disabled")]
    warnings += _token_in_clear(files, address)
    if files.token is not None and not flavour.is_ours:
        message = f"{flavour.name} cannot read a token from a Secret; let it ask a watcherAddress, in the plugin's args"
        warnings.append(SettingsProblem(("metricProvider", "credentials"), message))
    return (None, problems) if problems else (Profile(content, configuration, tuple(warnings)), [])


def _address(settings: ProfileSettings, environment: Mapping[str, str]) -> tuple[str | None, list[SettingsProblem]]:
    provider = settings.metric_provider
    if provider is None or provider.address.url is not None:
        return (provider.address.url if provider else None), []
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
        for plugin in settings.plugins.score.enabled
        if reads_load(plugin.name) and not plugin.args.get("watcherAddress")
    ][:1]


def _configuration(
    settings: ProfileSettings, files: CredentialFiles, address: str | None, flavour: Flavour
) -> dict[str, Any]:
    score = settings.plugins.score
    sections: dict[str, dict[str, list[dict[str, Any]]]] = {}
    pre_score = [{"name": plugin.name} for plugin in score.enabled if _has_pre_score(plugin.name)]
    if pre_score:
        sections["preScore"] = {"enabled": pre_score}
    score_section: dict[str, list[dict[str, Any]]] = {
        "enabled": [{"name": plugin.name, "weight": plugin.weight} for plugin in score.enabled],
        "disabled": [{"name": name} for name in score.disabled],
    }
    sections["score"] = {key: names for key, names in score_section.items() if names}
    profile: dict[str, Any] = {"schedulerName": settings.scheduler_name}
    if plugins := {point: section for point, section in sections.items() if section}:
        profile["plugins"] = plugins
    if plugin_config := list(_plugin_config(settings, files, address, flavour)):
        profile["pluginConfig"] = plugin_config
    return {"apiVersion": _API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def _has_pre_score(plugin: str) -> bool:
    # Default plugins have theirs from the default profile; naming one again would move it in the order.
    descriptor = lookup(plugin)
    return descriptor is not None and not descriptor.default and ExtensionPoint.PRE_SCORE in descriptor.points


def _plugin_config(
    settings: ProfileSettings, files: CredentialFiles, address: str | None, flavour: Flavour
) -> Iterator[dict[str, Any]]:
    provider = settings.metric_provider
    for plugin in settings.plugins.score.enabled:
        if args := _args(plugin, provider.type if provider else None, address):
            yield {"name": plugin.name, "args": args}
    if provider is not None and flavour.is_ours:
        load = {
            "tokenFile": files.token,
            "caFile": files.certificate_authority,
            "window": provider.window,
            "refreshSeconds": provider.refresh_seconds,
            "maxAgeSeconds": provider.max_age_seconds,
        }
        yield {"name": OPTIONS, "args": {"load": {key: value for key, value in load.items() if value is not None}}}


def _args(plugin: ScorePlugin, provider_type: str | None, address: str | None) -> dict[str, Any]:
    if address is None or not reads_load(plugin.name) or plugin.args.get("watcherAddress"):
        return plugin.args
    return {**plugin.args, "metricProvider": {"type": provider_type, "address": address}}


class _Places:
    """Where in the settings a field of the generated configuration comes from."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        profile = data["profiles"][0]
        self._enabled = [plugin["name"] for plugin in profile.get("plugins", {}).get("score", {}).get("enabled", [])]
        self._pre_score = [
            plugin["name"] for plugin in profile.get("plugins", {}).get("preScore", {}).get("enabled", [])
        ]
        self._plugin_config = [entry["name"] for entry in profile.get("pluginConfig", [])]

    def told_by_settings(self, problem: Problem) -> SettingsProblem:
        message = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
        return SettingsProblem(self._location(parse_location(problem.path)), message)

    def _location(self, location: Location) -> Location:
        match location[2:]:
            case ("schedulerName", *_):
                return ("schedulerName",)
            case ("plugins", "score", "disabled", int() as index, *_):
                return ("plugins", "score", "disabled", index)
            case ("plugins", "preScore", "enabled", int() as index, *_):
                return self._plugin(self._pre_score[index])
            case ("plugins", "score", *rest):
                return ("plugins", "score", *rest)
            case ("pluginConfig", int() as index, *rest):
                return self._entry(self._plugin_config[index], tuple(rest))
        return ("plugins",)

    def _plugin(self, name: str) -> Location:
        return ("plugins", "score", "enabled", self._enabled.index(name))

    def _entry(self, name: str, rest: Location) -> Location:
        match rest:
            case ("args", "load", *field) if name == OPTIONS:
                return ("metricProvider", *field)
            case ("args", "metricProvider", *field):
                return ("metricProvider", *field)
        return (*self._plugin(name), *rest)
