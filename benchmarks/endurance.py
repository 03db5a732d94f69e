"""`python -m benchmarks endurance`: do memory and file descriptors grow while pods come and go?

Waves of pods are created, placed and deleted until `--pods` have been. The pods of each wave have their own labels and
requests, and some have spreading or anti-affinity constraints, so that any cache by class, label or selector would
grow. Resident memory, file descriptors and threads are read after each wave, when all its pods are gone. The slope is
that of a straight line through the second half of the waves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import Sequence

from benchmarks.harness import control_plane
from benchmarks.harness.contestants import OURS, Contestant, sizes
from benchmarks.harness.figures import log
from benchmarks.harness.filled import FilledCluster, filled
from benchmarks.harness.objects import pod_template
from benchmarks.harness.scenario import Json, Workload, load

SCENARIO = "SchedulingBasic"
_APPS = 10
"""Deployments per wave."""
_WAVE_SECONDS = 120.0
_SETTLE_SECONDS = 0.5
MAX_MIB, MAX_DESCRIPTORS = 10.0, 5.0
"""Growth per 100,000 pods that is taken for none."""
EXIT_GROWS = 3
Sample = dict[str, float]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks endurance", description=__doc__)
    parser.add_argument("--pods", type=int, default=100_000, help="pods to create and delete in total")
    parser.add_argument("--wave", type=int, default=1000, help="pods per wave")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code, 3 when something grows."""
    options = _parser().parse_args(arguments)
    samples = asyncio.run(_run(options.nodes, options.wave, max(2, options.pods // options.wave)))
    growth = {
        name: slope([(sample["pods"], sample[name]) for sample in samples])
        for name in ("rss", "descriptors", "threads")
    }
    if options.json:
        print(json.dumps({"samples": samples, "growth_per_100000_pods": growth}, indent=1))
    else:
        print(_table(samples, growth))
    return EXIT_GROWS if growth["rss"] > MAX_MIB or growth["descriptors"] > MAX_DESCRIPTORS else 0


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Growth per 100,000 of the first coordinate, by least squares over the second half of the points."""
    half = points[len(points) // 2 :]
    if len(half) < 2:
        return 0.0
    return 100_000 * statistics.linear_regression([x for x, _ in half], [y for _, y in half]).slope


async def _run(nodes: int, count: int, waves: int) -> list[Sample]:
    workload = Workload(name="endurance", params={"nodes": nodes, "init": 0, "pods": count, "rate": 0, "seconds": 0})
    samples: list[Sample] = []
    async with filled(load()[SCENARIO], workload, control_plane.executables()) as cluster:
        with cluster.contestant(OURS) as contestant:
            for wave in range(waves):
                await _wave(cluster, contestant, wave, count)
                samples.append({"pods": count * (wave + 1), **sizes(contestant.process.pid)})
                log(_line(samples[-1]))
    return samples


async def _wave(cluster: FilledCluster, contestant: Contestant, wave: int, count: int) -> None:
    """Create, wait until all are bound, delete, wait until all are gone."""
    seen = cluster.seen
    await cluster.objects.create_pods(json.dumps(pod(wave, index)).encode() for index in range(count))
    if not await contestant.wait_for(seen, lambda: len(seen.bound) >= count, _WAVE_SECONDS):
        raise RuntimeError(f"wave {wave}: {len(seen.bound)} of {count} pods were bound in {_WAVE_SECONDS:.0f} s")
    await cluster.clear()
    await asyncio.sleep(_SETTLE_SECONDS)


def pod(wave: int, index: int) -> Json:
    """A pod of a wave: one of ten deployments, each with wishes of its own."""
    app = f"app-{wave}-{index % _APPS}"
    requests = {"cpu": f"{1 + index % _APPS}m", "memory": f"{1 + wave % 50}Mi"}
    container = {"name": "c", "image": f"registry.example/{app}:1", "resources": {"requests": requests}}
    spec: Json = {"containers": [container]}
    selector = {"matchLabels": {"app": app}}
    if index % _APPS == 0:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    if index % _APPS == 1:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        spec["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
            }
        }
    body = pod_template({"metadata": {"labels": {"app": app}}, "spec": spec}, measured=True)
    body["metadata"]["name"] = f"wave-{wave}-{index}"
    return body


def thinned(samples: Sequence[Sample]) -> list[Sample]:
    """Some ten of them, evenly, and the last one."""
    return [*samples[:: max(1, len(samples) // 10)], samples[-1]]


def _line(sample: Sample) -> str:
    return (
        f"{sample['pods']:>9,.0f} pods  {sample['rss']:7.1f} MiB  {sample['descriptors']:4.0f} descriptors"
        f"  {sample['threads']:3.0f} threads"
    )


def _table(samples: Sequence[Sample], growth: dict[str, float]) -> str:
    return "\n".join(
        (
            *map(_line, thinned(samples)),
            f"growth per 100,000 pods, second half: {growth['rss']:+.2f} MiB, {growth['descriptors']:+.2f} descriptors,"
            f" {growth['threads']:+.2f} threads (none: up to {MAX_MIB:.0f} MiB, {MAX_DESCRIPTORS:.0f} descriptors)",
        )
    )
