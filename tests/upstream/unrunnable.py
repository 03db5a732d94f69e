"""What is not run against ours, by name: it would pass or fail without saying anything of our scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_DRIVES = "drives the Go scheduler itself, one cycle at a time"
_FOLLOWS = "chooses the gate {}, which with ours follows the version"
_UNTRIED = "registers plugins in Go: not run on this minor yet"
_TOPOLOGY = "needs topology of PodGroups or groups of groups, alpha, which ours does not have"
_API_SERVER = "asks the API server only"

UNRUNNABLE: Mapping[str, Mapping[str, str]] = {
    "bind": {"TestDefaultBinder": "calls the Go framework's Bind plugins"},
    "eventhandler": {
        "TestUpdateNominatedNodeName/.*hints_enabled:_false.*": _FOLLOWS.format("SchedulerQueueingHints"),
    },
    "plugins": {
        "TestPermitPluginsCancelled": "looks at the context that the Go framework gives to Permit",
        "TestQueueSortPlugin": "reads the Go scheduler's queue",
    },
    "preemption": {"TestAsyncPreemption": _DRIVES},
    "preemption/nominatednodename": {"TestPreferNominatedNode": "replaces a function of the Go scheduler"},
    "queueing": {
        "TestCustomResourceEnqueue": _DRIVES,
        "TestRequeueByPermitRejection": "is a race that the Go scheduler loses, too",
    },
    "queueing/former": {"TestCoreResourceEnqueueWithQueueingHints": _FOLLOWS.format("SchedulerQueueingHints")},
    "queueing/queueinghint": {
        f"TestCoreResourceEnqueue/{plugins}/.*DRAExtendedResource_is_enabled": _FOLLOWS.format("DRAExtendedResource")
        for plugins in ("NodeResourcesFit", "NodeResourcesFit/NodeAffinity")
    },
}
"""By package: patterns of tests, or of subtests with a pattern for each part of the name, and the reason."""

NEWER: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "1.36": {
        "batch": {"TestBatchScenarios": "asks the Go scheduler how many pods it placed together"},
        "filters": {"TestNodeDeclaredFeaturesFilter": "makes up a feature of nodes in the Go scheduler"},
        "nominated_node_name": {
            "TestNominatedNodeNameIsSetBeforePreBindAndWaitOnPermit": _UNTRIED,
            "TestPreemptionAndNominatedNodeNameScenarios": _DRIVES,
        },
        "podgroup": {"TestPostFilter.*": _UNTRIED},
        "podgroup/admission": {"TestPodGroupAdmission": _API_SERVER},
        "podgroup/topology_aware_scheduling": {"Test.*": _TOPOLOGY},
        "preemption": {"TestPreemptionRespects.*": _UNTRIED},
        "queueing/former": {"TestCoreResourceEnqueueWithoutQueueingHints": _DRIVES},
    },
    "1.37": {
        "nominated_node_name": {"TestSchedulerRestartWithNominatedNode": _UNTRIED},
        "podgroup": {
            "TestCPG.*": _TOPOLOGY,
            "TestPodGroupDependentRequiredValidation": _API_SERVER,
            "TestPodGroupPostFilterIteration": _UNTRIED,
        },
        "podgroup/queueing": {
            "TestPodGroupRequeueRemainingOnSchedulingSuccess": _DRIVES,
            "TestPodGroupSequentialQueueing": _DRIVES,
        },
        "preemption": {
            "TestDeferredResize.*": "reads the queue of the Go scheduler, for a gate that is alpha",
            "TestInterPodAffinityPreemption": _DRIVES,
        },
        "preemption/podgroup": {
            "TestCompositePodGroupPreemption": _TOPOLOGY,
            "TestPodGroupCycleStatePreserved": _UNTRIED,
            "TestPodGroupPreemption": _UNTRIED,
            "TestPodGroupPreemption_NominatedNodeNameRespected": _UNTRIED,
        },
        "prequeueinghint": {"TestPreQueueingHintNarrowsPodSet": _UNTRIED},
        "queueing": {"TestCoreResourceEnqueue": _DRIVES},
    },
}
"""What a minor and those after it have beside these."""


def rows(minor: str) -> Iterator[tuple[str, str, str]]:
    """Yield package, pattern and reason of all that a minor has, sorted by package."""
    number = _number(minor)
    tables = [UNRUNNABLE, *(table for since, table in NEWER.items() if _number(since) <= number)]
    for package in sorted({package for table in tables for package in table}):
        for table in tables:
            for test, why in table.get(package, {}).items():
                yield package, test, why


def is_unrunnable(minor: str, package: str, test: str) -> bool:
    """Whether a test is left out with all its subtests."""
    return any(name == package and re.fullmatch(pattern, test) for name, pattern, _ in rows(minor))


def skipped_subtests(minor: str, package: str, test: str) -> str:
    """What `-test.skip` wants so that our side leaves out some subtests of the test; "" where it leaves out none."""
    patterns = (pattern.split("/") for name, pattern, _ in rows(minor) if name == package)
    chosen = (parts for parts in patterns if len(parts) > 1 and re.fullmatch(parts[0], test))
    return "|".join("/".join(f"^({part})$" for part in parts) for parts in chosen)


def _number(minor: str) -> int:
    return int(minor.partition(".")[2])
