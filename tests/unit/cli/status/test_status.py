"""`status`: what it finds, how it judges it, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace
from typer.testing import CliRunner

from scheduler.answers import DecisionList
from scheduler.kube.client import ClientConfig
from scheduler.kube.client.errors import api_error
from secondary_scheduler.cli import app
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.output import FullOutputFormat, document_text
from secondary_scheduler.cli.status.rendering import lines
from secondary_scheduler.clusterstatus import document, installations
from secondary_scheduler.clusterstatus.asking import LiveState, ask_all, summarize_decisions, summarize_metrics
from secondary_scheduler.clusterstatus.document import status_document
from secondary_scheduler.clusterstatus.installations import CallerLimits, instances_of, read_installations
from secondary_scheduler.clusterstatus.schedulerclient import NoSuchPodError, SchedulerAnswer, SchedulerPod
from secondary_scheduler.clusterstatus.status import (
    ConfigurationHashes,
    ShadowStatus,
    StatusReport,
)
from tests.support.answers import read_decision
from tests.unit.cli.fakeapi import FakeConnection
from tests.unit.cli.status import installation as made
from tests.unit.cli.status.installation import HASH, NAMESPACE, NOW, POD, condition

LIVE = LiveState(
    summarize_metrics(made.METRICS), summarize_decisions(msgspec.convert(made.DECISIONS, DecisionList).items, NOW)
)


def document_of(
    answers: Mapping[str, Any],
    refused: Collection[str] = (),
    live: LiveState | None = LIVE,
    namespace: str | None = None,
    *,
    everywhere: bool = False,
) -> StatusReport:
    limits = CallerLimits()
    connection: Any = FakeConnection(answers, refused)
    read = read_installations(connection, "https://api:6443", namespace, limits, everywhere=everywhere)
    instances = instances_of(read)
    answered = {instance.place: live for instance in instances if live is not None and instance.leader}
    return status_document(read, instances, answered, limits, NOW)


def shown(content: StatusReport, *, wide: bool = False) -> list[str]:
    return list(lines(content, NOW, wide=wide))


def problems(content: StatusReport) -> list[tuple[str, str]]:
    (instance,) = content.instances
    return [(problem.severity, problem.subject) for problem in instance.problems]


def test_a_healthy_installation_is_a_screen_without_noise() -> None:
    content = document_of(made.installation())
    assert content.state == "ok"
    assert shown(content) == [
        "https://api:6443: Kubernetes v1.34.4",
        "",
        f"{NAMESPACE}/cluster: ok",
        f"  replicas       1 of 1 ready; {POD} leads for 3 h",
        "  profile        mine: scores by TargetLoadPacking 10, TaintToleration 3, NodeAffinity 2, "
        "PodTopologySpread 2, InterPodAffinity 2, VolumeBinding 1,",
        "                 NodeResourcesBalancedAllocation 1, ImageLocality 1",
        f"  configuration  {HASH} runs, as wanted",
        "  rollout        Succeeded 3 h ago",
        "  load           Prometheus:http://prometheus:9090: fresh, newest sample 12 s old; nodes: 20 fresh, 1 absent",
        "  queue          0 active, 1 backoff, 2 unschedulable, 0 gated; rejected by NodeResourcesFit 3, "
        "TaintToleration 1",
        "  attempts       last 4 in 4 min (0.017/s): 1 error, 2 scheduled, 1 unschedulable; since the start: "
        "1 error, 42 scheduled",
        "  placed         2 min ago, shop/web on node-7",
        "  error          60 s ago, shop/web: the Binding was refused",
        f"  version        scheduler {made.IMAGE} behaves as Kubernetes 1.34; it goes with this cluster",
        f"  version        operator {made.OPERATOR_IMAGE} (1/1 ready)",
        "  condition      as expected: Available, Progressing, Degraded, Upgradeable, LoadDataFresh, "
        "NodesOvercommitted, KubernetesVersionCurrent,",
        "                 CacheCurrent",
    ]
    assert any("Available=True" in line and "1 of 1 replicas" in line for line in shown(content, wide=True))


BAD = [
    ({"crs": [made.resource(condition("Degraded", "True", "ConfigInvalid", "no such plugin"))]}, "Degraded"),
    ({"crs": [made.resource(condition("Available", "False", "NoReplicaAvailable"))]}, "Available"),
    ({"crs": [made.resource(condition("LoadDataFresh", "False", "Stale", "refused"))]}, "LoadDataFresh"),
    ({"deployments": [made.OPERATOR]}, "Deployment"),
    ({"deployments": [made.OPERATOR, made.deployment(ready=0)]}, "Deployment"),
    ({"deployments": [made.OPERATOR, made.deployment(replicas=0, ready=0)]}, "Deployment"),
    ({"leases": []}, "Lease"),
    ({"leases": [made.lease(holder="")]}, "Lease"),
    ({"leases": [made.lease(renewed="2026-11-24T11:50:00.000000Z")]}, "Lease"),
    ({"leases": [made.lease(running="another")]}, "configuration"),
    ({"leases": [made.lease(load_data_fresh="false", load_data_message="away")]}, "load"),
]


@pytest.mark.parametrize(("answers", "subject"), BAD)
def test_what_keeps_pods_from_being_placed_well_fails(answers: dict[str, Any], subject: str) -> None:
    content = document_of(made.installation(**answers))
    assert content.state == "failed"
    assert problems(content)[0] == ("failed", subject)
    text = shown(content)
    assert text[2] == f"{NAMESPACE}/cluster: FAILED"
    assert text[3].startswith(f"  failed         {subject}")


OLD = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.29.7"
FEW = condition("Available", "True", "FewerReplicas", "1 of 2 wanted: one suitable node; 1 of 1 replicas are available")
WORRYING = [
    ({"crs": [made.resource(FEW)]}, "replicas"),
    ({"crs": [made.resource(condition("CacheCurrent", "False", "EtcdRestored"))]}, "CacheCurrent"),
    ({"crs": [made.resource(condition("NodesOvercommitted", "True", "Overcommitted"))]}, "NodesOvercommitted"),
    ({"deployments": [made.OPERATOR, made.deployment(replicas=2)]}, "Deployment"),
    ({"deployments": [{**made.OPERATOR, "status": {}}, made.deployment()]}, "operator"),
    ({"leases": [made.lease(unread_resources="podgroups (not served)")]}, "resources"),
    ({"config_map": {"data": {"config.yaml": "profiles: 7"}}}, "configuration"),
    (
        {"crs": [made.resource(schedulerImage=OLD)], "deployments": [made.OPERATOR, made.deployment(image=OLD)]},
        "versions",
    ),
]


@pytest.mark.parametrize(("answers", "subject"), WORRYING)
def test_what_is_worth_a_look_is_a_warning(answers: dict[str, Any], subject: str) -> None:
    content = document_of(made.installation(**answers))
    assert content.state == "warning"
    assert ("warning", subject) in problems(content)


def test_fewer_replicas_than_wanted_are_said_once_and_first() -> None:
    text = shown(document_of(made.installation(crs=[made.resource(FEW)])))
    assert text[3] == "  warning        replicas: 1 of 2 wanted: one suitable node"
    (line,) = [line for line in text if line.startswith("  replicas ")]
    assert line == f"  replicas       1 of 1 ready; {POD} leads for 3 h"
    assert sum("1 of 2 wanted" in line for line in text) == 1


def test_a_source_that_the_scheduler_calls_stale_fails_before_the_condition_does() -> None:
    metrics = summarize_metrics(made.METRICS.replace('9090"} 1.0', '9090"} 0.0'))
    content = document_of(made.installation(), live=LiveState(metrics))
    assert problems(content) == [("failed", "load")]
    assert any("STALE, newest sample 12 s old" in line for line in shown(content))


FAILING = "https://prometheus.example.com: not reachable"


def test_reads_that_fail_are_a_warning_while_the_samples_are_fresh_still() -> None:
    content = document_of(made.installation(leases=[made.lease(load_data_message=FAILING)]))
    assert (content.state, problems(content)) == ("warning", [("warning", "load")])
    assert f"  warning        load: reads fail, and its samples are fresh still: {FAILING}" in shown(content)


DOWN = {
    "released its Lease": ([made.lease(holder="")], False),
    "has just crashed, or starts": ([made.lease(renewed="2026-11-24T11:59:58.000000Z")], None),
    "is long gone": ([made.lease(renewed="2026-11-24T11:50:00.000000Z")], False),
    "never was there": ([], False),
}


@pytest.mark.parametrize(("leases", "alive"), DOWN.values(), ids=DOWN)
@pytest.mark.parametrize("conditions", [(), (condition("Available", "False", "NoReplicaAvailable"),)], ids=str)
def test_nothing_that_only_a_living_scheduler_can_be_is_said_while_it_is_down(
    leases: list[Any], alive: bool | None, conditions: tuple[Any, ...]
) -> None:
    answers = made.installation(
        crs=[made.resource(*conditions)], deployments=[made.OPERATOR, made.deployment(ready=0)], leases=leases
    )
    content = document_of(answers, live=None)
    (instance,) = content.instances
    assert (content.state, instance.alive, instance.load_data) == ("failed", alive, None)
    assert instance.configuration == ConfigurationHashes(HASH, None)
    text = " ".join(shown(content))
    runs = "none runs" if alive is False else "which runs is not reported"
    assert f"configuration  {HASH} is wanted; {runs}" in text
    for untrue in (
        " leads for",
        "runs, as wanted",
        "behaves as",
        "LoadDataFresh",
        "CacheCurrent",
        "expected: Available",
    ):
        assert untrue not in text, untrue


def test_a_scheduler_that_is_down_is_not_blamed_for_what_it_said_before() -> None:
    stale = made.resource(condition("LoadDataFresh", "False", "Stale", "refused"))
    answers = made.installation(crs=[stale], deployments=[made.OPERATOR, made.deployment(ready=0)])
    assert problems(document_of(answers, live=None)) == [("failed", "Deployment")]


def test_a_scheduler_that_answers_is_alive_whatever_the_clocks_say() -> None:
    late = made.installation(leases=[made.lease(renewed="2026-11-24T11:59:20.000000Z")])
    for live, state in ((LIVE, "ok"), (None, "failed")):
        content = document_of(late, live=live)
        assert (content.state, content.instances[0].alive) == (state, live is not None)


def test_what_an_operator_wrote_that_is_down_is_said_to_be_of_then() -> None:
    text = " ".join(
        shown(document_of(made.installation(deployments=[{**made.OPERATOR, "status": {}}, made.deployment()])))
    )
    assert "as expected when the operator last looked: Available" in text


DEAD = made.METRICS.replace('name="secondary-scheduler"} 1.0', 'name="secondary-scheduler"} 0.0')
TAKEOVER = "no pod is scheduled until another one takes over"
EARLIEST = f"{TAKEOVER}, at 2026-11-24T12:00:13Z at the earliest"
GONE: dict[str, tuple[str, LiveState, str]] = {
    "its pod was deleted": ("58", LiveState(absent=True), f"the leader {POD} is gone: {EARLIEST}"),
    "its container restarted": ("58", LiveState(summarize_metrics(DEAD)), f"the leader {POD} is gone: {EARLIEST}"),
    "it does not answer": (
        "37",
        LiveState(missing=("portforward",)),
        f"the leader {POD} has not renewed it for 23 s: {TAKEOVER}",
    ),
}


@pytest.mark.parametrize(("second", "live", "message"), GONE.values(), ids=GONE)
def test_a_leader_that_is_gone_fails_though_another_pod_is_ready(second: str, live: LiveState, message: str) -> None:
    lease = made.lease(renewed=f"2026-11-24T11:59:{second}.000000Z", load_data_fresh="true")
    content = document_of(made.installation(leases=[lease]), live=live)
    (instance,) = content.instances
    assert (content.state, instance.alive, instance.load_data) == ("failed", False, None)
    assert [(each.severity, each.subject, each.message) for each in instance.problems] == [("failed", "Lease", message)]
    text = " ".join(shown(content))
    assert f"1 of 1 ready; {POD} last renewed the Lease {60 - int(second)} s ago" in text
    assert f"{HASH} is wanted; none runs" in text
    for untrue in (" leads for", "as wanted", "behaves as", "LoadDataFresh"):
        assert untrue not in text, untrue


def test_a_lease_left_from_before_says_nothing_of_a_scheduler_that_elects_no_leader() -> None:
    alone = made.deployment(args=("--leader-elect=false",))
    answers = made.installation(deployments=[made.OPERATOR, alone])
    content = document_of(answers, live=LiveState(absent=True))
    assert (content.state, content.instances[0].alive) == ("ok", True)


def test_a_leader_that_may_not_be_asked_and_renews_its_lease_leads() -> None:
    lease = made.lease(renewed="2026-11-24T11:59:58.000000Z")
    content = document_of(made.installation(leases=[lease]), live=LiveState(missing=("portforward",)))
    assert (content.state, content.instances[0].alive) == ("ok", True)


def test_a_rollout_is_shown_and_is_no_failure() -> None:
    rolling = made.resource(condition("Progressing", "True", "RollingOut", "Configuration x: 1 of 2 updated"))
    content = document_of(made.installation(crs=[rolling], leases=[made.lease(running="the former")]))
    assert content.state == "ok"
    assert any(line.startswith("  condition      Progressing=True  60 min  RollingOut") for line in shown(content))


def test_a_removed_scheduler_is_no_failure() -> None:
    removed = made.resource(condition("Available", "False", "Removed"), managementState="Removed")
    content = document_of(made.installation(crs=[removed], deployments=[made.OPERATOR], leases=[]), live=None)
    assert (content.state, problems(content)) == ("ok", [])


def test_a_scheduler_without_a_secondaryscheduler_is_an_instance_and_a_canary_is_not() -> None:
    direct = made.deployment(args=("--secure-port=10300", "--leader-elect-resource-name=mine"))
    answers = made.installation(crs=None, deployments=[direct], leases=[made.lease("mine")])
    (instance,) = document_of(answers).instances
    assert (instance.kind, instance.name, instance.state) == ("Deployment", "secondary-scheduler", "ok")
    assert instance.leader is not None
    assert (instance.leader.pod, instance.configuration.running) == (POD, HASH)
    assert instance.versions.operator_image is None
    canary = made.deployment("secondary-scheduler-canary")
    (instance,) = document_of(made.installation(deployments=[made.OPERATOR, made.deployment(), canary])).instances
    assert instance.kind == "SecondaryScheduler"


BLIND = [made.CRS, made.CRS_OF_NAMESPACE, made.DEPLOYMENTS]


def test_who_may_read_leases_alone_sees_what_they_and_the_scheduler_show() -> None:
    leases = [made.lease(), made.lease("secondary-scheduler-canary"), lease_of_another()]
    content = document_of(made.installation(leases=leases), BLIND)
    (instance,) = content.instances
    assert (instance.kind, instance.name, instance.state) == ("Lease", "secondary-scheduler", "ok")
    text = shown(content)
    assert f"{NAMESPACE}/secondary-scheduler (as far as its Lease shows): ok" in text
    assert f"  replicas       not known; {POD} leads for 3 h" in text
    assert f"  configuration  {HASH} runs" in text
    assert any(line.startswith("  queue          0 active, 1 backoff") for line in text)
    assert [line for line in text if line.startswith("Not shown: ")][-1].endswith(
        f"list deployments in namespace {NAMESPACE}"
    )


def test_of_a_lease_alone_a_leader_that_is_gone_fails_too() -> None:
    content = document_of(made.installation(), BLIND, live=LiveState(absent=True))
    assert (content.state, problems(content)) == ("failed", [("failed", "Lease")])


def test_a_lease_that_an_uninstalled_scheduler_left_is_no_instance() -> None:
    content = document_of(made.installation(crs=[], deployments=[]))
    assert content.instances == []


def lease_of_another() -> dict[str, Any]:
    lease = made.lease("kube-scheduler")
    return {**lease, "metadata": {**lease["metadata"], "annotations": {}}}


def test_the_worst_instance_comes_first() -> None:
    degraded = made.resource(condition("Degraded", "True", "ConfigInvalid"), name="second")
    deployments = [made.OPERATOR, made.deployment(), made.deployment("secondary-scheduler-second")]
    leases = [made.lease(), made.lease("secondary-scheduler-second")]
    content = document_of(made.installation(crs=[made.resource(), degraded], deployments=deployments, leases=leases))
    titles = [line for line in shown(content) if line.endswith((": ok", ": FAILED"))]
    assert titles == [f"{NAMESPACE}/second: FAILED", f"{NAMESPACE}/cluster: ok"]
    assert content.state == "failed"


def test_without_an_installation_nothing_is_invented() -> None:
    content = document_of({made.DEPLOYMENTS: [], made.LEASES: []})
    assert (content.instances, content.state, content.not_shown) == ([], "failed", [])


RIGHTS = {
    made.CRS: "list secondaryschedulers in all namespaces",
    made.DEPLOYMENTS: f"list deployments in namespace {NAMESPACE}",
    made.LEASES: f"list leases in namespace {NAMESPACE}",
    made.CONFIG_MAP: f"get configmaps in namespace {NAMESPACE}",
}


@pytest.mark.parametrize(("refused", "right"), RIGHTS.items())
def test_without_a_right_everything_else_is_shown_and_one_line_names_it(refused: str, right: str) -> None:
    answers = {**made.installation(), made.CRS_OF_NAMESPACE: [made.resource()]}
    content = document_of(answers, [refused])
    (instance,) = content.instances
    assert (instance.name, instance.state) == ("cluster", "ok")
    (line,) = [line for line in shown(content) if line.startswith("Not shown: ")]
    assert right in line


def test_one_namespace_is_asked_for_where_one_is_named_and_all_where_all_are_wanted() -> None:
    elsewhere = made.deployment("another")
    elsewhere["metadata"]["namespace"] = "batch"
    answers = {
        **made.installation(),
        made.CRS_OF_NAMESPACE: [made.resource()],
        "/apis/apps/v1/deployments": [made.OPERATOR, made.deployment(), elsewhere],
        "/apis/coordination.k8s.io/v1/namespaces/batch/leases": [],
    }
    named = document_of(answers, [made.CRS], namespace=NAMESPACE)
    assert ([each.name for each in named.instances], named.not_shown) == (["cluster"], [])
    everywhere = document_of(answers, everywhere=True)
    assert [each.namespace for each in everywhere.instances] == [NAMESPACE, "batch"]


def test_no_text_of_the_cluster_steers_the_terminal_or_fills_it() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07[red]" + "x" * 40_000
    degraded = made.resource(condition("Degraded", "True", "Bad\x1b[1m", evil))
    failed = read_decision(result="error", time="2026-11-24T11:59:00Z", node=None, message=evil)
    live = LiveState(LIVE.metrics, summarize_decisions([failed], NOW), ())
    content = document_of(made.installation(crs=[degraded], leases=[made.lease(unread_resources=evil)]), live=live)
    text = shown(content, wide=True)
    assert not any(character < " " for line in text for character in line)
    assert all(len(line) <= 450 for line in text)
    assert len(text) < 120
    assert any("[red]" in line for line in text), "shown as text, not as markup"


@pytest.mark.parametrize("nonsense", [None, 7, "text", [], {}, [None], {"conditions": 3}])
def test_an_object_of_an_unexpected_shape_ends_nothing(nonsense: Any) -> None:
    broken: list[dict[str, Any]] = [
        {**made.resource(), "spec": nonsense},
        {**made.resource(name="b"), "status": nonsense},
    ]
    content = document_of(made.installation(crs=broken, leases=[{**made.lease(), "spec": nonsense}]))
    assert len(content.instances) == 2
    assert shown(content)


def test_the_document_is_the_same_in_json_and_yaml() -> None:
    content = document_of(made.installation())
    as_json, as_yaml = (document_text(content, form) for form in (FullOutputFormat.JSON, FullOutputFormat.YAML))
    assert json.loads(as_json) == yaml.safe_load(as_yaml)


def test_a_source_that_was_never_read_has_no_age() -> None:
    (source,) = summarize_metrics(made.METRICS.replace("12.34", "+Inf")).load
    assert source.age_seconds is None


CONFIG = ClientConfig(server="https://api:6443", namespace="default", source="test")


class FakeScheduler:
    """Answers in place of a forwarded port."""

    def __init__(self, **answers: SchedulerAnswer | CommandError) -> None:
        self._answers = answers
        self.asked: set[str] = set()

    async def get(self, pod: SchedulerPod, path: str, query: Mapping[str, str]) -> SchedulerAnswer:
        self.asked.add(pod.namespace)
        answer = self._answers[path.rpartition("/")[2]]
        if isinstance(answer, CommandError):
            raise answer
        return answer

    def serve(self, monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
        """Let it answer from here on."""
        monkeypatch.setattr(SchedulerPod, "get", lambda *question: self.get(*question))
        return self


GOOD = {
    "metrics": SchedulerAnswer(200, made.METRICS.encode()),
    "decisions": SchedulerAnswer(200, json.dumps(made.DECISIONS).encode()),
}
ANSWERS: list[tuple[dict[str, Any], tuple[bool, bool], str]] = [
    ({}, (True, True), ""),
    (
        {"metrics": SchedulerAnswer(403, b"/metrics: the token is not allowed")},
        (False, True),
        "get on the path /metrics",
    ),
    ({"decisions": SchedulerAnswer(403, b"not allowed")}, (True, False), "get on the path /debug/decisions"),
    ({"decisions": SchedulerAnswer(404, b"")}, (True, False), ""),
    (
        {"metrics": SchedulerAnswer(403, b"/metrics: a bearer token is needed")},
        (False, False),
        "use a user with a token",
    ),
    ({"metrics": SchedulerAnswer(401, b"the token is not known to the API server")}, (False, False), "401"),
    ({"metrics": CommandError("pod a/b: it needs get and create on pods/portforward")}, (False, False), "portforward"),
    ({"decisions": SchedulerAnswer(200, b"<html>")}, (True, False), "the answer is not a scheduler's of this project"),
    ({"metrics": NoSuchPodError("pod a/b does not exist")}, (False, False), "does not exist"),
]


@pytest.mark.parametrize(("answers", "had", "reason"), ANSWERS)
def test_what_a_scheduler_does_not_say_is_a_line_and_the_rest_is_shown(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], had: tuple[bool, bool], reason: str
) -> None:
    FakeScheduler(**{**GOOD, **answers}).serve(monkeypatch)
    (state,) = ask_all([SchedulerPod(CONFIG, NAMESPACE, POD, 10259)], NOW)
    assert (bool(state.metrics), bool(state.decisions)) == had
    assert state.absent == ("does not exist" in reason)
    assert len(state.missing) == bool(reason)
    assert reason in "".join(state.missing)


def test_a_long_refusal_keeps_the_right_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = SchedulerAnswer(403, b"the token is not allowed to read this: " + b"x" * 400)
    FakeScheduler(**{**GOOD, "metrics": refusal}).serve(monkeypatch)
    (state,) = ask_all([SchedulerPod(CONFIG, NAMESPACE, POD, 10259)], NOW)
    (line,) = shown(replace(document_of(made.installation()), instances=[], not_shown=list(state.missing)))[2:]
    assert line.endswith("this user needs get on the path /metrics (nonResourceURLs)")


@pytest.mark.parametrize(("named", "token_goes_to"), [(None, {NAMESPACE}), ("team-a", {"team-a"})])
@pytest.mark.parametrize("everywhere", [False, True])
def test_a_tenants_scheduler_gets_no_token_unless_its_namespace_is_named(
    monkeypatch: pytest.MonkeyPatch, named: str | None, token_goes_to: set[str], everywhere: bool
) -> None:
    def of_team(path: str) -> str:
        return path.replace(NAMESPACE, "team-a")

    def moved(content: dict[str, Any]) -> dict[str, Any]:
        return {**content, "metadata": {**content["metadata"], "namespace": "team-a"}}

    tenants = {
        of_team(made.CRS_OF_NAMESPACE): [moved(made.resource())],
        of_team(made.DEPLOYMENTS): [moved(made.deployment())],
        of_team(made.LEASES): [moved(made.lease())],
        "/apis/apps/v1/deployments": [made.OPERATOR, made.deployment(), moved(made.deployment())],
    }
    answers = {**made.installation(crs=[made.resource(), moved(made.resource())]), **tenants}
    scheduler = FakeScheduler(**GOOD).serve(monkeypatch)
    monkeypatch.setattr(installations, "SyncConnection", fake_connection(answers))
    content = document.read_status(CONFIG, named, everywhere=everywhere and named is None)
    assert scheduler.asked == token_goes_to
    assert {each.namespace for each in content.instances} == ({"team-a"} if named else {NAMESPACE, "team-a"})
    assert any("in team-a: a scheduler's pod sees the token" in line for line in content.not_shown) == (not named)


def fake_connection(answers: Mapping[str, Any], refused: Collection[str] = ()) -> type[FakeConnection]:
    class Connection(FakeConnection):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__(answers, refused)

        def close(self) -> None:
            pass

    return Connection


RENEWED = [made.lease(renewed="2099-01-01T00:00:00.000000Z")]
CALLS = [
    (made.installation(leases=RENEWED), [], 0),
    (made.installation(crs=[made.resource(condition("NodesOvercommitted", "True"))], leases=RENEWED), [], 0),
    (made.installation(crs=[made.resource(condition("Degraded", "True", "ConfigInvalid"))], leases=RENEWED), [], 1),
    ({made.DEPLOYMENTS: [], made.LEASES: []}, [], 1),
]


@pytest.mark.parametrize(("answers", "refused", "code"), CALLS)
@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_the_exit_code_says_whether_all_is_well(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], refused: list[str], code: int, form: str
) -> None:
    monkeypatch.setattr(installations, "SyncConnection", fake_connection(answers, refused))
    FakeScheduler(**GOOD).serve(monkeypatch)
    monkeypatch.setattr("secondary_scheduler.cli.connecting.load_connection", lambda *_: CONFIG)
    words = ["status", "-o", form]
    done = CliRunner().invoke(app.build(words), words)
    if isinstance(done.exception, CommandError):
        assert done.exception.code == code
        assert "no scheduler is installed in namespace" in str(done.exception)
    else:
        assert done.exit_code == code, done.exception
    assert "api:6443" in done.output


def test_a_cluster_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise api_error("GET", "/version", 500, b"")

    monkeypatch.setattr(document, "read_status", fail)
    monkeypatch.setattr("secondary_scheduler.cli.connecting.load_connection", lambda *_: CONFIG)
    done = CliRunner().invoke(app.build(["status"]), ["status"])
    assert isinstance(done.exception, CommandError)
    assert str(done.exception).startswith("https://api:6443: GET /version: 500")


SHADOWED = (
    made.CONFIGURATION
    + """\
  - name: SecondarySchedulerOptions
    args: {shadow: {profile: trial}}
