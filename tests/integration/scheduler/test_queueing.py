"""Which waiting pod is tried when, and which event wakes it.

After every step of a scenario our daemon must have placed, rejected and told the same as the real kube-scheduler on
the same API server, in as many attempts.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import releases
from tests.conformance.apiclient import Api
from tests.integration.scheduler.preemption import OURS
from tests.integration.scheduler.queueing import (
    ELSEWHERE,
    HOSTNAME,
    NAMESPACE,
    REAL,
    SELECTED,
    ZONE,
    QueueStage,
    State,
    Step,
    claim,
    create,
    csi_node,
    delete,
    node,
    patch,
    pause,
    pod,
    queue_stage_running,
    storage_class,
    using,
    volume,
)

pytestmark = [pytest.mark.integration]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_GATES = [{"name": "example.com/one"}, {"name": "example.com/two"}]
_TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
_PORT = [{"containerPort": 80, "hostPort": 8080}]


def _near(app: str, key: str = HOSTNAME, **more: Any) -> dict[str, Any]:
    return {"podAffinity": {_REQUIRED: [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}]}}


def _away(app: str, key: str = HOSTNAME) -> dict[str, Any]:
    return {"podAntiAffinity": {_REQUIRED: [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]}}


def _spread(key: str = ZONE, app: str = "web") -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
    ]


def _labels(kind: str, name: str, namespace: str = "queue-a", **labels: str | None) -> Step:
    return patch(kind, name, {"metadata": {"labels": labels}}, namespace=namespace)


def _gates(name: str, *left: dict[str, str]) -> Step:
    return patch("Pod", name, {"spec": {"schedulingGates": list(left)}})


def _capacity(name: str, **amounts: str) -> Step:
    return patch("Node", name, {"status": {"allocatable": amounts, "capacity": amounts}}, "status")


def _bind_claim(name: str, to: str) -> Step:
    async def act(api: Api, scheduler: str) -> None:
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        body = {"metadata": {"annotations": bound}, "spec": {"volumeName": to}}
        await patch("PersistentVolumeClaim", name, body)(api, scheduler)
        await patch("PersistentVolumeClaim", name, {"status": {"phase": "Bound"}}, "status")(api, scheduler)

    return act


SCENARIOS: dict[str, list[Step]] = {
    # Order --------------------------------------------------------------------------------------------------------
    "the more important first, then who came first, as room is made": [
        create(node("n1", "1"), pod("f", "1", on="n1")),
        create(*(pod(f"p{number}", "1", priority=name) for number, name in enumerate(["low", "mid", "low", "high"]))),
        pause(2.5),
        *(delete("Pod", name) for name in ("f", "p3", "p1", "p0")),
    ],
    "one node comes, the most important pod gets it": [
        create(node("n1", "500m")),
        create(pod("a", "1", priority="low"), pod("b", "1", priority="high"), pod("c", "1", priority="mid")),
        pause(2.5),
        create(node("n2", "1")),
        create(node("n3", "1")),
    ],
    "pods of equal importance keep their order over attempts": [
        create(node("n1", "1"), pod("f", "1", on="n1"), pod("g", "100m", on="n1")),
        create(pod("b", "1"), pod("a", "1")),
        pause(2.5),
        delete("Pod", "g"),
        pause(3.5),
        delete("Pod", "f"),
    ],
    "gated pods are not tried, and come when their last gate falls": [
        create(node("n1", "1"), pod("g", "1", schedulingGates=_GATES), pod("h", "1", schedulingGates=_GATES)),
        _gates("g", _GATES[1]),
        _gates("h"),
        _gates("g"),
        delete("Pod", "h"),
    ],
    "no event wakes a gated pod": [
        create(node("n1", "500m"), pod("g", "1", schedulingGates=_GATES)),
        create(node("n2", "2")),
        _labels("Pod", "g", app="web"),
        _gates("g"),
    ],
    "a pod that went is forgotten, its namesake is another": [
        create(node("n1", "1"), pod("f", "1", on="n1")),
        create(pod("p", "1")),
        delete("Pod", "p"),
        delete("Pod", "f"),
        create(pod("p", "1")),
    ],
    # Resources ----------------------------------------------------------------------------------------------------
    "a node wakes a pod that would fit on it": [
        create(node("n1", "1")),
        create(pod("p", "3")),
        create(node("n2", "2")),
        create(node("n3", "4")),
    ],
    "any pod that leaves is a chance": [
        create(node("n1", "1"), node("n2", "1"), pod("f", "1", on="n1"), pod("g", "500m", on="n2")),
        create(pod("h", "500m", on="n2")),
        create(pod("p", "1")),
        delete("Pod", "g"),
        pause(2.5),
        delete("Pod", "h"),
    ],
    "more of the resource that is asked for": [
        create(node("n1", "1")),
        create(pod("p", "2")),
        _capacity("n1", memory="32Gi"),
        _capacity("n1", cpu="1500m"),
        _capacity("n1", cpu="2"),
    ],
    "room for one pod more": [
        create(node("n1", "1")),
        _capacity("n1", pods="1"),
        create(pod("f", on="n1")),
        create(pod("p")),
        _capacity("n1", pods="2"),
    ],
    "a running pod asks for less": [
        create(node("n1", "1"), pod("f", "900m", on="n1")),
        create(pod("p", "500m")),
        patch(
            "Pod",
            "f",
            {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}},
            "resize",
        ),
    ],
    "heartbeats and conditions wake nobody": [
        create(node("n1", "1")),
        create(pod("p", "2")),
        patch("Node", "n1", {"metadata": {"annotations": {"a": "b"}}}),
        patch(
            "Node", "n1", {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]}}, "status"
        ),
    ],
    "a host port that gets free": [
        create(node("n1"), pod("f", on="n1", ports=_PORT), pod("g", on="n1")),
        create(pod("p", ports=_PORT)),
        delete("Pod", "g"),
        delete("Pod", "f"),
    ],
    # Nodes' labels and taints ----------------------------------------------------------------------------------------
    "a label that is selected": [
        create(node("n1"), node("n2")),
        create(pod("p", nodeSelector={"disk": "ssd"})),
        _labels("Node", "n1", disk="hdd"),
        _labels("Node", "n2", disk="ssd"),
    ],
    "a taint that goes": [
        create(node("n1", taints=(_TAINT, {**_TAINT, "key": "other"}))),
        create(pod("p")),
        patch("Node", "n1", {"spec": {"taints": [_TAINT]}}),
        patch("Node", "n1", {"spec": {"taints": []}}),
    ],
    "a node that is opened": [
        create(node("n1") | {"spec": {"unschedulable": True}}, node("n2") | {"spec": {"unschedulable": True}}),
        create(pod("p")),
        _labels("Node", "n1", some="label"),
        patch("Node", "n2", {"spec": {"unschedulable": None}}),
    ],
    "a toleration that is added": [
        create(node("n1", taints=(_TAINT,))),
        create(pod("p")),
        _labels("Pod", "p", some="label"),
        patch("Pod", "p", {"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}}),
    ],
    # Other pods ---------------------------------------------------------------------------------------------------
    "the pod it wants to be near arrives": [
        create(node("n1"), node("n2")),
        create(pod("p", affinity=_near("db"))),
        create(pod("x", on="n1", labels={"app": "web"})),
        create(pod("y", on="n2", labels={"app": "db"})),
    ],
    "a pod takes the label it wants to be near": [
        create(node("n1"), node("n2"), pod("x", on="n1"), pod("y", on="n2")),
        create(pod("p", affinity=_near("db"))),
        _labels("Pod", "x", app="web"),
        _labels("Pod", "y", app="db"),
    ],
    "two that wait for each other's company are placed by the third": [
        create(node("n1"), node("n2")),
        create(pod("a", affinity=_near("b"), labels={"app": "a"}), pod("b", affinity=_near("c"), labels={"app": "b"})),
        create(pod("c", labels={"app": "c"}, nodeSelector={HOSTNAME: "n2"})),
    ],
    "the pod it wants to be away from leaves": [
        create(node("n1"), node("n2"), *(pod(f"x-{name}", on=name, labels={"app": "web"}) for name in ("n1", "n2"))),
        create(pod("y", on="n1")),
        create(pod("p", affinity=_away("web"))),
        delete("Pod", "y"),
        delete("Pod", "x-n2"),
    ],
    "the pod it wants to be away from loses its label": [
        create(node("n1"), pod("x", on="n1", labels={"app": "web"})),
        create(pod("p", affinity=_away("web"))),
        _labels("Pod", "x", some="label"),
        _labels("Pod", "x", app=None),
    ],
    "a node in another zone for a pod that wants to be away": [
        create(node("n1", zone="a"), pod("x", on="n1", labels={"app": "web"})),
        create(pod("p", affinity=_away("web", ZONE))),
        create(node("n2", zone="a")),
        create(node("n3", zone="b")),
    ],
    "spreading: another domain gets its share": [
        create(node("n1", "4", zone="a"), node("n2", "200m", zone="b"), pod("x", on="n1", labels={"app": "web"})),
        create(pod("p", "500m", labels={"app": "web"}, topologySpreadConstraints=_spread())),
        create(pod("y", on="n2", labels={"app": "db"})),
        create(pod("z", on="n2", labels={"app": "web"})),
    ],
    "spreading: a domain vanishes with its node": [
        create(node("n1", "4", zone="a"), node("n2", "200m", zone="b"), pod("x", on="n1", labels={"app": "web"})),
        create(pod("p", "500m", labels={"app": "web"}, topologySpreadConstraints=_spread())),
        delete("Node", "n2"),
    ],
    "spreading: a pod of the fuller domain leaves": [
        create(node("n1", "4", zone="a"), node("n2", "200m", zone="b"), pod("x", on="n1", labels={"app": "web"})),
        create(pod("p", "500m", labels={"app": "web"}, topologySpreadConstraints=_spread())),
        delete("Pod", "x"),
    ],
    "spreading: the pod itself no longer counts": [
        create(node("n1", "4", zone="a"), node("n2", "200m", zone="b"), pod("x", on="n1", labels={"app": "web"})),
        create(pod("p", "500m", labels={"app": "web"}, topologySpreadConstraints=_spread())),
        _labels("Pod", "p", some="label"),
        _labels("Pod", "p", app="db"),
    ],
    "a nominated pod keeps its place until it goes": [
        create(node("n1", "2"), pod("v", "2", on="n1", priority="low", terminationGracePeriodSeconds=30)),
        create(pod("p", "2", priority="eager")),
        create(pod("q", "1", priority="mid")),
        pause(2.5),
        delete("Pod", "p"),
        pause(2.5),
        delete("Pod", "v"),
    ],
    # Volumes ------------------------------------------------------------------------------------------------------
    "the claim appears": [
        create(node("n1"), volume("v1", claimed_by="c1"), volume("v2", claimed_by="c2")),
        create(pod("p", **using("c1"))),
        create(claim("c2", volume="v2")),
        create(claim("c1", volume="v1")),
    ],
    "a volume for the claim appears": [
        create(node("n1"), node("n2"), storage_class("fast"), storage_class("slow"), claim("c1", "fast")),
        create(pod("p", **using("c1"))),
        create(volume("v1", "slow", host="n1")),
        create(volume("v2", "fast", host="n2")),
        _bind_claim("c1", "v2"),
    ],
    "the class of the claim appears": [
        create(node("n1"), claim("c1", "fast")),
        create(pod("p", **using("c1"))),
        create(storage_class("slow")),
        create(storage_class("fast", "driver.example.com")),
    ],
    "a claim that one pod at a time may use": [
        create(
            node("n1"),
            volume("v1", claimed_by="c1", mode="ReadWriteOncePod"),
            claim("c1", volume="v1", mode="ReadWriteOncePod"),
            pod("x", on="n1", **using("c1")),
            pod("y", on="n1"),
        ),
        create(pod("p", **using("c1"))),
        delete("Pod", "y"),
        delete("Pod", "x"),
    ],
    "a volume leaves a node that takes no more": [
        create(
            node("n1"),
            csi_node("n1", 1),
            *(volume(f"v{number}", claimed_by=f"c{number}", driver="driver.example.com") for number in (1, 2)),
            *(claim(f"c{number}", volume=f"v{number}") for number in (1, 2)),
            pod("x", on="n1", **using("c1")),
            pod("y", on="n1"),
        ),
        create(pod("p", **using("c2"))),
        delete("Pod", "y"),
        delete("Pod", "x"),
    ],
}
_SPARED: dict[str, list[Step]] = {
    # It is tried on the node that its claim names, until the provisioner of the volume gives that up.
    "the node of a pod that waits for its volume is taken": [
        create(node("big"), storage_class("late", "driver.example.com"), claim("c1", "late")),
        create(pod("victim", "1", priority="low", **using("c1"))),
        create(node("small", "1")),
        create(pod("p", "1500m", priority="eager")),
        pause(2.5),
        patch("PersistentVolumeClaim", "c1", {"metadata": {"annotations": {SELECTED: None}}}),
    ],
}

QUICK = {
    "one node comes, the most important pod gets it",
    "gated pods are not tried, and come when their last gate falls",
    "a node wakes a pod that would fit on it",
    "two that wait for each other's company are placed by the third",
    "spreading: a domain vanishes with its node",
}
"""Played in every run of the tests; the others in the long ones."""
BACKS_OFF = {"a volume for the claim appears"}
"""An attempt comes after a back-off of a second, during which nothing can be seen. How many there are follows from
which of several watches is first, for either scheduler: only a machine that is not busy gives the same number twice."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[QueueStage, asyncio.Runner]]:
    directory: Path = tmp_path_factory.mktemp("daemon")
    with queue_stage_running(directory) as running:
        yield running


