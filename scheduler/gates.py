"""Feature gates of kube-scheduler: which there are, their stage and default by minor version, and what can be chosen.

Stages and defaults are those that the real binaries of 1.34 to 1.38 (beta.0) show as `kubernetes_feature_enabled`.
Listed are gates that concern a scheduler; upstream shows the API server's, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Stage(NamedTuple):
    """What a gate is from a minor version on.

    Attributes:
        since: that minor version of Kubernetes 1.x; 34 stands for older ones, too.
        stage: ALPHA, BETA, "" for general availability, or None where the gate is gone.
        default: whether the feature is on.
    """

    since: int
    stage: str | None
    default: bool


_ALPHA, _BETA, _STABLE, _GONE = "ALPHA", "BETA", "", None

GATES: Final[Mapping[str, tuple[Stage, ...]]] = MappingProxyType(
    {
        "AllAlpha": (Stage(34, _ALPHA, False),),
        "ClearingNominatedNodeNameAfterBinding": (Stage(34, _ALPHA, False), Stage(35, _BETA, True)),
        "ComponentFlagz": (Stage(34, _ALPHA, False), Stage(36, _BETA, True)),
        "ComponentStatusz": (Stage(34, _ALPHA, False), Stage(36, _BETA, True)),
        "CompositePodGroup": (Stage(37, _ALPHA, False), Stage(38, _BETA, False)),
        "ContextualLogging": (Stage(34, _BETA, True),),
        "CoordinatedLeaderElection": (Stage(34, _BETA, False),),
        "DRAAdminAccess": (Stage(34, _BETA, True), Stage(36, _STABLE, True)),
        "DRAConsumableCapacity": (Stage(34, _ALPHA, False), Stage(36, _BETA, True), Stage(38, _STABLE, True)),
        "DRADeviceBindingConditions": (Stage(34, _ALPHA, False), Stage(36, _BETA, True), Stage(38, _STABLE, True)),
        "DRADeviceTaintRules": (Stage(35, _ALPHA, False), Stage(36, _BETA, False), Stage(37, _STABLE, True)),
        "DRADeviceTaints": (Stage(34, _ALPHA, False), Stage(36, _BETA, True), Stage(37, _STABLE, True)),
        "DRAExtendedResource": (Stage(34, _ALPHA, False), Stage(36, _BETA, True), Stage(37, _STABLE, True)),
        "DRAPartitionableDevices": (Stage(34, _ALPHA, False), Stage(36, _BETA, True), Stage(38, _STABLE, True)),
        "DRAPrioritizedList": (Stage(34, _BETA, True), Stage(36, _STABLE, True)),
        "DRASchedulerFilterTimeout": (Stage(34, _BETA, True),),
        "DRAWorkloadResourceClaims": (Stage(36, _ALPHA, False), Stage(37, _BETA, False)),
        "DynamicResourceAllocation": (Stage(34, _STABLE, True), Stage(38, _GONE, False)),
        "GangScheduling": (Stage(35, _ALPHA, False), Stage(37, _GONE, False)),
        "GenericWorkload": (Stage(35, _ALPHA, False), Stage(37, _BETA, False)),
        "InPlacePodLevelResourcesVerticalScaling": (Stage(35, _ALPHA, False), Stage(36, _BETA, True)),
        "InPlacePodVerticalScaling": (Stage(34, _BETA, True), Stage(35, _STABLE, True), Stage(38, _GONE, False)),
        "InPlacePodVerticalScalingSchedulerPreemption": (Stage(37, _ALPHA, False),),
        "InterPodAffinityHostnameFastPath": (Stage(37, _ALPHA, False),),
        "LoggingAlphaOptions": (Stage(34, _ALPHA, False),),
        "LoggingBetaOptions": (Stage(34, _BETA, True),),
        "ManagedFieldsOptOutClient": (Stage(38, _ALPHA, False),),
        "MatchLabelKeysInPodAffinity": (Stage(34, _STABLE, True), Stage(38, _GONE, False)),
        "MatchLabelKeysInPodTopologySpread": (Stage(34, _BETA, True),),
        "MatchLabelKeysInPodTopologySpreadSelectorMerge": (Stage(34, _BETA, True),),
        "MutableCSINodeAllocatableCount": (Stage(34, _BETA, False), Stage(35, _BETA, True), Stage(36, _STABLE, True)),
        "NodeDeclaredFeatures": (Stage(35, _ALPHA, False), Stage(36, _BETA, True), Stage(37, _STABLE, True)),
        "NominatedNodeNameForExpectation": (Stage(34, _ALPHA, False), Stage(35, _BETA, True)),
        "OpportunisticBatching": (Stage(35, _BETA, True),),
        "PodGroupPreemptionPolicy": (Stage(37, _ALPHA, False), Stage(38, _GONE, False)),
        "PodLevelResources": (Stage(34, _BETA, True),),
        "PodObservedGenerationTracking": (Stage(34, _BETA, True), Stage(35, _STABLE, True)),
        "PodSchedulingReadiness": (Stage(34, _STABLE, True), Stage(38, _GONE, False)),
        "SchedulerAsyncAPICalls": (Stage(34, _BETA, False),),
        "SchedulerAsyncPreemption": (Stage(34, _BETA, True),),
        "SchedulerPopFromBackoffQ": (Stage(34, _BETA, True),),
        "SchedulerPreQueueingHints": (Stage(37, _ALPHA, False), Stage(38, _BETA, True)),
        "SchedulerQueueingHints": (Stage(34, _STABLE, True), Stage(37, _GONE, False)),
        "StorageCapacityScoring": (Stage(34, _ALPHA, False), Stage(37, _BETA, True)),
        "TaintTolerationComparisonOperators": (Stage(35, _ALPHA, False),),
        "TopologyAwareWorkloadScheduling": (Stage(36, _ALPHA, False), Stage(38, _BETA, False)),
        "VolumeAttributesClass": (Stage(34, _STABLE, True),),
        "VolumeLimitScaling": (Stage(35, _ALPHA, False), Stage(37, _BETA, True)),
        "WatchListClient": (Stage(34, _BETA, False), Stage(35, _BETA, True)),
        "WorkloadAwarePreemption": (Stage(36, _ALPHA, False), Stage(37, _GONE, False)),
    }
)
"""By name, oldest version first."""
SETTABLE_GATES: Final = frozenset(
    {
        "ComponentFlagz",
        "ComponentStatusz",
        "GangScheduling",
        "GenericWorkload",
        "ManagedFieldsOptOutClient",
        "SchedulerPopFromBackoffQ",
    }
)
"""What can be chosen. All others are as in the version that the profiles behave as."""
UNBUILT_GATES: Final = frozenset({"OpportunisticBatching", "SchedulerAsyncAPICalls"})
"""How kube-scheduler works, which changes no decision: there is nothing like it here, whatever the default."""
POD_GROUP_GATES: Final = frozenset(
    {
        "CompositePodGroup",
        "DRAWorkloadResourceClaims",
        "PodGroupPreemptionPolicy",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    }
)
"""Gates of the PodGroups of scheduling.k8s.io that are not followed. Whoever turns one on expects more of a gang than
that its pods are placed together: the reason must say so."""


def _in_version(name: str, minor: int) -> Stage:
    """The last row of a gate that counts in a version; one without a stage where the version does not have the gate."""
    rows = [row for row in GATES.get(name, ()) if row.since <= max(minor, 34)]
    return rows[-1] if rows else Stage(minor, _GONE, False)


def is_on(name: str, minor: int, chosen: Mapping[str, bool]) -> bool:
    """Return whether a feature is on, as chosen or by default in a minor version."""
    if name in SETTABLE_GATES and name in chosen:
        return chosen[name]
    return _in_version(name, minor).default


def gates_of(minor: int, chosen: Mapping[str, bool]) -> Iterator[tuple[str, str, bool]]:
    """Yield name and stage of each gate that a minor version has, and whether the feature is on."""
    for name in GATES:
        stage = _in_version(name, minor).stage
        if stage is not None:
            yield name, stage, is_on(name, minor, chosen)


def gone(minor: int, chosen: Mapping[str, bool]) -> list[str]:
    """Return the chosen gates that earlier versions had and a minor version has not: there, kube-scheduler does not
    start with them.

    Without those that can be chosen: who chose one does not lose the scheduler by an upgrade of the cluster.
    """
    return [name for name in chosen if name in GATES and name not in SETTABLE_GATES and _is_gone(name, minor)]


def _is_gone(name: str, minor: int) -> bool:
    return _in_version(name, minor).stage is None and GATES[name][0].since < minor


def always(name: str) -> bool | None:
    """Return the default that a gate has had in every version; None where that has changed, or for no gate."""
    defaults = {row.default for row in GATES.get(name, ()) if row.stage is not None}
    return defaults.pop() if len(defaults) == 1 else None
