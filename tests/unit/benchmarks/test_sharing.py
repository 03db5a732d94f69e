"""The benchmark of two schedulers on the same nodes: kubelets that are played, and the table."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from benchmarks.harness.contestants import OURS, PEER
from benchmarks.sharing.cell import CellResult, SharingCell, Way
from benchmarks.sharing.command import figures, table
from benchmarks.sharing.kubelets import KubeletOutcome, Kubelets
from devcluster.node_agent.admission import amounts
from scheduler.kube.client import ClientConfig, KubeClient
from scheduler.kube.model import EventType, ResourceVersion, Unstructured, UnstructuredCodec

NODE = amounts({"cpu": "1", "pods": "10"})


def pod(name: str, scheduler: str, node: str = "n1", phase: str = "Pending") -> Unstructured:
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "x", "uid": name, "resourceVersion": "1"},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "400m"}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": phase},
    }
    return UnstructuredCodec().decode(json.dumps(manifest).encode())


async def kubelets_of(*nodes: str) -> Kubelets:
    client = KubeClient(ClientConfig(server="https://127.0.0.1:1"), qps=0)
    await client.close()
    return Kubelets(client, dict.fromkeys(nodes, NODE), seed=1)


def bind(kubelets: Kubelets, *pods: Unstructured) -> None:
    kubelets.apply([(EventType.MODIFIED, each) for each in pods])


async def test_the_pod_that_is_bound_last_is_rejected_and_counted_for_its_scheduler_once() -> None:
    kubelets = await kubelets_of("n1")
    late = pod("c", "ours")
    bind(kubelets, pod("a", "ours"), pod("b", "theirs"), late, pod("d", "theirs", node=""))
    bind(kubelets, late)
    bind(kubelets, pod("c", "ours", phase="Failed"))
    assert {name: (each.bound, dict(each.rejected)) for name, each in kubelets.outcomes.items()} == {
        "ours": (2, {"OutOfcpu": 1}),
        "theirs": (1, {}),
    }
    assert kubelets.running() == 2


async def test_room_is_free_once_the_watch_shows_that_a_pod_is_gone_and_not_before() -> None:
    kubelets = await kubelets_of("n1", "n2")
    bind(kubelets, pod("a", "ours"), pod("b", "ours"))
    assert kubelets.end_one(["n2"]) == ""
    ended = {kubelets.end_one(["n1", "n2"]) for _ in range(3)}
    assert ended == {"/api/v1/namespaces/x/pods/a", "/api/v1/namespaces/x/pods/b", ""}
    bind(kubelets, pod("c", "ours"))
    kubelets.apply([(EventType.DELETED, pod("a", "ours"))])
    bind(kubelets, pod("d", "ours"))
    assert kubelets.outcomes["ours"] == KubeletOutcome(bound=4, rejected=kubelets.outcomes["ours"].rejected)
    assert dict(kubelets.outcomes["ours"].rejected) == {"OutOfcpu": 1}


async def test_pods_that_a_new_list_does_not_have_are_gone() -> None:
    kubelets = await kubelets_of("n1")
    bind(kubelets, pod("a", "ours"), pod("b", "ours"))
    kubelets.replace([pod("b", "ours")], ResourceVersion("7"))
    assert kubelets.running() == 1


async def test_a_cell_goes_on_until_the_last_pod_has_a_node() -> None:
    kubelets = await kubelets_of("n1")
    waits = [pod(name, "ours", node="") for name in "ab"]
    bind(kubelets, *waits)
    settling = asyncio.create_task(kubelets.settled(600.0))
    await asyncio.sleep(0)
    bind(kubelets, pod("a", "ours"))
    await asyncio.sleep(0)
    assert not settling.done()
    bind(kubelets, pod("b", "ours"))
    assert await settling == 0


@pytest.mark.parametrize("end", ["is stuck", "is gone", "has failed"])
async def test_a_pod_that_nothing_happens_to_ends_the_cell_and_is_counted(end: str) -> None:
    kubelets = await kubelets_of("n1")
    bind(kubelets, pod("a", "ours", node=""))
    if end == "is gone":
        kubelets.apply([(EventType.DELETED, pod("a", "ours", node=""))])
    elif end == "has failed":
        bind(kubelets, pod("a", "ours", node="", phase="Failed"))
    assert await kubelets.settled(0.01) == (end == "is stuck")


def test_the_table_sums_rounds_and_says_ours_first() -> None:
    def result(way: Way, seed: int, ours: int, theirs: int) -> CellResult:
        outcomes = {OURS: KubeletOutcome(100), PEER: KubeletOutcome(50)}
        outcomes[OURS].rejected["OutOfcpu"] = ours
        outcomes[PEER].rejected["OutOfpods"] = theirs
        return CellResult(SharingCell(30, 95, 10, 200, way, seed), outcomes)

    results = [result(Way.NONE, 1, 2, 1), result(Way.PARTITION, 1, 0, 0), result(Way.NONE, 2, 3, 0)]
    assert table(results) == [
        "| pods/s | full | none | partition |",
        "|---|---|---|---|",
        "| 10 | 95 % | 2.5 % + 1.0 % | 0.0 % + 0.0 % |",
    ]
    assert figures(results)[2:] == [
        "| 10 | 95 % | none | 2 | 5 + 1 | 195 + 99 | 0 | 0 | 0–0 |",
        "| 10 | 95 % | partition | 1 | 0 + 0 | 100 + 50 | 0 | 0 | 0–0 |",
    ]
