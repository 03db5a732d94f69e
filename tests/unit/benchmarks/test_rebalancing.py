"""The benchmark of rebalancers: its placement, what it takes for an eviction, and its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rebalancing.command import table
from benchmarks.rebalancing.movers import PAIRS, Moving, policy
from benchmarks.rebalancing.placement import (
    BASE_CPU,
    LABEL,
    NAMESPACE,
    Guard,
    InitialPlacement,
    manifests,
    place_pods,
)
from benchmarks.rebalancing.run import EvictionAudit, EvictionObserver, LoadSpread, ObservedEviction, RunResult
from devcluster.inventory import simulated_nodes
from devcluster.pod_loads import CPU_ANNOTATION
from scheduler.kube.model import EventType, ResourceVersion, Unstructured, UnstructuredCodec

LIMIT = 80.0


def load_of(placement: InitialPlacement) -> dict[str, float]:
    cpu = {workload.name: workload.cpu for workload in placement.workloads}
    used = {name: BASE_CPU * cores for name, cores in placement.cores.items()}
    for workload, nodes in placement.node_names.items():
        for node in nodes:
            used[node] += cpu[workload]
    return {name: 100 * use / placement.cores[name] for name, use in used.items()}


def test_the_same_seed_makes_the_same_placement_and_another_one_another() -> None:
    nodes = simulated_nodes(12)
    assert place_pods(nodes, 90, 1) == place_pods(nodes, 90, 1)
    assert place_pods(nodes, 90, 1) != place_pods(nodes, 90, 2)


def test_some_nodes_are_hot_and_there_is_room_on_others() -> None:
    placement = place_pods(simulated_nodes(40), 300, 1)
    loads = load_of(placement)
    assert placement.pods == 300
    assert all(len(placement.node_names[workload.name]) == workload.replicas for workload in placement.workloads)
    assert sum(load > LIMIT for load in loads.values()) >= 5
    assert max(loads.values()) < 100
    assert sum(load < 50 for load in loads.values()) >= 10
    assert {workload.guard for workload in placement.workloads} == set(Guard)


def test_pods_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        place_pods(simulated_nodes(2), 100, 1)


def test_the_load_generator_learns_from_the_pods_what_they_use() -> None:
    placement = place_pods(simulated_nodes(12), 90, 1)
    for workload in placement.workloads:
        deployment, *others = manifests(workload)
        annotations = deployment["spec"]["template"]["metadata"]["annotations"]
        assert annotations[CPU_ANNOTATION] == f"{workload.cpu * 1000:.0f}m"
        assert [item["kind"] for item in others] == ["PodDisruptionBudget"] * (workload.guard is Guard.BUDGET)


def pod(
    name: str, node: str = "", *, cpu: str = "1", workload: str = "web", namespace: str = NAMESPACE, going: bool = False
) -> Unstructured:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {LABEL: workload}}
    metadata["annotations"] = {CPU_ANNOTATION: cpu}
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})}
    content = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    return UnstructuredCodec().decode(json.dumps(content).encode())


def begun(*pods: Unstructured) -> EvictionObserver:
    observer = EvictionObserver({"n1": 4, "n2": 4}, len(pods), LIMIT)
    observer.replace(pods, ResourceVersion("1"))
    observer.begin()
    return observer


def show(observer: EvictionObserver, *pods: Unstructured, kind: EventType = EventType.MODIFIED) -> None:
    for item in pods:
        observer.apply([(kind, item)])


def replace(observer: EvictionObserver, name: str, old: str, by: str, new: str) -> None:
    """A pod is evicted, its controller makes another one, which a scheduler binds."""
    show(observer, pod(name, old, going=True), pod(by))
    show(observer, pod(name, old), kind=EventType.DELETED)
    show(observer, pod(by, new))


def test_an_eviction_is_counted_once_and_its_replacement_is_followed() -> None:
    observer = begun(pod("a", "n1"), pod("b", "n1"))
    replace(observer, "a", "n1", by="c", new="n2")
    replace(observer, "b", "n1", by="d", new="n1")
    assert [(each.pod, each.node, each.again) for each in observer.evictions] == [
        ("a", "n1", False),
        ("b", "n1", False),
    ]
    assert observer.came_back() == 1


def test_a_replacement_that_is_evicted_was_evicted_again() -> None:
    observer = begun(pod("a", "n1"))
    replace(observer, "a", "n1", by="b", new="n2")
    replace(observer, "b", "n2", by="c", new="n1")
    assert [each.again for each in observer.evictions] == [False, True]
    assert observer.came_back() == 0


def test_what_goes_before_the_begin_after_the_end_or_elsewhere_was_not_evicted() -> None:
    observer = EvictionObserver({"n1": 4}, 2, LIMIT)
    observer.replace([pod("a", "n1"), pod("b", "n1")], ResourceVersion("1"))
    show(observer, pod("a", "n1"), kind=EventType.DELETED)
    observer.begin()
    show(observer, pod("x", "n1", namespace="other"), kind=EventType.DELETED)
    observer.end()
    show(observer, pod("b", "n1"), kind=EventType.DELETED)
    assert observer.evictions == []


def test_the_cluster_is_balanced_once_no_node_is_hot_and_no_pod_on_its_way() -> None:
    observer = begun(pod("a", "n1", cpu="2"), pod("b", "n1", cpu="1500m"))
    assert observer.spread().overloaded == 1
    assert observer.balanced_since is None
    show(observer, pod("b", "n1", cpu="1500m", going=True), pod("c", cpu="1500m"))
    show(observer, pod("b", "n1"), kind=EventType.DELETED)
    assert observer.spread().overloaded == 0
    assert observer.balanced_since is None, "its replacement has no node yet"
    show(observer, pod("c", "n2", cpu="1500m"))
    assert observer.balanced_since is not None
    assert observer.balanced_since[1] == 1
    assert observer.loads() == pytest.approx({"n1": 52.0, "n2": 39.5})
    # What becomes hot again was not balanced.
    replace(observer, "c", "n2", by="d", new="n1")
    show(observer, pod("d", "n1", cpu="1500m"))
    assert observer.balanced_since is None


def test_an_overloaded_node_whose_pods_have_to_stay_is_as_balanced_as_it_can_be() -> None:
    observer = EvictionObserver({"n1": 4, "n2": 4}, 2, LIMIT, {"kept"})
    observer.replace([pod("a", "n1", cpu="3500m", workload="kept"), pod("b", "n1", cpu="100m")], ResourceVersion("1"))
    observer.begin()
    assert observer.balanced_since is None
    replace(observer, "b", "n1", by="c", new="n2")
    assert observer.spread().overloaded == 1
    assert observer.balanced_since is not None


def test_answers_to_evictions_are_counted_from_the_begin_on(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"

    def event(code: int, subresource: str = "eviction", verb: str = "create") -> str:
        reference = {"resource": "pods", "subresource": subresource}
        return json.dumps({"verb": verb, "objectRef": reference, "responseStatus": {"code": code}}) + "\n"

    log.write_text(event(201))
    audit = EvictionAudit(log)
    with log.open("a") as file:
        file.write(event(201) + event(201) + event(429) + event(201, "binding") + event(200, verb="get") + '{"verb": ')
    assert audit.evictions() == {201: 2, 429: 1}


@pytest.mark.parametrize(("moving", "metric"), [(Moving.REQUESTS, "cpu"), (Moving.PROMETHEUS, "MetricResource")])
def test_the_descheduler_has_our_thresholds_and_looks_whether_pods_fit(moving: Moving, metric: str) -> None:
    document = policy(moving, "http://127.0.0.1:9090")
    (profile,) = document["profiles"]
    args = {config["name"]: config["args"] for config in profile["pluginConfig"]}
    assert args["LowNodeUtilization"]["thresholds"] == {metric: 50.0}
    assert args["LowNodeUtilization"]["targetThresholds"] == {metric: 80.0}
    assert args["DefaultEvictor"]["nodeFit"] is True
    assert args["DefaultEvictor"]["noEvictionPolicy"] == "Mandatory", "our annotation is mandatory, too"
    assert ("metricsProviders" in document) == (moving is Moving.PROMETHEUS)


def test_the_table_says_what_was_reached_and_at_what_price() -> None:
    before, after = LoadSpread(27.24, 95.6, 8), LoadSpread(14.0, 78.9, 0)
    evictions = [ObservedEviction(name, "web", "n1", 0.0, again) for name, again in (("a", False), ("b", True))]
    balanced = RunResult("ours", before, after, evictions, 1, {201: 2, 429: 3}, guarded=1, balanced=(7, 1))
    nothing = RunResult("nothing", before, before)
    assert table([nothing, balanced])[2:] == [
        "| nothing | never | 0 | 0 | 0 | 0 | 0 | 8 → 8 | 27.2 → 27.2 | 96 → 96 % | never |",
        "| ours | 1 | 2 | 1 | 1 | 1 | 3 | 8 → 0 | 27.2 → 14.0 | 96 → 79 % | 7 |",
    ]


def test_each_contestant_is_another_one() -> None:
    assert len({str(contestant) for contestant in PAIRS.values()}) == len(PAIRS)
