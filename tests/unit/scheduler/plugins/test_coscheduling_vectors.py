"""Coscheduling under `compatibility: upstream` gives the answers of upstream's own tests.

The live cases (whole schedulers) are played in tests/unit/scheduler/engine/test_gangs_vectors.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from scheduler.catalog import CoschedulingArgs, SecondarySchedulerOptionsArgs, Watch, lookup
from scheduler.framework import PODS_TO_ACTIVATE, Code, CycleState, PluginContext, PodInfo, Status
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import Node, Pod, PodGroup, PodGroupSpec
from scheduler.kube.primitives.timestamps import format_time
from scheduler.plugins.coscheduling import UpstreamCoscheduling, coscheduling
from scheduler.plugins.coscheduling.groups import resource_gap
from scheduler.state import ClusterState, Snapshot
from tests.unit.scheduler.core.builders import NOW
from tests.unit.scheduler.plugins.vectors import cases

FILE = "coscheduling.json"


class FakeHandle:
    """Waiting pods and a clock."""

    def __init__(self) -> None:
        self.time = NOW
        self.waiting: dict[str, PodInfo] = {}
        self.told: list[tuple[str, str]] = []

    def now(self) -> float:
        self.time += 0.001
        return self.time

    monotonic = now

    def waiting_pods(self) -> Collection[PodInfo]:
        return tuple(self.waiting.values())

    def allow_waiting(self, pod: PodInfo, plugin: str) -> None:
        self.told.append((pod.key, "allowed"))

    def reject_waiting(self, pod: PodInfo, plugin: str, message: str) -> bool:
        self.told.append((pod.key, message))
        return True

    def reorder(self, pods: Iterable[PodInfo]) -> None:
        """There is no queue."""


class GroupCase:
    """The nodes, pods and groups of a case, and the plugin."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.handle = FakeHandle()
        self.state = ClusterState()
        options = SecondarySchedulerOptionsArgs(compatibility="upstream")
        context = PluginContext("test", options, self.handle)  # type: ignore[arg-type]
        plugin = coscheduling(CoschedulingArgs.model_validate(case.get("args", {})), context)
        assert isinstance(plugin, UpstreamCoscheduling)
        self.plugin = plugin
        plugin.use_objects(self.state.objects)
        plugin.use_pods(self.state.directory)
        for raw in case.get("pod_groups", ()):
            self.state.objects.upsert("PodGroup", self.group(raw))
        for raw in case.get("nodes", ()):
            self.state.upsert_node(reduce_node(msgspec.convert(raw, Node)))
        for raw in case.get("existing_pods", ()):
            self.see(self.pod(raw))

    @staticmethod
    def group(raw: dict[str, Any]) -> PodGroup:
        offset = raw.get("creation_offset_seconds")
        meta = dict(raw["metadata"])
        if offset is not None:
            meta["creationTimestamp"] = format_time(datetime.fromtimestamp(NOW + offset, UTC))
        return msgspec.convert({"metadata": meta, "spec": raw["spec"]}, PodGroup)

    @staticmethod
    def pod(raw: dict[str, Any]) -> PodInfo:
        meta = {"namespace": "default", **raw["metadata"]}
        return reduce_pod(
            msgspec.convert({**raw, "metadata": {"uid": f"{meta['namespace']}/{meta['name']}", **meta}}, Pod)
        )

    def see(self, pod: PodInfo) -> PodInfo:
        self.state.directory.upsert(pod)
        if pod.node_name:
            self.state.upsert_pod(pod, NOW)
        return pod

    @property
    def view(self) -> Snapshot:
        return self.state.snapshot(NOW)

    def pre_filter(self, pod: PodInfo) -> Status:
        return self.plugin.pre_filter(CycleState(), pod, self.view)[1]

    def post_filter(self, pod: PodInfo) -> Status:
        return self.plugin.post_filter(CycleState(), pod, self.view, None)[1]  # type: ignore[arg-type]

    def key(self, member: dict[str, Any]) -> tuple[int, float, str]:
        offset = member["initial_attempt_offset_seconds"]
        return self.plugin.sort_key(self.pod(member["pod"]), NOW if offset is None else NOW + offset)


@pytest.mark.parametrize("case", cases(FILE, "prefilter"))
def test_pre_filter(case: dict[str, Any]) -> None:
    world = GroupCase(case)
    status = world.pre_filter(world.see(world.pod(case["pod"])))
    expected = case["expected"]
    assert status.is_success == expected["success"]
    if not expected["success"]:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert expected["plugin_status_when_failed"] == "UnschedulableAndUnresolvable"


@pytest.mark.parametrize("case", [*cases(FILE, "permit"), *cases(FILE, "permit_core")])
def test_permit(case: dict[str, Any]) -> None:
    world = GroupCase(case)
    status, seconds = world.plugin.permit(CycleState(), world.see(world.pod(case["pod"])), "node")
    expected = case["expected"].get("code") or case["expected"]["manager_status"]
    answers = {
        "Success": Status(),
        "PodGroup not specified": Status(),
        "Wait": Status(Code.WAIT),
        "PodGroup not found": Status(Code.UNSCHEDULABLE, ("PodGroup not found",)),
    }
    assert status == answers[expected]
    assert seconds == (10.0 if expected == "Wait" else 0.0)


