"""The completed configuration that `kube-scheduler --write-config-to` writes, as upstream writes it."""

from collections.abc import Mapping
from typing import Any

from scheduler.catalog import OPTIONS, ArgsModel, ExtensionPoint
from scheduler.config.args import with_defaults
from scheduler.config.expand import EnabledPlugin, merged_multi_point
from scheduler.config.extenders import ignored_resources, without_ignored
from scheduler.config.load import Configuration
from scheduler.config.model import API_VERSION, KIND, KubeSchedulerProfile, PluginEntry
from scheduler.config.render import render


def completed(configuration: Configuration, leader_election: Mapping[str, Any] | None = None) -> str:
    """Return the configuration as YAML: every field with its default, multiPoint merged with the default plugins, and
    the args of every plugin that is instantiated.

    Args:
        configuration: as loaded.
        leader_election: fields of `leaderElection` that flags override.
    """
    data = configuration.model.to_dict()
    data["leaderElection"] = {**data["leaderElection"], **(leader_election or {})}
    data["percentageOfNodesToScore"] = data.get("percentageOfNodesToScore", 0)
    names = [profile.scheduler_name for profile in configuration.profiles]
    profiles = configuration.model.profiles or [KubeSchedulerProfile()]
    data["profiles"] = [_profile(configuration, profile, name) for profile, name in zip(profiles, names, strict=True)]
    connection = data["clientConnection"]
    connection["qps"] = int(connection["qps"]) if float(connection["qps"]).is_integer() else connection["qps"]
    data["extenders"] = [_extender(extender) for extender in data["extenders"]]
    for field in ("extenders", "delayCacheUntilActive"):
        if not data.get(field):
            data.pop(field, None)
    return render({"apiVersion": API_VERSION, "kind": KIND, **data})


def _extender(extender: Mapping[str, Any]) -> dict[str, Any]:
    """Return an extender without the fields that are empty, and with its timeout."""
    written = {field: _filled(value) for field, value in extender.items() if value}
    if written["httpTimeout"] == "0s":
        written["httpTimeout"] = "5s"
    return written


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {field: content for field, content in value.items() if content}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def _profile(configuration: Configuration, profile: KubeSchedulerProfile, name: str) -> dict[str, Any]:
    effective = configuration.profile(name)
    multi_point = merged_multi_point(profile, configuration.flavour, effective.kubernetes)
    needed = dict.fromkeys(plugin.name for plugin in multi_point)
    plugins: dict[str, Any] = {}
    for point in ExtensionPoint:
        own = profile.plugins.at(point)
        needed.update(dict.fromkeys(entry.name for entry in own.enabled))
        disabled = [_entry(entry) for entry in own.disabled]
        disabled += [
            _entry(PluginEntry(name=name)) for name, at in effective.kubernetes.disabled_points if at == point.value
        ]
        plugins[point.value] = _set([_entry(entry) for entry in own.enabled], disabled)
    plugins |= {name: {} for name in effective.kubernetes.pod_group_sets}
    disabled = [_entry(entry) for entry in profile.plugins.multi_point.disabled]
    chosen = {entry.name for entry in profile.plugins.multi_point.enabled}
    # Upstream's default list has no weight for VolumeBinding, which means 1.
    merged = [
        EnabledPlugin(plugin.name) if plugin.name == "VolumeBinding" and plugin.name not in chosen else plugin
        for plugin in multi_point
    ]
    plugins["multiPoint"] = _set([_entry(plugin) for plugin in merged], disabled)
    data: dict[str, Any] = {"schedulerName": name, "plugins": plugins}
    if profile.percentage_of_nodes_to_score is not None:
        data["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    args = with_defaults(effective.given_args, tuple(needed), configuration.flavour, effective.kubernetes)
    args = dict(without_ignored(args, ignored_resources(configuration.model)))
    if OPTIONS in effective.given_args:
        args[OPTIONS] = effective.options
    if args:
        data["pluginConfig"] = [{"name": plugin, "args": _args(plugin, args[plugin])} for plugin in sorted(args)]
    return data


def _without_empty(value: Any) -> Any:
    """Return the value without empty lists and maps, which Go leaves out."""
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ([], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _entry(plugin: PluginEntry | EnabledPlugin) -> dict[str, Any]:
    return {"name": plugin.name, "weight": plugin.weight}


def _set(enabled: list[dict[str, Any]], disabled: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: entries for key, entries in (("enabled", enabled), ("disabled", disabled)) if entries}


def _args(plugin: str, args: ArgsModel) -> dict[str, Any]:
    data: dict[str, Any] = _without_empty(args.to_dict())
    return {"apiVersion": API_VERSION, "kind": f"{plugin}Args", **data} if plugin != OPTIONS else data
