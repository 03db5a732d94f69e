"""What is not run against ours, by name: it would pass or fail without saying anything of our scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_DRIVES = "drives the Go scheduler itself, one cycle at a time"
_FOLLOWS = "chooses the gate {}, which with ours follows the version"
_GROUP_POST_FILTER = "registers a PodGroupPostFilter plugin: ours has no such extension point"
_FEATURE = "makes up a feature of nodes in the Go scheduler"
_TOPOLOGY = "needs topology of PodGroups, alpha, which ours does not score as 1.36 does"
_GROUPS_OF_GROUPS = "needs groups of groups, alpha, which ours does not have"
_GROUP_PREEMPTION = "needs preemption for a PodGroup, which ours does not have"
_API_SERVER = "asks the API server only"
_FIRST, _LAST = 34, 99


@dataclass(frozen=True)
class Unrunnable:
    """What a package has that is not run.

    Attributes:
        test: pattern of tests, or of subtests with a pattern for each part of the name.
        since: the first minor version of 1.x that has it, or cannot have it judged.
        until: the last one.
    """

    package: str
    test: str
    why: str
    since: int = _FIRST
    until: int = _LAST


UNRUNNABLE = (
    Unrunnable("batch", "TestBatchScenarios", "asks the Go scheduler how many pods it placed together", 36),
    Unrunnable("bind", "TestDefaultBinder", "calls the Go framework's Bind plugins"),
    Unrunnable(
        "eventhandler",
        "TestUpdateNominatedNodeName/.*hints_enabled:_false.*",
        _FOLLOWS.format("SchedulerQueueingHints"),
        until=36,
    ),
    Unrunnable("filters", "TestNodeDeclaredFeaturesFilter", _FEATURE, 36),
    Unrunnable(
        "nominated_node_name",
        "TestNominatedNodeNameIsSetBeforePreBindAndWaitOnPermit/.*expectation:_false.*",
        _FOLLOWS.format("NominatedNodeNameForExpectation"),
        36,
    ),
    Unrunnable("nominated_node_name", "TestPreemptionAndNominatedNodeNameScenarios", _DRIVES, 36),
    Unrunnable(
        "nominated_node_name", "TestSchedulerRestartWithNominatedNode", "orders the queue by a plugin in Go", 37
    ),
    Unrunnable("plugins", "TestPermitPluginsCancelled", "looks at the context that the Go framework gives to Permit"),
    Unrunnable("plugins", "TestQueueSortPlugin", "reads the Go scheduler's queue"),
    Unrunnable("podgroup", "TestCPG.*", _GROUPS_OF_GROUPS, 37),
    Unrunnable("podgroup", "TestPodGroupDependentRequiredValidation", _API_SERVER, 37),
    Unrunnable("podgroup", "TestPodGroupPostFilterIteration", _GROUP_POST_FILTER, 37),
    Unrunnable("podgroup/admission", "TestPodGroupAdmission", _API_SERVER, 36, 36),
    Unrunnable("podgroup/queueing", "TestPodGroupRequeueRemainingOnSchedulingSuccess", _DRIVES, 37),
    Unrunnable("podgroup/topology_aware_scheduling", "Test.*", _TOPOLOGY, 36, 36),
    Unrunnable("podgroup/topology_aware_scheduling", "TestCPG.*", _GROUPS_OF_GROUPS, 37),
    Unrunnable("preemption", "TestAsyncPreemption", _DRIVES),
    Unrunnable(
        "preemption",
        "TestDeferredResize.*",
        "reads the queue of the Go scheduler, for a gate that is alpha",
        37,
    ),
    Unrunnable("preemption", "TestInterPodAffinityPreemption", _DRIVES, 37),
    Unrunnable("preemption", "TestPodGroupPreemption", _GROUP_PREEMPTION, 36, 36),
    Unrunnable("preemption", "TestPreemption/.*CPG.*", _GROUPS_OF_GROUPS, 37),
    Unrunnable("preemption/nominatednodename", "TestPreferNominatedNode", "replaces a function of the Go scheduler"),
    Unrunnable("preemption/podgroup", "TestCompositePodGroupPreemption", _GROUPS_OF_GROUPS, 37),
    Unrunnable("preemption/podgroup", "TestPodGroupCycleStatePreserved", _GROUP_POST_FILTER, 37),
    Unrunnable("preemption/podgroup", "TestPodGroupPreemption(_NominatedNodeNameRespected)?", _GROUP_PREEMPTION, 37),
    Unrunnable(
        "prequeueinghint",
        "TestPreQueueingHintNarrowsPodSet/feature_enabled.*",
        _FOLLOWS.format("SchedulerPreQueueingHints"),
        37,
    ),
    Unrunnable("queueing", "TestCoreResourceEnqueue/NodeDeclaredFeatures/.*", _FEATURE, 37),
    Unrunnable("queueing", "TestCustomResourceEnqueue", _DRIVES),
    Unrunnable("queueing", "TestRequeueByPermitRejection", "is a race that the Go scheduler loses, too"),
    Unrunnable(
        "queueing/former",
        "TestCoreResourceEnqueueWith(out)?QueueingHints",
        _FOLLOWS.format("SchedulerQueueingHints"),
        until=36,
    ),
    *(
        Unrunnable(
            "queueing/queueinghint",
            f"TestCoreResourceEnqueue/{plugins}/.*DRAExtendedResource_is_enabled",
            _FOLLOWS.format("DRAExtendedResource"),
            until=35,
        )
        for plugins in ("NodeResourcesFit", "NodeResourcesFit/NodeAffinity")
    ),
    Unrunnable("queueing/queueinghint", "TestCoreResourceEnqueue/NodeDeclaredFeatures/.*", _FEATURE, 36, 36),
)

SPECS: Mapping[str, str] = {
    "LimitRange .*": _API_SERVER,
    "SchedulerPredicates .* pod overhead is accounted for": "needs a kubelet that makes new capacity allocatable",
    "SchedulerPreemption .* with the async preemption .*": "needs victims that take their time to end; kwok ends them",
    "SchedulerPreemption .* PriorityClass endpoints can .*": _API_SERVER,
    "SchedulerPreemption .* pod disruption condition is added .*": "needs a finalizer, which kwok removes",
}
"""Specs of the e2e tests that are left out, by pattern, with the reason."""


def rows(minor: str) -> Iterator[tuple[str, str, str]]:
    """Yield package, pattern and reason of all that a minor has, sorted by package."""
    number = int(minor.partition(".")[2])
    for row in UNRUNNABLE:
        if row.since <= number <= row.until:
            yield row.package, row.test, row.why


def is_unrunnable(minor: str, package: str, test: str) -> bool:
    """Whether a test is left out with all its subtests."""
    return any(name == package and re.fullmatch(pattern, test) for name, pattern, _ in rows(minor))


def skipped_subtests(minor: str, package: str, test: str) -> str:
    """What `-test.skip` wants so that our side leaves out some subtests of the test; "" where it leaves out none."""
    patterns = (pattern.split("/") for name, pattern, _ in rows(minor) if name == package)
    chosen = (parts for parts in patterns if len(parts) > 1 and re.fullmatch(parts[0], test))
    return "|".join("/".join(f"^({part})$" for part in parts) for parts in chosen)
