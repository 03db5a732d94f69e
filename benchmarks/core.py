"""Decisions per second of the scheduling core, without I/O: `python -m benchmarks core`.

There are three streams of pods: all of one class, 200 classes in turn, and no two alike. Each decision is assumed, so
that the next one sees it, as in the live loop; the figure covers both. The clock is CPU time, so that other work on the
machine counts less. `--from-scratch` also measures decisions that use nothing cached per class of pods.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.harness import manifests
from scheduler.config import load_configuration
from scheduler.core import decide
from scheduler.engine import assemble
from scheduler.framework import (
    STOPPED_CLOCKS,
    Clocks,
    LoadReading,
    NodeLoad,
    PodInfo,
    ProfileRunner,
    WallSeconds,
    conclude,
)
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import decode_node, decode_pod
from scheduler.state import ClusterState

WATCHER = "http://watcher.invalid:2020"


def _limited(percent: int) -> str:
    """The default profile with a limit on the load: one that no node exceeds, or that all do, so that it steps back."""
    return f"""
  schedulerName: secondary-scheduler
  plugins: {{preFilter: {{enabled: [{{name: HighLoadFilter}}]}}, filter: {{enabled: [{{name: HighLoadFilter}}]}}}}
  pluginConfig:
  - name: HighLoadFilter
    args:
      watcherAddress: "{WATCHER}"
      usageThresholds: {{cpu: {percent}, memory: {percent}}}
      nodeMetricExpirationSeconds: 86400
"""


PROFILES: Mapping[str, str] = {
    "default": "{schedulerName: secondary-scheduler}",
    "TargetLoadPacking": f"""
  schedulerName: secondary-scheduler
  plugins: {{score: {{enabled: [{{name: TargetLoadPacking, weight: 5}}]}}}}
  pluginConfig: [{{name: TargetLoadPacking, args: {{watcherAddress: "{WATCHER}"}}}}]
""",
    "HighLoadFilter": _limited(100),
    "HighLoadFilter, all above": _limited(0),
}
STREAMS = ("one class", "200 classes", "all different")
CLASSES = 200
NOW = float(manifests.NOW)


def profile(name: str) -> ProfileRunner:
    """A profile of `PROFILES`, ready to run."""
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- {PROFILES[name].strip()}
"""
    configuration = load_configuration(text, source="benchmark", external_load=True)
    clocks = Clocks(lambda: WallSeconds(NOW), STOPPED_CLOCKS.monotonic)
    return assemble(configuration, clocks=clocks).runners["secondary-scheduler"]


def cluster(nodes: int) -> ClusterState:
    """Nodes of three sizes in three zones, each a third full by chance, with their load."""
    state, reducer, chance = ClusterState(), PodReducer(), random.Random(nodes)
    loads = {}
    for number in range(nodes):
        resources = {"cpu": ("32", "64", "96")[number % 3], "memory": "384Gi", "pods": "5000"}
        state.upsert_node(reduce_node(decode_node(msgspec.json.encode(manifests.node(number, resources)))))
        name = manifests.node_name(number)
        filler = pod(reducer, f"filler-{number}", chance.randrange(100) * 100, chance.randrange(1, 100), node=name)
        state.upsert_pod(filler)
        loads[name] = NodeLoad(cpu_average=chance.uniform(1.0, 60.0), memory_average=30.0, measured_at=NOW)
    state.set_load(LoadReading(loads, NOW - 3600.0, source=f"watcher:{WATCHER}", answered_at=NOW))
    return state


def pod(reducer: PodReducer, name: str, millis: int, mebibytes: int, node: str = "") -> PodInfo:
    """A pod that requests `millis` of CPU and `mebibytes` of memory and nothing else; on `node`, or pending without
    one.
    """
    requests = {"cpu": f"{millis}m", "memory": f"{mebibytes}Mi"}
    return reducer.reduce(decode_pod(msgspec.json.encode(manifests.pod(name, requests, nodeName=node))))