def _first_difference(real: list[State], ours: list[State]) -> str:
    for number, (expected, other) in enumerate(zip(real, ours, strict=False)):
        if expected != other:
            return f"after step {number}:\n  real {expected}\n  ours {other}"
    return ""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SCENARIOS]
)
def test_waiting_pods_fare_as_with_kube_scheduler(stage: tuple[QueueStage, asyncio.Runner], name: str) -> None:
    play, runner = stage
    steps = SCENARIOS[name]
    difference = ""
    # A busy machine may make either late: who is asked once more gets more time.
    for patience in (3.0, 10.0, 30.0) if name in BACKS_OFF else (1.0, 3.0, 10.0, 30.0):
        real = runner.run(play.play(steps, REAL, patience=patience))
        ours = runner.run(play.play(steps, OURS, real, patience=patience))
        difference = _first_difference(real, ours)
        if not difference:
            return
    pytest.fail(difference)


@pytest.mark.slow
@pytest.mark.skipif(
    int(releases.chosen().partition(".")[2]) < 36, reason="kube-scheduler deletes victims that it binds, up to 1.35"
)
@pytest.mark.parametrize("name", _SPARED)
def test_victims_that_are_not_bound_yet_fare_as_with_kube_scheduler(
    stage: tuple[QueueStage, asyncio.Runner], name: str
) -> None:
    play, runner = stage
    real = runner.run(play.play(_SPARED[name], REAL, patience=3.0))
    ours = runner.run(play.play(_SPARED[name], OURS, real, patience=3.0))
    assert not _first_difference(real, ours)
    assert "victim" in real[-1].conditions, "it was not deleted"


