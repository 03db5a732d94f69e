"""One room per plugin; this is the list of their constructors.

A plugin may import `scheduler.framework`, `helpers`, `catalog`, `config` and `secondary_scheduler.kube.model` and
`.primitives`, never another plugin's room.
"""

import importlib
from collections.abc import Mapping

from scheduler.catalog import lookup
from scheduler.config import EffectiveProfile
from scheduler.framework import Handle, Plugin, PluginFactory, ProfileRunner, Wrap
from scheduler.plugins.capacityscheduling import CapacityScheduling
from scheduler.plugins.coscheduling import coscheduling
from scheduler.plugins.defaultbinder import DefaultBinder
from scheduler.plugins.defaultpreemption import DefaultPreemption
from scheduler.plugins.dynamicresources import DynamicResources
from scheduler.plugins.imagelocality import ImageLocality
from scheduler.plugins.interpodaffinity import InterPodAffinity
from scheduler.plugins.loadvariationriskbalancing import LoadVariationRiskBalancing
from scheduler.plugins.lowriskovercommitment import LowRiskOverCommitment
from scheduler.plugins.networkoverhead import NetworkOverhead
from scheduler.plugins.nodeaffinity import NodeAffinity
from scheduler.plugins.nodename import NodeName
from scheduler.plugins.nodeports import NodePorts
from scheduler.plugins.noderesources import NodeResourcesBalancedAllocation, NodeResourcesFit
from scheduler.plugins.noderesourcesallocatable import NodeResourcesAllocatable
from scheduler.plugins.noderesourcetopologymatch import NodeResourceTopologyMatch
from scheduler.plugins.nodeunschedulable import NodeUnschedulable
from scheduler.plugins.nodevolumelimits import NodeVolumeLimits
from scheduler.plugins.peaks import Peaks
from scheduler.plugins.podstate import PodState
from scheduler.plugins.podtopologyspread import PodTopologySpread
from scheduler.plugins.preemptiontoleration import PreemptionToleration
from scheduler.plugins.qossort import QOSSort
from scheduler.plugins.queuesort import PrioritySort
from scheduler.plugins.schedulinggates import SchedulingGates
from scheduler.plugins.sysched import SySched
from scheduler.plugins.tainttoleration import TaintToleration
from scheduler.plugins.targetloadpacking import TargetLoadPacking
from scheduler.plugins.topologicalsort import TopologicalSort
from scheduler.plugins.volumebinding import VolumeBinding
from scheduler.plugins.volumerestrictions import VolumeRestrictions
from scheduler.plugins.volumezone import VolumeZone

FACTORIES: Mapping[str, PluginFactory] = {
    "CapacityScheduling": CapacityScheduling,
    "Coscheduling": coscheduling,
    "DefaultBinder": DefaultBinder,
    "DefaultPreemption": DefaultPreemption,
    "DynamicResources": DynamicResources,
    "ImageLocality": ImageLocality,
    "InterPodAffinity": InterPodAffinity,
    "LoadVariationRiskBalancing": LoadVariationRiskBalancing,
    "LowRiskOverCommitment": LowRiskOverCommitment,
    "NetworkOverhead": NetworkOverhead,
    "NodeAffinity": NodeAffinity,
    "NodeName": NodeName,
    "NodePorts": NodePorts,
    "NodeResourcesAllocatable": NodeResourcesAllocatable,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
    "NodeResourcesFit": NodeResourcesFit,
    "NodeResourceTopologyMatch": NodeResourceTopologyMatch,
    "NodeUnschedulable": NodeUnschedulable,
    "NodeVolumeLimits": NodeVolumeLimits,
    "Peaks": Peaks,
    "PodState": PodState,
    "PodTopologySpread": PodTopologySpread,
    "PreemptionToleration": PreemptionToleration,
    "PrioritySort": PrioritySort,
    "QOSSort": QOSSort,
    "SchedulingGates": SchedulingGates,
    "SySched": SySched,
    "TaintToleration": TaintToleration,
    "TargetLoadPacking": TargetLoadPacking,
    "TopologicalSort": TopologicalSort,
    "VolumeBinding": VolumeBinding,
    "VolumeRestrictions": VolumeRestrictions,
    "VolumeZone": VolumeZone,
}
"""Constructors of the built-in plugins by name."""


def _no_wrapping(point: object, plugin: Plugin) -> Plugin:
    return plugin


def build_profile(
    effective: EffectiveProfile, handle: Handle | None = None, wrap: Wrap = _no_wrapping
) -> ProfileRunner:
    """Return a profile's plugins ready to run.

    Args:
        effective: what the configuration enables.
        handle: through which plugins have effects; without one nothing can be bound.
        wrap: puts an observer around each plugin at each extension point.

    Raises:
        ValueError: a plugin refuses its args, or an installed package's constructor cannot be imported.
    """
    factories = dict(FACTORIES)
    for name in effective.enabled:
        descriptor = lookup(name)
        if name not in factories and descriptor is not None and descriptor.factory:
            factories[name] = _imported(descriptor.factory)
    return ProfileRunner(effective, factories, handle, wrap)


def _imported(reference: str) -> PluginFactory:
    module, _, attribute = reference.partition(":")
    try:
        factory: PluginFactory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f'plugin constructor "{reference}" cannot be imported: {error}') from error
    return factory


__all__ = ["FACTORIES", "build_profile"]
