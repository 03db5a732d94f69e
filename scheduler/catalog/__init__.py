"""One pure descriptor per plugin: names, extension points, args, events, RBAC rules, CRDs.

May import pydantic and `secondary_scheduler.kube.primitives`; the Pulumi program and the controller import it, so it
must not pull in numpy, an HTTP client or a plugin's implementation.
"""

from scheduler.catalog.args_intree import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from scheduler.catalog.args_trimaran import MetricProvider, TargetLoadPackingArgs, TrimaranArgs
from scheduler.catalog.descriptor import (
    GO_INTERFACES,
    ActionType,
    EventRegistration,
    ExtensionPoint,
    PluginDescriptor,
    PolicyRule,
    Watch,
)
from scheduler.catalog.intree import REMOVED_IN_V1
from scheduler.catalog.options import LoadOptions, LoadQueries, SecondarySchedulerOptionsArgs
from scheduler.catalog.registry import (
    BASE_CLUSTER_ROLE,
    ENTRY_POINT_GROUP,
    PluginPackageError,
    base_rules,
    cluster_role_name,
    default_plugins,
    descriptors,
    known_names,
    lookup,
    out_of_tree_descriptors,
    plugin_rules,
    static_cluster_roles,
)
from scheduler.catalog.schedulerplugins import OPTIONS
from scheduler.catalog.types import ArgsModel, Duration, Loc, Quantity, StrictModel, format_duration, parse_duration

__all__ = [
    "BASE_CLUSTER_ROLE",
    "ENTRY_POINT_GROUP",
    "GO_INTERFACES",
    "OPTIONS",
    "REMOVED_IN_V1",
    "ActionType",
    "ArgsModel",
    "DefaultPreemptionArgs",
    "Duration",
    "DynamicResourcesArgs",
    "EventRegistration",
    "ExtensionPoint",
    "InterPodAffinityArgs",
    "LoadOptions",
    "LoadQueries",
    "Loc",
    "MetricProvider",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "PluginDescriptor",
    "PluginPackageError",
    "PodTopologySpreadArgs",
    "PolicyRule",
    "Quantity",
    "ResourceSpec",
    "ScoringStrategy",
    "SecondarySchedulerOptionsArgs",
    "StrictModel",
    "TargetLoadPackingArgs",
    "TrimaranArgs",
    "UtilizationShapePoint",
    "VolumeBindingArgs",
    "Watch",
    "base_rules",
    "cluster_role_name",
    "default_plugins",
    "descriptors",
    "format_duration",
    "known_names",
    "lookup",
    "out_of_tree_descriptors",
    "parse_duration",
    "plugin_rules",
    "static_cluster_roles",
]
