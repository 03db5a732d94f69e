"""`rebalance run` on a real API server: Predictive changes nothing, Automatic moves a pod, budget and UID refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.helpers import PodReducer
from scheduler.kube.client import ClientConfig, KubeClient, api_path
from secondary_scheduler.rebalancer.live import LiveAccess
from secondary_scheduler.rebalancing import MOVABLE_PODS, EvictionReply
from tests.integration.rebalancer.stage import (
    NAMESPACE,
    STATUS,
    WORKLOADS,
    RebalancedCluster,
    rebalancer_running,
    scrape,
    stage_running,
)
from tests.integration.scheduler.test_load_limit import Watcher, watcher_running
from tests.support.cluster import MakeCluster
from tests.support.queries import QUERIES, labels_of, mistakes_about, scraped, selected
from tests.support.simulating import run
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    with watcher_running({f"sim-00{number}": 20.0 for number in range(4)}) as running:
        yield running


@pytest.fixture
def kubeconfig(make_cluster: MakeCluster) -> Path:
    cluster = make_cluster(nodes=4, real_nodes=0, prometheus=False, default_scheduler=False)
    return Path(cluster.kubeconfig)


def budget(allowed: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": WORKLOADS},
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": "web"}}},
    }


def test_pods_leave_a_hot_node_only_in_automatic_mode_and_only_as_budgets_allow(
    kubeconfig: Path, watcher: Watcher, tmp_path: Path
) -> None:
    with stage_running(kubeconfig, watcher, tmp_path) as stage:
        before = stage.nodes_of_pods()
        hot = sorted(before.values())[0]
        watcher.loads = {name: 95.0 if name == hot else 20.0 for name in watcher.loads}
        plans(stage, tmp_path, watcher.address, hot)
        predicts(stage, tmp_path, before)
        asyncio.run(refuses(stage, before))
        # Who is started again waits for the rest of the interval, unless nobody knows of it any more.
        stage.delete(api_path("v1", "configmaps", namespace=NAMESPACE, name=STATUS))
        moves(stage, tmp_path, before, hot)


def plans(stage: RebalancedCluster, directory: Path, address: str, hot: str) -> None:
    """`rebalance plan` asks the scheduler that runs, and plans nothing for another configuration."""
    settings = directory / "plan.yaml"
    settings.write_text("minPodAgeSeconds: 0\n")
    live = ("--kubeconfig", stage.kubeconfig, "--watcher", address, "--settings", settings, "-o", "json")
    done = run("rebalance", "plan", "--config", directory / "config.yaml", *live)
    assert done.code == 3, done
    document = json.loads(done.out)
    assert [move["from"]["node"] for move in document["moves"]] == [hot]
    assert not [text for text in document["assumptions"] if "scheduler" in text], done.err
    other = directory / "other.yaml"
    other.write_text((directory / "config.yaml").read_text().replace('"weight": 10', '"weight": 11'))
    done = run("rebalance", "plan", "--config", other, *live)
    assert done.code == 0, done
    assert [refusal["reason"] for refusal in json.loads(done.out)["stopped"]] == ["otherConfiguration"]


def predicts(stage: RebalancedCluster, directory: Path, before: dict[str, str]) -> None:
    with rebalancer_running(stage, directory, "Predictive") as log:
        first_answers = eventually(lambda: answers(stage), "an eviction was tried", diagnosis=stage.status)
        is_what_alerts_and_dashboard_ask_for(scrape(stage, log))
    assert first_answers[0].startswith("evicted")
    assert stage.nodes_of_pods() == before
    status = stage.status()
    assert status["effectiveMode"] == "Predictive"
    assert status["moves"] == []
    assert [condition["reason"] for condition in status["conditions"]] == ["Predictive"]


async def refuses(stage: RebalancedCluster, before: dict[str, str]) -> None:
    """The API server's own answers to what the rebalancer sends."""
    stage.apply(budget(0))
    path = api_path("policy/v1", "poddisruptionbudgets", namespace=WORKLOADS, name="web")
    eventually(lambda: stage.get(path)["status"].get("observedGeneration") == 1, "the budget is counted")
    content = stage.pods()[0]
    pod = PodReducer().reduce(MOVABLE_PODS.decode(msgspec.json.encode(content)))
    another = msgspec.structs.replace(pod, uid="00000000-0000-0000-0000-000000000000")
    async with KubeClient(ClientConfig.load(stage.kubeconfig)) as client:
        world: Any = LiveAccess.__new__(LiveAccess)
        world._client, world._leads = client, lambda: True
        for dry_run in (True, False):
            answered = await world.evict(pod, dry_run=dry_run)
            assert answered.answer is EvictionReply.REFUSED
            assert "disruption budget" in answered.message
        stage.delete(path)
        eventually(lambda: not stage.get(api_path("policy/v1", "poddisruptionbudgets", namespace=WORKLOADS))["items"])
        answered = await world.evict(another, dry_run=False)
        assert answered.answer is EvictionReply.GONE
    assert stage.nodes_of_pods() == before


def moves(stage: RebalancedCluster, directory: Path, before: dict[str, str], hot: str) -> None:
    with rebalancer_running(stage, directory, "Automatic"):
        ended = eventually(lambda: outcomes(stage), "a move has ended", diagnosis=stage.status)
    assert ended == ["landed"]
    after = stage.nodes_of_pods()
    (gone,), (replacement,) = before.keys() - after.keys(), after.keys() - before.keys()
    assert before[gone] == hot
    assert after[replacement] != hot
    (move,) = stage.status()["moves"]
    assert (move["from"], move["workload"]["kind"], move["workload"]["name"]) == (hot, "Deployment", "web")
    events = eventually(lambda: stage.events("Rebalancing"), "the pod and its workload are told")
    assert {event["regarding"]["kind"] for event in events} == {"Pod", "Deployment"}
    assert stage.events("RebalanceLanded")


def is_what_alerts_and_dashboard_ask_for(text: str) -> None:
    """Each metric of the queries about a rebalancer has series in a scrape, with the labels that they name."""
    live = scraped(text)
    assert mistakes_about(live) == {}
    prefix = "secondary_scheduler_rebalance_"
    used = {name for query in QUERIES.values() for name, _ in selected(query) if name.startswith(prefix)}
    assert len(used) > 12
    # A reason has a series once a pod stayed for it.
    assert {name for name in used if labels_of(name, live) is None} <= {f"{prefix}blocked_total"}
    assert f"{prefix}leader 1.0" in text
    assert f'{prefix}dry_runs_total{{answer="evicted"}} 1.0' in text
    assert f'{prefix}stopped{{reason="loadNotFresh"}} 0.0' in text


def answers(stage: RebalancedCluster) -> list[str]:
    plan = stage.status().get("lastPlan") or {}
    return [move["answer"] for move in plan.get("moves", ()) if move["answer"]]


def outcomes(stage: RebalancedCluster) -> list[str]:
    return [move["outcome"] for move in stage.status().get("moves", ()) if move["outcome"]]
