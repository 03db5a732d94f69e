"""VolumeBinding's scores since 1.37: by how much of the capacity would be used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.core import explain
from scheduler.framework import PodInfo
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import decode_node, decode_pod
from scheduler.state import CODEC_OF_KIND, ClusterState
from tests.unit.scheduler.core.builders import NOW, runner

HOST = "kubernetes.io/hostname"
EMPTY_FIRST = {"VolumeBinding": {"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]}}
FULL_FIRST = {"VolumeBinding": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}


def on(name: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]}]
    return {"required": {"nodeSelectorTerms": terms}}


def cluster(*objects: tuple[str, dict[str, Any]]) -> ClusterState:
    state = ClusterState()
    for name in ("n1", "n2", "n3"):
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        meta = {"name": name, "uid": name, "labels": {HOST: name}}
        state.upsert_node(
            reduce_node(decode_node(json.dumps({"metadata": meta, "status": {"allocatable": amounts}}).encode()))
        )
    for kind, item in objects:
        state.objects.upsert(kind, CODEC_OF_KIND[kind].decode(json.dumps(item).encode()))
    return state


def volume(name: str, node: str, size: str) -> tuple[str, dict[str, Any]]:
    spec = {
        "storageClassName": "local",
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": on(node),
    }
    return "PersistentVolume", {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def claim(storage_class: str, size: str) -> tuple[str, dict[str, Any]]:
    spec = {
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
        "accessModes": ["ReadWriteOnce"],
    }
    return "PersistentVolumeClaim", {"metadata": {"name": "data", "namespace": "default"}, "spec": spec}


def storage_class(name: str, provisioner: str) -> tuple[str, dict[str, Any]]:
    return "StorageClass", {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def capacity(name: str, node: str, amounts: dict[str, str]) -> tuple[str, dict[str, Any]]:
    item = {
        "metadata": {"name": name, "namespace": "x"},
        "storageClassName": "made",
        "nodeTopology": {"matchLabels": {HOST: node}},
    }
    return "CSIStorageCapacity", {**item, **amounts}


LOCAL = (storage_class("local", "kubernetes.io/no-provisioner"), claim("local", "10Gi"))
MADE = (
    storage_class("made", "csi.example.com"),
    claim("made", "10Gi"),
    ("CSIDriver", {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}),
)


def pod() -> PodInfo:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"containers": [{"name": "c"}], "volumes": volumes}
    return reduce_pod(
        decode_pod(json.dumps({"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "spec": spec}).encode())
    )


def scores(state: ClusterState, version: str, args: Any = None) -> dict[str, int | None]:
    explanation = explain(state.snapshot(NOW), pod(), runner(None, args, kubernetes=version))
    return {
        name: explained.scores["VolumeBinding"].raw if "VolumeBinding" in explained.scores else None
        for name, explained in explanation.nodes()
        if explained.feasible
    }


def test_the_emptier_volume_is_better_by_default_since_1_37() -> None:
    state = cluster(*LOCAL, volume("a", "n1", "10Gi"), volume("b", "n2", "20Gi"), volume("c", "n3", "100Gi"))
    assert scores(state, "1.36") == {"n1": None, "n2": None, "n3": None}
    assert scores(state, "1.37") == {"n1": 0, "n2": 50, "n3": 90}
    assert scores(state, "1.37", EMPTY_FIRST) == scores(state, "1.37")


def test_a_shape_turns_it_around() -> None:
    state = cluster(*LOCAL, volume("a", "n1", "10Gi"), volume("b", "n2", "20Gi"), volume("c", "n3", "100Gi"))
    assert scores(state, "1.37", FULL_FIRST) == {"n1": 100, "n2": 50, "n3": 10}


def test_volumes_to_be_made_are_scored_by_the_free_capacity_of_their_class() -> None:
    free = [capacity("a", "n1", {"capacity": "10Gi"}), capacity("b", "n2", {"capacity": "40Gi"})]
    state = cluster(*MADE, *free, capacity("c", "n3", {"capacity": "5Gi"}))
    assert scores(state, "1.37") == {"n1": 0, "n2": 75}


@pytest.mark.parametrize(
    ("reports", "score"),
    [
        ([{"capacity": "40Gi"}, {"capacity": "20Gi"}], 75),
        ([{"capacity": "5Gi"}, {"capacity": "20Gi"}], 50),
        ([{"maximumVolumeSize": "20Gi"}], 0),
    ],
)
def test_of_several_reports_the_first_by_name_that_suffices_counts(reports: list[dict[str, str]], score: int) -> None:
    state = cluster(*MADE, *(capacity(f"r{index}", "n1", amounts) for index, amounts in enumerate(reports)))
    assert scores(state, "1.37") == {"n1": score}
