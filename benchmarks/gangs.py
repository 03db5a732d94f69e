"""Milliseconds to decide a whole gang, without I/O: `python -m benchmarks gangs`.

Anywhere in the cluster, and in one rack of a hundred nodes; members all alike, of twenty shapes, and of a shape each.
Then on a cluster full of lower pods, six on a node, of which one has to go for each member. Nothing is assumed in
between. The clock is CPU time, and the least of some rounds counts.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from benchmarks.core import NOW, pod, profile
from benchmarks.harness import manifests
from scheduler.core import decide_gang, run_gang_post_filters
from scheduler.framework import (
    GANG_UNITS,
    Gang,
    GangTopology,
    PodInfo,
    Preemptor,
    ProfileRunner,
    Work,
    conclude,
)
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import POD_GROUP_LABEL, decode_node
from scheduler.state import ClusterState

RACK = "topology.example.com/rack"
NODES_PER_RACK = 100
GANGS = ((64, 1), (1000, 1), (1000, 20), (1000, 1000))
"""Members, and of how many shapes they are."""


LOWER_PODS, LOWER_CPU = 6, 10_600
"""On each node, where they leave no room for a member; in millicores."""


def cluster(nodes: int, lower_pods: int = 0) -> ClusterState:
    """Nodes of 64 CPUs in racks of a hundred, empty or with so many pods on each."""
    state, reducer = ClusterState(), PodReducer()
    for number in range(nodes):
        node = manifests.node(number, {"cpu": "64", "memory": "384Gi", "pods": "110"})
        node["metadata"]["labels"][RACK] = f"rack-{number // NODES_PER_RACK}"
        state.upsert_node(reduce_node(decode_node(msgspec.json.encode(node))))
        for index in range(lower_pods):
            name = manifests.node_name(number)
            state.upsert_pod(pod(reducer, f"lower-{number}-{index}", LOWER_CPU, 100, node=name), NOW)
    return state


def members(number: int, shapes: int) -> list[PodInfo]:
    """Pods of some shapes in turn."""
    reducer = PodReducer()
    return [pod(reducer, f"member-{index}", 500 + index % shapes, 100) for index in range(number)]


def milliseconds(
    state: ClusterState, runner: ProfileRunner, pods: Sequence[PodInfo], topology: GangTopology | None
) -> float:
    """CPU time of one decision.

    Raises:
        RuntimeError: a member did not fit.
    """
    gang = Gang("gang", tuple(pods), len(pods), 0, 60.0, topology=topology)
    snapshot = state.snapshot(NOW)
    started = time.process_time()
    decision = conclude(decide_gang(snapshot, gang, pods, lambda info: runner, random.Random(1), gang.missing))
    seconds = time.process_time() - started
    if len(decision.placed) < len(pods):
        raise RuntimeError(f"{len(decision.placed)} of {len(pods)} members fit")
    return seconds * 1000


def milliseconds_preempting(
    state: ClusterState, runner: ProfileRunner, pods: Sequence[PodInfo], topology: GangTopology | None
) -> float:
    """CPU time to find that a gang does not fit, and which pods are to go for it.

    Raises:
        RuntimeError: there are none, or more than one for a member.
    """
    members = tuple(msgspec.structs.replace(each, priority=1) for each in pods)
    identity = ("scheduling.x-k8s.io/v1alpha1", "PodGroup", "bench", "gang", "gang", "1", "secondary-scheduler")
    preemptor = Preemptor("podgroup", *identity, 1, True, members, POD_GROUP_LABEL)
    gang = Gang("gang", members, len(members), 0, 60.0, topology=topology, preemptor=preemptor)
    snapshot, work, chance = state.snapshot(NOW), Work(GANG_UNITS), random.Random(1)
    started = time.process_time()
    conclude(decide_gang(snapshot, gang, members, lambda info: runner, chance, gang.missing, work=work))
    outcome = run_gang_post_filters(snapshot, gang, members, runner, chance, work)
    seconds = time.process_time() - started
    if outcome.result is None or not 0 < len(outcome.result.victims) <= len(pods):
        raise RuntimeError(f"gang of {len(pods)}: {outcome.message}")
    return seconds * 1000


def measure(nodes: int, rounds: int) -> list[dict[str, Any]]:
    """One entry per gang."""
    state, full = cluster(nodes), cluster(nodes, LOWER_PODS)
    runner, measurements = profile("default"), []
    ways = (
        ("anywhere", milliseconds, state, None),
        ("oneRack", milliseconds, state, GangTopology((RACK,))),
        ("preempting", milliseconds_preempting, full, None),
    )
    for number, shapes in GANGS:
        pods = members(number, shapes)
        times = {name: min(way(on, runner, pods, topology) for _ in range(rounds)) for name, way, on, topology in ways}
        measurements.append({"members": number, "shapes": shapes, **{key: round(ms, 1) for key, ms in times.items()}})
    return measurements


def main(arguments: Sequence[str]) -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gangs", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    measurements = measure(options.nodes, options.rounds)
    if options.json:
        print(json.dumps(measurements, indent=1))
        return 0
    print(f"{'members':>8}{'shapes':>8}{'anywhere, ms':>14}{'one rack, ms':>14}{'preempting, ms':>16}")
    for each in measurements:
        columns = f"{each['anywhere']:>14}{each['oneRack']:>14}{each['preempting']:>16}"
        print(f"{each['members']:>8}{each['shapes']:>8}{columns}")
    return 0
