"""What a pod requests is counted once: ten pods that ask for the same in ten ways are the same to all that count.

Each consumer is asked about a pod, and about a plain one with the same sums. Predictions (TargetLoadPacking) and the
defaults of kube-scheduler (`NonZero`) follow from the containers, and are tested where they are made.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.config import load_configuration
from scheduler.core import explain
from scheduler.engine.loadfeeds import SourceNodeLoads
from scheduler.framework import LoadReading, NodeLoad, PodInfo
from scheduler.helpers import reduce_pod
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.kube.model import Pod
from scheduler.plugins.noderesourcetopologymatch.align import NeedsOfPods
from scheduler.state import ClusterState
from secondary_scheduler.balance import node_figures
from secondary_scheduler.operator.groups.status import requests_of
from secondary_scheduler.rebalancing.loads import share_of
from secondary_scheduler.simulation.changing import without_taken_off
from secondary_scheduler.simulation.cluster import SimulatedCluster
from secondary_scheduler.views.nodes import node_columns
from tests.support.simulating import load as load_file, node as node_object, run
from tests.unit.scheduler.core.builders import (
    NOW,
    SOURCE,
    WATCHER,
    api_pod,
    cluster,
    container,
    node,
    only_scores,
    runner,
)
from tests.unit.scheduler.plugins.quotas import quota, with_quotas

Json = dict[str, Any]
LIMITS = {"cpu": "4", "memory": "4Gi"}


def asking(cpu: str, memory: str, *, name: str = "c", limits: Json | None = None, **more: Any) -> Json:
    return container(cpu, memory, name=name, limits=limits or {}, **more)


def sidecar(cpu: str, memory: str, *, name: str = "s", limits: Json | None = None) -> Json:
    return asking(cpu, memory, name=name, limits=limits, restartPolicy="Always")


def resized(requests: Json, limits: Json) -> Json:
    return {"containerStatuses": [{"name": "c", "resources": {"requests": requests, "limits": limits}}]}


PLAIN: Json = {"containers": [asking("3", "3Gi", limits=LIMITS)]}
"""3 CPUs and 3 GiB, at most 4 of each."""
HALF: Json = {"containers": [asking("1500m", "1536Mi", limits={"cpu": "2", "memory": "2Gi"})]}
TEN: dict[str, Json] = {
    "two containers": {
        "containers": [
            asking("1", "2Gi", limits={"cpu": "3", "memory": "1Gi"}),
            asking("2", "1Gi", name="d", limits={"cpu": "1", "memory": "3Gi"}),
        ]
    },
    "a sidecar": {
        "containers": [asking("1", "1Gi", limits={"cpu": "1", "memory": "2Gi"})],
        "initContainers": [sidecar("2", "2Gi", limits={"cpu": "3", "memory": "2Gi"})],
    },
    "two sidecars": {
        "containers": [asking("1", "1Gi", limits={"cpu": "2", "memory": "2Gi"})],
        "initContainers": [
            sidecar("1", "500Mi", limits={"cpu": "1", "memory": "1Gi"}),
            sidecar("1", "1548Mi", name="t", limits={"cpu": "1", "memory": "1Gi"}),
        ],
    },
    "an init container that asks for more": {
        "containers": [asking("1", "1Gi", limits={"cpu": "1", "memory": "1Gi"})],
        "initContainers": [asking("3", "3Gi", name="i", limits=LIMITS)],
    },
    "an init container beside a sidecar": {
        "containers": [asking("500m", "512Mi", limits={"cpu": "1", "memory": "1Gi"})],
        "initContainers": [
            sidecar("1", "1Gi", limits={"cpu": "1", "memory": "1Gi"}),
            asking("2", "2Gi", name="i", limits={"cpu": "3", "memory": "3Gi"}),
        ],
    },
    "as a whole": {
        "containers": [container()],
        "resources": {"requests": {"cpu": "3", "memory": "3Gi"}, "limits": LIMITS},
    },
    "as a whole, with containers that ask for less": {
        "containers": [asking("1", "1Gi", limits={"cpu": "4", "memory": "4Gi"})],
        "initContainers": [sidecar("1", "1Gi", limits={"cpu": "4", "memory": "4Gi"})],
        "resources": {"requests": {"cpu": "3", "memory": "3Gi"}, "limits": LIMITS},
    },
    "overhead": {
        "containers": [asking("2", "2Gi", limits={"cpu": "3", "memory": "3Gi"})],
        "overhead": {"cpu": "1", "memory": "1Gi"},
    },
    "a resize that has begun": {
        "containers": [asking("1", "1Gi", limits={"cpu": "1", "memory": "1Gi"})],
        "status": resized({"cpu": "3", "memory": "3Gi"}, LIMITS),
    },
    "a resize that cannot be": {
        "containers": [asking("9", "9Gi", limits={"cpu": "9", "memory": "9Gi"})],
        "status": {
            **resized({"cpu": "3", "memory": "3Gi"}, LIMITS),
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        },
    },
}
PENDING = {name: spec for name, spec in TEN.items() if "status" not in spec}
"""A pod that waits has no status of a kubelet."""


def api(spec: Json, *, on: str = "") -> Pod:
    """The pod, on a node where one is named."""
    fields = msgspec.json.decode(msgspec.json.encode(spec))
    bound = {"nodeName": on} if on else {}
    return api_pod("p", *fields.pop("containers"), namespace="a", **fields, **bound)


def info(spec: Json, *, on: str = "", at: float = NOW) -> PodInfo:
    """The same, bound so recently that no measurement shows it."""
    reduced = reduce_pod(api(spec, on=on))
    return msgspec.structs.replace(reduced, assigned_at=at) if on else reduced


SIZE = {"cpu": "10", "memory": "40Gi", "pods": "99", "example.com/gpu": "9"}


def world(*, cpu: float = 10.0, memory: float = 10.0) -> ClusterState:
    state = cluster(node("a", allocatable=SIZE), node("b", allocatable=SIZE))
    measured = NodeLoad(cpu_average=cpu, cpu_stddev=2.0, memory_average=memory, memory_stddev=2.0, measured_at=NOW)
    state.set_load(LoadReading({"a": measured, "b": measured}, NOW, source=SOURCE))
    return state


def with_pod(spec: Json) -> ClusterState:
    state = world()
    state.upsert_pod(info(spec, on="a"), NOW)
    return state


def scores(state: ClusterState, probe: PodInfo, plugin: str) -> dict[str, Any]:
    key = "WatcherAddress" if plugin == "Peaks" else "watcherAddress"
    args: Json = {key: WATCHER}
    if plugin == "Peaks":
        args["NodePowerModel"] = {"a": {"k0": 1, "k1": 1, "k2": 0.1}, "b": {"k0": 1, "k1": 1, "k2": 0.05}}
    profile = runner(only_scores(plugin), {plugin: args})
    explanation = explain(state.snapshot(NOW), probe, profile)
    return {name: each.scores[plugin].raw if each.scores else each.rejection for name, each in explanation.nodes()}


def limit(state: ClusterState, probe: PodInfo) -> Any:
    name = "HighLoadFilter"
    points = {point: {"enabled": [{"name": name}]} for point in ("preFilter", "filter")}
    args = {"watcherAddress": WATCHER, "usageThresholds": {"cpu": 25, "memory": 99}}
    options = {"load": {"limit": {"whenAllExceed": "reject"}}}
    explanation = explain(state.snapshot(NOW), probe, runner(points, {name: args}, options=options))
    return [each.rejection for _, each in explanation.nodes()]


def quota_message(state: ClusterState, probe: PodInfo) -> Any:
    with_quotas(state, quota("a", {"cpu": "99", "memory": "99Gi"}, {"cpu": "1", "memory": "99Gi"}))
    points = {"preFilter": {"enabled": [{"name": "CapacityScheduling"}]}}
    return explain(state.snapshot(NOW), probe, runner(points)).message


LARGE: Json = {"containers": [asking("5", "20Gi", limits={"cpu": "9", "memory": "39Gi"})]}
PROBE: Json = {"containers": [asking("1", "1Gi", limits={"cpu": "2", "memory": "2Gi"})]}


def share(spec: Json) -> Any:
    state = with_pod(spec)
    (placed,) = state.pods_on("a")
    its_node = state.node("a")
    assert its_node is not None
    of_pod = share_of(placed, {}, its_node, {"cpu": 99.0, "memory": 99.0}, NOW, 60.0)
    return of_pod.cpu, of_pod.memory, of_pod.source


def taken_off(spec: Json) -> Any:
    state = world(cpu=80.0, memory=80.0)
    reading = LoadReading({"a": NodeLoad(cpu_average=80.0, memory_average=80.0, measured_at=NOW)}, NOW)
    measured = SimulatedCluster(state, taken_off=[info(spec, on="a", at=NOW - 3600)])
    left = without_taken_off(measured, reading).loads["a"]
    return left.cpu_average, left.memory_average


def figures(spec: Json) -> Any:
    state = with_pod(spec)
    measured = NodeLoad(cpu_average=10.0, memory_average=10.0, measured_at=NOW)
    by_node = node_figures(state, LoadReading({"a": measured}, NOW), NOW)
    return by_node.cpu_load[0], by_node.memory_load[0], by_node.cpu_requests[0], by_node.memory_requests[0]


def node_loads(spec: Json) -> Any:
    return list(SourceNodeLoads(with_pod(spec), SOURCE, 300.0).rows(NOW))


PAGES = load_configuration(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: test}]
""",
    source="test",
)