def stream(kind: str, number: int) -> Iterator[PodInfo]:
    """Pods of a kind of stream."""
    reducer = PodReducer()
    if kind == "all different":
        for index in range(number):
            yield pod(reducer, f"pod-{index}", 1 + index % 97, 1 + index // 97)
        return
    samples = [pod(reducer, "sample", 5 + index, 100) for index in range(CLASSES if kind == "200 classes" else 1)]
    for index in range(number):
        name = f"pod-{index}"
        yield msgspec.structs.replace(samples[index % len(samples)], uid=name, name=name, key=f"bench/{name}")


def microseconds(runner: ProfileRunner, nodes: int, kind: str, *, seconds: float, from_scratch: bool = False) -> float:
    """Mean CPU time of a decision and its assumption, in microseconds.

    Measured on `nodes` nodes with a stream of pods of one `kind` (see STREAMS), for at least `seconds`; `from_scratch`
    is passed on to `decide`.

    Raises:
        RuntimeError: a pod did not fit.
    """
    state, rng = cluster(nodes), random.Random(1)
    # The first round of classes is met for the first time, and kept for the second: that is not part of the figure.
    warm_up = 3 * CLASSES
    pods = list(stream(kind, warm_up + int(seconds * 60_000)))
    started, done = 0.0, 0
    for index, pod in enumerate(pods):
        if index == warm_up:
            started = time.process_time()
        placement = conclude(decide(state.snapshot(NOW), pod, runner, rng, from_scratch=from_scratch))
        if placement.node is None:
            raise RuntimeError(f"{pod.key} did not fit: {placement.message}")
        state.assume(pod, placement.node, NOW)
        done = index - warm_up + 1
        if done > 0 and not done % 50 and time.process_time() - started > seconds:
            break
    return (time.process_time() - started) / done * 1e6


def exponent(times: Mapping[int, float]) -> float:
    """How the time per decision grows with the nodes, from the smallest to the largest cluster: time ~ nodes^x."""
    least, most = min(times), max(times)
    return math.log(times[most] / times[least]) / math.log(most / least) if most > least else 0.0


def measure(sizes: list[int], seconds: float, *, from_scratch: bool) -> list[dict[str, Any]]:
    """One entry per profile, stream and way of deciding."""
    measurements = []
    for name in PROFILES:
        for kind in STREAMS:
            for uncached in (False, True) if from_scratch else (False,):
                times = {
                    size: microseconds(profile(name), size, kind, seconds=seconds, from_scratch=uncached)
                    for size in sizes
                }
                rates = {size: round(1e6 / microseconds) for size, microseconds in times.items()}
                measurement = {"profile": name, "pods": kind, "fromScratch": uncached, "decisionsPerSecond": rates}
                measurements.append({**measurement, "exponent": round(exponent(times), 2)})
    return measurements


def main(arguments: Sequence[str]) -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks core", description=__doc__)
    parser.add_argument("--nodes", default="1000,5000,15000,50000", help="numbers of nodes, separated by commas")
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU seconds to spend on each figure")
    parser.add_argument("--from-scratch", action="store_true", help="also measure without the caches per class of pods")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    sizes = [int(text) for text in options.nodes.split(",")]
    measurements = measure(sizes, options.seconds, from_scratch=options.from_scratch)
    if options.json:
        print(json.dumps(measurements, indent=1))
        return 0
    print(f"{'decisions per CPU second':<46}" + "".join(f"{size:>9,}" for size in sizes) + "  exponent")
    for measurement in measurements:
        title = f"{measurement['profile']}, {measurement['pods']}" + (
            ", from scratch" if measurement["fromScratch"] else ""
        )
        rates = "".join(f"{measurement['decisionsPerSecond'][size]:>9,}" for size in sizes)
        print(f"{title:<46}{rates}{measurement['exponent']:>10.2f}")
    return 0
