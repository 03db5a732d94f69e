"""Simulate is the core and nothing else: its decisions are those of `scheduler.core.decide` on the same objects."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import load_configuration
from scheduler.core import decide, run_post_filters
from scheduler.engine import AttemptPipeline
from scheduler.framework import Clocks, ProfileRunner
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import decode_node, decode_pod
from scheduler.plugins import build_profile
from scheduler.state import ClusterState
from secondary_scheduler.cli.simulate.output import write_json
from secondary_scheduler.cli.simulation.cluster import read_cluster
from secondary_scheduler.cli.simulation.deciding import Simulation, all_explained
from secondary_scheduler.cli.simulation.report import Report
from tests.support.simulating import CONFIGURATION, SCHEDULER, node, pod

NOW = 1767268800.0
zones = st.sampled_from(["a", "b"])
nodes = st.lists(
    st.builds(
        lambda cpu, zone, off, taint: {
            "cpu": cpu,
            "zone": zone,
            "unschedulable": off,
            "taints": [{"key": "t", "effect": "NoSchedule"}] if taint else [],
        },
        st.sampled_from(["1", "2", "4"]),
        zones,
        st.sampled_from([False, False, True]),
        st.sampled_from([False, False, True]),
    ),
    min_size=1,
    max_size=6,
)
pods = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.sampled_from(["0", "300m", "1", "3"]),
            "priority": st.integers(0, 2),
            "zone": st.one_of(st.none(), zones),
            "tolerates": st.booleans(),
            "second": st.integers(0, 3),
            "bound": st.sampled_from([False, False, True]),
            "spread": st.booleans(),
        }
    ),
    max_size=8,
)


def node_object(index: int, drawn: dict[str, Any]) -> dict[str, Any]:
    item = node(f"n{index}", cpu=drawn["cpu"], unschedulable=drawn["unschedulable"], taints=drawn["taints"])
    item["metadata"] |= {"uid": f"n{index}", "labels": {"topology.kubernetes.io/zone": drawn["zone"]}}
    return item


def pod_object(index: int, drawn: dict[str, Any], node_count: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"priority": drawn["priority"]}
    if drawn["zone"] is not None:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": drawn["zone"]}
    if drawn["tolerates"]:
        spec["tolerations"] = [{"operator": "Exists"}]
    if drawn["bound"]:
        spec["nodeName"] = f"n{index % node_count}"
    if drawn["spread"]:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    meta = {
        "uid": f"p{index}",
        "labels": {"app": "web"},
        "creationTimestamp": f"2026-01-01T00:00:0{drawn['second']}Z",
    }
    return pod(f"p{index}", cpu=drawn["cpu"], meta=meta, **spec)


Decided = list[tuple[str, str | None, str | None]]


@pytest.fixture(scope="module")
def runner() -> ProfileRunner:
    return build_profile(load_configuration(CONFIGURATION, source="config.yaml").profiles[0])


def decided_by_the_core(objects: list[dict[str, Any]], runner: ProfileRunner, seed: int) -> Decided:
    state, reducer, rng = ClusterState(), PodReducer(), random.Random(seed)
    waiting = []
    for item in objects:
        data = msgspec.json.encode(item)
        if item["kind"] == "Node":
            state.upsert_node(reduce_node(decode_node(data)))
            continue
        info = reducer.reduce(decode_pod(data))
        if info.node_name:
            state.upsert_pod(info)
        else:
            waiting.append(info)
    result = []
    for info in sorted(waiting, key=lambda pod: (-pod.priority, pod.created_at)):
        snapshot = state.snapshot(NOW)
        placement = decide(snapshot, info, runner, rng)
        message = placement.message
        if placement.node is not None:
            state.assume(info, placement.node, NOW)
        else:
            message = run_post_filters(snapshot, placement, runner).message
        result.append((info.key, placement.node, message))
    return result


def simulated(directory: Path, objects: list[dict[str, Any]], runner: ProfileRunner, seed: int) -> list[dict[str, Any]]:
    file = directory / "snapshot.json"
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}))
    lines: list[str] = []
    cluster = read_cluster([str(file)], Report(lines.append), scheduler_names=[SCHEDULER])
    assert lines == []
    attempts = AttemptPipeline(
        cluster.state, {SCHEDULER: runner}, random.Random(seed), Clocks(lambda: NOW, lambda: NOW)
    )
    simulation = Simulation(attempts, explained=all_explained)
    out = io.BytesIO()
    write_json(simulation.run(cluster.pending), out, "full")
    decisions: list[dict[str, Any]] = json.loads(out.getvalue())["decisions"]
    return decisions


@settings(max_examples=60)
@given(nodes, pods, st.integers(0, 3))
def test_decisions_are_those_of_the_core(
    runner: ProfileRunner,
    tmp_path_factory: pytest.TempPathFactory,
    drawn_nodes: list[Any],
    drawn_pods: list[Any],
    seed: int,
) -> None:
    objects = [node_object(index, drawn) for index, drawn in enumerate(drawn_nodes)]
    objects += [pod_object(index, drawn, len(drawn_nodes)) for index, drawn in enumerate(drawn_pods)]
    expected = decided_by_the_core(objects, runner, seed)
    decisions = simulated(tmp_path_factory.getbasetemp(), objects, runner, seed)
    assert [(decision["pod"], decision["node"], decision["message"]) for decision in decisions] == expected
    for decision, (_, chosen, _) in zip(decisions, expected, strict=True):
        totals = {name: shown["total"] for name, shown in decision["nodes"].items() if shown["feasible"]}
        assert chosen is None or totals[chosen] == max(totals.values())
        assert set(decision["nodes"]) == {f"n{index}" for index in range(len(drawn_nodes))}