def shown(spec: Json) -> Any:
    """What the pages say of a node; of the CPU that is not measured yet, TargetLoadPacking's prediction."""
    measured = NodeLoad(cpu_average=10.0, memory_average=10.0, measured_at=NOW)
    columns = node_columns(with_pod(spec), PAGES, LoadReading({"a": measured}, NOW), NOW)
    keys = (("requested", "cpu"), ("requested", "memory"), ("estimated", "memory"))
    return [columns.shares[key][0] for key in keys]


PLACED: dict[str, Callable[[Json], Any]] = {
    "sums per node": lambda spec: [with_pod(spec).snapshot(NOW).requested(name)[0] for name in ("cpu", "memory")],
    "LoadVariationRiskBalancing": lambda spec: scores(with_pod(spec), info(PROBE), "LoadVariationRiskBalancing"),
    "LowRiskOverCommitment": lambda spec: scores(with_pod(spec), info(PROBE), "LowRiskOverCommitment"),
    "Peaks": lambda spec: scores(with_pod(spec), info(PROBE), "Peaks"),
    "HighLoadFilter": lambda spec: limit(with_pod(spec), info(PROBE)),
    "CapacityScheduling": lambda spec: quota_message(with_pod(spec), info(PROBE)),
    "loads that the scheduler shows": node_loads,
    "figures of plan and replays": figures,
    "plan, of pods that are placed again": taken_off,
    "share that rebalance moves": share,
    "pages": shown,
    "status of ElasticQuotas": lambda spec: {name: requests_of(api(spec))[name] for name in ("cpu", "memory")},
}
WAITING: dict[str, Callable[[Json], Any]] = {
    "LoadVariationRiskBalancing": lambda spec: scores(world(), info(spec), "LoadVariationRiskBalancing"),
    "LowRiskOverCommitment": lambda spec: scores(with_pod(LARGE), info(spec), "LowRiskOverCommitment"),
    "Peaks": lambda spec: scores(world(), info(spec), "Peaks"),
    "HighLoadFilter": lambda spec: limit(world(), info(spec)),
    "CapacityScheduling": lambda spec: quota_message(world(), info(spec)),
    "NodeResourceTopologyMatch": lambda spec: {
        name: NeedsOfPods(upstream=False).of(info(spec).spec).whole[name] for name in ("cpu", "memory")
    },
}


