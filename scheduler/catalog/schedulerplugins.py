"""The plugins of sigs.k8s.io/scheduler-plugins, and the entry for this scheduler's own options.

All of them have a descriptor, so that a configuration for an image that has them can be checked; `implemented` says
which ones this scheduler can run itself.
"""

from scheduler.catalog.args_schedulerplugins import (
    CoschedulingArgs,
    NetworkOverheadArgs,
    NodeMetadataArgs,
    NodeResourcesAllocatableArgs,
    NodeResourceTopologyMatchArgs,
    PreemptionTolerationArgs,
    SharedNodesArgs,
    SySchedArgs,
    TopologicalSortArgs,
)
from scheduler.catalog.args_trimaran import (
    HighLoadFilterArgs,
    LoadVariationRiskBalancingArgs,
    LowRiskOverCommitmentArgs,
    PeaksArgs,
    TargetLoadPackingArgs,
)
from scheduler.catalog.descriptor import PluginDescriptor, PolicyRule, Watch, points
from scheduler.catalog.options import SecondarySchedulerOptionsArgs

OPTIONS = "SecondarySchedulerOptions"
"""Name of the pluginConfig entry with our own options. It is not a plugin and cannot be enabled."""

_FLAVOURS = frozenset({"ours", "scheduler-plugins"})
_NODE_METRICS = (PolicyRule(("metrics.k8s.io",), ("nodes",), ("list",)),)
_READ = ("get", "list", "watch")
"""Ours only lists and watches; images of scheduler-plugins, which get these roles too, also read one at a time."""
_WATCH = ("list", "watch")
_BUDGETS = Watch("policy/v1", "poddisruptionbudgets")
_ELASTIC_QUOTAS = Watch("scheduling.x-k8s.io/v1alpha1", "elasticquotas")
_APP_GROUPS = Watch("appgroup.diktyo.x-k8s.io/v1alpha1", "appgroups")

SCHEDULER_PLUGINS: tuple[PluginDescriptor, ...] = (
    PluginDescriptor(
        "TargetLoadPacking",
        points(["score"]),
        TargetLoadPackingArgs,
        rules=_NODE_METRICS,
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor(
        "LoadVariationRiskBalancing",
        points(["score"]),
        LoadVariationRiskBalancingArgs,
        rules=_NODE_METRICS,
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor(
        "LowRiskOverCommitment",
        points(["preScore", "score"]),
        LowRiskOverCommitmentArgs,
        rules=_NODE_METRICS,
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor("Peaks", points(["score"]), PeaksArgs, implemented=True, flavours=_FLAVOURS),
    # Proposed upstream (pull requests 992 and 993); no release has it.
    PluginDescriptor(
        "HighLoadFilter",
        points(["preFilter", "filter"]),
        HighLoadFilterArgs,
        rules=_NODE_METRICS,
        implemented=True,
        flavours=frozenset({"ours"}),
    ),
    # Of this project.
    PluginDescriptor(
        "SharedNodes", points(["filter"]), SharedNodesArgs, implemented=True, flavours=frozenset({"ours"})
    ),
    PluginDescriptor(
        "Coscheduling",
        points(["queueSort", "preFilter", "postFilter", "permit", "reserve"]),
        CoschedulingArgs,
        rules=(PolicyRule(("scheduling.x-k8s.io",), ("podgroups",), _READ),),
        crds=("podgroups.scheduling.x-k8s.io",),
        watches=(Watch("scheduling.x-k8s.io/v1alpha1", "podgroups"),),
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor(
        "CapacityScheduling",
        points(["preFilter", "postFilter", "reserve"]),
        rules=(
            PolicyRule(("scheduling.x-k8s.io",), ("elasticquotas",), _READ),
            PolicyRule(("",), ("pods",), ("delete",)),
            PolicyRule(("policy",), ("poddisruptionbudgets",), _WATCH),
        ),
        crds=("elasticquotas.scheduling.x-k8s.io",),
        watches=(_ELASTIC_QUOTAS, _BUDGETS),
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor(
        "NodeResourceTopologyMatch",
        points(["preFilter", "filter", "score", "reserve", "postBind"]),
        NodeResourceTopologyMatchArgs,
        rules=(PolicyRule(("topology.node.k8s.io",), ("noderesourcetopologies",), _READ),),
        crds=("noderesourcetopologies.topology.node.k8s.io",),
        watches=(Watch("topology.node.k8s.io/v1alpha2", "noderesourcetopologies"),),
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor(
        "NodeResourcesAllocatable",
        points(["score"]),
        NodeResourcesAllocatableArgs,
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor("NodeMetadata", points(["score"]), NodeMetadataArgs, implemented=True, flavours=_FLAVOURS),
    PluginDescriptor(
        "PreemptionToleration",
        points(["postFilter"]),
        PreemptionTolerationArgs,
        rules=(
            PolicyRule(("",), ("pods",), ("delete",)),
            PolicyRule(("policy",), ("poddisruptionbudgets",), _WATCH),
            PolicyRule(("scheduling.k8s.io",), ("priorityclasses",), _WATCH),
        ),
        watches=(_BUDGETS, Watch("scheduling.k8s.io/v1", "priorityclasses")),
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor("PodState", points(["score"]), implemented=True, flavours=_FLAVOURS),
    PluginDescriptor("QOSSort", points(["queueSort"]), implemented=True, flavours=_FLAVOURS),
    PluginDescriptor(
        "SySched",
        points(["score"]),
        SySchedArgs,
        rules=(PolicyRule(("security-profiles-operator.x-k8s.io",), ("seccompprofiles",), _READ),),
        crds=("seccompprofiles.security-profiles-operator.x-k8s.io",),
        watches=(Watch("security-profiles-operator.x-k8s.io/v1beta1", "seccompprofiles"),),
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor(
        "TopologicalSort",
        points(["queueSort"]),
        TopologicalSortArgs,
        rules=(PolicyRule(("appgroup.diktyo.x-k8s.io",), ("appgroups",), _READ),),
        crds=("appgroups.appgroup.diktyo.x-k8s.io",),
        watches=(_APP_GROUPS,),
        implemented=True,
        flavours=_FLAVOURS,
    ),
    PluginDescriptor(
        "NetworkOverhead",
        points(["preFilter", "filter", "score"]),
        NetworkOverheadArgs,
        rules=(
            PolicyRule(("appgroup.diktyo.x-k8s.io",), ("appgroups",), _READ),
            PolicyRule(("networktopology.diktyo.x-k8s.io",), ("networktopologies",), _READ),
        ),
        crds=(
            "appgroups.appgroup.diktyo.x-k8s.io",
            "networktopologies.networktopology.diktyo.x-k8s.io",
        ),
        watches=(_APP_GROUPS, Watch("networktopology.diktyo.x-k8s.io/v1alpha1", "networktopologies")),
        implemented=True,
        flavours=_FLAVOURS,
    ),
)

OPTIONS_DESCRIPTOR = PluginDescriptor(
    OPTIONS,
    frozenset(),
    SecondarySchedulerOptionsArgs,
    implemented=True,
    flavours=frozenset({"ours"}),
)
