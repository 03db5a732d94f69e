"""Which over-commits are counted and reported, on the engine with a fake API server."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.engine.overcommits import Overcommits
from scheduler.framework import Clocks, MonotonicSeconds, PodInfo
from scheduler.helpers import DoubleAllocations
from scheduler.kube.model import DeviceClass, DeviceClassSpec, EventType, ObjectMeta
from tests.unit.scheduler.engine.fakes import Engine, eventually
from tests.unit.scheduler.engine.pods import node_info, pod_info

OTHER = "default-scheduler"


def _overcommits(engine: Engine) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["resource"], sample.labels["scheduler"]): sample.value
        for metric in engine.metrics.overcommits.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


def _rejections(engine: Engine) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["reason"], sample.labels["scheduler"]): sample.value
        for metric in engine.metrics.kubelet_rejections.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.value
    }


def _nodes(engine: Engine) -> dict[str, float]:
    engine.overcommits.show()
    return {
        sample.labels["resource"]: sample.value
        for metric in engine.metrics.overcommitted_nodes.collect()
        for sample in metric.samples
        if sample.value
    }


def _failed(pod: PodInfo, reason: str) -> PodInfo:
    return msgspec.structs.replace(pod, terminal=True, phase="Failed", reason=reason, resource_version="7")


@pytest.fixture
async def idle(engine: Engine) -> Engine:
    """Only watches: what is pending stays so. Its node n1 has one CPU."""
    engine.leading = False
    engine.add_node("n1", cpu="1")
    return engine


async def test_rejections_and_bindings_begin_with_zero_so_that_the_first_is_seen_as_an_increase(idle: Engine) -> None:
    value = idle.metrics.registry.get_sample_value
    reasons = ("OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "OutOf")
    name = "secondary_scheduler_kubelet_rejections_total"
    for scheduler in ("own", "other"):
        assert [value(name, {"reason": reason, "scheduler": scheduler}) for reason in reasons] == [0] * 5
    outcomes = ("bound", "conflict", "gone", "unknown", "failed")
    assert [value("secondary_scheduler_bindings_total", {"outcome": each}) for each in outcomes] == [0] * 5


async def test_the_pod_that_came_too_late_is_counted_once_with_its_scheduler(idle: Engine) -> None:
    idle.add_pod("a", node="n1", cpu="600m")
    assert _nodes(idle) == {}
    idle.add_pod("b", node="n1", cpu="600m", scheduler=OTHER)
    assert _overcommits(idle) == {("cpu", "other"): 1}
    assert _nodes(idle) == {"cpu": 1}
    idle.add_pod("b", node="n1", cpu="600m", scheduler=OTHER, rv="2")
    assert _overcommits(idle) == {("cpu", "other"): 1}
    idle.add_pod("c", node="n1", cpu="600m")
    assert _overcommits(idle) == {("cpu", "other"): 1, ("cpu", "own"): 1}


async def test_a_pod_that_requests_nothing_of_what_lacks_makes_it_no_worse(idle: Engine) -> None:
    for name in ("a", "b"):
        idle.add_pod(name, node="n1", cpu="600m", scheduler=OTHER)
    idle.add_pod("c", node="n1", cpu="0", scheduler=OTHER)
    assert _overcommits(idle) == {("cpu", "other"): 1}


async def test_pods_of_a_list_are_shown_and_blamed_on_nobody(idle: Engine) -> None:
    idle.relist_pods(*(pod_info(name, node="n1", cpu="600m") for name in ("a", "b")))
    assert _overcommits(idle) == {}
    assert _nodes(idle) == {"cpu": 1}


async def test_an_assumed_pod_does_not_count_before_its_binding_is_seen(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("ours", cpu="600m")
    await eventually(lambda: len(engine.api.bindings) == 1, "bound")
    engine.add_pod("theirs", node="n1", cpu="600m", scheduler=OTHER)
    assert (_overcommits(engine), _nodes(engine)) == ({}, {})
    engine.add_pod("ours", node="n1", cpu="600m", rv="2")
    assert _overcommits(engine) == {("cpu", "own"): 1}
    assert _nodes(engine) == {"cpu": 1}


async def test_a_node_that_becomes_smaller_shows_without_a_new_pod(idle: Engine) -> None:
    idle.add_pod("a", node="n1", cpu="600m")
    idle.add_node("n1", cpu="500m")
    assert (_overcommits(idle), _nodes(idle)) == ({}, {"cpu": 1})


async def test_too_many_pods_are_too_much_of_a_resource(idle: Engine) -> None:
    idle.state.upsert_node(msgspec.structs.replace(node_info("n2"), allowed_pods=1))
    for name in ("a", "b"):
        idle.add_pod(name, node="n2", cpu="0", scheduler=OTHER)
    assert (_overcommits(idle), _nodes(idle)) == ({("pods", "other"): 1}, {"pods": 1})


async def test_extended_resources_share_a_label_and_made_up_ones_are_left_out(idle: Engine) -> None:
    allocatable = {f"example.com/device-{number}": 1 for number in range(3)}
    idle.state.upsert_node(msgspec.structs.replace(node_info("n2"), allocatable=allocatable))
    requests = {**dict.fromkeys(allocatable, 2), **{f"example.com/made-up-{number}": 1 for number in range(100)}}
    idle.pods.apply([(EventType.ADDED, msgspec.structs.replace(pod_info("p", node="n2"), requests=requests))])
    assert _overcommits(idle) == {("other", "own"): 1}
    assert _nodes(idle) == {"other": 1}


async def test_rejections_by_kubelets_are_counted_with_their_scheduler_and_only_ours_are_reported(idle: Engine) -> None:
    pods = {
        "a": (idle.add_pod("a", node="n1", cpu="600m"), "OutOfcpu"),
        "b": (idle.add_pod("b", node="n1", cpu="600m"), "OutOfexample.com/gpu"),
        "c": (idle.add_pod("c", node="n1", cpu="600m"), "Evicted"),
        "d": (idle.add_pod("d", node="n1", cpu="600m", scheduler=OTHER), "OutOfcpu"),
    }
    for pod, reason in pods.values():
        for _ in range(2):
            idle.pods.apply([(EventType.MODIFIED, _failed(pod, reason))])
    assert _rejections(idle) == {("OutOfcpu", "own"): 1, ("OutOf", "own"): 1, ("OutOfcpu", "other"): 1}
    assert "kubelets rejected 2 pods of ours (OutOf, OutOfcpu)" in idle.overcommits.report().message


async def test_a_node_is_reported_from_the_second_time_and_no_longer_once_it_has_room(idle: Engine) -> None:
    for name in ("a", "b"):
        idle.add_pod(name, node="n1", cpu="600m", scheduler=OTHER)
    assert not idle.overcommits.report().overcommitted
    report = idle.overcommits.report()
    assert report.overcommitted
    assert report.message.startswith("pods request more than is allocatable on n1 (cpu): ")
    idle.relist_pods()
    assert not idle.overcommits.report().overcommitted


async def test_rejections_are_reported_for_ten_minutes(idle: Engine) -> None:
    now = 0.0
    clocks = Clocks(wall=idle.clocks.wall, monotonic=lambda: MonotonicSeconds(now))
    overcommits = Overcommits(idle.state, scheduler_names=idle.runners, metrics=idle.metrics, clocks=clocks)
    overcommits.pod_ended(_failed(pod_info("a", node="n1"), "OutOfcpu"))
    expected = "in the last 10 minutes kubelets rejected 1 pods of ours (OutOfcpu): "
    assert overcommits.report().message.startswith(expected)
    now = 599.0
    assert overcommits.report().overcommitted
    now = 601.0
    assert not overcommits.report().overcommitted


async def test_a_report_of_many_nodes_stays_short(idle: Engine) -> None:
    for number in range(200):
        idle.add_node(f"node-{number:03}", cpu="100m")
        idle.add_pod(f"p{number}", node=f"node-{number:03}", cpu="1", scheduler=OTHER)
    idle.overcommits.report()
    message = idle.overcommits.report().message
    assert "node-000 (cpu), node-001 (cpu), node-002 (cpu) and 197 more" in message


async def test_a_device_that_two_claims_have_is_reported(idle: Engine) -> None:
    devices = idle.state.objects.derived(DoubleAllocations).devices
    devices.add("gpu.example.com/a/g0")
    report = idle.overcommits.report()
    assert report.overcommitted
    assert report.message.startswith("two claims have the device gpu.example.com/a/g0: does another scheduler")
    devices.clear()
    assert not idle.overcommits.report().overcommitted


async def test_an_extended_resource_that_is_devices_is_no_over_commit(idle: Engine) -> None:
    name = "example.com/gpu"
    spec = DeviceClassSpec(extended_resource_name=name)
    idle.state.objects.upsert("DeviceClass", DeviceClass(ObjectMeta(name="gpu"), spec))
    # Some node has the resource itself.
    idle.state.upsert_node(msgspec.structs.replace(node_info("n2"), allocatable={name: 4}))
    pod = pod_info("a", node="n1")
    pod = msgspec.structs.replace(pod, requests={**pod.requests, name: 2})
    idle.state.upsert_pod(pod)
    assert _nodes(idle) == {}
    idle.state.objects.remove("DeviceClass", "", "gpu")
    assert _nodes(idle) == {"other": 1.0}
