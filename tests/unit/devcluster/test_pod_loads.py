"""The load follows the pods: what is bound to a node now is in its load, and in what the metrics server says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from devcluster import metrics_server
from devcluster.load_generator import LoadGenerator, SimulatedLoad
from devcluster.pod_loads import CPU_ANNOTATION, MEMORY_ANNOTATION, ContainerSeries, PodOnNode, PodUses, Use
from scheduler.kube.model import EventType, ResourceVersion, Unstructured, UnstructuredCodec
from secondary_scheduler.rebalancing import POD_METRICS, usage_of

GIB = float(1 << 30)


def pod(name: str, node: str = "", *, cpu: str = "1", memory: str = "1Gi", phase: str = "Running") -> Unstructured:
    annotations = {CPU_ANNOTATION: cpu, MEMORY_ANNOTATION: memory}
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }
    return UnstructuredCodec().decode(json.dumps(content).encode())


def listed(*pods: Unstructured) -> PodUses:
    uses = PodUses()
    uses.replace(pods, ResourceVersion("1"))
    return uses


def test_a_node_uses_what_its_pods_use_together() -> None:
    uses = listed(pod("a", "n1", cpu="350m"), pod("b", "n1", cpu="1", memory="512Mi"), pod("c", "n2"))
    assert uses.by_node() == {"n1": Use(1.35, 1.5 * GIB), "n2": Use(1.0, GIB)}


def test_the_use_moves_with_a_pod_and_ends_with_it() -> None:
    seen: list[dict[str, Use]] = []
    uses = PodUses(lambda by_node: seen.append(dict(by_node)))
    uses.replace([pod("a", "n1")], ResourceVersion("1"))
    uses.apply([(EventType.ADDED, pod("b")), (EventType.MODIFIED, pod("b", "n2"))])
    uses.apply([(EventType.DELETED, pod("a", "n1"))])
    use = Use(1.0, GIB)
    assert seen == [{"n1": use}, {"n1": use, "n2": use}, {"n2": use}]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_uses_nothing(phase: str) -> None:
    uses = listed(pod("a", "n1"))
    uses.apply([(EventType.MODIFIED, pod("a", "n1", phase=phase))])
    assert uses.by_node() == {}


@pytest.mark.parametrize("text", ["much", "-3", ""])
def test_what_is_no_amount_is_nothing(text: str) -> None:
    assert listed(pod("a", "n1", cpu=text)).by_node()["n1"].cpu == 0.0


def generator(cpu: float = 0.1, memory: float = 0.25) -> LoadGenerator:
    loads = {name: SimulatedLoad(cpus=4, memoryBytes=8 << 30, cpu=cpu, memory=memory) for name in ("n1", "n2")}
    return LoadGenerator(loads, now=0.0)


def test_pods_come_on_top_of_what_was_set_and_never_above_the_node() -> None:
    loads = generator()
    loads.show_pods({"n1": Use(2.0, 2 * GIB), "n2": Use(9.0, 90 * GIB), "elsewhere": Use(1.0, 1.0)}, 0.0)
    uses = loads.uses(0.0)
    assert uses["n1"].cpu == pytest.approx(0.1 * 4 + 2.0, abs=0.07)
    assert uses["n1"].memory == pytest.approx(4 * GIB)
    assert uses["n2"] == Use(4.0, 8 * GIB)
    # The targets are what they were, and the load is theirs again once the pods are gone.
    assert {load.cpu for load in loads.loads().values()} == {0.1}
    loads.show_pods({}, 1.0)
    assert loads.uses(1.0)["n1"].memory == pytest.approx(2 * GIB)


async def test_the_metrics_server_says_what_nodes_and_pods_use() -> None:
    uses = listed(pod("a", "n1", cpu="350m"), pod("waits"))
    api = metrics_server.application(uses, lambda: {"n1": Use(1.5, GIB)})
    async with TestClient(TestServer(api)) as client:
        (nodes,) = (await (await client.get("/apis/metrics.k8s.io/v1beta1/nodes")).json())["items"]
        pods = (await (await client.get("/apis/metrics.k8s.io/v1beta1/pods")).json())["items"]
        others = (await (await client.get("/apis/metrics.k8s.io/v1beta1/namespaces/other/pods")).json())["items"]
        named = await (await client.get("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/a")).json()
        missing = await client.get("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/waits")
    assert nodes["usage"] == {"cpu": "1500000000n", "memory": "1048576Ki"}
    assert [container["name"] for container in named["containers"]] == ["a", "b"]
    assert others == []
    assert missing.status == 404
    # As the rebalancer reads it.
    (usage,) = [usage_of(POD_METRICS.decode(json.dumps(item).encode())) for item in pods]
    assert (usage.cpu, usage.memory) == (350.0, GIB)


def series(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_the_counters_follow_what_a_pod_uses_and_end_with_it() -> None:
    pod = PodOnNode("default", "web", "n1", ("a", "b"), Use(2.0, 1000.0))
    busier = PodOnNode("default", "web", "n1", ("a", "b"), Use(4.0, 3000.0))
    exported = ContainerSeries()
    labels = 'namespace="default",pod="web",container="a",node="n1"'
    cpu, memory = (f"container_{name}{{{labels}}}" for name in ("cpu_usage_seconds_total", "memory_working_set_bytes"))
    assert series(exported.exposition({"u": pod}, 10.0))[cpu] == 0.0
    shown = series(exported.exposition({"u": busier}, 15.0))
    assert (shown[cpu], shown[memory], len(shown)) == (5.0, 1500.0, 4)
    assert series(exported.exposition({"u": busier}, 20.0))[cpu] == 15.0
    assert series(exported.exposition({}, 21.0)) == {}
