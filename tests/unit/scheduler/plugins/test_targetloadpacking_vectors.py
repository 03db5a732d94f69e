"""Upstream's own TargetLoadPacking tests, replayed through decide and explain."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.core import decide, explain
from scheduler.framework import LoadReading, NodeLoad, conclude
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import Node, Pod
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, SOURCE, WATCHER, only_scores, runner

VECTORS = json.loads((Path(__file__).parents[3] / "conformance/vectors/trimaran_tlp.json").read_text())


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in VECTORS if case["kind"] == kind]


def profile(case: dict[str, Any]) -> Any:
    args = json.loads(json.dumps(case["args"]).replace("<watcher-server>", WATCHER))
    return runner(only_scores("TargetLoadPacking"), {"TargetLoadPacking": args}, compatibility="upstream")


def state(case: dict[str, Any]) -> ClusterState:
    cluster = ClusterState()
    for raw in case["nodes"]:
        cluster.upsert_node(reduce_node(msgspec.convert(raw, Node)))
    answer = case["watcher_response"]
    loads = {}
    for name, metrics in (answer["data"]["NodeMetricsMap"] or {}).items():
        values = [
            metric["value"]
            for metric in metrics["metrics"]
            if metric["type"] == "CPU" and metric["operator"] in ("AVG", "Latest")
        ]
        if values:
            loads[name] = NodeLoad(cpu_average=values[-1])
    cluster.set_load(LoadReading(loads, answer["window"]["end"], source=SOURCE))
    return cluster


def pod_of(raw: dict[str, Any], uid: str = "uid") -> Any:
    raw = {**raw, "metadata": {"uid": uid, "namespace": "default", **raw["metadata"]}}
    return reduce_pod(msgspec.convert(raw, Pod))


@pytest.mark.parametrize("case", of_kind("plugin_score"))
def test_scores_are_upstreams(case: dict[str, Any]) -> None:
    explanation = explain(state(case).snapshot(NOW), pod_of(case["pod"]), profile(case))
    for name, expected in case["expected"]["scores"].items():
        node = explanation.node(name)
        assert node.feasible
        assert node.scores["TargetLoadPacking"].raw == expected


@pytest.mark.parametrize("case", of_kind("plugin_construct"))
def test_the_plugin_is_built_without_asking_the_watcher(case: dict[str, Any]) -> None:
    args = json.loads(json.dumps(case["args"]))
    assert "TargetLoadPacking" in runner(only_scores("TargetLoadPacking"), {"TargetLoadPacking": args}).plugins


@pytest.mark.parametrize("case", of_kind("placement_sequence"))
def test_pods_go_where_upstreams_integration_test_has_them(case: dict[str, Any]) -> None:
    cluster, scheduler = state(case), profile(case)
    allowed = case["expected"]["placements"]
    for index, raw in enumerate(case["pods"]):
        info = pod_of(raw, f"uid-{index}")
        node = conclude(decide(cluster.snapshot(NOW), info, scheduler, random.Random(index))).node
        assert node == allowed[info.name]
        bound = cluster.assume(info, node, NOW)
        cluster.upsert_pod(bound, NOW)
