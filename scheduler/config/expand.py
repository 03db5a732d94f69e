"""Expansion of the plugin sets in a file to the plugins that run at each extension point.

Follows pkg/scheduler/apis/config/v1/default_plugins.go (merge) and pkg/scheduler/framework/runtime/framework.go
(expansion, weights) of kube-scheduler, including their error texts.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.catalog import (
    DEFAULT_KUBERNETES,
    GO_INTERFACES,
    REMOVED_IN_V1,
    ArgsModel,
    ExtensionPoint,
    KubernetesVersion,
    Loc,
    PluginDescriptor,
    SecondarySchedulerOptionsArgs,
    default_plugins,
    lookup,
)
from scheduler.config.args import missing_plugin
from scheduler.config.decode import nearest
from scheduler.config.document import ConfigurationDocument
from scheduler.config.flavours import OURS, Flavour
from scheduler.config.legacy import STRATEGIES, replacement
from scheduler.config.model import INT64, POD_GROUP_SETS, KubeSchedulerProfile, PluginEntry, Plugins, PluginSet
from scheduler.config.problems import Problem
from scheduler.config.releases import last_with, plugin_span, point_span
from scheduler.config.render import redacted

_OF_YOUR_OWN = (
    "a plugin of your own needs an image of your own that has it (--image, or image and extraPlugins in a stack), or a "
    "Python package for this project's image"
)
_GUARDS: Mapping[str, str] = {
    "NodeResourcesFit": "nodes get more pods than they have room for, which the kubelet rejects",
    "TaintToleration": "no taint keeps a pod away",
    "NodeUnschedulable": "cordoned nodes get pods",
    "NodeAffinity": "nodeSelector and required node affinity count for nothing, and the kubelet rejects such pods",
    "NodePorts": "two pods get the same host port, and the kubelet rejects one",
}
"""Default filters that keep nodes and pods safe, with what happens without them."""
_OF_GANGS: Mapping[ExtensionPoint, str] = {
    ExtensionPoint.PERMIT: "pods run although their PodGroup lacks members",
    ExtensionPoint.QUEUE_SORT: "other pods come between the members of a gang",
    ExtensionPoint.PRE_FILTER: "minResources counts for nothing",
    ExtensionPoint.POST_FILTER: "with compatibility: upstream members wait for one that does not fit",
    ExtensionPoint.RESERVE: "with compatibility: upstream members wait for one that failed",
}
"""Extension points of Coscheduling, with what happens where it does not run there; the worst comes first."""


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin at an extension point; the weight is 0 everywhere but at score."""

    name: str
    weight: int = 0


@dataclass(frozen=True)
class EffectiveProfile:
    """What a profile runs, after merging with the defaults and expanding multiPoint.

    Attributes:
        scheduler_name: pods of this schedulerName use the profile.
        points: enabled plugins per extension point, in the order they run.
        plugin_args: decoded and defaulted args by plugin name.
        options: our own options.
        left_out: default plugins that this scheduler does not implement yet; there is a warning about them.
        percentage_of_nodes_to_score: the profile's or the file's value; None means all nodes.
        given_args: the args in the file, also of plugins that do not run.
        kubernetes: the version of kube-scheduler that it behaves as.
    """

    scheduler_name: str
    points: Mapping[ExtensionPoint, tuple[EnabledPlugin, ...]]
    plugin_args: Mapping[str, ArgsModel]
    options: SecondarySchedulerOptionsArgs
    left_out: tuple[str, ...] = ()
    percentage_of_nodes_to_score: int | None = None
    given_args: Mapping[str, ArgsModel] = dataclasses.field(default_factory=dict)
    kubernetes: KubernetesVersion = DEFAULT_KUBERNETES

    def plugins(self, point: ExtensionPoint) -> tuple[EnabledPlugin, ...]:
        """Return the plugins of one extension point in running order."""
        return self.points.get(point, ())

    @property
    def enabled(self) -> tuple[str, ...]:
        """Return the names of all plugins that run somewhere, in order of first appearance."""
        return tuple(dict.fromkeys(plugin.name for point in ExtensionPoint for plugin in self.plugins(point)))

    def args(self, name: str) -> ArgsModel | None:
        """Return a plugin's args; None for a plugin without any."""
        return self.plugin_args.get(name)

    def summary(self) -> dict[str, Any]:
        """Return the profile as data for users: names, score weights, args with secrets masked."""
        args = {name: redacted(model.to_dict()) for name, model in self.plugin_args.items()}
        return {
            "schedulerName": self.scheduler_name,
            "score": [{"name": plugin.name, "weight": plugin.weight} for plugin in self.plugins(ExtensionPoint.SCORE)],
            "filter": [plugin.name for plugin in self.plugins(ExtensionPoint.FILTER)],
            "pluginConfig": args,
        }


