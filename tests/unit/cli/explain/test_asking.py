"""`explain`: which schedulers are asked for what, and what becomes of their answers, over a fake tunnel."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from scheduler import __version__
from scheduler.kube.client import ClientConfig, KubeError, SyncConnection
from secondary_scheduler.cli import connecting, schedulers as asked
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.explain import command
from secondary_scheduler.cli.schedulers import Schedulers
from secondary_scheduler.clusterstatus.schedulerclient import NoSuchPodError, SchedulerAnswer, SchedulerPod
from tests.support.answers import API, decision, decisions, waiting
from tests.support.simulating import run

KNOWN = decisions(decision(pod="shop/p"))
NOTHING = decisions(waiting=None)
Respond = Callable[[str, str, dict[str, str]], Any]


class Tunnel:
    """Answers requests as a test says, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.respond: Respond = lambda pod, path, query: NOTHING

    async def get(self, pod: SchedulerPod, path: str, query: dict[str, str]) -> SchedulerAnswer:
        self.asked.append((pod.name, path, query))
        answer = self.respond(pod.name, path, query)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, tuple):
            return SchedulerAnswer(answer[0], answer[1].encode())
        return SchedulerAnswer(200, json.dumps(answer).encode())


@pytest.fixture
def tunnel(monkeypatch: pytest.MonkeyPatch) -> Tunnel:
    fake = Tunnel()
    monkeypatch.setattr(SchedulerPod, "get", lambda *question: fake.get(*question))
    return fake


def schedulers(*pods: str, chosen: bool = False) -> Schedulers:
    config = ClientConfig(server="http://127.0.0.1:1", namespace="shop")
    return Schedulers(tuple(SchedulerPod(config, "ns", pod, 10259) for pod in pods), chosen)


def about(schedulers_asked: Schedulers, why_not: str | None = None) -> dict[str, Any]:
    """The answer as `-o json` shows it."""
    shown: dict[str, Any] = json.loads(msgspec.json.encode(schedulers_asked.about_pod("shop", "p", why_not)))
    return shown


def test_the_scheduler_that_knows_the_pod_answers_whatever_the_others_do(tunnel: Tunnel) -> None:
    responses = {"a": CommandError("a cannot be reached"), "b": (404, "404: Not Found"), "c": NOTHING, "d": KNOWN}
    tunnel.respond = lambda pod, path, query: responses[pod]
    assert about(schedulers("a", "b", "c", "d")) == KNOWN
    assert tunnel.asked[0] == ("a", "/debug/decisions/namespaces/shop", {"pod": "p"})


def test_a_pod_that_none_knows_is_unknown_and_a_question_that_none_answers_has_its_reason(tunnel: Tunnel) -> None:
    with pytest.raises(CommandError, match="shop/p: unknown to a, b"):
        about(schedulers("a", "b"))
    tunnel.respond = lambda pod, path, query: CommandError(f"{pod} cannot be reached")
    with pytest.raises(CommandError, match="a cannot be reached"):
        about(schedulers("a", "b"))


def test_a_pod_that_only_the_cluster_knows_is_judged(tunnel: Tunnel) -> None:
    verdict = {
        "node": "n1", "rejection": None, "nominated": False, "verdicts": [], "feasible": 1, "rank": 1, "ties": 1,
        "nodes": [], "error": None,
    }  # fmt: skip
    judged = {**NOTHING, "whyNot": {"node": "n1", "placedOn": None, "problem": None, "verdict": verdict}}
    tunnel.respond = lambda pod, path, query: judged
    assert about(schedulers("a"), "n1") == judged
    assert tunnel.asked == [("a", "/debug/decisions/namespaces/shop", {"pod": "p", "node": "n1"})]


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (403, "the token is not allowed to read this", "this user needs to get pods in namespace shop"),
        (
            403,
            "/debug: a bearer token is needed",
            "with --as-service-account (it needs to get pods",
        ),
        (404, "404: Not Found", "it is older, or runs with --decision-history=0"),
        (503, "this replica does not lead; s-1 does", "s-1 does; leave --scheduler-pod out to ask the one that leads"),
        (429, "too much was asked lately; try again in some seconds", "try again in some seconds"),
        (200, "<html>", "the answer is not a scheduler's of this project"),
        (200, "[" * 100_000, "the answer is not a scheduler's of this project"),
        (200, '{"apiVersion": "v1"}', "the answer is not a scheduler's of this project"),
    ],
)
@pytest.mark.usefixtures("no_collection")
def test_an_answer_of_no_use_says_what_to_do(tunnel: Tunnel, status: int, body: str, advice: str) -> None:
    tunnel.respond = lambda pod, path, query: (status, body)
    with pytest.raises(CommandError) as refused:
        about(schedulers("s-2", chosen=True))
    assert advice in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_leader_that_was_killed_is_said_to_be_gone_and_a_pod_that_was_named_not_to_exist(tunnel: Tunnel) -> None:
    tunnel.respond = lambda pod, path, query: NoSuchPodError("pod ns/s-1 does not exist")
    with pytest.raises(CommandError, match=r"^the leader ns/s-1 is gone, and another one takes over .*: ask again"):
        about(schedulers("s-1"))
    with pytest.raises(CommandError, match=r"^pod ns/s-1 does not exist$"):
        about(schedulers("s-1", chosen=True))


