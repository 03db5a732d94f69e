"""A module per plugin, a package where it has several nouns, and the list of their constructors.

A plugin may import `scheduler.framework`, `helpers`, `preemption`, `catalog`, `config` and `scheduler.kube.model` and
`.primitives`, never another plugin. It reads no clock, file or environment and does no I/O but through its `Handle`.
What `compatibility: upstream` changes stands in a class named `Upstream…`: rules, or a subclass of the plugin, chosen
once when the plugin is constructed. A plugin's bases are the Protocols that it implements: mypy checks it where it
stands.
"""

import importlib
from collections.abc import Iterator, Mapping

from scheduler.catalog import lookup
from scheduler.config import EffectiveProfile
from scheduler.framework import Handle, Plugin, PluginEnvironment, PluginFactory, ProfileRunner, Wrap

_CONSTRUCTORS: Mapping[str, str] = {
    "CapacityScheduling": "capacityscheduling:CapacityScheduling",
    "Coscheduling": "coscheduling:coscheduling",
    "DefaultBinder": "defaultbinder:DefaultBinder",
    "DefaultPreemption": "defaultpreemption:DefaultPreemption",
    "DynamicResources": "dynamicresources:DynamicResources",
    "GangScheduling": "gangscheduling:GangScheduling",
    "HighLoadFilter": "highloadfilter:high_load_filter",
    "ImageLocality": "imagelocality:ImageLocality",
    "InterPodAffinity": "interpodaffinity:InterPodAffinity",
    "LoadVariationRiskBalancing": "loadvariationriskbalancing:load_variation_risk_balancing",
    "LowRiskOverCommitment": "lowriskovercommitment:low_risk_over_commitment",
    "NetworkOverhead": "networkoverhead:NetworkOverhead",
    "NodeAffinity": "nodeaffinity:NodeAffinity",
    "NodeDeclaredFeatures": "nodedeclaredfeatures:NodeDeclaredFeatures",
    "NodeMetadata": "nodemetadata:node_metadata",
    "NodeName": "nodename:NodeName",
    "NodePorts": "nodeports:NodePorts",
    "NodeResourcesAllocatable": "noderesourcesallocatable:NodeResourcesAllocatable",
    "NodeResourcesBalancedAllocation": "noderesources:NodeResourcesBalancedAllocation",
    "NodeResourcesFit": "noderesources:NodeResourcesFit",
    "NodeResourceTopologyMatch": "noderesourcetopologymatch:NodeResourceTopologyMatch",
    "NodeUnschedulable": "nodeunschedulable:NodeUnschedulable",
    "NodeVolumeLimits": "nodevolumelimits:NodeVolumeLimits",
    "Peaks": "peaks:peaks",
    "PodState": "podstate:PodState",
    "PodTopologySpread": "podtopologyspread:PodTopologySpread",
    "PreemptionToleration": "preemptiontoleration:PreemptionToleration",
    "PrioritySort": "queuesort:PrioritySort",
    "QOSSort": "qossort:QOSSort",
    "SchedulingGates": "schedulinggates:SchedulingGates",
    "SharedNodes": "sharednodes:SharedNodes",
    "SySched": "sysched:SySched",
    "TaintToleration": "tainttoleration:TaintToleration",
    "TargetLoadPacking": "targetloadpacking:target_load_packing",
    "TopologicalSort": "topologicalsort:TopologicalSort",
    "VolumeBinding": "volumebinding:VolumeBinding",
    "VolumeRestrictions": "volumerestrictions:VolumeRestrictions",
    "VolumeZone": "volumezone:VolumeZone",
}
"""Module and constructor of each built-in plugin."""


class _Factories(Mapping[str, PluginFactory]):
    """Constructors by name. A plugin's code is imported on first use: most profiles enable half of the plugins."""

    def __getitem__(self, name: str) -> PluginFactory:
        return _import_object(f"{__name__}.{_CONSTRUCTORS[name]}")

    def __contains__(self, name: object) -> bool:
        return name in _CONSTRUCTORS

    def __iter__(self) -> Iterator[str]:
        return iter(_CONSTRUCTORS)

    def __len__(self) -> int:
        return len(_CONSTRUCTORS)


FACTORIES: Mapping[str, PluginFactory] = _Factories()
"""Constructors of the built-in plugins by name."""


def _no_wrapping(point: object, plugin: Plugin) -> Plugin:
    return plugin


def build_profile(
    effective: EffectiveProfile,
    handle: Handle | None = None,
    wrap: Wrap = _no_wrapping,
    environment: PluginEnvironment = PluginEnvironment(),  # noqa: B008 # immutable
) -> ProfileRunner:
    """Return a profile's plugins ready to run.

    Args:
        effective: what the configuration enables.
        handle: through which plugins have effects; without one nothing can be bound.
        wrap: puts an observer around each plugin at each extension point.
        environment: what plugins learn of the process: the time where there is no handle, files.

    Raises:
        ValueError: a plugin refuses its args, or an installed package's constructor cannot be imported.
    """
    factories: dict[str, PluginFactory] = {}
    for name in effective.enabled:
        descriptor = lookup(name)
        if name in FACTORIES:
            factories[name] = FACTORIES[name]
        elif descriptor is not None and descriptor.factory:
            factories[name] = _import_object(descriptor.factory)
    return ProfileRunner(effective, factories, handle, wrap, environment)


def _import_object(reference: str) -> PluginFactory:
    module, _, attribute = reference.partition(":")
    try:
        factory: PluginFactory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f'plugin constructor "{reference}" cannot be imported: {error}') from error
    if lacking := getattr(factory, "__abstractmethods__", None):
        raise ValueError(f'plugin constructor "{reference}" cannot be called: it has no {", ".join(sorted(lacking))}')
    return factory
