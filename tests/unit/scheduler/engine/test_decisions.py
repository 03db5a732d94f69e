"""The history of decisions, on a live engine and by itself."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler.answers import HistoryCoverage
from scheduler.core import PostFilterOutcome, decide
from scheduler.engine import decisions as decisions_module
from scheduler.engine.decisions import DecisionHistory, HistoryLimits
from scheduler.engine.failures import SCHEDULER_ERROR, UNSCHEDULABLE, AttemptFailure
from scheduler.framework import Clocks, MonotonicSeconds, PodInfo, Reads, WallSeconds, conclude
from scheduler.kube.client.errors import api_error
from scheduler.kube.model import EventType
from scheduler.observe.answers import PodsQuestion
from scheduler.plugins.imagelocality import ImageLocality
from scheduler.plugins.nodename import NodeName
from scheduler.state import QueuedPod
from tests.support.clock import Clock
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.engine.fakes import Engine, eventually, started

PROFILE = runner()
ALWAYS = HistoryLimits(records=100, bytes=1 << 20, detail_share=1.0)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with started(Engine(history=ALWAYS)) as engine:
        yield engine


def shown(engine: Engine, **query: Any) -> dict[str, Any]:
    assert engine.inspector is not None
    question = PodsQuestion(query.get("namespace"), query.get("pod"), 100)
    answer: dict[str, Any] = json.loads(msgspec.json.encode(engine.inspector.answer(question)))
    return answer


async def test_a_bound_pod_has_its_node_and_the_scores_of_the_best(engine: Engine) -> None:
    engine.add_node("small", cpu="1")
    engine.add_node("large", cpu="8")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.bindings), "bound")
    (decision,) = shown(engine, namespace="ns", pod="p")["items"]
    assert (decision["pod"], decision["result"], decision["node"]) == ("ns/p", "scheduled", engine.api.bindings[0][2])
    assert (decision["attempt"], decision["evaluatedNodes"], decision["feasibleNodes"]) == (1, 2, 2)
    nodes = decision["details"]["nodes"]
    assert [scored["name"] for scored in nodes if scored["chosen"]] == [decision["node"]]
    assert nodes[0]["total"] == decision["total"] == sum(score["weighted"] for score in nodes[0]["scores"].values())


async def test_a_pod_that_fits_nowhere_says_where_it_waits_and_what_would_wake_it(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("big", cpu="3")
    await eventually(lambda: bool(engine.api.patches), "rejected")
    answer = shown(engine, namespace="ns", pod="big")
    (decision,) = answer["items"]
    assert (decision["result"], decision["node"], decision["queue"]) == ("unschedulable", None, "unschedulable")
    assert decision["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert decision["details"]["rejected"][0] == {
        "plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 1, "examples": ["n1"],
    }  # fmt: skip
    waiting = answer["waiting"]
    assert (waiting["queue"], waiting["attempts"], waiting["rejectedBy"]) == ("unschedulable", 1, ["NodeResourcesFit"])
    assert "Node/Add" in waiting["wokenBy"]["NodeResourcesFit"]
    assert waiting["now"]["rejected"] == decision["details"]["rejected"]


async def test_a_refused_binding_is_an_error_with_its_reason(engine: Engine) -> None:
    answer = json.dumps({"kind": "Status", "message": "a webhook said no"}).encode()
    engine.api.failures = [api_error("POST", "/x", 403, answer)]
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.patches), "the pod's condition")
    decision = shown(engine)["items"][-1]
    assert (decision["result"], decision["node"], decision["queue"]) == ("error", None, "backoff")
    assert "a webhook said no" in decision["message"]


def history(limits: HistoryLimits, clock: Clock | None = None) -> DecisionHistory:
    clocks = Clocks(lambda: WallSeconds(NOW), (clock or Clock()))
    return DecisionHistory(limits, clocks)


def record(decisions: DecisionHistory, info: PodInfo) -> None:
    snapshot = cluster(node("n0"), node("n1")).snapshot(NOW)
    decisions.decided(snapshot, conclude(decide(snapshot, info, PROFILE, random.Random(1))), PROFILE)


def named(decisions: DecisionHistory, **query: Any) -> list[str]:
    return [item.pod for item in decisions.show(**query).items]


def test_the_oldest_are_dropped_beyond_the_number_and_the_memory() -> None:
    three = history(HistoryLimits(records=3, bytes=1 << 20, detail_share=0.0))
    for index in range(5):
        record(three, pod(f"p{index}", container("1")))
    assert named(three) == ["default/p4", "default/p3", "default/p2"]
    assert named(three, limit=1) == ["default/p4"]
    small = history(HistoryLimits(records=1000, bytes=10_000, detail_share=1.0), Clock(step=1e6))
    for index in range(50):
        record(small, pod(f"p{index}", container("1")))
    assert 0 < small.size <= 10_000
    assert 1 <= len(small) < 10
    assert named(small)[0] == "default/p49"


def test_details_take_a_share_of_the_time_and_no_more() -> None:
    clock = Clock()
    decisions = history(HistoryLimits(records=2000, bytes=1 << 30, detail_share=1e-9), clock)
    record(decisions, pod("first", container("1")))
    assert decisions.show(limit=1).items[0].details is not None
    # What a calm period saves up is spent at last; at this share nothing is earned meanwhile.
    index = 0
    while decisions.show(limit=1).items[0].details is not None:
        record(decisions, pod(f"p{index}", container("1")))
        index += 1
    record(decisions, pod("later", container("1")))
    assert decisions.show(limit=1).items[0].details is None
    clock.now += 1e9
    record(decisions, pod("much-later", container("1")))
    assert decisions.show(limit=1).items[0].details is not None


def test_while_pods_wait_details_take_a_share_of_the_time_that_the_process_gets() -> None:
    storm, used = [True], Clock()
    limits = HistoryLimits(records=2000, bytes=1 << 30, detail_share=0.01, processor_time=used)
    clocks = Clocks(lambda: WallSeconds(NOW), Clock(step=1e6))
    decisions = DecisionHistory(limits, clocks, lambda: storm[0])

    def details_of(name: str, number: int) -> int:
        for index in range(number):
            record(decisions, pod(f"{name}-{index}", container("1")))
        return sum(item.details is not None for item in decisions.show(limit=number).items)

    assert details_of("first", 10) >= 1
    # However much time goes by: this process gets none of it, and what it saved up is spent at last.
    rounds = 0
    while details_of(f"many-{rounds}", 100):
        rounds += 1
    assert details_of("more", 50) == 0
    used.now += 1e9
    assert details_of("gets-time", 10) >= 1
    storm[0] = False
    assert details_of("calm", 10) == 10


def test_pods_that_come_in_a_stream_share_details_by_the_time_that_the_process_gets() -> None:
    clock, used = Clock(), Clock()
    limits = HistoryLimits(records=2000, bytes=1 << 30, detail_share=0.01, processor_time=used)
    decisions = DecisionHistory(limits, Clocks(lambda: WallSeconds(NOW), clock))

    def details_of(number: int, *, apart: float) -> int:
        for index in range(number):
            clock.now += apart
            record(decisions, pod(f"p{index}", container("1")))
        return sum(item.details is not None for item in decisions.show(limit=number).items)

    # Nobody waits, yet each comes 10 ms after the one before, and the process gets no time in between.
    while details_of(100, apart=0.01):
        pass
    # One that comes later has the share of all the time that went by.
    assert details_of(10, apart=100.0) == 10


def test_bursts_of_a_hundred_pods_have_details_and_a_storm_pays_for_them_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, used, waiting = Clock(), Clock(), [0]
    # What details take is their own time, and not that of a busy machine.
    monkeypatch.setattr(decisions_module.time, "thread_time", Clock(step=0.0004))
    limits = HistoryLimits(records=5000, bytes=1 << 30, detail_share=0.01, processor_time=used)
    clocks = Clocks(lambda: WallSeconds(NOW), clock)
    decisions = DecisionHistory(limits, clocks, lambda: waiting[0] > 0)

    def details_of_burst(number: int) -> int:
        for index in range(number):
            waiting[0] = number - index - 1
            clock.now += 0.001
            record(decisions, pod(f"p{index}", container("1")))
        return sum(item.details is not None for item in decisions.show(limit=number).items)

    for _ in range(3):
        # The process uses next to no time in between, so its share of that brings nothing.
        assert details_of_burst(100) == 100
        clock.now += 10.0
    used.now += 1.0
    storm = details_of_burst(2000)
    assert 100 <= storm < 200
    # The share pays back first what the burst took beyond it.
    assert details_of_burst(500) == 0


def test_where_details_are_dear_a_burst_has_fewer_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Clock(step=0.1)
    monkeypatch.setattr(decisions_module.time, "thread_time", processor)
    decisions = history(HistoryLimits(1000, 1 << 30, 0.01, Clock()), Clock(step=0.001))
    for index in range(100):
        record(decisions, pod(f"p{index}", container("1")))
    items = decisions.show(limit=100).items
    assert 1 <= sum(item.details is not None for item in items) <= 5


def test_without_a_share_not_even_a_burst_has_details() -> None:
    decisions = history(HistoryLimits(records=100, bytes=1 << 30, detail_share=0.0))
    record(decisions, pod("p", container("1")))
    assert decisions.show().items[0].details is None


def test_victims_of_other_namespaces_are_counted_and_not_named() -> None:
    decisions = history(ALWAYS)
    preemptor = pod("p", container("1"))
    record(decisions, preemptor)
    victims = [pod("theirs", namespace="theirs"), pod("ours")]
    decisions.post_filtered(preemptor, PostFilterOutcome("preempted", "n0", tuple(victims)))
    everywhere, own = decisions.show().items[0], decisions.show(namespace="default").items[0]
    assert (everywhere.victims, everywhere.victim_count) == (("default/ours", "theirs/theirs"), 2)
    assert (own.victims, own.victim_count) == (("default/ours",), 2)


def test_a_namespace_shows_its_own_pods_only() -> None:
    decisions = history(ALWAYS)
    record(decisions, pod("p", container("1")))
    record(decisions, pod("p", container("1"), namespace="other", uid="another"))
    assert named(decisions, namespace="other") == ["other/p"]
    assert named(decisions, namespace="default", pod="q") == []
    assert named(decisions) == ["other/p", "default/p"]


def test_the_details_of_a_plugin_that_raises_cost_no_decision() -> None:
    snapshot = cluster(node("n0"), node("n1")).snapshot(NOW)
    placement = conclude(decide(snapshot, pod("p", container("1")), PROFILE, random.Random(1)))

    class Broken:
        """Fails whatever it is asked."""

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("a defect")

    decisions = history(ALWAYS)
    decisions.decided(snapshot, placement, Broken())  # type: ignore[arg-type]
    assert decisions.show().items[0].details is None


def waiting_pod(info: PodInfo, attempts: int) -> QueuedPod:
    return QueuedPod(info, WallSeconds(NOW), MonotonicSeconds(100.0), attempts)


def test_an_attempt_that_ends_before_a_decision_leaves_the_one_before_as_it_was() -> None:
    decisions = history(ALWAYS)
    info = pod("p", container("1"))
    record(decisions, info)
    decisions.failed(waiting_pod(info, 1), AttemptFailure("no room", UNSCHEDULABLE), "unschedulable")
    decisions.failed(waiting_pod(info, 2), AttemptFailure("the attempt raised ValueError", SCHEDULER_ERROR), "backoff")
    latest, first = decisions.show().items
    assert (first.attempt, first.result, first.message) == (1, "unschedulable", "no room")
    assert (latest.attempt, latest.result, latest.message) == (2, "error", "the attempt raised ValueError")
    assert latest.details is None


async def test_a_pod_that_meets_no_nodes_is_remembered(engine: Engine) -> None:
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.patches), "rejected")
    (decision,) = shown(engine, namespace="ns", pod="p")["items"]
    assert (decision["attempt"], decision["message"]) == (1, "no nodes available to schedule pods")


def test_of_several_decisions_in_one_attempt_the_last_counts() -> None:
    decisions = history(ALWAYS)
    info = pod("member", container("1"))
    record(decisions, info)
    record(decisions, info)
    (only,) = decisions.show().items
    assert (only.attempt, only.result) == (None, "binding")
    decisions.not_tried(info.uid)
    assert decisions.show().items == ()
    assert decisions.size == 0


def test_what_follows_a_decision_counts_towards_the_memory() -> None:
    decisions = history(ALWAYS)
    info = pod("p", container("1"))
    record(decisions, info)
    before = decisions.size
    decisions.post_filtered(info, PostFilterOutcome("preempted", "n0", tuple(pod("v" * 250) for _ in range(30))))
    assert decisions.size >= before + 20 * 250
    grown = decisions.size
    decisions.failed(waiting_pod(info, 1), AttemptFailure("\N{SNOWMAN}" * 5000, UNSCHEDULABLE), "unschedulable")
    # Two bytes per character, and the first 2,000 characters are kept.
    assert grown + 4000 <= decisions.size < grown + 4200


async def test_a_pod_that_goes_while_its_binding_fails_ends_without_a_node(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete_and_refuse(path: str, body: Any, *args: Any, **more: Any) -> bytes:
        engine.pods.apply([(EventType.DELETED, info)])
        raise api_error("POST", path, 404, b"")

    monkeypatch.setattr(engine.api, "post", delete_and_refuse)
    engine.add_node("n1")
    info = engine.add_pod("p")
    await eventually(lambda: [item["attempt"] for item in shown(engine)["items"]] == [1], "the attempt has ended")
    (decision,) = shown(engine)["items"]
    assert (decision["node"], decision.get("queue")) == (None, None)


@pytest.mark.parametrize(("details", "calls"), [(1.0, 2), (0.0, 1)])
async def test_details_ask_a_plugin_once_more_in_the_same_attempt(
    monkeypatch: pytest.MonkeyPatch, details: float, calls: int
) -> None:
    """docs/writing-a-plugin.md tells authors so."""
    points: list[str] = []

    def count(plugin: type[Any], point: str) -> None:
        """Have a plugin without a rule, as a first one of somebody's own is, count its calls."""
        asks = getattr(plugin, point)

        def counting(*args: Any) -> Any:
            points.append(point)
            return asks(*args)

        monkeypatch.setattr(plugin, point, counting)
        monkeypatch.setattr(plugin, f"{point}_rule", lambda *_: Reads.ANYTHING)

    count(NodeName, "filter")
    count(ImageLocality, "score")
    async with started(Engine(history=HistoryLimits(records=100, bytes=1 << 20, detail_share=details))) as engine:
        engine.add_node("n1")
        engine.add_node("n2")
        engine.add_pod("p", containers=[{"name": "c", "image": "i"}])
        await eventually(lambda: bool(engine.api.bindings), "bound")
    assert points == ["filter", "score"] * calls


def test_what_the_history_covers_begins_with_leading_and_moves_with_what_is_dropped() -> None:
    now = 1_000.0
    clocks = Clocks(lambda: WallSeconds(now), lambda: MonotonicSeconds(now))
    history = DecisionHistory(HistoryLimits(records=2, bytes=1 << 20, detail_share=0.0), clocks)
    snapshot = cluster(node("n1")).snapshot(NOW)
    now = 2_000.0
    history.begin()
    began = history.coverage()
    assert began == HistoryCoverage("1970-01-01T00:33:20Z", "1970-01-01T00:33:20Z", None, 0, 0)
    for name in ("a", "b", "c"):
        now += 10.0
        history.decided(snapshot, conclude(decide(snapshot, pod(name), PROFILE, random.Random(0))), PROFILE)
    covered = history.coverage()
    # The first of the three is gone.
    assert (covered.since, covered.leading_since) == ("1970-01-01T00:33:30Z", began.since)
    assert (covered.decisions, covered.with_details) == (2, 0)
