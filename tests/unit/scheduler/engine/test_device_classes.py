"""Extended resources that stand for devices, in profiles with NodeResourcesFit and without DynamicResources."""

from __future__ import annotations

import pytest

from scheduler.catalog import Watch
from scheduler.config import load_configuration
from scheduler.engine import declared_watches
from scheduler.kube.model import DEVICECLASSES, EventType
from tests.unit.scheduler.engine.fakes import Engine, behaving_as, eventually, started

CLASSES = Watch("resource.k8s.io/v1", "deviceclasses")
WITHOUT_DEVICES = "{multiPoint: {disabled: [{name: DynamicResources}]}}"


@pytest.mark.parametrize(("kubernetes", "reads"), [("1.34", False), ("1.35", False), ("1.36", True), ("1.37", True)])
def test_device_classes_are_watched_where_they_count(kubernetes: str, reads: bool) -> None:
    (profile,) = load_configuration(behaving_as(kubernetes, plugins=WITHOUT_DEVICES), source="test").profiles
    watched = declared_watches((name, profile.kubernetes) for name in profile.enabled)
    assert (CLASSES in watched) is reads


async def test_a_new_class_wakes_a_pod_that_asks_for_its_resource() -> None:
    async with started(Engine(configuration=behaving_as("1.36", plugins=WITHOUT_DEVICES))) as engine:
        classes = engine.object_inputs(CLASSES)
        engine.add_node("n1")
        resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
        engine.add_pod("p", containers=[{"name": "c", "resources": resources}])
        await eventually(lambda: bool(engine.api.patches), "rejected")
        device_class = (
            b'{"metadata": {"name": "gpus", "uid": "u", "resourceVersion": "1"}, '
            b'"spec": {"extendedResourceName": "example.com/gpu"}}'
        )
        classes.apply([(EventType.ADDED, DEVICECLASSES.decode(device_class))])
        await eventually(lambda: bool(engine.api.bindings), "tried again, and bound", 30)
