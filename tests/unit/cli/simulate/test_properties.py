"""Simulate is the core and nothing else: its decisions are those of `scheduler.core.decide` on the same objects."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.config import load_configuration
from scheduler.core import decide, run_post_filters
from scheduler.engine import AttemptPipeline
from scheduler.framework import Clocks, ProfileRunner, conclude
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import decode_node, decode_pod
from scheduler.plugins import build_profile
from scheduler.state import ClusterState
from secondary_scheduler.cli.simulate.running import write_json
from secondary_scheduler.simulation.cluster import PodSelection, build_cluster
from secondary_scheduler.simulation.deciding import Simulation, all_explained
from secondary_scheduler.simulation.objects import read_recorded
from secondary_scheduler.simulation.report import InputReport
from tests.support.drawnclusters import node_object, nodes, pod_object, pods
from tests.support.selection import tries
from tests.support.simulating import CONFIGURATION, SCHEDULER

NOW = 1767268800.0
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
        placement = conclude(decide(snapshot, info, runner, rng))
        message = placement.message
        if placement.node is not None:
            state.assume(info, placement.node, NOW)
        else:
            message = conclude(run_post_filters(snapshot, placement, runner)).message
        result.append((info.key, placement.node, message))
    return result


def simulated(directory: Path, objects: list[dict[str, Any]], runner: ProfileRunner, seed: int) -> list[dict[str, Any]]:
    file = directory / "snapshot.json"
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}))
    lines: list[str] = []
    report = InputReport(lines.append)
    cluster = build_cluster(read_recorded([str(file)], report), report, PodSelection([SCHEDULER]))
    assert lines == []
    attempts = AttemptPipeline(
        cluster.state, {SCHEDULER: runner}, random.Random(seed), Clocks(lambda: NOW, lambda: NOW)
    )
    simulation = Simulation(attempts, explained=all_explained)
    out = io.BytesIO()
    write_json(simulation.run(cluster.pending), out, "full")
    decisions: list[dict[str, Any]] = json.loads(out.getvalue())["decisions"]
    return decisions


@settings(max_examples=tries(60))
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
