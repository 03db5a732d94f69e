"""What changes between two configurations, in words: the effects that a reviewer wants to know, not the lines."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.catalog import OPTIONS, ExtensionPoint
from scheduler.config.expand import EffectiveProfile
from scheduler.config.load import Configuration
from scheduler.config.model import KubeSchedulerProfile
from scheduler.config.render import SECRET, names_secret, redacted

_ABSENT = object()
"""Names of fields whose values are never shown; the path of a file is not secret."""


def differences(old: Configuration, new: Configuration) -> list[str]:
    """Return one line per change of behaviour, by profile; empty if both configurations do the same.

    Both sides have their defaults filled in, so writing out a default is not a change. Secrets are never shown.
    """
    lines = list(_data_changes("", _without_profiles(old), _without_profiles(new)))
    old_names, new_names = _names(old), _names(new)
    for name in dict.fromkeys((*old_names, *new_names)):
        if name not in new_names:
            lines.append(f"profile {name}: removed; nothing schedules pods that name it")
        elif name not in old_names:
            lines.append(f"profile {name}: added, {_scores(new.profile(name))}")
        else:
            before, after = _written_profile(old, name), _written_profile(new, name)
            changes = _profile_changes(old.profile(name), new.profile(name), before, after)
            lines += [f"profile {name}: {change}" for change in changes]
    return lines


def profile_differences(configuration: Configuration, name: str, other: str) -> list[str]:
    """Return what the second of two profiles does otherwise than the first, a line per difference.

    That the one has the other for a shadow is no difference. Secrets are never shown.

    Raises:
        KeyError: there is no profile of such a name.
    """
    profiles = configuration.profile(name), configuration.profile(other)
    written = _written_profile(configuration, name), _written_profile(configuration, other)
    lines = _profile_changes(*profiles, *written)
    return [line for line in lines if not line.startswith(f"{OPTIONS} shadow")]


def changed_plugins(old: EffectiveProfile, new: EffectiveProfile) -> frozenset[str]:
    """Return the plugins of the second profile that the first lacks, or runs at other points, with another weight or
    with other args."""

    def data(profile: EffectiveProfile, name: str) -> tuple[dict[str, int], dict[str, Any] | None]:
        args = profile.args(name)
        return _points(profile, name), None if args is None else args.to_dict()

    return frozenset(name for name in new.enabled if data(old, name) != data(new, name))


def _scores(profile: EffectiveProfile) -> str:
    scoring = ", ".join(f"{plugin.name} {plugin.weight}" for plugin in profile.plugins(ExtensionPoint.SCORE))
    return f"scores by {scoring}" if scoring else "scores by nothing"


def _written_profile(configuration: Configuration, name: str) -> KubeSchedulerProfile:
    """The profile as written; the default profile for a file without profiles."""
    profiles = configuration.model.profiles or [KubeSchedulerProfile()]
    return profiles[_names(configuration).index(name)]


def _names(configuration: Configuration) -> list[str]:
    return [profile.scheduler_name for profile in configuration.profiles]


def _without_profiles(configuration: Configuration) -> dict[str, Any]:
    data = configuration.model.to_dict()
    return {key: value for key, value in data.items() if key not in ("profiles", "apiVersion", "kind")}


def _profile_changes(
    old: EffectiveProfile, new: EffectiveProfile, before: KubeSchedulerProfile, after: KubeSchedulerProfile
) -> Iterator[str]:
    yield from _plugin_changes(old, new)
    for name in (name for name in new.enabled if name in old.enabled):
        yield from _data_changes(f"{name} ", _args(old, before, name), _args(new, after, name))
    yield from _data_changes(f"{OPTIONS} ", old.options.to_dict(), new.options.to_dict())
    percentages = (old.percentage_of_nodes_to_score, new.percentage_of_nodes_to_score)
    if percentages[0] != percentages[1]:
        yield _change(
            "percentageOfNodesToScore", *("unset" if percentage is None else percentage for percentage in percentages)
        )


def _plugin_changes(old: EffectiveProfile, new: EffectiveProfile) -> Iterator[str]:
    for name in dict.fromkeys((*old.enabled, *new.enabled)):
        before, after = _points(old, name), _points(new, name)
        weights = (before.get("score"), after.get("score"))
        if not before:
            yield f"{name} added at {_list(after)}{_weight(weights[1])}"
        elif not after:
            yield f"{name} removed, it ran at {_list(before)}{_weight(weights[0])}"
        else:
            if removed := [point for point in before if point not in after]:
                yield f"{name} disabled at {', '.join(removed)}{_weight(weights[0]) if 'score' in removed else ''}"
            if added := [point for point in after if point not in before]:
                yield f"{name} enabled at {', '.join(added)}{_weight(weights[1]) if 'score' in added else ''}"
            if None not in weights and weights[0] != weights[1]:
                yield f"{name} weight {weights[0]} -> {weights[1]}"
    for point in ExtensionPoint:
        names = [[plugin.name for plugin in profile.plugins(point)] for profile in (old, new)]
        common = set(names[0]) & set(names[1])
        orders = [[name for name in names_of_profile if name in common] for names_of_profile in names]
        # Order does not affect the sum of scores.
        if orders[0] != orders[1] and point not in (ExtensionPoint.SCORE, ExtensionPoint.PRE_SCORE):
            yield f"{point.value} runs in a different order: {', '.join(names[1])}"


def _points(profile: EffectiveProfile, name: str) -> dict[str, int]:
    """The extension points where a plugin runs, with its weight at each."""
    return {
        point.value: plugin.weight
        for point in ExtensionPoint
        for plugin in profile.plugins(point)
        if plugin.name == name
    }


def _list(points: Mapping[str, int]) -> str:
    return ", ".join(points)


def _weight(weight: int | None) -> str:
    return f" (weight {weight})" if weight else ""


def _args(profile: EffectiveProfile, written: KubeSchedulerProfile, name: str) -> dict[str, Any]:
    """A plugin's args with defaults; those of an unknown plugin as written."""
    model = profile.args(name)
    if model is not None:
        return model.to_dict()
    return next((entry.args or {} for entry in written.plugin_config if entry.name == name), {})


def _data_changes(path: str, old: Any, new: Any) -> Iterator[str]:
    """Yield a line per difference below a path; lists are compared as a whole."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield _change(path, _display(path, old), _display(path, new))
        return
    separator = "" if not path or path.endswith(" ") else "."
    for key in dict.fromkeys((*old, *new)):
        yield from _data_changes(f"{path}{separator}{key}", old.get(key, _ABSENT), new.get(key, _ABSENT))


def _change(field: str, old: object, new: object) -> str:
    return f"{field} {old} -> {new}"


def _display(path: str, value: object) -> str:
    if value is _ABSENT:
        return "unset"
    if value and names_secret(path.rpartition(".")[2].rpartition(" ")[2]):
        return SECRET
    return value if isinstance(value, str) and value else json.dumps(redacted(value), ensure_ascii=False, default=str)
