"""Older API versions: their default plugin sets, and the plugins and fields that were removed, with replacements.

Read from pkg/scheduler/apis/config/{v1beta1,v1beta2,v1beta3} of the Kubernetes releases that served them.
"""

from collections.abc import Mapping
from types import MappingProxyType

CONVERTED_VERSIONS = ("v1beta3", "v1beta2", "v1beta1")
"""Versions that are accepted and converted, newest first."""

LAST_SERVED = MappingProxyType({"v1beta1": "1.22", "v1beta2": "1.27", "v1beta3": "1.28"})

STRATEGIES = MappingProxyType(
    {
        "NodeResourcesLeastAllocated": "LeastAllocated",
        "NodeResourcesMostAllocated": "MostAllocated",
        "RequestedToCapacityRatio": "RequestedToCapacityRatio",
    }
)
"""v1beta1's score plugins that became scoring strategies of NodeResourcesFit."""

VOLUME_LIMITS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

EXPLAINED = MappingProxyType(
    {
        "NodeLabel": (
            "NodeLabel was removed in Kubernetes 1.23: require the label in NodeAffinity's addedAffinity "
            "(operator Exists or DoesNotExist), or disable it"
        ),
        "ServiceAffinity": (
            "ServiceAffinity was removed in Kubernetes 1.23: give the pods podAffinity or "
            "topologySpreadConstraints over the same labels"
        ),
        "NodePreferAvoidPods": (
            "NodePreferAvoidPods was removed in Kubernetes 1.23, and so was the annotation "
            "scheduler.alpha.kubernetes.io/preferAvoidPods: taint such nodes with effect PreferNoSchedule"
        ),
    }
)
"""Plugins without a direct replacement, with the closest equivalent."""

_NOT_FOLLOWED = MappingProxyType(
    {
        # Plugins that kube-scheduler has since 1.35 or 1.36 and uses behind alpha gates.
        **dict.fromkeys(
            ("PodGroupPodsCount", "TopologyPlacementGenerator"),
            "it belongs to the topology of PodGroups of scheduling.k8s.io, which GangScheduling follows by itself: "
            "leave the plugin out",
        ),
        "SelectorSpread": (
            "it was removed in Kubernetes 1.29: PodTopologySpread spreads the pods of Services and ReplicaSets by its "
            "built-in constraints (defaultingType: System)"
        ),
    }
)
"""Plugins of newer and older releases, with what happens or applies instead."""

_FILTER = (
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "EBSLimits", "GCEPDLimits", "NodeVolumeLimits", "AzureDiskLimits", "VolumeBinding",
    "VolumeZone", "PodTopologySpread", "InterPodAffinity",
)  # fmt: skip

DEFAULT_POINTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "queueSort": ("PrioritySort",),
        "preFilter": (
            "NodeResourcesFit", "NodePorts", "VolumeRestrictions", "PodTopologySpread", "InterPodAffinity",
            "VolumeBinding", "NodeAffinity",
        ),
        "filter": _FILTER,
        "postFilter": ("DefaultPreemption",),
        "preScore": ("InterPodAffinity", "PodTopologySpread", "TaintToleration", "NodeAffinity"),
        "reserve": ("VolumeBinding",),
        "preBind": ("VolumeBinding",),
        "bind": ("DefaultBinder",),
    }
)  # fmt: skip
"""Default plugins per extension point of v1beta1 and v1beta2, whose defaults were no multiPoint; without score."""

DEFAULT_SCORES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "v1beta1": MappingProxyType(
            {
                "NodeResourcesBalancedAllocation": 1,
                "ImageLocality": 1,
                "InterPodAffinity": 1,
                "NodeResourcesLeastAllocated": 1,
                "NodeAffinity": 1,
                "NodePreferAvoidPods": 10000,
                "PodTopologySpread": 2,
                "TaintToleration": 1,
            }
        ),
        "v1beta2": MappingProxyType(
            {
                "NodeResourcesBalancedAllocation": 1,
                "ImageLocality": 1,
                "InterPodAffinity": 1,
                "NodeResourcesFit": 1,
                "NodeAffinity": 1,
                "PodTopologySpread": 2,
                "TaintToleration": 1,
            }
        ),
    }
)
"""Default score plugins and weights of the versions whose weights were not v1's."""

REMOVED_ARGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Coscheduling": {
            "deniedPGExpirationTimeSeconds": "rejected PodGroups wait podGroupBackoffSeconds now",
            "kubeMaster": "the scheduler's own connection is used",
            "kubeConfigPath": "the scheduler's own connection is used",
        },
        "CapacityScheduling": {"kubeConfigPath": "the scheduler's own connection is used"},
        "NodeResourceTopologyMatch": {
            "kubeconfigpath": "the scheduler's own connection is used",
            "masteroverride": "the scheduler's own connection is used",
        },
    }
)
"""Fields of v1beta1 or v1beta2 args that v1 does not have, with what applies instead."""

IGNORED_MULTI_POINT = (
    "kube-scheduler 1.23 to 1.27 decodes multiPoint of v1beta2 and ignores it: none of these plugins runs"
)
"""mergePlugins in pkg/scheduler/apis/config/v1beta2/default_plugins.go returns the other sets only."""

LOST_POINTS: Mapping[str, str] = MappingProxyType(
    {"Coscheduling": "the controller of PodGroups keeps their status since then"}
)
"""What came instead of extension points that plugins of scheduler-plugins had in older releases only."""

BIND_ADDRESSES = ("healthzBindAddress", "metricsBindAddress")


def replacement(name: str) -> str:
    """Return what to write instead of a plugin that was removed or is not followed; empty for any other name."""
    if name in STRATEGIES:
        return (
            f"since v1beta2 it is a strategy of NodeResourcesFit: pluginConfig NodeResourcesFit, "
            f"args.scoringStrategy.type: {STRATEGIES[name]}"
        )
    if name in VOLUME_LIMITS:
        return "NodeVolumeLimits covers it"
    return EXPLAINED.get(name) or _NOT_FOLLOWED.get(name, "")


FIELD_HINTS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            BIND_ADDRESSES,
            "it was removed in v1beta3: health and metrics are served on --bind-address and --secure-port",
        ),
        "algorithmSource": "it was removed with v1alpha1: give plugins in profiles",
        "disablePreemption": "it was removed with v1alpha1: disable DefaultPreemption under postFilter",
        "deniedPGExpirationTimeSeconds": "it was removed in v1beta3: podGroupBackoffSeconds comes closest",
        "metricProviderType": "write it as type under metricProvider",
        "metricProviderAddress": "write it as address under metricProvider",
        "metricProviderToken": "write it as token under metricProvider",
    }
)
"""Fields of older versions or other locations, with what to write now."""