@pytest.mark.parametrize("consumer", PLACED)
@pytest.mark.parametrize("name", TEN)
def test_a_placed_pod_counts_by_its_sum(name: str, consumer: str) -> None:
    ask = PLACED[consumer]
    assert ask(TEN[name]) == ask(PLAIN)


@pytest.mark.parametrize("consumer", WAITING)
@pytest.mark.parametrize("name", PENDING)
def test_a_pod_that_waits_counts_by_its_sum(name: str, consumer: str) -> None:
    ask = WAITING[consumer]
    assert ask(PENDING[name]) == ask(PLAIN)


@pytest.mark.parametrize("ask", [*PLACED.values(), *WAITING.values()], ids=[*PLACED, *WAITING])
def test_another_amount_counts_otherwise(ask: Callable[[Json], Any]) -> None:
    assert ask(HALF) != ask(PLAIN)


def test_a_recent_pod_that_is_resized_counts_by_what_it_occupies_and_leaves_nothing_behind() -> None:
    state = cluster(node("a"))
    use = UnmeasuredUse(requested("cpu"), upstream=False)

    def recent() -> float:
        measured = state.lay_out_load(LoadReading({"a": NodeLoad(cpu_average=1.0)}, NOW))
        return float(use.by_row(state.snapshot(NOW), measured)[0])

    state.upsert_pod(info({"containers": [asking("1", "1Gi")]}, on="a"))
    assert recent() == 1000.0
    state.upsert_pod(info(TEN["a resize that has begun"], on="a"))
    assert recent() == 3000.0
    state.remove_pod("uid-p")
    assert recent() == 0.0


