"""What the scheduler answers to questions about pods, its queue and nodes."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler.core import decide, explain
from scheduler.engine.allowance import FairAllowance
from scheduler.engine.attempts import AttemptPipeline
from scheduler.engine.decisions import DecisionHistory, HistoryLimits, RejectionCounts
from scheduler.engine.inspector import Inspector
from scheduler.framework import Clocks, PodInfo, WallSeconds, conclude
from scheduler.observe.answers import (
    ChosenQuestion,
    NodeQuestion,
    PodsQuestion,
    Question,
    QueueQuestion,
    UnansweredError,
)
from scheduler.state import ClusterState, SchedulingQueue
from tests.support.clock import Clock
from tests.unit.scheduler.core.builders import NOW, SOURCE, cluster, container, load, node, pod, runner
from tests.unit.scheduler.engine.fakes import Engine, eventually, started

PROFILE = runner()
ALWAYS = HistoryLimits(records=100, bytes=1 << 20, detail_share=1.0)
SMALL = {"cpu": "1", "memory": "1Gi", "pods": "10"}


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with started(Engine(history=ALWAYS)) as engine:
        yield engine


def asked(engine: Engine, question: Question) -> dict[str, Any]:
    assert engine.inspector is not None
    answer: dict[str, Any] = json.loads(msgspec.json.encode(engine.inspector.answer(question)))
    return answer


class Bench:
    """An inspector with its parts."""

    def __init__(self, state: ClusterState, clock: Clock | None = None) -> None:
        self.state, self.clock = state, clock or Clock(step=1e4)
        clocks = Clocks(lambda: WallSeconds(NOW), self.clock)
        self.queue = SchedulingQueue(clocks=clocks, sort_key=lambda queued, at: (-queued.priority, at))
        self.history = DecisionHistory(ALWAYS, clocks)
        attempts = AttemptPipeline(state, {"test": PROFILE}, random.Random(1), clocks)
        self.inspector = Inspector(self.history, self.queue, attempts, clocks)

    def ask(self, question: Question) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(msgspec.json.encode(self.inspector.answer(question)))
        return answer

    def decide(self, info: PodInfo) -> str | None:
        snapshot = self.state.snapshot(NOW)
        placement = conclude(decide(snapshot, info, PROFILE, random.Random(1)))
        self.history.decided(snapshot, placement, PROFILE)
        return placement.node


# Why not there -------------------------------------------------------------------------------------------------------


def test_a_waiting_pod_is_judged_on_the_node_as_it_is_now() -> None:
    bench = Bench(cluster(node("small", allocatable=SMALL), node("large", unschedulable=True)))
    bench.queue.add(pod("p", container("2")))
    answer = bench.ask(PodsQuestion("default", "p", 10, "small"))["whyNot"]
    assert (answer["node"], answer["placedOn"], answer["problem"]) == ("small", None, None)
    assert answer["verdict"]["rejection"]["plugin"] == "NodeResourcesFit"
    assert bench.ask(PodsQuestion("default", "p", 10))["waiting"]["now"]["feasible"] == 0


def test_a_placed_pod_is_judged_without_its_own_use_and_beside_its_node() -> None:
    placed = pod("p", container("800m"), nodeName="n0")
    bench = Bench(cluster(node("n0", allocatable=SMALL), node("n1", allocatable=SMALL), pods={"n0": [placed]}))
    verdict = bench.ask(PodsQuestion("default", "p", 10, "n1"))["whyNot"]
    assert verdict["placedOn"] == "n0"
    assert (verdict["verdict"]["rejection"], verdict["verdict"]["feasible"]) == (None, 2)
    assert [(scored["name"], scored["chosen"]) for scored in verdict["verdict"]["nodes"]] == [
        ("n1", False),
        ("n0", True),
    ]


@pytest.mark.parametrize(
    ("name", "node_name", "problem"),
    [
        ("gone", "n0", "neither waits nor has a node"),
        ("p", "n7", "no node has this name"),
        ("foreign", "n0", "belongs to another scheduler"),
    ],
)
def test_what_cannot_be_judged_says_why(name: str, node_name: str, problem: str) -> None:
    foreign = pod("foreign", schedulerName="default-scheduler")
    bench = Bench(cluster(node("n0"), pods={"n0": [pod("p"), foreign]}))
    answer = bench.ask(PodsQuestion("default", name, 10, node_name))["whyNot"]
    assert problem in answer["problem"]
    assert answer["verdict"] is None


def test_a_pod_of_the_same_name_in_another_namespace_is_another_pod() -> None:
    theirs = pod("p", container("1"), namespace="theirs", uid="theirs")
    bench = Bench(cluster(node("n0"), pods={"n0": [theirs]}))
    bench.queue.add(pod("q", namespace="theirs", uid="waits"))
    assert bench.ask(PodsQuestion("default", "p", 10, "n0"))["whyNot"]["placedOn"] is None
    assert bench.ask(PodsQuestion("default", "q", 10, "n0"))["waiting"] is None


# The queue -----------------------------------------------------------------------------------------------------------


async def test_the_queue_names_the_pods_of_a_namespace_and_counts_the_others(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("big", cpu="3")
    await eventually(lambda: bool(engine.api.patches), "rejected")
    engine.add_pod("theirs", metadata={"namespace": "other"}, cpu="3")
    await eventually(lambda: len(engine.api.patches) == 2, "rejected, too")
    engine.add_pod("gated", schedulingGates=[{"name": "wait"}])
    answer = asked(engine, QueueQuestion("ns", 10))
    queues = {shown["queue"]: shown for shown in answer["queues"]}
    assert {name: (shown["pods"], shown["readable"]) for name, shown in queues.items()} == {
        "active": (0, 0), "backoff": (0, 0), "unschedulable": (2, 1), "gated": (1, 1),
    }  # fmt: skip
    (big,) = queues["unschedulable"]["items"]
    assert (big["pod"], big["attempts"], big["rejectedBy"]) == ("ns/big", 1, ["NodeResourcesFit"])
    (gated,) = queues["gated"]["items"]
    assert gated["gate"]["plugin"] == "SchedulingGates"
    assert "theirs" not in json.dumps(answer)
    everybody = {shown["queue"]: shown for shown in asked(engine, QueueQuestion(None, 10))["queues"]}
    assert [item["pod"] for item in everybody["unschedulable"]["items"]] == ["ns/big", "other/theirs"]


def test_positions_count_all_tenants_and_the_first_are_shown() -> None:
    bench = Bench(cluster(node("n0")))
    for number, (namespace, priority) in enumerate([("a", 1), ("b", 9), ("a", 5), ("a", 0)]):
        bench.queue.add(pod(f"p{number}", namespace=namespace, priority=priority))
    active = bench.ask(QueueQuestion("a", 2))["queues"][0]
    assert (active["pods"], active["readable"]) == (4, 3)
    assert [(item["position"], item["pod"], item["priority"]) for item in active["items"]] == [
        (2, "a/p2", 5),
        (3, "a/p0", 1),
    ]


# Nodes ---------------------------------------------------------------------------------------------------------------


def test_a_node_shows_its_room_its_load_and_who_placed_its_pods_and_names_none_of_them() -> None:
    theirs = pod("secret", container("500m", "256Mi"), schedulerName="default-scheduler", namespace="theirs")
    state = cluster(
        node("n0", allocatable=SMALL, taints=[("dedicated", "batch", "NoSchedule")]),
        pods={"n0": [theirs, pod("p", container("100m"))]},
    )
    state.set_load(load({"n0": 80.0}, age=20.0))
    bench = Bench(state)
    answer = bench.ask(NodeQuestion("n0"))
    assert answer["allocatable"]["cpu"] == "1"
    assert (answer["requested"]["cpu"], answer["requested"]["memory"]) == ("600m", "256Mi")
    assert answer["pods"] == {"allowed": 10, "counted": 2, "byScheduler": {"default-scheduler": 1, "test": 1}}
    assert answer["load"][SOURCE] == {"cpu": 80.0, "memory": None, "age": 20.0}
    assert answer["taints"] == [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    assert "secret" not in json.dumps(answer)
    with pytest.raises(UnansweredError) as refused:
        bench.ask(NodeQuestion("n7"))
    assert refused.value.status == 404


def test_a_node_knows_how_often_it_was_chosen_and_who_rejected_it() -> None:
    bench = Bench(cluster(node("small", allocatable=SMALL), node("large")))
    for number in range(3):
        assert bench.decide(pod(f"p{number}", container("2"))) == "large"
    small, large = bench.ask(NodeQuestion("small")), bench.ask(NodeQuestion("large"))
    counted = small["rejected"]["decisions"]
    assert small["rejected"]["byPlugin"] == {"NodeResourcesFit": counted}
    assert counted >= 1
    assert (large["chosen"], large["rejected"]["byPlugin"]) == ({"decisions": 3, "times": 3}, {})
    chosen = bench.ask(ChosenQuestion("large", 2))["items"]
    assert [item["pod"] for item in chosen] == ["default/p2", "default/p1"]
    assert bench.ask(ChosenQuestion("small", 2))["items"] == []


def test_rejections_are_counted_by_plugin_and_forgotten_with_their_node() -> None:
    state = cluster(node("small", allocatable=SMALL), node("closed", unschedulable=True), node("free"))
    counts = RejectionCounts()

    def note(info: PodInfo) -> None:
        snapshot = state.snapshot(NOW)
        counts.note(snapshot, explain(snapshot, info, PROFILE))

    def of(name: str) -> tuple[int, dict[str, int]]:
        snapshot = state.snapshot(NOW)
        return counts.of(snapshot, snapshot.row(name))

    note(pod("p", container("2")))
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["free"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [fields]}}
    note(pod("q", container("2"), affinity={"nodeAffinity": required}))
    note(pod("r", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]))
    assert of("small") == (3, {"NodeResourcesFit": 1, "NodeAffinity": 1, "VolumeRestrictions": 1})
    assert of("closed") == (3, {"NodeUnschedulable": 1, "NodeAffinity": 1, "VolumeRestrictions": 1})
    assert of("free") == (3, {"VolumeRestrictions": 1})
    state.remove_node("small")
    state.upsert_node(node("takes-its-row"))
    assert of("takes-its-row") == (3, {})
    assert of("closed")[1]["NodeUnschedulable"] == 1


def test_old_rejections_are_left_behind() -> None:
    state = cluster(node("small", allocatable=SMALL), node("free"))
    counts = RejectionCounts()
    snapshot = state.snapshot(NOW)
    explained = explain(snapshot, pod("p", container("2")), PROFILE)
    for _ in range(2300):
        counts.note(snapshot, explained)
    decisions, by_plugin = counts.of(snapshot, snapshot.row("small"))
    assert 500 <= decisions <= 1000
    assert by_plugin == {"NodeResourcesFit": decisions}


# What asking costs ---------------------------------------------------------------------------------------------------


def test_an_asker_that_never_stops_takes_half_and_leaves_the_rest_to_others() -> None:
    clock = Clock()
    allowance = FairAllowance(share=0.04, burst=0.4, clock=clock)
    hostile = other = 0.0
    for number in range(10_000):
        clock.now += 0.01
        if allowance.available("hostile"):
            allowance.spend("hostile", 0.005)
            hostile += 0.005
        if number % 100 == 0:
            assert allowance.available("other")
            allowance.spend("other", 0.005)
            other += 0.005
    # A hundred seconds went by, of which all askers may take 4 %, and what was saved up.
    assert 1.9 < hostile <= 2.0 + 0.2 + 0.005
    assert other == pytest.approx(0.5)


def test_who_asked_too_much_is_refused_and_may_ask_again_later() -> None:
    bench = Bench(cluster(node("n0")), Clock())
    allowance = bench.inspector._allowance
    assert allowance.available("shop")
    allowance.spend("shop", 1.5)
    with pytest.raises(UnansweredError) as refused:
        bench.ask(QueueQuestion("shop", 10))
    assert refused.value.status == 429
    bench.ask(QueueQuestion("other", 10))
    bench.clock.now += 600
    bench.ask(QueueQuestion("shop", 10))


def test_askers_that_are_remembered_are_limited_in_number() -> None:
    allowance = FairAllowance(share=0.04, burst=0.4, clock=Clock())
    for number in range(1000):
        assert allowance.available(f"asker-{number}")
    assert len(allowance) <= 256


def test_a_pod_deep_in_the_queue_knows_its_place() -> None:
    bench = Bench(cluster(node("n0")))
    for number in range(50):
        bench.queue.add(pod(f"p{number}", priority=number))
    waiting = bench.ask(PodsQuestion("default", "p0", 10))["waiting"]
    assert (waiting["queue"], waiting["podsAhead"], waiting["priority"]) == ("active", 49, 0)
