"""What holds of every plan, on drawn clusters: the scheduler agrees with each move, no pod is moved twice, the spread
never grows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from scheduler.core import explain
from secondary_scheduler.rebalancing import PlannedMove
from tests.support.drawnclusters import node_object, nodes, pod_object, pods
from tests.support.rebalancing import Scene, owned, running
from tests.support.selection import tries

loads = st.lists(st.sampled_from([3.0, 20.0, 45.0, 70.0, 85.0, 97.0]), min_size=6, max_size=6)
SETTINGS = {
    "minimumGain": 1,
    "minReplicas": 1,
    "thresholds": {"cpu": 50},
    "targetThresholds": {"cpu": 75},
    "evictionLimits": {"total": 10, "node": 10, "workload": 10},
}


def scene_of(drawn_nodes: list[Any], drawn_pods: list[Any], drawn_loads: list[float]) -> Scene:
    """A cluster in which all drawn pods run, each of a workload of its own."""
    objects = [node_object(index, drawn) for index, drawn in enumerate(drawn_nodes)]
    for index, drawn in enumerate(drawn_pods):
        item = pod_object(index, {**drawn, "bound": True}, len(drawn_nodes))
        item["metadata"]["ownerReferences"] = owned("ReplicaSet", f"o{index}")
        item["status"] = running("any", "n0")["status"]
        objects.append(item)
    return Scene(objects, {f"n{index}": load for index, load in enumerate(drawn_loads[: len(drawn_nodes)])})


def best_nodes(scene: Scene, pod: str) -> tuple[str, ...]:
    """Where the scheduler would put a pod of a scene, if it waited."""
    waiting = scene.change(pod, lambda item: (item["spec"].pop("nodeName"), item.pop("status")))
    ready, _ = waiting.ready()
    attempts = ready.assembly.attempts
    (pending,) = ready.cluster.pending
    return explain(attempts.snapshot(), pending, attempts.runner_of(pending)).best


def made(scene: Scene, move: PlannedMove) -> Scene:
    """The scene after a move."""
    after = scene.change(move.pod.partition("/")[2], lambda item: item["spec"].update(nodeName=move.target.name))
    for change in (move.source, move.target):
        after.cpu[change.name] = change.after["cpu"]
    return after


@settings(max_examples=tries(60), deadline=None)
@given(nodes, pods, loads, st.integers(0, 3))
def test_each_move_is_the_schedulers_own_and_makes_the_load_more_even(
    drawn_nodes: list[Any], drawn_pods: list[Any], drawn_loads: list[float], seed: int
) -> None:
    scene = scene_of(drawn_nodes, drawn_pods, drawn_loads)
    plan = scene.plan(SETTINGS, rounds=5, seed=seed)
    spread = float(np.std(list(scene.cpu.values())))
    for move in plan.moves:
        without = copy.deepcopy(scene)
        without.cpu[move.source.name] = move.source.after["cpu"]
        assert move.target.name in best_nodes(without, move.pod.partition("/")[2])
        assert move.source.before["cpu"] > 75.0 >= move.target.after["cpu"]
        scene = made(scene, move)
        lower = float(np.std(list(scene.cpu.values())))
        assert lower < spread
        spread = lower
    moved = [move.pod for move in plan.moves]
    assert len(set(moved)) == len(moved)
    by_round = [(move.round, node) for move in plan.moves for node in (move.source.name, move.target.name)]
    assert len(set(by_round)) == len(by_round)
    assert all(move.gain.total >= move.minimum_gain for move in plan.moves)


@settings(max_examples=tries(20), deadline=None)
@given(nodes, pods, loads)
def test_a_plan_is_the_same_each_time(drawn_nodes: list[Any], drawn_pods: list[Any], drawn_loads: list[float]) -> None:
    scene = scene_of(drawn_nodes, drawn_pods, drawn_loads)
    # By its text: what was not measured equals nothing.
    assert repr(scene.plan(SETTINGS, rounds=3)) == repr(scene.plan(SETTINGS, rounds=3))


def test_drawn_clusters_have_moves() -> None:
    # Else the properties above would hold of nothing.
    calm = {"cpu": "4", "zone": "a", "unschedulable": False, "taints": []}
    pod = {"cpu": "300m", "priority": 0, "zone": None, "tolerates": False, "second": 0, "spread": False}
    assert scene_of([calm] * 3, [pod] * 3, [97.0, 3.0, 3.0, 0, 0, 0]).plan(SETTINGS).moves