# Through the commands ----------------------------------------------------------------------------------------------

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: test
  plugins:
    score: {enabled: [{name: TargetLoadPacking, weight: 5}]}
  pluginConfig:
  - {name: TargetLoadPacking, args: {watcherAddress: "http://lw.example:2020"}}
"""
START = 1_767_225_600


def command(directory: Path, words: list[str], spec: Json, *, on: str) -> Json:
    """Run a command on three nodes and a pod; `on` is its node."""
    (directory / "config.yaml").write_text(CONFIGURATION)
    (directory / "plain.yaml").write_text(CONFIGURATION.partition("  plugins:")[0])
    fields = msgspec.json.decode(msgspec.json.encode(spec))
    status = {"phase": "Running", **fields.pop("status", {})} if on else {}
    if on:
        bound = {"status": "True", "lastTransitionTime": "2025-12-01T00:00:00Z"}
        conditions = [{"type": kind, **bound} for kind in ("PodScheduled", "Ready")]
        status["conditions"] = [*status.get("conditions", ()), *conditions]
        status["startTime"] = "2025-12-01T00:00:00Z"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    metadata: Json = {"name": "p", "namespace": "default", "ownerReferences": [owner]}
    other: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": "q"}}
    other |= {"spec": {"schedulerName": "test", "nodeName": "n2", "containers": [container()]}, "status": status}
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
    item["spec"] = {"schedulerName": "test", **({"nodeName": on} if on else {}), **fields}
    items = [node_object(f"n{n}", cpu="10", memory="40Gi") for n in (1, 2, 3)] + [item] + ([other] if on else [])
    (directory / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    measured = load_file({"n1": 95.0, "n2": 40.0, "n3": 5.0}, end=START, timestamp=START)
    (directory / "load.json").write_text(measured)
    files = ("--snapshot", directory / "cluster.json", "--load", directory / "load.json")
    done = run(*words, *files, "--now", str(START), "-o", "json")
    answer: Json = json.loads(done.out)
    return answer


MOVED = {name: spec for name, spec in TEN.items() if name != "a resize that cannot be"}
"""The pod that is made in its place would ask for 9 CPUs, so that one is left alone."""


@pytest.mark.parametrize("spec", MOVED.values(), ids=MOVED)
def test_rebalance_moves_it_by_its_sum(spec: Json, tmp_path: Path) -> None:
    words = ["rebalance", "plan", "--config", str(tmp_path / "config.yaml")]
    (move,) = command(tmp_path, words, spec, on="n1")["moves"]
    (plain,) = command(tmp_path, words, PLAIN, on="n1")["moves"]
    assert move["share"] == plain["share"]
    assert move["to"]["load"] == plain["to"]["load"]
    assert move["to"]["load"]["after"]["cpu"] == 35.0


@pytest.mark.parametrize("spec", PENDING.values(), ids=PENDING)
def test_plan_estimates_it_by_its_sum(spec: Json, tmp_path: Path) -> None:
    words = ["plan", "--old", str(tmp_path / "config.yaml"), "--new", str(tmp_path / "plain.yaml")]
    (estimate,) = {
        json.dumps([node["new"]["estimatedLoad"]["cpu"] for node in command(tmp_path, words, each, on="")["nodes"]])
        for each in (spec, PLAIN)
    }
    assert json.loads(estimate) != [95.0, 40.0, 5.0]
