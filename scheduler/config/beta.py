"""Conversion from v1beta1, v1beta2 and v1beta3 to v1: the same plugins run with the same weights, written out.

The conversion edits a tree of maps and lists in place, and moves entries instead of copying them. So it works on plain
data, whose positions in the file stay known, and on a commented tree of ruamel.yaml, whose comments stay.
"""

from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
from typing import Any

from scheduler.catalog import ExtensionPoint, default_plugins
from scheduler.config.legacy import (
    BIND_ADDRESSES,
    CONVERTED_VERSIONS,
    DEFAULT_POINTS,
    DEFAULT_SCORES,
    EXPLAINED,
    IGNORED_MULTI_POINT,
    LAST_SERVED,
    LOST_POINTS,
    REMOVED_ARGS,
    STRATEGIES,
    VOLUME_LIMITS,
)
from scheduler.config.model import API_VERSION, DEFAULT_SCHEDULER_NAME, GROUP
from scheduler.config.problems import Severity
from scheduler.config.releases import last_with

Tree = MutableMapping[str, Any]
Report = Callable[[object, str | int | None, str, str, Severity], None]
"""Called with container, key in it, message, hint and severity."""

FIT = "NodeResourcesFit"
_POINTS = tuple(point.value for point in ExtensionPoint)


def version_of(data: object) -> str:
    """Return the version (`v1`, `v1beta3`, …) of a configuration's data; empty for another API group."""
    value = data.get("apiVersion") if isinstance(data, MutableMapping) else None
    group, _, version = str(value).partition("/")
    return version if group == GROUP else ""


def is_converted(version: str) -> bool:
    """Tell whether a version is accepted through conversion."""
    return version in CONVERTED_VERSIONS


def convert(data: Tree, report: Report) -> None:
    """Convert data of a convertible version to v1, in place, and report every change that a user should know about.

    Parts that do not have the shape of a configuration stay as they are: decoding refuses them afterwards.
    """
    version = version_of(data)
    message = (
        f"{version} was last served by Kubernetes {LAST_SERVED[version]}; it is converted to v1 with the plugins and "
        f"weights it had"
    )
    report(data, "apiVersion", message, "rewrite the file with: secondary-scheduler convert FILE", "warning")
    data["apiVersion"] = API_VERSION
    _top_level(data, version, report)
    if version in DEFAULT_SCORES and not data.get("profiles"):
        data["profiles"] = [{"schedulerName": DEFAULT_SCHEDULER_NAME}]
    conversions = [_ProfileConversion(profile, version, report) for profile in _mappings(data.get("profiles"))]
    for conversion in conversions:
        conversion.run()
    if any(conversion.avoided_pods for conversion in conversions):
        message = "NodePreferAvoidPods, a default plugin of v1beta1 with weight 10000, is left out"
        report(data, "apiVersion", message, EXPLAINED["NodePreferAvoidPods"], "warning")


def _top_level(data: Tree, version: str, report: Report) -> None:
    if version != "v1beta3":
        for field in BIND_ADDRESSES:
            if field in data:
                message = f"{field} was removed in v1beta3 and is dropped"
                hint = "health and metrics are served on --bind-address and --secure-port (10259)"
                report(data, field, message, hint, "warning")
                del data[field]
    election = data.get("leaderElection")
    if isinstance(election, MutableMapping):
        lock = election.get("resourceLock")
        if lock in ("endpoints", "configmaps", "endpointsleases", "configmapsleases"):
            report(election, "resourceLock", f'the lock "{lock}" was removed and becomes "leases"', "", "warning")
            election["resourceLock"] = "leases"


def _mappings(value: object) -> Iterator[Tree]:
    if isinstance(value, MutableSequence):
        yield from (item for item in value if isinstance(item, MutableMapping))


def _named_entries(value: object) -> list[Tree]:
    return [entry for entry in _mappings(value) if isinstance(entry.get("name"), str)]


def _weight(entry: Tree) -> int:
    weight = entry.get("weight")
    return weight if isinstance(weight, int) and weight else 1


