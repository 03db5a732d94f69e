"""The status of a PodGroup, step by step: upstream's own cases, and what is counted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.kube.model import Pod, PodGroup, PodGroupStatus
from secondary_scheduler.operator.groups.status import Member, is_overdue, next_status, patch_of

VECTORS = json.loads((Path(__file__).parents[2] / "conformance/vectors/coscheduling.json").read_text())


def vectors(kind: str) -> list[Any]:
    params = [
        pytest.param(vector, id=vector["name"].rpartition("/")[2]) for vector in VECTORS if vector["kind"] == kind
    ]
    assert params
    return params


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def group_of(vector: dict[str, Any]) -> PodGroup:
    """The group of a vector, whose times are given as distances from now."""
    (data,) = vector["pod_groups"]
    now = time.time()
    metadata = {**data["metadata"], "creationTimestamp": stamp(now + data["creation_offset_seconds"])}
    status = {**data["status"], "scheduleStartTime": stamp(now + data["schedule_start_offset_seconds"])}
    return msgspec.convert({**data, "metadata": metadata, "status": status}, PodGroup)


def step(group: PodGroup, pods: list[dict[str, Any]]) -> PodGroup:
    members = [Member.of(msgspec.convert(pod, Pod)) for pod in pods]
    return msgspec.structs.replace(group, status=next_status(group, members))


@pytest.mark.parametrize("vector", vectors("podgroup_reconcile_sequence"))
def test_upstreams_sequences(vector: dict[str, Any]) -> None:
    group, pods = group_of(vector), vector["existing_pods"]
    for update in vector["input"]["status_updates_then_reconcile"]:
        for pod in pods:
            if f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" == update["pod"]:
                pod["status"]["phase"] = update["phase"]
        group = step(group, pods)
    assert group.status.phase == vector["expected"]["phase"]


@pytest.mark.parametrize("vector", vectors("podgroup_reconcile_once"))
def test_upstreams_owners(vector: dict[str, Any]) -> None:
    group = step(group_of(vector), vector["existing_pods"])
    assert group.status.occupied_by == vector["expected"]["occupiedBy"]


# Our own cases ------------------------------------------------------------------------------------------------------


def group(phase: str, wanted: int = 2, **status: Any) -> PodGroup:
    metadata = {"name": "g", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"minMember": wanted}, "status": {"phase": phase, **status}}, PodGroup
    )


def members(*phases: str) -> list[Member]:
    return [Member(f"p{number}", "a", "2026-01-01T00:00:00Z", phase, ()) for number, phase in enumerate(phases)]


def test_a_new_group_becomes_pending_whatever_its_pods_do() -> None:
    assert next_status(group(""), members("Running", "Running")).phase == "Pending"


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        (("Running",), "Pending"),
        (("Running", "Pending"), "Scheduling"),
        (("Running", "Running"), "Running"),
        (("Running", "Succeeded"), "Running"),
        (("Running", "Failed"), "Failed"),
        (("Running", "Failed", "Pending"), "Failed"),
        (("Failed", "Pending", "Pending"), "Scheduling"),
        (("Running", "Running", "Failed"), "Failed"),
        (("Succeeded", "Succeeded", "Failed"), "Finished"),
        (("Succeeded", "Succeeded", "Running"), "Finished"),
    ],
)
def test_the_phase_follows_from_the_pods(phases: tuple[str, ...], expected: str) -> None:
    for before in ("Scheduling", "Running", "Unknown"):
        after = next_status(group(before), members(*phases))
        counts = tuple(phases.count(phase) for phase in ("Running", "Succeeded", "Failed"))
        assert (after.phase, after.running, after.succeeded, after.failed) == (expected, *counts)


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_the_last_phases_are_final(phase: str) -> None:
    before = group(phase, running=1)
    assert next_status(before, members("Running", "Running")) == before.status


def test_the_owners_of_the_oldest_pod_occupy_the_group() -> None:
    newer = Member("a", "a", "2026-01-02T00:00:00Z", "Pending", ("young",))
    old = Member("z", "a", "2026-01-01T00:00:00Z", "Pending", ("two", "one"))
    assert next_status(group("Pending"), [newer, old]).occupied_by == "a/one,a/two"
    assert next_status(group("Pending", occupiedBy="kept"), members("Pending", "Pending")).occupied_by == "kept"


@pytest.mark.parametrize(
    ("started", "status", "overdue"),
    [
        ("2026-01-03T00:00:01Z", {}, True),
        ("2026-01-03T00:00:00Z", {}, False),
        ("2026-01-03T00:00:01Z", {"running": 1}, False),
        (None, {}, False),
        ("never", {}, False),
    ],
)
def test_a_group_of_an_older_controller_is_given_up_after_two_days(
    started: str | None, status: dict[str, Any], overdue: bool
) -> None:
    for phase in ("Pending", "Scheduling"):
        waiting = group(phase, scheduleStartTime=started, **status)
        assert is_overdue(waiting) == overdue
        assert (next_status(waiting, members("Running", "Running")) == waiting.status) == overdue
    assert not is_overdue(group("Running", scheduleStartTime=started))


def test_only_what_changes_is_written() -> None:
    before = PodGroupStatus(phase="Running", occupied_by="a/x", running=2, failed=1)
    after = PodGroupStatus(phase="Running", occupied_by="a/y", running=2, succeeded=1)
    assert patch_of(before, after) == {"occupiedBy": "a/y", "succeeded": 1, "failed": 0}
    assert patch_of(before, before) == {}