def _gaps(attempts: list[tuple[str, float, bool]]) -> list[float]:
    moments = [moment for _, moment, _ in attempts]
    # Over midnight the clock starts over.
    return [(after - before) % 86_400 for before, after in itertools.pairwise(moments)]


def test_a_pod_that_backs_off_is_tried_when_there_is_nothing_else_to_do(
    stage: tuple[QueueStage, asyncio.Runner],
) -> None:
    play, runner = stage
    steps = [create(node("n1", "1"), pod("f", "1", on="n1")), _one_after_the_other("p", "f")]
    for scheduler in (REAL, OURS):
        waits = []
        for _ in range(3):
            runner.run(play.play(steps, scheduler))
            attempts = play.attempts(scheduler)
            assert [bound for _, _, bound in attempts] == [False, True]
            waits += _gaps(attempts)
        # After its back-off it would be a second at the least.
        assert min(waits) < 0.9, f"{scheduler}: {waits}"


def _one_after_the_other(waiting: str, leaving: str) -> Step:
    """A pod comes, is rejected, and at once another one makes room."""

    async def act(api: Api, scheduler: str) -> None:
        await create(pod(waiting, "1"))(api, scheduler)
        item = {"kind": "Pod", "metadata": {"name": waiting, "namespace": NAMESPACE}}
        while not (await api.get(item)).get("status", {}).get("conditions"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await delete("Pod", leaving)(api, scheduler)

    return act


@pytest.mark.slow
def test_after_errors_a_pod_waits_longer_each_time(stage: tuple[QueueStage, asyncio.Runner]) -> None:
    """Without any node an attempt ends in an error, which nothing but time mends: 1, 2, 4, 8 seconds."""
    play, runner = stage
    for scheduler in (REAL, OURS):
        runner.run(play.play([create(pod("p")), pause(20)], scheduler))
        gaps = _gaps(play.attempts(scheduler))[:4]
        assert len(gaps) == 4, f"{scheduler}: {gaps}"
        # Back-off ends with a whole second, and is looked at each second.
        for gap, least in zip(gaps, (1, 2, 4, 8), strict=True):
            assert least - 0.1 <= gap <= least + 2.1, f"{scheduler}: {gaps}"


_TEAM_B = {"namespaceSelector": {"matchLabels": {"team": "b"}}}
_FORGOTTEN: dict[str, list[Step]] = {
    "a pod that only a selector of namespaces means": [
        _labels("Namespace", ELSEWHERE, team="b"),
        create(node("n1")),
        create(pod("p", affinity=_near("db", **_TEAM_B))),
        create(pod("x", on="n1", labels={"app": "db"}, namespace=ELSEWHERE)),
    ],
    "a namespace that takes the label": [
        create(node("n1"), pod("x", on="n1", labels={"app": "db"}, namespace=ELSEWHERE)),
        create(pod("p", affinity=_near("db", **_TEAM_B))),
        _labels("Namespace", ELSEWHERE, team="b"),
    ],
    "the leaving of a pod that kept it away": [
        create(node("n1"), pod("x", on="n1", affinity=_away("web"))),
        create(pod("p", labels={"app": "web"})),
        delete("Pod", "x"),
    ],
    "a change of its own labels": [
        create(node("n1"), pod("x", on="n1", affinity=_away("web"))),
        create(pod("p", labels={"app": "web"})),
        _labels("Pod", "p", app="db"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _FORGOTTEN)
def test_what_kube_scheduler_forgets_to_wake_is_woken(stage: tuple[QueueStage, asyncio.Runner], name: str) -> None:
    play, runner = stage
    real = runner.run(play.play(_FORGOTTEN[name], REAL, patience=2.0))
    ours = runner.run(play.play(_FORGOTTEN[name], OURS, patience=2.0))
    assert real[:-1] == ours[:-1]
    assert (real[-1].conditions["p"][:13], ours[-1].conditions["p"]) == ("Unschedulable", "scheduled")


@pytest.mark.slow
def test_a_port_that_two_pods_have_is_taken_until_both_are_gone(stage: tuple[QueueStage, asyncio.Runner]) -> None:
    """Upstream keeps used ports as a set, and forgets the second pod's with the first."""
    play, runner = stage
    steps = [
        create(node("n1"), pod("x", on="n1", ports=_PORT), pod("y", on="n1", ports=_PORT)),
        create(pod("p", ports=_PORT)),
        delete("Pod", "x"),
        delete("Pod", "y"),
    ]
    bound = {
        scheduler: ["p" in state.bound for state in runner.run(play.play(steps, scheduler, patience=2.0))]
        for scheduler in (REAL, OURS)
    }
    assert bound == {REAL: [False, False, True, True], OURS: [False, False, False, True]}