def _well_formed(profile: Tree) -> bool:
    """Whether maps and lists are where they belong. Other profiles are not converted, and decoding reports why."""
    plugins = profile.get("plugins")
    if not isinstance(plugins, MutableMapping | None):
        return False
    sets = [plugin_set for plugin_set in (plugins or {}).values() if plugin_set is not None]
    if not all(isinstance(plugin_set, MutableMapping) for plugin_set in sets):
        return False
    lists = [plugin_set.get(key) for plugin_set in sets for key in ("enabled", "disabled")]
    if not all(isinstance(entries, MutableSequence | None) for entries in [*lists, profile.get("pluginConfig")]):
        return False
    return all(isinstance(entry.get("args"), MutableMapping | None) for entry in _mappings(profile.get("pluginConfig")))


class _ProfileConversion:
    def __init__(self, profile: Tree, version: str, report: Report) -> None:
        self._profile = profile
        self._version = version
        self._report = report
        self.avoided_pods = False

    def run(self) -> None:
        if not _well_formed(self._profile):
            return
        self._drop_lost_points()
        if self._version == "v1beta3":
            for plugin_set in self._sets():
                self._drop_volume_limits(plugin_set)
        else:
            self._refuse_removed_plugins()
            scoring = self._score()
            self._strategy(scoring)
            for point in DEFAULT_POINTS:
                self._keep_order(point)
        for entry in _named_entries(self._profile.get("pluginConfig")):
            self._args(entry)

    def _sets(self) -> Iterator[Tree]:
        plugins = self._profile.get("plugins")
        for field in (*_POINTS, "multiPoint"):
            plugin_set = plugins.get(field) if isinstance(plugins, MutableMapping) else None
            if isinstance(plugin_set, MutableMapping):
                yield plugin_set

    def _drop_lost_points(self) -> None:
        """Drop plugins where they extended a point in older releases only: nothing runs there any more."""
        plugins = self._profile.get("plugins") or {}
        for point in ExtensionPoint:
            plugin_set = plugins.get(point.value) or {}
            for entry in _named_entries(plugin_set.get("enabled")):
                last = last_with(entry["name"], point)
                if last:
                    message = f"{entry['name']} extended {point.value} up to scheduler-plugins {last}: it is dropped"
                    self._report(entry, "name", message, LOST_POINTS.get(entry["name"], ""), "warning")
                    _remove(plugin_set["enabled"], entry)

    def _refuse_removed_plugins(self) -> None:
        plugins = self._profile.get("plugins") or {}
        if "multiPoint" in plugins and self._version == "v1beta2":
            hint = f"it is dropped; to run them, write apiVersion: {API_VERSION}"
            self._report(plugins, "multiPoint", IGNORED_MULTI_POINT, hint, "warning")
            del plugins["multiPoint"]
        elif "multiPoint" in plugins:
            message = f"{self._version} has no multiPoint: it was added in v1beta2 of Kubernetes 1.23"
            hint = f"write apiVersion: {API_VERSION}, or give the plugins per extension point"
            self._report(plugins, "multiPoint", message, hint, "error")
        for plugin_set in self._sets():
            self._drop_volume_limits(plugin_set)
            for entry in _named_entries(plugin_set.get("enabled")):
                name = entry["name"]
                if name in ("NodeLabel", "ServiceAffinity"):
                    self._report(entry, "name", f"{name} cannot be converted", EXPLAINED[name], "error")
                elif self._version != "v1beta1" and name in (*STRATEGIES, "NodePreferAvoidPods"):
                    message = f'Invalid value: "{name}": was invalid in version "{self._version}"'
                    self._report(entry, "name", message, EXPLAINED.get(name, ""), "error")

    def _drop_volume_limits(self, plugin_set: Tree) -> None:
        """NodeVolumeLimits counts the volumes of all drivers; it replaces the first of the four old plugins."""
        enabled = plugin_set.get("enabled")
        names = {entry["name"] for entry in _named_entries(enabled)}
        only = any(entry["name"] == "*" for entry in _named_entries(plugin_set.get("disabled")))
        for entry in _named_entries(enabled):
            if entry["name"] not in VOLUME_LIMITS:
                continue
            self._report(entry, "name", f"{entry['name']} was removed: NodeVolumeLimits covers it", "", "warning")
            if only and "NodeVolumeLimits" not in names:
                entry["name"] = "NodeVolumeLimits"
                names.add("NodeVolumeLimits")
            else:
                _remove(enabled, entry)

    def _score(self) -> str | None:
        """Write out the score plugins with their weights; return the plugin that becomes NodeResourcesFit."""
        score = self._child(self._child(self._profile, "plugins"), "score")
        enabled, disabled = self._list(score, "enabled"), self._list(score, "disabled")
        off = {entry["name"] for entry in _named_entries(disabled)}
        defaults = {} if "*" in off else {k: v for k, v in DEFAULT_SCORES[self._version].items() if k not in off}
        explicit = {entry["name"]: entry for entry in _named_entries(enabled)}
        self.avoided_pods = "NodePreferAvoidPods" in defaults.keys() - explicit.keys()
        for name in defaults.keys() & explicit.keys() if self._version == "v1beta1" else ():
            message = (
                f"v1beta1 refused to start with the default plugin {name} enabled a second time; its weight applies"
            )
            self._report(explicit[name], "name", message, "disable it as well to make the intention clear", "warning")
        scoring = self._resources([*(name for name in defaults if name not in explicit), *explicit])
        written: list[Tree] = [
            {"name": FIT if name in STRATEGIES else name, "weight": weight}
            for name, weight in defaults.items()
            if name not in explicit and name != "NodePreferAvoidPods"
        ]
        for position, entry in enumerate(written):
            enabled.insert(position, entry)
        for entry in _named_entries(enabled):
            if entry["name"] == "NodePreferAvoidPods":
                self._explain(entry)
                _remove(enabled, entry)
            elif entry["name"] in STRATEGIES:
                entry["name"] = FIT
        self._disabled_scores(disabled, {entry["name"] for entry in _named_entries(enabled)})
        for field in ("enabled", "disabled"):
            if not score[field]:
                del score[field]
        return scoring

    def _resources(self, effective: list[str]) -> str | None:
        scorers = [name for name in effective if name in STRATEGIES or name == FIT]
        if len(scorers) > 1:
            score = self._profile["plugins"]["score"]
            message = f"{' and '.join(scorers)} both score, and v1 has one NodeResourcesFit with one strategy"
            self._report(score, None, message, f"disable all but one, for example {scorers[0]}", "error")
        return scorers[0] if scorers else None

    def _disabled_scores(self, disabled: MutableSequence[Any], enabled: set[str]) -> None:
        for entry in _named_entries(disabled):
            name = entry["name"]
            if name == "NodePreferAvoidPods":
                _remove(disabled, entry)
            elif name in STRATEGIES and self._version == "v1beta1":
                if name == "NodeResourcesLeastAllocated" and not any(
                    entry["name"] == FIT for entry in _named_entries(disabled)
                ):
                    message = "NodeResourcesLeastAllocated is the scoring of NodeResourcesFit in v1: that is disabled"
                    self._report(entry, "name", message, "its filter still runs", "warning")
                    entry["name"] = FIT
                else:
                    _remove(disabled, entry)
        off = {entry["name"] for entry in _named_entries(disabled)}
        if "*" in off:
            return
        for plugin in default_plugins():
            # Only v1's default profile scores with VolumeBinding and with plugins that the old defaults did not have.
            if plugin.default_weight and plugin.name not in enabled | off:
                disabled.append({"name": plugin.name})

    def _explain(self, entry: Tree) -> None:
        name = str(entry["name"])
        self._report(entry, "name", f"{name} is left out", EXPLAINED[name], "warning")

    def _strategy(self, scoring: str | None) -> None:
        """Move the args of the plugin that scored resources into NodeResourcesFit; drop those of the others."""
        config = self._profile.get("pluginConfig")
        fit = next((entry for entry in _named_entries(config) if entry["name"] == FIT), None)
        for entry in _named_entries(config):
            if entry["name"] not in STRATEGIES:
                if entry["name"] in EXPLAINED:
                    self._explain(entry)
                    _remove(config, entry)
                continue
            if scoring is None or entry["name"] != scoring or self._version != "v1beta1":
                message = f"args of {entry['name']}, which does not score here, are left out"
                self._report(entry, "name", message, "", "warning")
                _remove(config, entry)
                continue
            args = entry.get("args")
            strategy = self._strategy_of(scoring, args if isinstance(args, MutableMapping) else {})
            if fit is not None:
                self._child(fit, "args")["scoringStrategy"] = strategy
                _remove(config, entry)
            else:
                entry["name"], fit = FIT, entry
                _replace(entry, "args", {"scoringStrategy": strategy})
            self._report(entry, "name", f"{scoring} becomes the scoring strategy of {FIT}", "", "warning")
            return
        if self._version == "v1beta1" and scoring in ("NodeResourcesMostAllocated", "RequestedToCapacityRatio"):
            self._written_strategy(fit, self._strategy_of(scoring, {}))

    def _written_strategy(self, fit: Tree | None, strategy: Tree) -> None:
        """Write the strategy of a plugin that had no args of its own."""
        if fit is None:
            self._list(self._profile, "pluginConfig").append({"name": FIT, "args": {"scoringStrategy": strategy}})
        else:
            self._child(fit, "args")["scoringStrategy"] = strategy

    @staticmethod
    def _strategy_of(name: str, args: Tree) -> Tree:
        strategy: Tree = {"type": STRATEGIES[name]}
        if "resources" in args:
            strategy["resources"] = args.pop("resources")
        if "shape" in args:
            strategy["requestedToCapacityRatio"] = {"shape": args.pop("shape")}
        # Fields that the old args did not have are refused under the new name.
        strategy.update({key: value for key, value in args.items() if key not in ("apiVersion", "kind")})
        return strategy

    def _keep_order(self, point: str) -> None:
        """Write the plugins in their old order: v1 moves a default plugin that is enabled again to the front, while
        v1beta2 left it in place or moved it to the end."""
        plugin_set = (self._profile.get("plugins") or {}).get(point)
        if not isinstance(plugin_set, MutableMapping):
            return
        enabled, off = (
            plugin_set.get("enabled"),
            {entry["name"] for entry in _named_entries(plugin_set.get("disabled"))},
        )
        again = [entry for entry in _named_entries(enabled) if entry["name"] in DEFAULT_POINTS[point]]
        if "*" in off or not again:
            return
        for entry in again:
            if entry["name"] not in off:
                _remove(enabled, entry)
        if any(entry["name"] in off for entry in again):
            kept = [name for name in DEFAULT_POINTS[point] if name not in off | VOLUME_LIMITS]
            for position, name in enumerate(kept):
                plugin_set["enabled"].insert(position, {"name": name})
            plugin_set["disabled"] = [{"name": "*"}]

    def _args(self, entry: Tree) -> None:
        args = entry.get("args")
        if not isinstance(args, MutableMapping):
            return
        if version_of(args) == self._version:
            args["apiVersion"] = API_VERSION
        for field, reason in REMOVED_ARGS.get(entry["name"], {}).items():
            if field in args and self._version != "v1beta3":
                self._report(args, field, f"{field} was removed and is dropped", reason, "warning")
                del args[field]
        listed = self._version == "v1beta1" and bool(args.get("defaultConstraints")) and "defaultingType" not in args
        if listed and entry["name"] == "PodTopologySpread":
            message = "v1beta1 read constraints without defaultingType as a List; this is written out"
            self._report(args, "defaultConstraints", message, "", "warning")
            args["defaultingType"] = "List"

    @staticmethod
    def _child(parent: Tree, key: str) -> Tree:
        if not isinstance(parent.get(key), MutableMapping):
            parent[key] = {}
        child: Tree = parent[key]
        return child

    @staticmethod
    def _list(parent: Tree, key: str) -> MutableSequence[Any]:
        if not isinstance(parent.get(key), MutableSequence):
            parent[key] = []
        child: MutableSequence[Any] = parent[key]
        return child


def _remove(items: Any, item: object) -> None:
    # Compared by identity: there may be several equal entries.
    del items[next(index for index, entry in enumerate(items) if entry is item)]


def _replace(parent: Tree, key: str, value: object) -> None:
    parent[key] = value
