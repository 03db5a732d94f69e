"""`explain` of a pod that the scheduler does not know, and of a Deployment: fake tunnel, fake API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli.explain import command
from secondary_scheduler.cli.schedulers import Schedulers
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerAnswer, SchedulerPod
from tests.support.answers import decisions, tried_again
from tests.support.simulating import Result, run
from tests.unit.scheduler.load.fakes import FakeService, send

SINCE, RESTART = "2026-11-24T09:00:00Z", "2026-11-24T10:00:00Z"
HISTORY = {"since": RESTART, "leadingSince": RESTART, "inheritedFrom": None, "decisions": 0, "withDetails": 0}
PODS, DEPLOYMENTS = "/api/v1/namespaces/shop/pods", "/apis/apps/v1/namespaces/shop/deployments"
PASSED = {"plugin": "NodeName", "point": "Filter", "code": "Success", "reasons": []}
VERDICT = {
    "node": "n1", "rejection": None, "nominated": False, "verdicts": [PASSED], "feasible": 3, "rank": 2, "ties": 1,
    "nodes": [], "error": None,
}  # fmt: skip


class Cluster(FakeService):
    """An API server with these objects by path, as lists where the path is a collection's; a number is a refusal."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        super().__init__()
        self.objects = {"/api/v1/namespaces/shop": {}, **objects}

        def answer(handler: BaseHTTPRequestHandler) -> None:
            address = urlsplit(handler.path)
            stored = self.objects.get(address.path, 404)
            if isinstance(stored, list):
                query = parse_qs(address.query)
                wanted = query.get("fieldSelector", [""])[0].removeprefix("metadata.name=")
                stored = {"items": [each for each in stored if wanted in ("", each["metadata"]["name"])]}
            status = stored if isinstance(stored, int) else 200
            body = {"kind": "Status", "status": "Failure", "code": status} if isinstance(stored, int) else stored
            send(handler, json.dumps(body).encode(), status)

        self.answer = answer


