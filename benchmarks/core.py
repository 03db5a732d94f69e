"""Decisions per second of the pure core, without I/O: `python -m benchmarks.core [--nodes N,N] [--seconds S]`.

Two workloads: pods of one class (every pod asks for the same) and pods that all differ. Each decision is assumed, so
that the next one sees it, as in the live loop.
"""

from __future__ import annotations

import argparse
import random
import time

import msgspec

from scheduler.config import load_configuration
from scheduler.core import decide
from scheduler.framework import PodInfo, ProfileRunner
from scheduler.helpers import PodReducer, reduce_node
from scheduler.plugins import build_profile
from scheduler.state import ClusterState
from secondary_scheduler.kube.model import decode_node, decode_pod

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: secondary-scheduler}]
"""


def cluster(nodes: int) -> ClusterState:
    """A cluster of equal, empty, large nodes in three zones."""
    state = ClusterState()
    for number in range(nodes):
        resources = {"cpu": "64", "memory": "256Gi", "pods": "5000"}
        name = f"node-{number:05d}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
        node = {
            "metadata": {"name": name, "uid": name, "labels": labels},
            "status": {"allocatable": resources, "capacity": resources},
        }
        state.upsert_node(reduce_node(decode_node(msgspec.json.encode(node))))
    return state


def pod(reducer: PodReducer, number: int, millis: int) -> PodInfo:
    """A pod that asks for CPU and memory and nothing else."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{millis}m", "memory": "100Mi"}}}
    metadata = {"name": f"pod-{number}", "namespace": "bench", "uid": f"pod-{number}"}
    spec = {"schedulerName": "secondary-scheduler", "containers": [container]}
    return reducer.reduce(decode_pod(msgspec.json.encode({"metadata": metadata, "spec": spec})))


def rate(nodes: int, runner: ProfileRunner, *, different: bool, seconds: float) -> float:
    """Decisions per second, assuming included, reducing the pods left out."""
    state, reducer, rng = cluster(nodes), PodReducer(), random.Random(1)
    pods = [pod(reducer, number, 1 + number % 997 if different else 10) for number in range(20_000)]
    started = time.perf_counter()
    done = 0
    for each in pods:
        placement = decide(state.snapshot(0.0), (each,), runner, rng).placements[0]
        if placement.node is None:
            raise SystemExit(f"benchmarks: {each.key} did not fit: {placement.message}")
        state.assume(each, placement.node, 0.0)
        done += 1
        if time.perf_counter() - started > seconds:
            break
    return done / (time.perf_counter() - started)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.core", description=__doc__)
    parser.add_argument("--nodes", default="100,1000,5000")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    configuration = load_configuration(CONFIGURATION, source="benchmark")
    runner = build_profile(configuration.profiles[0])
    print(f"{'nodes':>7} {'one class':>12} {'all different':>14}   decisions/s")
    for nodes in (int(text) for text in options.nodes.split(",")):
        same = rate(nodes, runner, different=False, seconds=options.seconds)
        different = rate(nodes, runner, different=True, seconds=options.seconds)
        print(f"{nodes:>7} {same:>12,.0f} {different:>14,.0f}")


if __name__ == "__main__":
    main()