def test_a_replica_that_led_until_now_is_no_reason_to_name_a_pod(tunnel: Tunnel) -> None:
    tunnel.respond = lambda pod, path, query: (503, "this replica does not lead; s-2 does")
    with pytest.raises(CommandError, match="does not lead; s-2 does; the leader is changing: ask again"):
        about(schedulers("s-1"))


class ChangingLeader:
    """A fake API server whose Lease gets a holder at a time, and a fake clock that sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, held_at: float, *, ours: bool = True) -> None:
        self.now, self._held_at, self._ours = 100.0, held_at, ours
        monkeypatch.setattr(SyncConnection, "get", lambda _, path, *more: self.answer(path))
        monkeypatch.setattr(asked, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep))
        monkeypatch.setattr(connecting, "load_connection", lambda *_: schedulers("any").config)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def answer(self, path: str) -> bytes:
        if path == "/apis/apps/v1/deployments":
            return b'{"items": []}'
        assert path == "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
        annotations = {"secondary-scheduler.io/configuration-hash": "h"} if self._ours else {}
        holder = "s-2_uuid" if self.now >= self._held_at else ""
        metadata = {"namespace": "ns", "name": "lease-1", "annotations": annotations}
        return json.dumps({"items": [{"metadata": metadata, "spec": {"holderIdentity": holder}}]}).encode()


def test_while_the_leader_changes_the_next_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ChangingLeader(monkeypatch, held_at=103.0)
    assert asked.find_schedulers(None, None, "ns", None, 10259).pods == schedulers("s-2").pods
    assert cluster.now == 103.0


def test_a_lease_that_nobody_takes_ends_the_wait_and_no_namespace_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ChangingLeader(monkeypatch, held_at=1000.0)
    with pytest.raises(CommandError, match="nobody holds the Lease lease-1; the leader is changing") as refused:
        asked.find_schedulers(None, None, "ns", None, 10259)
    assert "--scheduler-namespace" not in str(refused.value)
    assert cluster.now == 105.0


def test_without_a_scheduler_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ChangingLeader(monkeypatch, held_at=103.0, ours=False)
    with pytest.raises(CommandError, match="no scheduler leads in namespace ns; name its namespace with"):
        asked.find_schedulers(None, None, "ns", None, 10259)
    assert cluster.now == 100.0


@pytest.mark.parametrize(
    ("namespaces", "hint"),
    [
        ([], "without leader election"),
        (["tenant", "tenant"], "; schedulers are installed in tenant"),
        ([f"t{n}" for n in range(6)], "; schedulers are installed in t0, t1, t2, t3, t4, ..."),
        (None, "without leader election"),
    ],
)
def test_where_none_leads_other_namespaces_are_named_and_nobody_there_is_asked(
    monkeypatch: pytest.MonkeyPatch, tunnel: Tunnel, namespaces: list[str] | None, hint: str
) -> None:
    """Whoever may create a Deployment can make one that looks like a scheduler: it must not get the caller's token."""
    cluster = ChangingLeader(monkeypatch, held_at=0.0)
    container = {"image": "ours", "command": ["/bin/kube-scheduler"]}
    deployments = [
        {"metadata": {"name": "s", "namespace": each}, "spec": {"template": {"spec": {"containers": [container]}}}}
        for each in namespaces or ()
    ]

    def get(path: str) -> bytes:
        if path == "/apis/apps/v1/deployments":
            if namespaces is None:
                raise KubeError("deployments is forbidden")
            return json.dumps({"items": deployments}).encode()
        assert path == "/apis/coordination.k8s.io/v1/namespaces/openshift-secondary-scheduler-operator/leases"
        return b'{"items": []}'

    monkeypatch.setattr(cluster, "answer", get)
    with pytest.raises(CommandError, match=r"^no scheduler leads in namespace openshift-secondary-sch") as refused:
        asked.find_schedulers(None, None, None, None, 10259)
    assert str(refused.value).endswith(hint)
    assert tunnel.asked == []