def pod(name: str, *, node: str = "", scheduler: str = "secondary-scheduler", **more: Any) -> dict[str, Any]:
    conditions = more.pop("conditions", [])
    if node:
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": more.pop("placed", SINCE)}]
    return {
        "metadata": {"name": name, "namespace": more.get("namespace", "shop"), "creationTimestamp": SINCE, **more},
        "spec": {"schedulerName": scheduler, **({"nodeName": node} if node else {})},
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions},
    }


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the scheduler answers about a pod, by name; it knows no other pod, but judges each that has a node."""
    known: dict[str, Any] = {}

    async def get(pod: SchedulerPod, path: str, query: Mapping[str, str]) -> SchedulerAnswer:
        answer = decisions(waiting=None, schedulerNames=["secondary-scheduler"], history=HISTORY)
        if "node" in query:
            answer["whyNot"] = {"node": query["node"], "placedOn": "n1", "problem": None, "verdict": VERDICT}
        return SchedulerAnswer(200, json.dumps(known.get(query["pod"], answer)).encode())

    monkeypatch.setattr(SchedulerPod, "get", get)
    return known


def explained(monkeypatch: pytest.MonkeyPatch, objects: Mapping[str, Any], *arguments: str) -> Result:
    cluster = Cluster(objects)
    config = ClientConfig(server=cluster.url, namespace="shop")
    schedulers = Schedulers((SchedulerPod(config, "ns", "s-1", 10259),), False)
    monkeypatch.setattr(command, "find_schedulers", lambda *_, **__: schedulers)
    try:
        return run("explain", *arguments)
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        (
            {"/api/v1/pods": [pod("web-1", namespace="store")]},
            "shop/web-1: there is no such pod; one of this name is in store: -n store",
        ),
        ({PODS: [pod("web-2"), pod("db")]}, "shop/web-1: there is no such pod; did you mean web-2?"),
        ({PODS: [pod("web-1-7d9c6b5f4-x2x1z")]}, "there is no such pod; did you mean web-1-7d9c6b5f4-x2x1z?"),
        ({"/api/v1/pods": 403, PODS: 403}, "shop/web-1: there is no such pod\n"),
        (
            {"/api/v1/namespaces/shop": 404, "/api/v1/namespaces": [{"metadata": {"name": "shops"}}]},
            "shop/web-1: there is no such pod, as there is no namespace shop; did you mean shops?",
        ),
        ({f"{PODS}/web-1": 403}, "this user needs to get pods in namespace shop"),
        (
            {f"{PODS}/web-1": pod("web-1", node="n1", scheduler="default-scheduler")},
            "shop/web-1: placed on n1 by default-scheduler, which knows why; s-1 decides for secondary-scheduler\n",
        ),
        (
            {f"{PODS}/web-1": pod("web-1", scheduler="secondary-schduler")},
            "it waits for the scheduler secondary-schduler, which has not tried it in",
        ),
        (
            {f"{PODS}/web-1": pod("web-1", scheduler="secondary-schduler")},
            "s-1 decides for secondary-scheduler; did you mean secondary-scheduler? Create the pod anew",
        ),
        (
            {f"{PODS}/web-1": pod("web-1", scheduler="batch", conditions=[{"type": "PodScheduled"}])},
            "it waits for the scheduler batch; s-1 decides for secondary-scheduler\n",
        ),
        ({f"{PODS}/web-1": pod("web-1")}, "it waits for secondary-scheduler, and s-1 has not seen it yet: ask again"),
        (
            {f"{PODS}/web-1": {**pod("web-1", node="n1"), "status": {"phase": "Succeeded"}}},
            "it has ended (Succeeded); it ran on n1; why is no longer remembered by s-1",
        ),
    ],
)
@pytest.mark.usefixtures("answers")
def test_a_pod_that_the_scheduler_does_not_know_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, objects: Mapping[str, Any], says: str
) -> None:
    refused = explained(monkeypatch, objects, "pod", "web-1")
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
    assert says in refused.err


@pytest.mark.parametrize(
    ("placed", "heading", "reason"),
    [
        (
            SINCE,
            f"shop/web-1: placed on n1 before the restart at {RESTART}; judged now: it fits there, number 2 of 3 nodes",
            "its process ended without handing its history over, as after a crash, or without another replica.",
        ),
        (
            "2026-11-24T10:30:00Z",
            "shop/web-1: placed on n1; judged now: it fits there, number 2 of 3 nodes that fit",
            f"the history reaches back to {RESTART} (--decision-history).",
        ),
    ],
)
@pytest.mark.usefixtures("answers")
def test_a_placed_pod_that_is_forgotten_is_judged_now(
    monkeypatch: pytest.MonkeyPatch, placed: str, heading: str, reason: str
) -> None:
    objects = {f"{PODS}/web-1": pod("web-1", node="n1", placed=placed)}
    shown = explained(monkeypatch, objects, "pod/web-1")
    assert (shown.code, shown.err) == (0, "")
    text = shown.out.splitlines()
    assert text[0].startswith(heading)
    assert text[1] == f"  secondary-scheduler placed it at {placed}, and why is no longer known:"
    assert text[2].strip() == reason
    assert "Judged on n1, as it is now, and without the pod's own use there:" in text
    answer = json.loads(explained(monkeypatch, objects, "pod", "web-1", "-o", "json").out)
    assert (answer["forgotten"]["node"], answer["items"]) == ("n1", [])


@pytest.mark.usefixtures("answers")
def test_of_a_forgotten_pod_another_node_is_judged_beneath_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = {f"{PODS}/web-1": pod("web-1", node="n1")}
    shown = explained(monkeypatch, objects, "pod", "web-1", "--why-not", "n2")
    text = shown.out.splitlines()
    assert (shown.code, text[0]) == (0, f"shop/web-1: placed on n1 before the restart at {RESTART}")
    assert (
        "its process ended without handing its history over, as after a crash, or without another replica." in text[2]
    )
    assert "Why not n2 (judged as it is now, and without the pod's own use on n1):" in text


DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}},
    "status": {"conditions": [{"type": "ReplicaFailure", "message": "exceeded quota: small"}]},
}


@pytest.mark.parametrize("arguments", [("deployment/web",), ("deploy", "web"), ("pod", "deployments.apps/web")])
def test_of_a_deployment_the_pod_that_waits_longest_is_explained(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], arguments: tuple[str, ...]
) -> None:
    answers["web-old"] = decisions(waiting=tried_again(seconds=3.0, attempts=0))
    pods = [pod("web-new"), pod("web-old", creationTimestamp="2026-11-24T08:00:00Z"), pod("web-0", node="n1")]
    shown = explained(monkeypatch, {f"{DEPLOYMENTS}/web": DEPLOYMENT, PODS: pods}, *arguments)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "Deployment web: 3 pods; 2 of them waiting; 1 on n1.",
        "About web-old, which waits longest (also waiting: web-new):",
        "",
        "It waits in the active queue for 3.0 s, after 0 attempts.",
        "At this moment:",
        "  0 of 3 nodes fit.",
    ]


def test_of_many_pods_the_fullest_nodes_are_named_and_the_rest_counted(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    counts = {"n8": 1, "n2": 3, "n9": 2, "n1": 3, "n7": 1, "n5": 1, "n6": 1}
    pods = [pod(f"web-{node}-{number}", node=node) for node, count in counts.items() for number in range(count)]
    pods += [pod(f"web-{number}") for number in range(7)]
    answers["web-0"] = decisions(waiting=tried_again(seconds=3.0, attempts=0))
    shown = explained(monkeypatch, {f"{DEPLOYMENTS}/web": DEPLOYMENT, PODS: pods}, "deployment/web")
    assert shown.out.splitlines()[:2] == [
        "Deployment web: 19 pods; 7 of them waiting; 3 on n1, 3 on n2, 2 on n9, 1 on n5, 1 on n6, and 2 more nodes.",
        "About web-0, which waits longest (also waiting: web-1, web-2, web-3, web-4, web-5, and 1 more pod):",
    ]


def test_a_deployment_without_pods_says_why(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> None:
    objects = {f"{DEPLOYMENTS}/web": DEPLOYMENT, PODS: [], DEPLOYMENTS: [DEPLOYMENT]}
    assert "deployment shop/web has no pods: exceeded quota: small" in explained(
        monkeypatch, objects, "deployment/web"
    ).err  # fmt: skip
    refused = explained(monkeypatch, objects, "deployment/wbe")
    assert "shop/wbe: there is no such deployment; did you mean web?" in refused.err
    refused = explained(monkeypatch, objects, "pod", "job/web")
    assert (refused.code, answers) == (2, {})
    assert "job/web: name a pod (NAME or pod/NAME), a Deployment" in refused.err
