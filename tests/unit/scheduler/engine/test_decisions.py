"""The history of decisions, on a live engine and by itself."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler.core import PostFilterOutcome, decide
from scheduler.engine.attempts import AttemptPipeline
from scheduler.engine.decisions import DecisionHistory, HistoryLimits
from scheduler.framework import Clocks, MonotonicSeconds, PodInfo, WallSeconds
from scheduler.kube.client.errors import api_error
from scheduler.state import SchedulingQueue
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.engine.fakes import Engine, eventually, started

PROFILE = runner()
ALWAYS = HistoryLimits(records=100, bytes=1 << 20, detail_share=1.0)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with started(Engine(history=ALWAYS)) as engine:
        yield engine


def shown(engine: Engine, **query: Any) -> dict[str, Any]:
    assert engine.decisions is not None
    answer: dict[str, Any] = json.loads(msgspec.json.encode(engine.decisions.show(**query)))
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


class Clock:
    """A clock that a test sets."""

    seconds = 100.0

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(self.seconds)


def history(limits: HistoryLimits, clock: Clock | None = None) -> DecisionHistory:
    clocks = Clocks(lambda: WallSeconds(NOW), (clock or Clock()).monotonic)
    attempts = AttemptPipeline(cluster(node("n0")), {"test": PROFILE}, random.Random(1), clocks)
    return DecisionHistory(limits, clocks, SchedulingQueue(clocks=clocks, sort_key=lambda queued, at: at), attempts)


def record(decisions: DecisionHistory, info: PodInfo) -> None:
    snapshot = cluster(node("n0"), node("n1")).snapshot(NOW)
    decisions.decided(snapshot, decide(snapshot, info, PROFILE, random.Random(1)), PROFILE)


def named(decisions: DecisionHistory, **query: Any) -> list[str]:
    return [item["pod"] for item in decisions.show(**query)["items"]]


def test_the_oldest_are_dropped_beyond_the_number_and_the_memory() -> None:
    three = history(HistoryLimits(records=3, bytes=1 << 20, detail_share=0.0))
    for index in range(5):
        record(three, pod(f"p{index}", container("1")))
    assert named(three) == ["default/p4", "default/p3", "default/p2"]
    assert named(three, most=1) == ["default/p4"]
    small = history(HistoryLimits(records=1000, bytes=10_000, detail_share=1.0))
    for index in range(50):
        record(small, pod(f"p{index}", container("1")))
    assert 0 < small.size <= 10_000
    assert 1 <= len(small) < 10
    assert named(small)[0] == "default/p49"


def test_details_take_a_share_of_the_time_and_no_more() -> None:
    clock = Clock()
    decisions = history(HistoryLimits(records=2000, bytes=1 << 30, detail_share=1e-9), clock)
    for index in range(1000):
        record(decisions, pod(f"p{index}", container("1")))
    with_details = [item for item in decisions.show(most=1000)["items"] if item["details"] is not None]
    # What a calm period saves up is spent; at this share nothing is earned meanwhile.
    assert 0 < len(with_details) < 1000
    record(decisions, pod("later", container("1")))
    assert decisions.show(most=1)["items"][0]["details"] is None
    clock.seconds += 1e9
    record(decisions, pod("much-later", container("1")))
    assert decisions.show(most=1)["items"][0]["details"] is not None


def test_victims_of_other_namespaces_are_counted_and_not_named() -> None:
    decisions = history(ALWAYS)
    preemptor = pod("p", container("1"))
    record(decisions, preemptor)
    victims = [pod("theirs", namespace="theirs"), pod("ours")]
    decisions.post_filtered(preemptor, PostFilterOutcome("preempted", "n0", tuple(victims)))
    everywhere, own = decisions.show()["items"][0], decisions.show(namespace="default")["items"][0]
    assert (everywhere["victims"], everywhere["victimCount"]) == (["default/ours", "theirs/theirs"], 2)
    assert (own["victims"], own["victimCount"]) == (["default/ours"], 2)


def test_a_namespace_shows_its_own_pods_only() -> None:
    decisions = history(ALWAYS)
    record(decisions, pod("p", container("1")))
    record(decisions, pod("p", container("1"), namespace="other"))
    assert named(decisions, namespace="other") == ["other/p"]
    assert named(decisions, namespace="default", pod="q") == []
    assert named(decisions) == ["other/p", "default/p"]


def test_the_details_of_a_plugin_that_raises_cost_no_decision() -> None:
    snapshot = cluster(node("n0"), node("n1")).snapshot(NOW)
    placement = decide(snapshot, pod("p", container("1")), PROFILE, random.Random(1))

    class Broken:
        """Fails whatever it is asked."""

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("a defect")

    decisions = history(ALWAYS)
    decisions.decided(snapshot, placement, Broken())  # type: ignore[arg-type]
    assert decisions.show()["items"][0]["details"] is None