- schedulerName: trial
  plugins:
    score: {enabled: [{name: TargetLoadPacking, weight: 10}, {name: NodeResourcesFit, weight: 3}]}
  pluginConfig:
  - name: TargetLoadPacking
    args: {targetUtilization: 70, metricProvider: {type: Prometheus, address: "http://prometheus:9090"}}
"""
)
COUNTS = """\
secondary_scheduler_shadow_decisions_total{profile="mine",shadow="trial",outcome="sameNode"} 640
secondary_scheduler_shadow_decisions_total{profile="mine",shadow="trial",outcome="otherNode"} 170
secondary_scheduler_shadow_decisions_total{profile="mine",shadow="trial",outcome="onlyLivePlaced"} 2
secondary_scheduler_shadow_skipped_total{profile="mine",reason="queue"} 1200
"""


def shadow_of(content: StatusReport) -> ShadowStatus:
    profiles = content.instances[0].profiles
    assert isinstance(profiles, list)
    (profile,) = profiles
    assert profile.scheduler_name == "mine"
    assert profile.shadow
    return profile.shadow


def test_a_shadow_stands_beside_its_profile_with_its_differences_and_what_is_counted() -> None:
    answers = made.installation() | {made.CONFIG_MAP: {"data": {"config.yaml": SHADOWED}}}
    live = LiveState(summarize_metrics(made.METRICS + COUNTS))
    content = document_of(answers, live=live)
    assert shadow_of(content).compared == {
        "sameNode": 640,
        "otherNode": 170,
        "onlyLivePlaced": 2,
        "notCompared": 1200,
    }
    text = " ".join(" ".join(shown(content)).split())
    assert (
        "shadow trial is tried beside mine (812 decisions compared, 172 otherwise; 1,200 not compared): "
        "NodeResourcesFit enabled at score (weight 3); TargetLoadPacking targetUtilization 40 -> 70 configuration"
    ) in text


def test_what_a_shadow_counts_is_left_out_where_the_scheduler_does_not_answer() -> None:
    answers = made.installation() | {made.CONFIG_MAP: {"data": {"config.yaml": SHADOWED}}}
    content = document_of(answers, live=None)
    assert shadow_of(content).compared is None
    assert any("trial is tried beside mine: NodeResourcesFit" in line for line in shown(content))
