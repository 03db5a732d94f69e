"""The configuration as it takes effect: profiles, plugins, weights, args, and what differs from another file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.catalog import ExtensionPoint
from scheduler.config import Configuration, EffectiveProfile, differences, profile_differences, redacted
from secondary_scheduler.views.arguments import Argument, arguments_of


@dataclass(frozen=True, slots=True)
class PluginRow:
    """A plugin with the extension points that it runs at; `weight` is None where it does not score."""

    name: str
    weight: int | None
    points: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ProfilePage:
    """A profile.

    Attributes:
        points: extension points at which any plugin runs.
        plugins: in the order in which they first run.
        args: leaves of each plugin's args, secrets masked.
        beside: the profile that it is a shadow of; "" where it is none.
        tried: what it does otherwise than that one.
    """

    name: str
    kubernetes: str
    percentage: int | None
    points: tuple[str, ...]
    plugins: tuple[PluginRow, ...]
    args: Mapping[str, tuple[Argument, ...]]
    options: tuple[Argument, ...]
    left_out: tuple[str, ...]
    beside: str = ""
    tried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigurationPage:
    """What the page of the configuration shows; `changes` is None without a file to compare with."""

    source: str
    version: str
    hash: str
    profiles: tuple[ProfilePage, ...]
    settings: tuple[Argument, ...]
    warnings: tuple[str, ...]
    old: str
    changes: tuple[str, ...] | None


def configuration_page(configuration: Configuration, old: Configuration | None) -> ConfigurationPage:
    """Return what is shown of a configuration, and how it differs from an older one."""
    top: dict[str, Any] = redacted(configuration.model.to_dict())
    settings = {key: value for key, value in top.items() if key not in ("profiles", "apiVersion", "kind")}
    return ConfigurationPage(
        configuration.source,
        configuration.version,
        configuration.hash,
        tuple(_profile(profile, configuration) for profile in configuration.profiles),
        arguments_of(settings),
        tuple(map(str, configuration.warnings)),
        old.source if old is not None else "",
        tuple(differences(old, configuration)) if old is not None else None,
    )


def _profile(profile: EffectiveProfile, configuration: Configuration) -> ProfilePage:
    name = profile.scheduler_name
    live_name = next((profile.scheduler_name for profile in configuration.served if _shadow_of(profile) == name), "")
    points = [point for point in ExtensionPoint if profile.plugins(point)]
    names = {point: {plugin.name for plugin in profile.plugins(point)} for point in points}
    weights = {plugin.name: plugin.weight for plugin in profile.plugins(ExtensionPoint.SCORE)}
    return ProfilePage(
        profile.scheduler_name,
        profile.kubernetes.name,
        profile.percentage_of_nodes_to_score,
        tuple(point.value for point in points),
        tuple(
            PluginRow(name, weights.get(name), tuple(name in names[point] for point in points))
            for name in profile.enabled
        ),
        {
            name: arguments_of(redacted(data))
            for name, args in sorted(profile.plugin_args.items())
            if (data := args.to_dict())
        },
        arguments_of(redacted(profile.options.to_dict())),
        profile.left_out,
        live_name,
        tuple(profile_differences(configuration, live_name, name)) if live_name and live_name != name else (),
    )


def _shadow_of(profile: EffectiveProfile) -> str:
    return profile.options.shadow.profile if profile.options.shadow is not None else ""
