"""Feature gates: defaults by version, and what can be chosen."""

from __future__ import annotations

import pytest

from scheduler.gates import GATES, POD_GROUP_GATES, SETTABLE_GATES, always, gates_of, is_on


@pytest.mark.parametrize(
    ("name", "minor", "stage", "enabled"),
    [
        ("ComponentStatusz", 34, "ALPHA", False),
        ("ComponentStatusz", 36, "BETA", True),
        ("ComponentStatusz", 40, "BETA", True),
        ("SchedulerPopFromBackoffQ", 31, "BETA", True),
        ("NodeDeclaredFeatures", 37, "", True),
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
        for minor in (34, 35, 36, 37)
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
