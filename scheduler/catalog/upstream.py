"""What kube-scheduler's minor versions do differently: a row per version that says what differs from the one before.

Plugins and engine ask a row by the name of a behavior, never for a version. So this file is the whole list of what
depends on the version; `docs/versions.md` explains it. Rows were read from k8s.io/kubernetes 1.34.4, 1.35.4, 1.36.3,
1.37.0 and 1.38.0-beta.0; paths in this file are below pkg/scheduler there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

_VERSION = re.compile(r"v?1\.(\d{1,3})\+?(?:\.\d+)?(?:[-+].*)?")


@dataclass(frozen=True, slots=True)
class KubernetesVersion:
    """The behavior of kube-scheduler of a minor version.

    Attributes:
        minor: of Kubernetes 1.x.
        default_plugins: the default profile's multiPoint list (apis/config/v1/default_plugins.go).
        default_weights: weights in that list that differ from the plugins' own.
        disabled_points: plugins with an extension point at which the default profile disables them, unless the gates of
            PodGroups are on: there they do something for PodGroups only (the same).
        missing_points: plugins with an extension point that they extend in later versions only.
        spares_terminating: preemption neither patches nor deletes victims that are terminating already
            (framework/preemption/preemption.go, prepareCandidateAsync).
        spares_unbound: a victim that waits for permission, or whose PreBind is under way, gives up its node and is
            tried again; before, the former was rejected and the latter deleted (framework/preemption/executor.go).
        nominates_before_binding: the node is written to `status.nominatedNodeName` before a binding that takes long
            (schedule_one.go, NominatedNodeNameForExpectation); and a pod that finds no node loses its nomination
            in profiles without PostFilter plugins, too.
        wakes_at_binding: a nominated pod that is bound wakes others as if it were deleted (eventhandlers.go,
            deletePodFromSchedulingQueue).
        rates_change_of_balance: NodeResourcesBalancedAllocation scores what the pod changes about the balance, instead
            of the balance with the pod (framework/plugins/noderesources/balanced_allocation.go, PR 135573).
        counts_image_volumes: ImageLocality adds the images of volumes
            (framework/plugins/imagelocality/image_locality.go, PR 130231).
        shares_with_image_volumes: they raise the most that all images together may weigh, as containers do
            (framework/plugins/imagelocality/image_locality.go, sumImageScores).
        resizes_pods: the resources of a pod as a whole are those granted, too, while it is resized
            (InPlacePodLevelResourcesVerticalScaling; component-helpers resource/helpers.go).
        scores_storage_capacity: VolumeBinding scores how well volumes fit (StorageCapacityScoring).
        needs_ratio_shape: NodeResourcesFitArgs must have the ratio's parameters with the type RequestedToCapacityRatio,
            and only then (apis/config/validation/validation_pluginargs.go).
        nominated_pods_spread: pods nominated to a node count as placed for the queueing hints of InterPodAffinity and
            PodTopologySpread; that of InterPodAffinity follows the pod's own labels
            (framework/plugins/interpodaffinity/plugin.go, podtopologyspread/plugin.go).
        migrates_portworx: NodeVolumeLimits counts Portworx volumes as the driver's on every node
            (framework/plugins/nodevolumelimits/utils.go).
        shares_claim_metric: ResourceClaims created for extended resources count in the metric that the controller of
            ResourceClaims has, too (dynamic-resource-allocation/resourceclaim/metrics/metrics.go).
        waits_for_devices: DynamicResources waits for the binding conditions of devices (DRADeviceBindingConditions).
        backs_extended_resources: extended resources that a node does not have may be devices of a DeviceClass
            (DRAExtendedResource; framework/plugins/dynamicresources/extendeddynamicresources.go).
        follows_taint_rules: DeviceTaintRules count as taints of devices (DRADeviceTaintRules; scheduler.go).
        merges_device_config: a claim's configuration stands in an allocation once, and without the names of requests
            if it is for all of them (structured/internal/incubating of k8s.io/dynamic-resource-allocation).
        waits_for_all_shares: a request for all devices waits for those whose capacity is in use; before, it was for
            the others (the same, validateDeviceRequest).
        writes_capacity_as_steps: a capacity that is rounded to a step is written with the kind of suffix that the step
            has, instead of a binary one (the same, consumable_capacity.go).
        explains_selectors: the error of a device's selector names the device, and says how to ask for a key that may
            be missing (the same, selectorsMatch; cel/errors.go).
        wakes_at_lost_claims: an allocated ResourceClaim that is deleted wakes the pods that wait for devices
            (framework/plugins/dynamicresources/dynamicresources.go, isSchedulableAfterClaimChange).
        merges_namespaces: InterPodAffinity evaluates a term's namespaceSelector once, against the Namespaces; older
            versions evaluate it again, against no labels (mergeAffinityTermNamespacesIfNotEmpty got a copy).
        hints_match_any_term: for its hint, a pod that leaves need match only one anti-affinity term instead of all.
        compares_sums_of_resized: of a pod that is resized, the largest of the sums over its containers counts (as
            specified, as granted, as in effect), instead of the sum of the largest (component-helpers v0.37.0).
        reports_claims_in_preemption: DynamicResources adds its own part to the message after a failed preemption
            (framework/plugins/dynamicresources/dynamicresources.go, PostFilter).
        pod_groups: API version of the PodGroups that GangScheduling reads, or "" (framework/plugins/gangscheduling,
            schedule_one_podgroup.go).
        pod_group_gates: feature gates that enable GangScheduling in every profile, if all are on.
        pod_group_condition: type of the condition that says whether a PodGroup is scheduled.
        pod_group_sets: plugin sets for PodGroups as a whole, which a completed configuration has, empty
            (staging/src/k8s.io/kube-scheduler/config/v1/types.go).
        names_thresholds: messages about PodGroups speak of the threshold of their policy, members of their parent, and
            unlike members are a PodGroupError (gangscheduling.go, validatePodGroupHierarchy).
        gives_up_early: the members of a PodGroup are no longer tried once too few are left for its minCount
            (gangscheduling.go, PlacementFeasible).
        preempts_for_groups: pods are preempted for a PodGroup of which too few pods fit
            (framework/preemption/podgrouppreemption.go).
        disrupts_groups: the placed pods of a PodGroup whose disruptionMode is `all` are one victim, also where a single
            pod preempts (framework/preemption/preemption.go, GetVictimsOnNode).
        favours_members: of potential victims of equal priority, pods of PodGroups are more important than others, also
            where they are preempted one by one (framework/preemption/types.go, NewPodVictim).
        names_target_pods: in metrics, changes of a waiting pod are named TargetPod where they are about that pod,
            and UnscheduledPod otherwise; before, both were UnschedulablePod (framework/events.go).
        reports_victims: the message of a pod that preempts names the node and the number of its victims.
        rejects_missing_drivers: NodeVolumeLimits rejects nodes without a driver that says so in its CSIDriver
            (VolumeLimitScaling, `preventPodSchedulingIfMissing`; framework/plugins/nodevolumelimits/csi.go).
        scores_pod_level: the resources of a pod as a whole count for the score of NodeResourcesFit, too
            (framework/plugins/noderesources/fit.go, getScorer).
        scores_exactly: a score of NodeResourcesFit is exact where a hundred times an amount is beyond int64; before,
            the product overflowed (framework/plugins/noderesources/requested_to_capacity_ratio.go, scaledFraction).
        empty_selects_all: an empty selector of a spread constraint counts, and one of a PodDisruptionBudget protects,
            every pod of the namespace, also one without labels; before, none
            (framework/plugins/podtopologyspread/common.go, framework/preemption/util.go).
        lasting_victim_order: the order of potential victims depends on nothing but them: of equals in priority and age
            the one with the smaller UID is more important, and a pod that has not started is younger than any other;
            before, it counted as started now (framework/preemption/util.go, MoreImportantVictim; util/utils.go).
        offers_without_victims: nodes on which the pod fits once its victims are gone, none of which has to go, are
            candidates for extenders that preempt and may name victims; where there is no such extender they are
            unsuitable. Before, they were an error (framework/preemption/preemption.go, DryRunPreemption).
        wakes_at_shrunken_node: a nominated node that can no longer hold the pod wakes it
            (framework/plugins/noderesources/fit.go, isSchedulableAfterNodeEvent).
        hints_read_namespaces: the hints of InterPodAffinity match namespace selectors with the labels of Namespaces
            (framework/plugins/interpodaffinity/plugin.go).
        fails_all_on_node: a request for all devices that meets an incomplete or invalid pool fails for the nodes of
            that pool; before, for the pod (dynamic-resource-allocation structured/internal/stable,
            validateDeviceRequest).
        keeps_sharers: a device that is no longer shared is not given away while claims share it (the same,
            allocateDevice).
        qualifies_capacity: a request may name a capacity with or without the driver's name as domain, whichever the
            device has; errors name it with the domain, and a negative request is refused before it is rounded (the
            same, consumable_capacity.go).
        counts_by_request: a claim for too many devices is refused with the request that exceeds the limit (the same,
            Allocate).
        refuses_negative_capacity: a request that would take a negative capacity is an error (the same).
        refuses_unknown_values: a constraint over an attribute whose value is of no known type is an error; before, it
            was not met (the same, constraint.go).
        entity_label: the label that says what a queued entity is, in metrics (metrics/metrics.go).
        shows_flags_as_text: `/flagz` has another heading, and no structured form (zpages/flagz of component-base).
        later_metrics: those of our metrics that kube-scheduler has since a newer version only (metrics/metrics.go).
        stable_metrics, beta_metrics: those that it calls so in their help texts; its others are ALPHA
            (metrics/metrics.go, component-base/metrics).
    """

    minor: int
    default_plugins: tuple[str, ...]
    default_weights: tuple[tuple[str, int], ...] = ()
    disabled_points: tuple[tuple[str, str], ...] = ()
    missing_points: tuple[tuple[str, str], ...] = ()
    spares_terminating: bool = False
    spares_unbound: bool = False
    nominates_before_binding: bool = False
    wakes_at_binding: bool = True
    rates_change_of_balance: bool = False
    counts_image_volumes: bool = False
    shares_with_image_volumes: bool = False
    resizes_pods: bool = False
    scores_storage_capacity: bool = False
    needs_ratio_shape: bool = False
    nominated_pods_spread: bool = False
    migrates_portworx: bool = False
    shares_claim_metric: bool = False
    waits_for_devices: bool = False
    backs_extended_resources: bool = False
    follows_taint_rules: bool = False
    merges_device_config: bool = False
    waits_for_all_shares: bool = False
    writes_capacity_as_steps: bool = False
    explains_selectors: bool = False
    wakes_at_lost_claims: bool = False
    merges_namespaces: bool = False
    hints_match_any_term: bool = False
    compares_sums_of_resized: bool = False
    reports_claims_in_preemption: bool = True
    pod_groups: str = ""
    pod_group_gates: tuple[str, ...] = ()
    pod_group_condition: str = ""
    pod_group_sets: tuple[str, ...] = ()
    gives_up_early: bool = False
    names_thresholds: bool = False
    preempts_for_groups: bool = False
    disrupts_groups: bool = False
    favours_members: bool = False
    names_target_pods: bool = False
    reports_victims: bool = False
    rejects_missing_drivers: bool = False
    scores_pod_level: bool = False
    scores_exactly: bool = False
    empty_selects_all: bool = False
    lasting_victim_order: bool = False
    offers_without_victims: bool = False
    wakes_at_shrunken_node: bool = False
    hints_read_namespaces: bool = False
    fails_all_on_node: bool = False
    keeps_sharers: bool = False
    qualifies_capacity: bool = False
    counts_by_request: bool = False
    refuses_negative_capacity: bool = False
    refuses_unknown_values: bool = False
    entity_label: str = "type"
    shows_flags_as_text: bool = False
    later_metrics: tuple[str, ...] = ()
    stable_metrics: tuple[str, ...] = ()
    beta_metrics: tuple[str, ...] = ()

    def reads(self, plugin: str, api_version: str, resource: str) -> bool:
        """Tell whether a plugin reads in this version a resource that it declares to watch."""
        if (plugin, resource) == ("NodeResourcesFit", "deviceclasses"):
            return self.backs_extended_resources
        if (plugin, resource) == ("NodeVolumeLimits", "csidrivers"):
            return self.rejects_missing_drivers
        if resource == "devicetaintrules":
            return self.follows_taint_rules
        if resource == "podgroups" and api_version.startswith("scheduling.k8s.io/"):
            return api_version == self.pod_groups
        return True

    def with_gates(self, chosen: Mapping[str, bool]) -> "KubernetesVersion":
        """Return the version with the default plugins that some feature gates add."""
        if not self.pod_group_gates or not all(chosen.get(gate, False) for gate in self.pod_group_gates):
            return self
        return replace(self, default_plugins=(*self.default_plugins, "GangScheduling"), disabled_points=())

    @property
    def pod_group_kind(self) -> str:
        """The kind of `pod_groups`, as the store of objects calls it, or ""."""
        version = self.pod_groups.rpartition("/")[2]
        return f"PodGroup.scheduling.k8s.io/{version}" if version else ""

    @property
    def name(self) -> str:
        """The version as users write it, such as `1.36`."""
        return f"1.{self.minor}"

    @property
    def metric_levels(self) -> dict[str, str]:
        """`STABLE` or `BETA` by the name of a metric."""
        return dict.fromkeys(self.stable_metrics, "STABLE") | dict.fromkeys(self.beta_metrics, "BETA")


_METRICS_OF_1_36 = (
    "scheduler_pod_scheduled_after_flush_total",
    "scheduler_resourceclaim_creates_total",
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_dra_bindingconditions_wait_duration_seconds",
)
_METRICS_OF_1_37 = (
    "scheduler_queue_incoming_entities_total",
    "scheduler_queued_entities",
    "dynamic_resource_allocation_resourceclaim_creates_total",
)
POD_GROUP_METRICS = frozenset(
    {
        "scheduler_podgroup_schedule_attempts_total",
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    }
)
"""Metrics that kube-scheduler has with the feature gate GenericWorkload only."""
_1_34 = KubernetesVersion(
    34,
    shows_flags_as_text=True,
    later_metrics=(*_METRICS_OF_1_36, *_METRICS_OF_1_37),
    stable_metrics=(
        "scheduler_schedule_attempts_total",
        "scheduler_scheduling_attempt_duration_seconds",
        "scheduler_preemption_victims",
        "scheduler_preemption_attempts_total",
        "scheduler_pending_pods",
        "scheduler_pod_scheduling_attempts",
        "scheduler_framework_extension_point_duration_seconds",
        "scheduler_queue_incoming_pods_total",
    ),
    beta_metrics=("scheduler_pod_scheduling_sli_duration_seconds", "kubernetes_feature_enabled"),
    default_plugins=(
        "SchedulingGates",
        "PrioritySort",
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "DefaultPreemption",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "DefaultBinder",
    ),
    missing_points=(("DynamicResources", "score"),),
)
_1_35 = replace(
    _1_34,
    minor=35,
    shows_flags_as_text=False,
    default_weights=(("DynamicResources", 2),),
    missing_points=(),
    spares_terminating=True,
    nominates_before_binding=True,
    wakes_at_binding=False,
)
_1_36 = replace(
    _1_35,
    minor=36,
    spares_unbound=True,
    default_plugins=(*_1_35.default_plugins, "NodeDeclaredFeatures"),
    rates_change_of_balance=True,
    counts_image_volumes=True,
    resizes_pods=True,
    needs_ratio_shape=True,
    nominated_pods_spread=True,
    migrates_portworx=True,
    pod_groups="scheduling.k8s.io/v1alpha2",
    pod_group_gates=("GenericWorkload", "GangScheduling"),
    pod_group_condition="PodGroupScheduled",
    pod_group_sets=("placementGenerate", "placementScore"),
    waits_for_devices=True,
    backs_extended_resources=True,
    later_metrics=_METRICS_OF_1_37,
    beta_metrics=(
        *_1_35.beta_metrics,
        "scheduler_goroutines",
        "scheduler_permit_wait_duration_seconds",
        "scheduler_unschedulable_pods",
        "scheduler_plugin_evaluation_total",
        "kubernetes_build_info",
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds",
        "workqueue_work_duration_seconds",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "workqueue_retries_total",
    ),
)
_1_37 = replace(
    _1_36,
    minor=37,
    # NodeName before NodeUnschedulable: the cheapest filter that leaves the fewest nodes comes first.
    default_plugins=(
        *("SchedulingGates", "PrioritySort", "NodeName", "NodeUnschedulable"),
        *_1_36.default_plugins[4:],
    ),
    scores_storage_capacity=True,
    pod_groups="scheduling.k8s.io/v1beta1",
    pod_group_gates=("GenericWorkload",),
    pod_group_condition="PodGroupInitiallyScheduled",
    pod_group_sets=("placementGenerate", "placementScore", "podGroupPostFilter"),
    gives_up_early=True,
    preempts_for_groups=True,
    disrupts_groups=True,
    favours_members=True,
    shares_with_image_volumes=True,
    merges_namespaces=True,
    hints_match_any_term=True,
    compares_sums_of_resized=True,
    follows_taint_rules=True,
    shares_claim_metric=True,
    merges_device_config=True,
    waits_for_all_shares=True,
    writes_capacity_as_steps=True,
    explains_selectors=True,
    wakes_at_lost_claims=True,
    reports_claims_in_preemption=False,
    names_target_pods=True,
    reports_victims=True,
    rejects_missing_drivers=True,
    refuses_negative_capacity=True,
    later_metrics=(),
    beta_metrics=(
        *_1_36.beta_metrics,
        "scheduler_scheduling_algorithm_duration_seconds",
        "scheduler_plugin_execution_duration_seconds",
    ),
)
_1_38 = replace(
    _1_37,
    minor=38,
    names_thresholds=True,
    disabled_points=(("DefaultPreemption", "reserve"),),
    pod_group_sets=("placementGenerate", "placementScore", "placementFeasible", "podGroupPostFilter"),
    scores_pod_level=True,
    scores_exactly=True,
    empty_selects_all=True,
    lasting_victim_order=True,
    offers_without_victims=True,
    favours_members=False,
    wakes_at_shrunken_node=True,
    hints_read_namespaces=True,
    fails_all_on_node=True,
    keeps_sharers=True,
    qualifies_capacity=True,
    counts_by_request=True,
    refuses_unknown_values=True,
    entity_label="entity",
)

KUBERNETES_VERSIONS: Mapping[int, KubernetesVersion] = MappingProxyType(
    {row.minor: row for row in (_1_34, _1_35, _1_36, _1_37, _1_38)}
)
"""The versions this scheduler can behave as, by minor, oldest first."""
DEFAULT_KUBERNETES = _1_34
"""Where nothing says which version is meant."""


def minor_of(version: str) -> int | None:
    """Return the minor of a version such as `1.36`, `v1.36.3` or `1.36+`; None for any other text."""
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match else None


def nearest_kubernetes(minor: int) -> KubernetesVersion:
    """Return the version that this scheduler behaves as on a cluster: its own, or the closest of the table."""
    return KUBERNETES_VERSIONS[min(max(minor, min(KUBERNETES_VERSIONS)), max(KUBERNETES_VERSIONS))]