def test_of_several_schedulers_one_has_to_be_named_for_a_queue(monkeypatch: pytest.MonkeyPatch, tunnel: Tunnel) -> None:
    monkeypatch.setattr(command, "find_schedulers", lambda *args, **options: schedulers("a", "b"))
    refused = run("explain", "queue")
    assert (refused.code, refused.out) == (1, "")
    assert "--scheduler-pod (a, b)" in refused.err
    assert tunnel.asked == []


def queues(**items: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("active", "backoff", "unschedulable", "gated")
    totals = {"active": 120, "backoff": 0, "unschedulable": 9, "gated": 1}
    shown = [
        {"queue": name, "pods": totals[name], "readable": len(items.get(name, ())), "items": items.get(name, [])}
        for name in names
    ]
    return {**API, "kind": "QueueReport", "namespace": "x", "queues": shown}


def test_the_queue_of_each_namespace_is_asked_for_by_itself_and_shown_together(
    monkeypatch: pytest.MonkeyPatch, tunnel: Tunnel
) -> None:
    answers = {
        "/debug/queue/namespaces/shop": queues(
            active=[waiting("shop/late", 1.0, position=90)],
            unschedulable=[waiting("shop/big", 30.0, rejectedBy=["NodeResourcesFit"])],
        ),
        "/debug/queue/namespaces/batch": queues(
            active=[waiting("batch/first", 5.0, position=2)], unschedulable=[waiting("batch/old", 99.0)]
        ),
    }
    tunnel.respond = lambda pod, path, query: answers[path]
    monkeypatch.setattr(command, "find_schedulers", lambda *args, **options: schedulers("a"))
    shown = run("explain", "queue", "-n", "shop", "-n", "batch", "--limit", "1")
    assert (shown.code, shown.err) == (0, "")
    assert [query for _, _, query in tunnel.asked] == [{"limit": "1"}] * 2
    assert shown.out.splitlines() == [
        "active: 120 pods, 2 of them in shop, batch",
        "  #  POD          PRIORITY  WAITS  SINCE                 ATTEMPTS  REJECTED BY",
        "  2  batch/first  0         5 s    2026-11-24T10:00:00Z  1         -",
        "  and 1 more (--limit)",
        "",
        "backoff: no pods",
        "",
        "unschedulable: 9 pods, 2 of them in shop, batch",
        "  POD        PRIORITY  WAITS  SINCE                 ATTEMPTS  REJECTED BY",
        "  batch/old  0         99 s   2026-11-24T10:00:00Z  1         -",
        "  and 1 more (--limit)",
        "",
        "gated: 1 pod, none of them in shop, batch",
    ]


def test_the_queue_of_all_namespaces_is_one_question(monkeypatch: pytest.MonkeyPatch, tunnel: Tunnel) -> None:
    gate = {"plugin": "SchedulingGates", "message": "waiting for \x1b[2J"}
    tunnel.respond = lambda pod, path, query: queues(
        backoff=[waiting("a/b", 3.0, backoffSeconds=2.4)], gated=[waiting("a/g", 9.0, gate=gate)]
    )
    monkeypatch.setattr(command, "find_schedulers", lambda *args, **options: schedulers("a"))
    shown = run("explain", "queue", "-A")
    assert tunnel.asked == [("a", "/debug/queue", {"limit": "20"})]
    assert "gated: 1 pod" in shown.out.splitlines()
    assert "\x1b" not in shown.out
    refused = run("explain", "queue", "-A", "-n", "shop")
    assert refused.code == 2


def judged(node: str, total: int, rejected_by: str = "") -> dict[str, Any]:
    scores = {} if rejected_by else {"NodeResourcesFit": total}
    return {"node": node, "total": total, "rejected_by": rejected_by, "reason": "no \x1b[2J room", "scores": scores}


def test_a_shadow_is_asked_about_by_namespace_and_its_differences_have_the_scores_of_both(
    monkeypatch: pytest.MonkeyPatch, tunnel: Tunnel
) -> None:
    item = {
        "time": "2026-11-24T10:00:00Z", "pod": "shop/web", "uid": "u", "schedulerName": "live", "shadow": "trial",
        "outcome": "otherNode", "liveNode": "n1", "shadowNode": "n2", "shadowTies": 2, "shadowMessage": None,
        "scoreLoss": 0, "liveJudges": [judged("n1", 87), judged("n2", 37)],
        "shadowJudges": [judged("n1", 0, "NodeName"), judged("n2", 62)],
    }  # fmt: skip
    profile = {"schedulerName": "live", "shadow": "trial", "compared": {"sameNode": 640, "otherNode": 172}}
    tunnel.respond = lambda pod, path, query: {
        **API, "kind": "ShadowReport", "namespace": "shop", "profiles": [profile], "items": [item],
    }  # fmt: skip
    monkeypatch.setattr(command, "find_schedulers", lambda *args, **options: schedulers("a"))
    shown = run("explain", "shadow", "-n", "shop", "--limit", "5")
    assert tunnel.asked == [("a", "/debug/shadow/namespaces/shop", {"limit": "5"})]
    assert shown.code == 0
    assert "\x1b" not in shown.out
    text = shown.out.splitlines()
    assert text[:4] == [
        "live and its shadow trial: 812 decisions compared",
        "  640 on the same node, 172 on another node",
        "",
        "shop/web: n1; trial: n2 (or 1 equally good) (2026-11-24T10:00:00Z)",
    ]
    assert [line.split()[:4] for line in text[4:]] == [
        ["PROFILE", "NODE", "TOTAL", "NodeResourcesFit"], ["live", "n1", "87", "87"], ["live", "n2", "37", "37"],
        ["trial", "n1", "-", "NodeName:"], ["trial", "n2", "62", "62"],
    ]  # fmt: skip
    run("explain", "shadow", "-A")
    assert tunnel.asked[-1] == ("a", "/debug/shadow", {"limit": "20"})


NODE = {
    **API, "kind": "NodeReport", "node": "n7", "unschedulable": True,
    "taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
               {"key": "x", "effect": "E", "value": ""}],
    "allocatable": {"cpu": "4", "memory": "8Gi"}, "requested": {"cpu": "3200m", "memory": "1Gi"},
    "pods": {"allowed": 110, "counted": 12, "byScheduler": {"secondary-scheduler": 7, "default-scheduler": 4, "": 1}},
    "load": {"watcher:http://w": {"cpu": 35.2, "memory": None, "age": 12.0}},
    "chosen": {"decisions": 1000, "times": 37},
    "rejected": {"decisions": 640, "byPlugin": {"NodeResourcesFit": 210, "TaintToleration": 12}},
}  # fmt: skip