class Expander:
    """Expands one profile and collects its problems."""

    def __init__(
        self,
        document: ConfigurationDocument,
        profile: KubeSchedulerProfile,
        loc: Loc,
        flavour: Flavour = OURS,
        kubernetes: KubernetesVersion = DEFAULT_KUBERNETES,
        *,
        whole: bool = True,
    ) -> None:
        """`whole`: all of the plugin sets was decoded."""
        self._whole = whole
        self._document = document
        self._kubernetes = kubernetes
        self._flavour = flavour
        self._profile = profile
        self._loc = loc
        self.problems: list[Problem] = []
        self._left_out: set[str] = set()

    def expand(self) -> dict[ExtensionPoint, tuple[EnabledPlugin, ...]]:
        """Return the plugins per extension point; look at `problems` before using them."""
        self._check_names()
        multi_point = merged_multi_point(self._profile, self._flavour, self._kubernetes)
        points = {point: self._expand_point(point, multi_point) for point in ExtensionPoint}
        if self._whole:
            self._check_result(points)
        return points

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the default plugins that would run if this scheduler implemented them."""
        return tuple(plugin.name for plugin in default_plugins(self._kubernetes) if plugin.name in self._left_out)

    def _error(self, loc: Loc, message: str, hint: str = "") -> None:
        self.problems.append(self._document.problem((*self._loc, *loc), message, hint=hint))

    def _plugin_sets(self) -> Iterator[tuple[str, ExtensionPoint | None, PluginSet]]:
        for point in ExtensionPoint:
            yield point.value, point, self._profile.plugins.at(point)
        yield "multiPoint", None, self._profile.plugins.multi_point

    def _check_names(self) -> None:
        for field, point, plugin_set in self._plugin_sets():
            seen: set[str] = set()
            for index, entry in enumerate(plugin_set.enabled):
                at: Loc = ("plugins", field, "enabled", index)
                self._check_enabled(at, entry, point)
                if entry.name in seen:
                    self._error(at, f'plugin "{entry.name}" already registered as "{_interface(point)}"')
                seen.add(entry.name)
            for index, entry in enumerate(plugin_set.disabled):
                if entry.name != "*" and entry.name not in REMOVED_IN_V1 and self._flavour.find(entry.name) is None:
                    self._warn_of_unknown_disabled(
                        entry.name, (*self._loc, "plugins", field, "disabled", index, "name")
                    )
        for name in POD_GROUP_SETS:
            for index, entry in enumerate(getattr(self._profile.plugins, name).enabled):
                alias = Plugins.model_fields[name].alias or name
                message = f'plugin "{entry.name}" cannot be enabled: {alias} is not followed'
                hint = replacement(entry.name) or "remove it"
                self._error(("plugins", alias, "enabled", index, "name"), message, hint)

    def _warn_of_unknown_disabled(self, name: str, loc: Loc) -> None:
        if name in STRATEGIES:
            message = f'{_DISABLES}{name}", which has had no effect since v1beta2: NodeResourcesFit scores that way now'
            hint = "to switch that scoring off, disable NodeResourcesFit under score"
        else:
            message = f'{_DISABLES}{name}", which does not exist: it has no effect'
            hint = replacement(name) or nearest(name, self._flavour.names())
        self.problems.append(self._document.problem(loc, message, hint=hint, severity="warning"))

    def _check_enabled(self, at: Loc, entry: PluginEntry, point: ExtensionPoint | None) -> None:
        at = (*at, "name")
        if entry.name in REMOVED_IN_V1 and self._flavour.find(entry.name) is None:
            message = f'Invalid value: "{entry.name}": was invalid in version "v1"'
            self._error(at, message, replacement(entry.name))
            return
        descriptor = self._flavour.find(entry.name)
        if descriptor is None:
            self._error(at, missing_plugin(entry.name, self._flavour, _interface(point)), self._instead_of(entry.name))
        elif point is not None and point not in descriptor.points_as(self._kubernetes):
            message = f'plugin "{entry.name}" does not extend {_interface(point)} plugin'
            self._error(at, message, self._extended(descriptor, point))
        elif entry.name in self._flavour.extra and self._flavour.family != "custom":
            message, hint = f'plugin "{entry.name}" is not known here: it is kept', _OF_YOUR_OWN
            problem = self._document.problem((*self._loc, *at), message, hint=hint, severity="warning")
            self.problems.append(problem)
        elif not self._flavour.runs(descriptor):
            message = f'plugin "{entry.name}" is not implemented by this scheduler yet'
            self._error(at, message, "remove it, or run an image that has it")
        if entry.weight < 0 or entry.weight * 100 > INT64:
            self._error(
                (*at[:-1], "weight"), "total score of Score plugins could overflow", "give a weight of 1 or more"
            )

    def _extended(self, descriptor: PluginDescriptor, missing: ExtensionPoint) -> str:
        """Which points a plugin extends, and which releases extend the one that is missing."""
        points = ", ".join(sorted(point.value for point in descriptor.points_as(self._kubernetes)))
        release, span = self._flavour.release, point_span(descriptor.name, missing)
        if release is not None and span is not None:
            return f"it extends {points}; {span.explained(release.number, missing.value)}"
        last = last_with(descriptor.name, missing)
        return f"it extends {points}{f' (up to {last} also {missing.value})' if last else ''}"

    def _instead_of(self, name: str) -> str:
        """What to write, or where to look, for a plugin that the image does not have."""
        release, span = self._flavour.release, plugin_span(name)
        if release is not None and span is not None:
            return span.explained(release.number)
        hint = replacement(name) or nearest(name, self._flavour.names())
        if self._flavour.family == "custom":
            return f"declare it under extraPlugins if the image has it{'; ' if hint else ''}{hint}"
        return hint if lookup(name) is not None or replacement(name) else "; ".join(filter(None, (hint, _OF_YOUR_OWN)))

    def _expand_point(self, point: ExtensionPoint, multi_point: list[EnabledPlugin]) -> tuple[EnabledPlugin, ...]:
        own = self._profile.plugins.at(point)
        specific = {entry.name: EnabledPlugin(entry.name, entry.weight) for entry in own.enabled}
        disabled = {entry.name for entry in own.disabled}
        overrides: list[EnabledPlugin] = []
        general: list[EnabledPlugin] = []
        if "*" not in disabled:
            in_multi_point = {plugin.name for plugin in multi_point}
            for plugin in multi_point:
                descriptor = self._flavour.find(plugin.name)
                if descriptor is None or point not in descriptor.points_as(self._kubernetes):
                    continue
                if plugin.name not in disabled and plugin.name not in specific and self._usable(descriptor):
                    general.append(plugin)
            overrides = [plugin for name, plugin in specific.items() if name in in_multi_point]
        rest = [plugin for plugin in specific.values() if plugin not in overrides]
        ordered = [plugin for plugin in (*overrides, *general, *rest) if self._runs(plugin.name)]
        weighs = point is ExtensionPoint.SCORE
        return tuple(
            EnabledPlugin(plugin.name, (plugin.weight or self._weight(plugin.name)) if weighs else 0)
            for plugin in ordered
        )

    def _weight(self, name: str) -> int:
        """Weight of a plugin that is enabled without one: 1 and not the default weight, as upstream has it, but for
        plugins of packages, which upstream does not have."""
        descriptor = self._flavour.find(name)
        return descriptor.default_weight or 1 if descriptor is not None and descriptor.factory else 1

    def _usable(self, descriptor: PluginDescriptor) -> bool:
        usable = self._flavour.runs(descriptor)
        if not usable and descriptor.name in self._kubernetes.default_plugins:
            self._left_out.add(descriptor.name)
        return usable

    def _runs(self, name: str) -> bool:
        descriptor = self._flavour.find(name)
        return descriptor is not None and self._flavour.runs(descriptor)

    def _check_result(self, points: Mapping[ExtensionPoint, tuple[EnabledPlugin, ...]]) -> None:
        name = self._profile.scheduler_name
        sorters = points[ExtensionPoint.QUEUE_SORT]
        if len(sorters) != 1:
            message = (
                f'only one queue sort plugin required for profile with scheduler name "{name}", but got {len(sorters)}'
            )
            names = ", ".join(plugin.name for plugin in sorters)
            hint = f"disable all but one of {names} under queueSort" if sorters else "enable PrioritySort"
            self._error(("plugins", "queueSort"), message, hint)
        if not points[ExtensionPoint.BIND]:
            message = f'at least one bind plugin is needed for profile with scheduler name "{name}"'
            self._error(("plugins", "bind"), message, "enable DefaultBinder")
        if sum(plugin.weight for plugin in points[ExtensionPoint.SCORE]) * 100 > INT64:
            self._error(("plugins", "score"), "total score of Score plugins could overflow")
        self._warn_of_missing_guards(points)
        if self._flavour.family == OURS.family:
            self._warn_of_half_a_gang_plugin(points)

    def _warn_of_missing_guards(self, points: Mapping[ExtensionPoint, tuple[EnabledPlugin, ...]]) -> None:
        """Warn of default filters that do not run and without which pods come to nodes that cannot or must not run
        them; once for each entry that disables some."""
        filters = {plugin.name for plugin in points[ExtensionPoint.FILTER]}
        missing: dict[Loc, list[str]] = {}
        for plugin in default_plugins(self._kubernetes):
            if plugin.name in _GUARDS and plugin.name not in filters:
                missing.setdefault(self._disabling(plugin.name), []).append(plugin.name)
        for loc, names in missing.items():
            consequences = "; ".join(f"without {name} {_GUARDS[name]}" for name in names)
            message = f"no filter {' or '.join(names)} runs: {consequences}"
            hint = "enable what is needed under filter, or disable it at the points that are meant, such as score"
            self.problems.append(self._document.problem(loc, message, hint=hint, severity="warning"))

    def _warn_of_half_a_gang_plugin(self, points: Mapping[ExtensionPoint, tuple[EnabledPlugin, ...]]) -> None:
        runs_at = {point for point in _OF_GANGS if any(plugin.name == "Coscheduling" for plugin in points[point])}
        missing = {point: effect for point, effect in _OF_GANGS.items() if point not in runs_at}
        if not runs_at or not missing:
            return
        names = ", ".join(point.value for point in missing)
        worst = next(iter(missing.values()))
        message = f"Coscheduling does not run at {names}: {worst}"
        hint = "enable it under multiPoint, and disable PrioritySort there (docs/gangs.md)"
        self.problems.append(
            self._document.problem(self._enabling("Coscheduling"), message, hint=hint, severity="warning")
        )

    def _enabling(self, name: str) -> Loc:
        """Location of the first entry that enables a plugin."""
        for field, _, plugin_set in self._plugin_sets():
            for index, entry in enumerate(plugin_set.enabled):
                if entry.name == name:
                    return (*self._loc, "plugins", field, "enabled", index, "name")
        return (*self._loc, "plugins")

    def _disabling(self, name: str) -> Loc:
        """Location of the entry that disables a default filter."""
        for field, plugin_set in (
            ("filter", self._profile.plugins.filter),
            ("multiPoint", self._profile.plugins.multi_point),
        ):
            for index, entry in enumerate(plugin_set.disabled):
                if entry.name in (name, "*"):
                    return (*self._loc, "plugins", field, "disabled", index, "name")
        return (*self._loc, "plugins", "filter")


def merged_multi_point(
    profile: KubeSchedulerProfile, flavour: Flavour = OURS, kubernetes: KubernetesVersion = DEFAULT_KUBERNETES
) -> list[EnabledPlugin]:
    """Return multiPoint merged with the defaults: a default plugin that is enabled again keeps its position."""
    custom = profile.plugins.multi_point
    disabled = {entry.name for entry in custom.disabled}
    chosen = {entry.name: entry for entry in custom.enabled}
    merged: list[EnabledPlugin] = []
    replaced: set[str] = set()
    for default in () if "*" in disabled else default_plugins(kubernetes):
        if default.name in disabled or flavour.find(default.name) is None:
            continue
        own = chosen.get(default.name)
        if own is not None:
            replaced.add(own.name)
        merged.append(EnabledPlugin(default.name, own.weight if own is not None else default.default_weight))
    return [*merged, *(EnabledPlugin(name, entry.weight) for name, entry in chosen.items() if name not in replaced)]


_DISABLES = 'disables "'


def disables_nothing(problem: Problem) -> bool:
    """Tell the warning about an entry that disables a plugin that does not exist."""
    return "disabled" in problem.loc and problem.message.startswith(_DISABLES)


def _interface(point: ExtensionPoint | None) -> str:
    return GO_INTERFACES[point] if point is not None else "MultiPoint plugin"
