"""Decisions per second with NodeResourceTopologyMatch, without I/O: `python -m benchmarks numa [--nodes N]`.

Guaranteed pods, of one class or all different, on nodes with the policy single-numa-node. Each decision is assumed and
reserved, so that the cache OverReserve deducts it from the node's zones before the next one. The clock is CPU time,
which a busy machine does not distort.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence

import msgspec

from benchmarks.core import cluster
from benchmarks.harness import manifests
from scheduler.config import load_configuration
from scheduler.core import decide
from scheduler.engine import assemble
from scheduler.framework import PodInfo, ProfileRunner, conclude
from scheduler.helpers import PodReducer
from scheduler.kube.model import NODERESOURCETOPOLOGIES, decode_pod
from scheduler.state import ClusterState

NAME = "NodeResourceTopologyMatch"


def profile(strategy: str, period: int) -> ProfileRunner:
    """The default profile and the plugin."""
    args = {"scoringStrategy": {"type": strategy, "resources": []}, "cacheResyncPeriodSeconds": period}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "secondary-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": NAME}]}},
                "pluginConfig": [{"name": NAME, "args": args}],
            }
        ],
    }
    effective = load_configuration(json.dumps(configuration), source="benchmark")
    return assemble(effective).runners["secondary-scheduler"]


def zoned(nodes: int, zones: int) -> ClusterState:
    """Large nodes whose room is spread evenly over zones."""
    state = cluster(nodes)
    for number in range(nodes):
        amounts = {"cpu": "64", "memory": "256Gi", "example.com/nic": "8"}
        item = {
            "metadata": {"name": manifests.node_name(number), "resourceVersion": "1"},
            "attributes": [
                {"name": "topologyManagerPolicy", "value": "single-numa-node"},
                {"name": "topologyManagerScope", "value": "container"},
            ],
            "zones": [
                {
                    "name": f"node-{zone}",
                    "type": "Node",
                    "costs": [{"name": f"node-{o}", "value": 10 if o == zone else 20} for o in range(zones)],
                    "resources": [{"name": name, "available": amount} for name, amount in amounts.items()],
                }
                for zone in range(zones)
            ],
        }
        state.objects.upsert("NodeResourceTopology", NODERESOURCETOPOLOGIES.decode(msgspec.json.encode(item)))
    return state


def pod(reducer: PodReducer, number: int, millis: int) -> PodInfo:
    """A Guaranteed pod of two containers."""
    amounts = {"cpu": f"{millis}m", "memory": "10Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    item = manifests.pod(f"pod-{number}", {}, containers=[container, container])
    return reducer.reduce(decode_pod(msgspec.json.encode(item)))


def rate(state: ClusterState, runner: ProfileRunner, *, different: bool, seconds: float) -> float:
    """Decisions per second, assuming and reserving included."""
    reducer, rng = PodReducer(), random.Random(1)
    pods = [pod(reducer, number, 1 + number % 97 if different else 10) for number in range(20_000)]
    started = time.process_time()
    done = 0
    for each in pods:
        placement = conclude(decide(state.snapshot(0.0), each, runner, rng))
        if placement.node is None:
            raise RuntimeError(f"{each.key} did not fit: {placement.message}")
        state.assume(each, placement.node, 0.0)
        runner.run_reserve(placement.state, each, placement.node)
        done += 1
        if time.process_time() - started > seconds:
            break
    return done / (time.process_time() - started)


def main(arguments: Sequence[str]) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks numa", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--zones", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args(arguments)
    print(f"{options.nodes} nodes, {options.zones} zones each; decisions/s")
    print(f"{'cache':>12} {'strategy':>20} {'one class':>12} {'all different':>14}")
    for cache, period in (("Passthrough", 0), ("OverReserve", 5)):
        for strategy in ("LeastAllocated", "BalancedAllocation", "LeastNUMANodes"):
            rates = [
                rate(
                    zoned(options.nodes, options.zones),
                    profile(strategy, period),
                    different=different,
                    seconds=options.seconds,
                )
                for different in (False, True)
            ]
            print(f"{cache:>12} {strategy:>20} {rates[0]:>12,.0f} {rates[1]:>14,.0f}")
    return 0