@pytest.mark.parametrize("case", cases(FILE, "postfilter"))
def test_post_filter(case: dict[str, Any]) -> None:
    world = GroupCase(case)
    status = world.post_filter(world.see(world.pod(case["pod"])))
    assert (status.code, list(status.reasons)) == (Code.UNSCHEDULABLE, case["expected"]["reasons"])


@pytest.mark.parametrize("case", cases(FILE, "check_cluster_resource"))
def test_check_cluster_resource(case: dict[str, Any]) -> None:
    world = GroupCase({**case, "pod_groups": []})
    wanted = case["input"]
    group = PodGroup(spec=PodGroupSpec(0, wanted["min_resources"]))
    members = [
        (pod, world.view.row(pod.node_name))
        for raw in case["existing_pods"]
        if (pod := world.pod(raw)).labels.get("scheduling.x-k8s.io/pod-group") == wanted["pod_group"].partition("/")[2]
    ]
    assert (resource_gap(group, world.view, members) == "") == case["expected"]["satisfied"]


@pytest.mark.parametrize("case", cases(FILE, "queue_sort_less"))
def test_order_in_the_queue(case: dict[str, Any]) -> None:
    world = GroupCase(case)
    assert (world.key(case["p1"]) < world.key(case["p2"])) == case["expected"]["less"]


@pytest.mark.parametrize("case", cases(FILE, "queue_sort_steps"))
def test_order_after_a_failure(case: dict[str, Any]) -> None:
    world = GroupCase(case)
    for step, expected in zip(case["input"]["steps"], case["expected"]["results"], strict=True):
        if step.startswith("less"):
            first, second = step[5:-1].split(",")
            assert (world.key(case[first]) < world.key(case[second])) == expected, step
        else:
            _mark(world, step)


def _mark(world: GroupCase, step: str) -> None:
    verb, group_key = step.split()
    if verb == "mark_failure":
        world.plugin.groups.mark_failed(group_key, world.handle.now())
    else:
        world.plugin.groups.clear_failed(group_key)


@pytest.mark.parametrize("case", cases(FILE, "creation_timestamp_steps"))
def test_time_that_orders_a_group(case: dict[str, Any]) -> None:
    world = GroupCase(case)
    pod = world.pod(case["pod"])
    created = NOW + case["pod_groups"][0]["creation_offset_seconds"]
    reads = []
    for step in case["input"]["steps"]:
        if step == "read":
            reads.append(world.plugin.groups.queued_at(pod, math.nan))
        else:
            _mark(world, step)
    words = [
        "equals pod group creation time" if read == created else "strictly after pod group creation time"
        for read in reads
    ]
    assert all(read >= created for read in reads)
    assert words == case["expected"]["reads"]


@pytest.mark.parametrize("case", cases(FILE, "plugin_steps"))
def test_a_sequence_of_calls(case: dict[str, Any]) -> None:
    world = GroupCase(case)
    pods = {
        f"{existing['metadata']['namespace']}/{existing['metadata']['name']}": world.pod(existing)
        for existing in case["existing_pods"]
    }
    for step, expected in zip(case["input"]["steps"], case["expected"]["steps"], strict=True):
        pod, state = pods[step["pod"]], CycleState()
        if step["call"] == "Permit":
            status, _ = world.plugin.permit(state, pod, step["node"])
            world.handle.waiting[pod.uid] = pod
            activated: dict[str, PodInfo] = state.read(PODS_TO_ACTIVATE, dict) or {}
            assert sorted(activated_pod.key for activated_pod in activated.values()) == expected["pods_to_activate"]
        elif step["call"] == "PostFilter":
            status = world.post_filter(pod)
            assert world.handle.told == [("ns/pod1", "optimistic rejection in PostFilter")]
        else:
            status = world.pre_filter(pod)
        if expected:
            assert status.code.name.replace("_", "").lower() == expected["code"].lower()
            assert list(status.reasons) == ([expected["reason"]] if "reason" in expected else [])


@pytest.mark.parametrize("case", cases(FILE, "client_scope"))
def test_only_pod_groups_are_read(case: dict[str, Any]) -> None:
    world = GroupCase({**case, "pod_groups": case["input"]["pod_groups"]})
    descriptor = lookup("Coscheduling")
    assert descriptor is not None
    assert descriptor.watches == (Watch("scheduling.x-k8s.io/v1alpha1", "podgroups"),)
    assert [rule.resources for rule in descriptor.rules] == [("podgroups",)]
    group = world.plugin.groups.of(world.pod(case["input"]["pod"]))
    assert group is not None
    expected = case["expected"]["GetPodGroup"]
    assert (group.metadata.key, group.spec.min_member) == (expected["full_name"], expected["minMember"])