def test_a_node_is_shown_with_its_history_and_the_pods_that_the_user_may_list(
    monkeypatch: pytest.MonkeyPatch, tunnel: Tunnel
) -> None:
    tunnel.respond = lambda pod, path, query: decisions(decision()) if path.endswith("/decisions") else NODE
    monkeypatch.setattr(command, "find_schedulers", lambda *args, **options: schedulers("a"))
    shown = run("explain", "node", "n7")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "n7: 12 of 110 pods (7 of secondary-scheduler, 4 of default-scheduler, 1 of others), unschedulable",
        "  RESOURCE  ALLOCATABLE  REQUESTED",
        "  cpu       4            3200m",
        "  memory    8Gi          1Gi",
        "Taint: dedicated=batch:NoSchedule",
        "Taint: x:E",
        "Load: cpu 35%, memory -, 12 s old (watcher:http://w)",
        "",
        "Chosen by 37 of the last 1000 decisions.",
        "Of the last 640 decisions with details, rejected first by:",
        "  NodeResourcesFit  210",
        "  TaintToleration   12",
        "Placed there last:",
        "  2026-11-24T10:00:00Z  shop/web  scheduled  s",
    ]
    assert [path for _, path, _ in tunnel.asked] == ["/debug/nodes/n7", "/debug/nodes/n7/decisions"]


def test_who_may_not_list_pods_sees_the_node_and_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tunnel: Tunnel
) -> None:
    tunnel.respond = lambda pod, path, query: (403, "not allowed") if path.endswith("/decisions") else NODE
    monkeypatch.setattr(command, "find_schedulers", lambda *args, **options: schedulers("a"))
    shown = run("explain", "node", "n7")
    assert shown.code == 0
    assert "Placed there last" not in shown.out
    assert "list pods in all namespaces" in shown.err
    assert json.loads(run("explain", "node", "n7", "-o", "json").out)["lastChosen"] is None


@pytest.mark.parametrize(("version", "named"), [({}, "a version before 0.2.0"), ({"schedulerVersion": "9.1"}, "9.1")])
def test_an_answer_of_another_form_names_both_versions(
    monkeypatch: pytest.MonkeyPatch, tunnel: Tunnel, version: dict[str, str], named: str
) -> None:
    tunnel.respond = lambda pod, path, query: {**decisions({"pod": "shop/p"}), **version}
    monkeypatch.setattr(command, "find_schedulers", lambda *args, **options: schedulers("a"))
    refused = run("explain", "pod", "p")
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1)
    assert f"the scheduler is {named}, this is {__version__}" in refused.err
