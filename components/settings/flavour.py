"""The flavour of a scheduler's image, and the plugins that only a custom image has."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.catalog import Loc, PolicyRule, lookup
from scheduler.config import (
    CUSTOM,
    OURS,
    ExtraPlugin,
    Flavour,
    Problem,
    UnknownFlavourError,
    custom_flavour,
    flavour_named,
    flavour_of,
)

from .profile_settings import ProfileSettings


def flavour_of_settings(settings: ProfileSettings, image: str | None) -> tuple[Flavour, list[Problem]]:
    """Return the image's flavour, by the setting `flavour` or else by the image's name, and what is wrong with it.

    Where the flavour is not known it is ours, so that the rest of the settings can still be checked."""
    try:
        flavour = flavour_named(settings.flavour) if settings.flavour else _flavour_of_image(image, settings)
    except UnknownFlavourError as error:
        return OURS, [Problem(("flavour",), str(error))]
    extra = settings.extra_plugins
    if not extra:
        return flavour, []
    if flavour.family != "custom":
        message = f"are only for custom images, and this one is {flavour.name}; set flavour: custom if it is your own"
        return flavour, [Problem(("extraPlugins",), message)]
    problems = list(_extra_plugin_problems(settings))
    plugins = [
        ExtraPlugin(
            plugin.name,
            frozenset(plugin.points),
            tuple(PolicyRule(rule.api_groups, rule.resources, rule.verbs, rule.resource_names) for rule in plugin.rbac),
            plugin.crds,
        )
        for plugin in extra
    ]
    return custom_flavour(plugins), problems


def _flavour_of_image(image: str | None, settings: ProfileSettings) -> Flavour:
    if image:
        return flavour_of(image)
    return CUSTOM if settings.extra_plugins else OURS


def _extra_plugin_problems(settings: ProfileSettings) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, plugin in enumerate(settings.extra_plugins):
        at: Loc = ("extraPlugins", index, "name")
        if seen.setdefault(plugin.name, index) != index:
            yield Problem(at, f'"{plugin.name}" is already declared at extraPlugins[{seen[plugin.name]}]; remove one')
        elif (descriptor := lookup(plugin.name)) is not None and descriptor.points:
            message = f'"{plugin.name}" is a known plugin, whose args are checked; remove it here'
            yield Problem(at, message)
