"""The cost of preemption: `python -m benchmarks preempting [--nodes N,N…] [--pods N]`.

Each node is full with four low-priority pods, as in the race's scenario Preemption. High-priority pods come one by one.
Each is rejected, preempts its victims and is nominated to their node; once they are gone it is tried again and assumed.
The figures are CPU time per pod, for the attempt that preempts and for the one that places.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.core import NOW, profile
from benchmarks.harness import manifests
from scheduler.core import decide, run_post_filters
from scheduler.framework import PodInfo, ProfileRunner, conclude
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import PodDisruptionBudget, decode_node, decode_pod
from scheduler.state import ClusterState

PER_NODE = 4
LAG = 50
"""So many pods are nominated, their victims still there, while the next ones are tried."""
GROUPS = 20


def pod(reducer: PodReducer, name: str, priority: int, millis: int, node: str = "", **fields: Any) -> PodInfo:
    """A pod of a priority that requests `millis` of CPU; on `node`, or pending without one."""
    requests = {"cpu": f"{millis}m", "memory": "500Mi", **fields.get("requests", {})}
    item = manifests.pod(name, requests, labels=fields.get("labels"), nodeName=node, priority=priority)
    return reducer.reduce(decode_pod(msgspec.json.encode(item)))


def full_cluster(nodes: int, *, budgets: bool) -> ClusterState:
    """Nodes of four CPUs, with four pods of 900m on each."""
    state, reducer = ClusterState(), PodReducer()
    for number in range(nodes):
        name = manifests.node_name(number)
        resources = {"cpu": "4", "memory": "32Gi", "pods": "110", "example.com/gpu": "4"}
        state.upsert_node(reduce_node(decode_node(msgspec.json.encode(manifests.node(number, resources)))))
        for index in range(PER_NODE):
            labels = {"app": f"app-{(number + index) % GROUPS}"}
            victim = pod(
                reducer, f"low-{number}-{index}", 0, 900, name, labels=labels, requests={"example.com/gpu": "1"}
            )
            state.upsert_pod(victim)
    for group in range(GROUPS if budgets else 0):
        budget = {
            "metadata": {"name": f"app-{group}", "namespace": "bench"},
            "spec": {"selector": {"matchLabels": {"app": f"app-{group}"}}},
            "status": {"disruptionsAllowed": group % 3},
        }
        state.objects.upsert("PodDisruptionBudget", msgspec.convert(budget, PodDisruptionBudget))
    return state


CASES: Mapping[str, tuple[Callable[[PodReducer, int], PodInfo], bool]] = {
    # name: (the pod of a number, whether budgets cover the pods that may go)
    "one class": (lambda reducer, index: pod(reducer, f"high-{index}", 10, 3000), False),
    "one class, under budgets": (lambda reducer, index: pod(reducer, f"high-{index}", 10, 3000), True),
    "one class, with devices": (
        lambda reducer, index: pod(reducer, f"high-{index}", 10, 100, requests={"example.com/gpu": "3"}),
        False,
    ),
    "20 classes in turn": (lambda reducer, index: pod(reducer, f"high-{index}", 10, 2901 + index % 20), False),
    "no two alike": (lambda reducer, index: pod(reducer, f"high-{index}", 10, 2500 + index), False),
    "too large for any node": (lambda reducer, index: pod(reducer, f"high-{index}", 10, 3999 + 2 * (index % 2)), False),
}


def measure(runner: ProfileRunner, nodes: int, pods: int, case: str) -> dict[str, float]:
    """Medians of the milliseconds of CPU time that an attempt takes which preempts, and one that places; and the mean
    of both together per pod, the first ones included, for which nothing is known yet."""
    make, budgets = CASES[case]
    state, reducer, rng = full_cluster(nodes, budgets=budgets), PodReducer(), random.Random(1)
    waiting: list[tuple[PodInfo, tuple[PodInfo, ...]]] = []
    preempting: list[float] = []
    placing: list[float] = []
    for index in range(min(pods, nodes)):
        preemptor = make(reducer, index)
        started = time.process_time()
        snapshot = state.snapshot(NOW)
        placement = conclude(decide(snapshot, preemptor, runner, rng))
        outcome = conclude(run_post_filters(snapshot, placement, runner))
        preempting.append(time.process_time() - started)
        if outcome.nominated_node:
            preemptor = msgspec.structs.replace(preemptor, nominated_node=outcome.nominated_node)
            state.nominator.set(preemptor, outcome.nominated_node)
            waiting.append((preemptor, outcome.victims))
        if len(waiting) < LAG:
            continue
        nominated, victims = waiting.pop(0)
        for victim in victims:
            state.remove_pod(victim.uid)
        started = time.process_time()
        placement = conclude(decide(state.snapshot(NOW), nominated, runner, rng))
        if placement.node is None:
            raise RuntimeError(f"{nominated.key} did not fit: {placement.message}")
        state.assume(nominated, placement.node, NOW)
        placing.append(time.process_time() - started)
    return {
        "preempting": round(statistics.median(preempting) * 1e3, 3),
        "placing": round(statistics.median(placing) * 1e3, 3) if placing else 0.0,
        "together": round(statistics.fmean(preempting) * 1e3 + (statistics.fmean(placing) * 1e3 if placing else 0), 3),
    }


def main(arguments: Sequence[str]) -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks preempting", description=__doc__)
    parser.add_argument("--nodes", default="100,1000,5000", help="numbers of nodes, separated by commas")
    parser.add_argument("--pods", type=int, default=500, help="high-priority pods; at most one per node")
    parser.add_argument("--case", action="append", choices=CASES, help="measure only this case; may be repeated")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    measurements = []
    for case in options.case or CASES:
        for size in map(int, options.nodes.split(",")):
            measurements.append(
                {"pods": case, "nodes": size, "milliseconds": measure(profile("default"), size, options.pods, case)}
            )
            if not options.json:
                times = measurements[-1]["milliseconds"]
                print(f"{case:<26} {size:>6,} nodes: {times} ms", flush=True)
    if options.json:
        print(json.dumps(measurements, indent=1))
    return 0
