"""The cache of objects that plugins look up, fed as a watch would."""

from __future__ import annotations

import msgspec
import pytest
import structlog

from scheduler.catalog import Watch
from scheduler.engine.assembly import SYSTEM_CLOCKS
from scheduler.engine.objects import ObjectInputs, is_custom, new_reflector
from scheduler.framework import SUCCESS
from scheduler.kube.client import ClientConfig, KubeClient
from scheduler.kube.model import EventType, Namespace, ObjectMeta, ResourceVersion
from scheduler.observe import Metrics
from scheduler.state import WATCHED_KINDS, ClusterState, SchedulingQueue

NAMESPACES = WATCHED_KINDS[Watch("v1", "namespaces")]


def new_queue() -> SchedulingQueue:
    return SchedulingQueue(
        clocks=SYSTEM_CLOCKS, sort_key=lambda pod, queued_at: queued_at, pre_enqueue=lambda pod: SUCCESS, hints={}
    )


def namespace(name: str, version: str = "1") -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, uid=name, resource_version=ResourceVersion(version)))


@pytest.fixture
def state() -> ClusterState:
    return ClusterState()


@pytest.fixture
def sink(state: ClusterState) -> ObjectInputs:
    return ObjectInputs(NAMESPACES, state, new_queue(), wake=lambda: None, metrics=Metrics())


def names(state: ClusterState) -> set[str]:
    return {item.metadata.name for item in state.objects.every("Namespace")}


def test_the_cache_is_what_the_list_and_the_events_after_it_say(state: ClusterState, sink: ObjectInputs) -> None:
    sink.replace([namespace("a"), namespace("b")], ResourceVersion("2"))
    sink.apply([(EventType.DELETED, namespace("a")), (EventType.ADDED, namespace("c"))])
    assert names(state) == {"b", "c"}
    sink.replace([namespace("c")], ResourceVersion("9"))
    assert names(state) == {"c"}


def test_a_custom_resource_that_is_not_served_is_named_once_in_the_log(state: ClusterState) -> None:
    sink = ObjectInputs(NAMESPACES, state, new_queue(), wake=lambda: None, metrics=Metrics(), custom=True)
    with structlog.testing.capture_logs() as logs:
        sink.replace([], ResourceVersion(""))
        sink.replace([], ResourceVersion(""))
        sink.replace([namespace("a")], ResourceVersion("5"))
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]
    assert "CustomResourceDefinition" in logs[0]["event"]
    assert names(state) == {"a"}


def test_a_resource_that_is_taken_away_takes_its_objects_along(state: ClusterState, sink: ObjectInputs) -> None:
    sink.replace([namespace("a")], ResourceVersion("5"))
    sink.replace([], ResourceVersion(""))
    assert names(state) == set()


async def test_every_resource_beside_nodes_and_pods_may_be_missing_from_the_api_server(state: ClusterState) -> None:
    """A custom resource comes with its definition; of Kubernetes' own, older servers and roles lack some."""
    async with KubeClient(ClientConfig(server="http://127.0.0.1:1"), qps=0) as client:
        for watch in WATCHED_KINDS:
            sink = ObjectInputs(WATCHED_KINDS[watch], state, new_queue(), wake=lambda: None, metrics=Metrics())
            assert new_reflector(watch, client, sink).optional, watch


def test_a_builtin_resource_that_is_not_served_asks_for_no_definition(state: ClusterState, sink: ObjectInputs) -> None:
    with structlog.testing.capture_logs() as logs:
        sink.replace([], ResourceVersion(""))
        sink.replace([], ResourceVersion(""))
    (entry,) = logs
    assert entry["event"].startswith("the API server does not serve the resource: an older API server does not")


def test_a_custom_resource_is_known_by_its_definition() -> None:
    custom = {watch.resource for watch in WATCHED_KINDS if is_custom(watch)}
    assert custom >= {"podgroups", "elasticquotas", "noderesourcetopologies"}
    assert not {"namespaces", "volumeattachments", "persistentvolumes"} & custom


def test_an_object_that_lists_more_than_is_read_is_left_out_named_and_counted(state: ClusterState) -> None:
    metrics = Metrics()
    sink = ObjectInputs(NAMESPACES, state, new_queue(), wake=lambda: None, metrics=metrics)
    sink.replace([namespace("a")], ResourceVersion("1"))
    line = {"type": "MODIFIED", "object": {"metadata": {"name": "a", "labels": {f"k{n}": "" for n in range(4097)}}}}
    event = NAMESPACES.codec.decode_event(msgspec.json.encode(line))
    assert event.invalid is not None
    with structlog.testing.capture_logs() as logs:
        sink.invalid(event.invalid.metadata, event.invalid.error)
    assert names(state) == set()
    name, labels = "secondary_scheduler_objects_left_out_total", {"kind": "Namespace"}
    assert metrics.registry.get_sample_value(name, labels) == 1
    assert (logs[0]["log_level"], logs[0]["object"]) == ("warning", "a")
    assert "length <= 4096 - at `$.metadata.labels`" in logs[0]["error"]
