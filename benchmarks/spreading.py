"""Decisions per second with constraints between pods: `python -m benchmarks.spreading [--nodes N] [--pods N]`.

The cluster already holds pods of 100 Deployments; new pods belong to one of them, or to all in turn. Each decision runs
the default profile and is assumed, so that the next one sees it. The clock is CPU time. `--from-scratch` also measures
decisions that use nothing cached per class of pods.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from benchmarks.core import NOW, cluster, profile
from scheduler.core import decide
from scheduler.framework import PodInfo, ProfileRunner
from scheduler.helpers import PodReducer
from scheduler.kube.model import decode_pod
from scheduler.state import CODEC_OF_KIND, ClusterState

DEPLOYMENTS = 100
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
Spec = Mapping[str, Any]


def _selector(app: int) -> dict[str, Any]:
    return {"matchLabels": {"app": f"app-{app}"}}


def _spread(app: int) -> Spec:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": _selector(app)}]}


def _anti(app: int) -> Spec:
    term = {"topologyKey": HOST, "labelSelector": _selector(app)}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _near(app: int) -> Spec:
    terms = [{"topologyKey": key, "labelSelector": _selector((app + 1) % DEPLOYMENTS)} for key in (ZONE, HOST)]
    weighted = [{"weight": weight, "podAffinityTerm": term} for weight, term in zip((50, 10), terms, strict=True)]
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}


CASES: Mapping[str, tuple[Callable[[int], Spec], bool, bool]] = {
    # name: (constraints, a Service selects the pods, only one deployment of the new pods)
    "nothing asked": (lambda app: {}, False, True),
    "hard zone spread": (_spread, False, True),
    "hostname anti-affinity": (_anti, False, True),
    "hostname anti-affinity, 100 deployments in turn": (_anti, False, False),
    "preferred affinity, zone and host name": (_near, False, True),
    "soft spread by default, zone and host name": (lambda app: {}, True, True),
    "soft spread by default, 100 deployments in turn": (lambda app: {}, True, False),
}


def pod(reducer: PodReducer, name: str, app: int, spec: Spec, node: str = "") -> PodInfo:
    """A pod of Deployment `app` with the given constraints (`spec`); on `node`, or pending without one."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m", "memory": "100Mi"}}}
    labels = {"app": f"app-{app}", "pod-template-hash": f"{app:08x}"}
    data = {
        "metadata": {"name": name, "namespace": "bench", "uid": name, "labels": labels},
        "spec": {"schedulerName": "secondary-scheduler", "containers": [container], "nodeName": node, **spec},
    }
    return reducer.reduce(decode_pod(msgspec.json.encode(data)))


def filled(
    reducer: PodReducer, nodes: int, pods: int, constraints: Callable[[int], Spec], served: bool
) -> ClusterState:
    """A cluster with pods, placed as their own constraints want it."""
    state = cluster(nodes)
    if served:
        for app in range(DEPLOYMENTS):
            service = {
                "metadata": {"name": f"app-{app}", "namespace": "bench"},
                "spec": {"selector": {"app": f"app-{app}"}},
            }
            state.objects.upsert("Service", CODEC_OF_KIND["Service"].decode(msgspec.json.encode(service)))
    for number in range(pods):
        # Each deployment fills a stretch of neighbouring nodes, one pod on each.
        app, index = number % DEPLOYMENTS, number // DEPLOYMENTS
        row = (app * nodes // DEPLOYMENTS + index) % nodes
        state.upsert_pod(pod(reducer, f"old-{number}", app, constraints(app), f"node-{row:05d}"))
    return state


def microseconds(runner: ProfileRunner, nodes: int, pods: int, case: str, number: int, *, from_scratch: bool) -> float:
    """Median CPU time of a decision and its assumption, in microseconds: other processes disturb a median least.

    `number` pods of a case (see CASES) are placed on `nodes` nodes that already have `pods` pods; `from_scratch` is
    passed on to `decide`.
    """
    constraints, served, same = CASES[case]
    reducer, rng = PodReducer(), random.Random(1)
    state = filled(reducer, nodes, pods, constraints, served)
    apps = [0 if same else index % DEPLOYMENTS for index in range(2 * DEPLOYMENTS + number)]
    new = [pod(reducer, f"new-{index}", app, constraints(app)) for index, app in enumerate(apps)]
    times = []
    for each in new:
        started = time.process_time()
        placement = decide(state.snapshot(NOW), each, runner, rng, from_scratch=from_scratch)
        if placement.node is None:
            raise SystemExit(f"benchmarks: {each.key} did not fit: {placement.message}")
        state.assume(each, placement.node, NOW)
        times.append(time.process_time() - started)
    # Counts and columns are made when first asked for: not part of the figure.
    return statistics.median(times[2 * DEPLOYMENTS :]) * 1e6


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.spreading", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--decisions", type=int, default=1000)
    parser.add_argument("--from-scratch", action="store_true", help="also measure without the caches per class of pods")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measurements = []
    for case in CASES:
        for from_scratch in (False, True) if options.from_scratch else (False,):
            each = microseconds(
                profile("default"), options.nodes, options.pods, case, options.decisions, from_scratch=from_scratch
            )
            measurements.append({"pods": case, "fromScratch": from_scratch, "decisionsPerSecond": round(1e6 / each)})
    if options.json:
        print(json.dumps({"nodes": options.nodes, "podsBefore": options.pods, "cases": measurements}, indent=1))
        return
    print(f"decisions per CPU second: {options.nodes} nodes, {options.pods} pods")
    for measurement in measurements:
        title = f"{measurement['pods']}, from scratch" if measurement["fromScratch"] else measurement["pods"]
        print(f"{title:<58} {measurement['decisionsPerSecond']:>8,}")


if __name__ == "__main__":
    main()
