"""The in-tree plugins of kube-scheduler. Which of them are default plugins, and in which order, depends on the version
(`scheduler.catalog.upstream`)."""

from scheduler.catalog.args_intree import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from scheduler.catalog.descriptor import PluginDescriptor, PolicyRule, Watch, points

_READ = ("list", "watch")


def _read(group: str, *resources: str) -> PolicyRule:
    return PolicyRule((group,), resources, _READ)


_VOLUMES = (
    _read("", "persistentvolumes", "persistentvolumeclaims"),
    _read("storage.k8s.io", "storageclasses", "csinodes"),
)
_CLASSES = Watch("resource.k8s.io/v1", "deviceclasses")
_CLAIMS = Watch("v1", "persistentvolumeclaims")
_WATCHED_VOLUMES = (
    _CLAIMS,
    Watch("v1", "persistentvolumes"),
    Watch("storage.k8s.io/v1", "storageclasses"),
    Watch("storage.k8s.io/v1", "csinodes"),
)

IN_TREE: tuple[PluginDescriptor, ...] = (
    PluginDescriptor(
        "SchedulingGates",
        points(["preEnqueue"]),
        implemented=True,
        default=True,
    ),
    PluginDescriptor("PrioritySort", points(["queueSort"]), implemented=True, default=True),
    PluginDescriptor(
        "NodeUnschedulable",
        points(["filter"]),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "NodeName",
        points(["filter"]),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "TaintToleration",
        points(["filter", "preScore", "score"]),
        default_weight=3,
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "NodeAffinity",
        points(["preFilter", "filter", "preScore", "score"]),
        NodeAffinityArgs,
        default_weight=2,
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "NodePorts",
        points(["preFilter", "filter"]),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "NodeResourcesFit",
        points(["preFilter", "filter", "preScore", "score"]),
        NodeResourcesFitArgs,
        default_weight=1,
        # An extended resource may stand for the devices of a class, whether or not DynamicResources is enabled.
        watches=(_CLASSES,),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "VolumeRestrictions",
        points(["preFilter", "filter"]),
        rules=(_read("", "persistentvolumeclaims"),),
        watches=(_CLAIMS,),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "NodeVolumeLimits",
        points(["preFilter", "filter"]),
        rules=(*_VOLUMES, _read("storage.k8s.io", "csidrivers", "volumeattachments")),
        watches=(
            *_WATCHED_VOLUMES,
            Watch("storage.k8s.io/v1", "csidrivers"),
            Watch("storage.k8s.io/v1", "volumeattachments"),
        ),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "VolumeBinding",
        points(["preFilter", "filter", "reserve", "preBind", "preScore", "score"]),
        VolumeBindingArgs,
        default_weight=1,
        rules=(
            *_VOLUMES,
            _read("storage.k8s.io", "csidrivers", "csistoragecapacities"),
            PolicyRule(("",), ("persistentvolumes", "persistentvolumeclaims"), ("patch",)),
        ),
        watches=(
            *_WATCHED_VOLUMES,
            Watch("storage.k8s.io/v1", "csidrivers"),
            Watch("storage.k8s.io/v1", "csistoragecapacities"),
        ),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "VolumeZone",
        points(["preFilter", "filter"]),
        rules=(
            _read("", "persistentvolumes", "persistentvolumeclaims"),
            _read("storage.k8s.io", "storageclasses"),
        ),
        watches=_WATCHED_VOLUMES[:3],
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "PodTopologySpread",
        points(["preFilter", "filter", "preScore", "score"]),
        PodTopologySpreadArgs,
        default_weight=2,
        rules=(
            _read("", "services", "replicationcontrollers"),
            _read("apps", "replicasets", "statefulsets"),
        ),
        watches=(
            Watch("v1", "services"),
            Watch("v1", "replicationcontrollers"),
            Watch("apps/v1", "replicasets"),
            Watch("apps/v1", "statefulsets"),
        ),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "InterPodAffinity",
        points(["preFilter", "filter", "preScore", "score"]),
        InterPodAffinityArgs,
        default_weight=2,
        watches=(Watch("v1", "namespaces"),),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "DynamicResources",
        points(["preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"]),
        DynamicResourcesArgs,
        rules=(
            _read("resource.k8s.io", "deviceclasses", "devicetaintrules", "resourceslices"),
            # It makes the claims of pods that ask for extended resources, and deletes them where they are of no use.
            PolicyRule(("resource.k8s.io",), ("resourceclaims",), ("get", *_READ, "patch", "create", "delete")),
            PolicyRule(("resource.k8s.io",), ("resourceclaims/status",), ("patch",)),
            # From 1.36 on, whoever allocates or reserves needs it beside the right to the status.
            PolicyRule(("resource.k8s.io",), ("resourceclaims/binding",), ("patch",)),
        ),
        watches=(
            Watch("resource.k8s.io/v1", "resourceclaims"),
            Watch("resource.k8s.io/v1", "resourceslices"),
            _CLASSES,
            Watch("resource.k8s.io/v1", "devicetaintrules"),
        ),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "DefaultPreemption",
        points(["preEnqueue", "postFilter"]),
        DefaultPreemptionArgs,
        rules=(
            PolicyRule(("",), ("pods",), ("delete",)),
            _read("policy", "poddisruptionbudgets"),
        ),
        watches=(Watch("policy/v1", "poddisruptionbudgets"),),
        implemented=True,
        default=True,
    ),
    PluginDescriptor(
        "NodeResourcesBalancedAllocation",
        points(["preScore", "score"]),
        NodeResourcesBalancedAllocationArgs,
        default_weight=1,
        implemented=True,
        default=True,
    ),
    PluginDescriptor("ImageLocality", points(["score"]), default_weight=1, implemented=True, default=True),
    PluginDescriptor("DefaultBinder", points(["bind"]), implemented=True, default=True),
    PluginDescriptor("NodeDeclaredFeatures", points(["preFilter", "filter"]), implemented=True, default=True),
    PluginDescriptor(
        "GangScheduling",
        points(["preEnqueue", "preFilter", "permit"]),
        rules=(
            _read("scheduling.k8s.io", "podgroups"),
            PolicyRule(("scheduling.k8s.io",), ("podgroups/status",), ("patch",)),
        ),
        watches=(
            Watch("scheduling.k8s.io/v1alpha2", "podgroups"),
            Watch("scheduling.k8s.io/v1beta1", "podgroups"),
        ),
        implemented=True,
    ),
)

REMOVED_IN_V1 = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugin names that v1 rejects everywhere: NodeVolumeLimits covers them."""
