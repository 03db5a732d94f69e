"""Feature gates: defaults by version, and what can be chosen."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config import default_configuration
from scheduler.daemon import Daemon
from scheduler.gates import GATES, POD_GROUP_GATES, SETTABLE_GATES, always, gates_of, gone, is_on
from scheduler.kube.client import ClientConfig, KubeClient
from scheduler.options import parse_options


@pytest.mark.parametrize(
    ("name", "minor", "stage", "enabled"),
    [
        ("ComponentStatusz", 34, "ALPHA", False),
        ("ComponentStatusz", 36, "BETA", True),
        ("ComponentStatusz", 40, "BETA", True),
        ("SchedulerPopFromBackoffQ", 31, "BETA", True),
        ("NodeDeclaredFeatures", 37, "", True),
        ("DRAConsumableCapacity", 38, "", True),
        ("OpportunisticBatching", 35, "BETA", True),
        ("SchedulerPreQueueingHints", 38, "BETA", True),
    ],
)
def test_a_gate_has_the_stage_of_the_version(name: str, minor: int, stage: str, enabled: bool) -> None:
    assert (name, stage, enabled) in set(gates_of(minor, {}))


def test_a_version_has_no_gates_that_came_later_or_are_gone() -> None:
    assert "GangScheduling" in {name for name, _, _ in gates_of(35, {})}
    for minor in (34, 37):
        assert "GangScheduling" not in {name for name, _, _ in gates_of(minor, {})}


def test_gates_of_pod_groups_are_those_of_the_version_and_off() -> None:
    shown = {
        minor: {name: (stage, enabled) for name, stage, enabled in gates_of(minor, {}) if name in POD_GROUP_GATES}
        for minor in (34, 35, 36, 37, 38)
    }
    alpha, beta = ("ALPHA", False), ("BETA", False)
    assert shown[34] == {}
    assert shown[35] == {}
    assert shown[36] == dict.fromkeys(
        (
            "DRAWorkloadResourceClaims",
            "TopologyAwareWorkloadScheduling",
            "WorkloadAwarePreemption",
        ),
        alpha,
    )
    assert shown[37] == {
        "CompositePodGroup": alpha,
        "DRAWorkloadResourceClaims": beta,
        "PodGroupPreemptionPolicy": alpha,
        "TopologyAwareWorkloadScheduling": alpha,
    }
    assert shown[38] == dict.fromkeys(
        ("CompositePodGroup", "DRAWorkloadResourceClaims", "TopologyAwareWorkloadScheduling"), beta
    )


@pytest.mark.parametrize(
    "name",
    [
        "DynamicResourceAllocation",
        "InPlacePodVerticalScaling",
        "MatchLabelKeysInPodAffinity",
        "PodGroupPreemptionPolicy",
        "PodSchedulingReadiness",
    ],
)
def test_a_gate_is_gone_from_a_version_on(name: str) -> None:
    assert gone(37, {name: True}) == []
    assert gone(38, {name: True}) == [name]


def test_a_gate_that_can_be_chosen_does_not_end_the_start_when_the_cluster_is_upgraded() -> None:
    assert gone(38, {"GangScheduling": True, "SchedulerQueueingHints": True}) == ["SchedulerQueueingHints"]


def test_a_gate_that_came_later_or_never_existed_is_not_gone() -> None:
    assert gone(34, {"OpportunisticBatching": True, "NoSuchGate": True}) == []


def test_only_some_gates_can_be_chosen() -> None:
    assert GATES.keys() >= SETTABLE_GATES
    assert is_on("ComponentFlagz", 34, {"ComponentFlagz": True})
    assert not is_on("ComponentFlagz", 36, {"ComponentFlagz": False})
    assert is_on("SchedulerQueueingHints", 34, {"SchedulerQueueingHints": False})


def test_a_default_that_never_changed_is_distinguished_from_others() -> None:
    assert always("SchedulerQueueingHints") is True
    assert always("AllAlpha") is False
    assert always("StorageCapacityScoring") is None
    assert always("NoSuchGate") is None


@pytest.mark.parametrize(("minor", "refused"), [(37, False), (38, True), (39, True)])
def test_a_gate_that_the_version_no_longer_has_ends_the_start(minor: int, refused: bool) -> None:
    options = parse_options(["--feature-gates=PodSchedulingReadiness=true"], "0")
    configuration = default_configuration(allow_default_scheduler_name=True, cluster_minor=minor)
    readers: Any = {"nodes": None, "pods": None}
    try:
        Daemon(options, configuration, KubeClient(ClientConfig(server="http://127.0.0.1:1")), **readers)
        complaint = ""
    except (ValueError, RuntimeError) as error:
        complaint = str(error)
    assert ("--feature-gates PodSchedulingReadiness: unrecognized feature gate" in complaint) is refused
