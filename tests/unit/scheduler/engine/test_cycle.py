"""The loop from queue to Binding, against a fake API server.

Covers the outcomes of a Binding (taken, refused, lost on the way), failures and their events, and the watch's part.
What a decision is made of is tested with the core; the real API server is in tests/integration/scheduler.
"""

from __future__ import annotations

import asyncio
import json

from scheduler.engine.failures import EXPLAIN_ANNOTATION
from scheduler.kube.client import ApiError, ConnectionLost
from scheduler.kube.client.errors import api_error
from tests.unit.scheduler.engine.fakes import CONFIGURATION, Engine, eventually, started
from tests.unit.scheduler.engine.pods import pod_info


def refused(status: int, message: str) -> ApiError:
    """What the client raises for an answer of this status."""
    return api_error("POST", "/x", status, json.dumps({"kind": "Status", "message": message}).encode())


async def test_a_pod_is_bound_with_its_uid_and_everybody_is_told(engine: Engine) -> None:
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: len(engine.api.events) == 1, "the event")
    assert engine.api.bindings == [("p", "p-uid", "n1")]
    event = engine.api.events[0]
    assert (event["reason"], event["note"]) == ("Scheduled", "Successfully assigned ns/p to n1")
    assert event["reportingController"] == "secondary-scheduler"
    assert event["regarding"]["uid"] == "p-uid"


async def test_pods_of_other_schedulers_and_assigned_ones_are_left_alone(engine: Engine) -> None:
    engine.add_node("n1")
    engine.add_pod("theirs", scheduler="default-scheduler")
    engine.add_pod("running", node="n1")
    engine.add_pod("ours")
    await eventually(lambda: len(engine.api.bindings) == 1, "one binding")
    assert engine.api.bindings[0][0] == "ours"
    assert engine.state.pod_count == 2


async def test_room_taken_by_a_binding_under_way_is_not_given_twice(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("first", cpu="700m")
    engine.add_pod("second", cpu="700m")
    await eventually(lambda: bool(engine.api.patches), "the second is rejected")
    assert [name for name, _, _ in engine.api.bindings] == ["first"]
    condition = engine.api.patches[0][1]["status"]["conditions"][0]
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


async def test_a_pod_that_did_not_fit_is_placed_when_room_comes(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("big", cpu="3")
    await eventually(lambda: bool(engine.api.patches), "rejected")
    engine.add_node("n2", cpu="4")
    await eventually(lambda: bool(engine.api.bindings), "bound")
    assert engine.api.bindings[0][2] == "n2"


async def test_without_nodes_the_pod_says_so(engine: Engine) -> None:
    engine.add_pod("early")
    await eventually(lambda: bool(engine.api.patches), "a reason")
    assert engine.api.patches[0][1]["status"]["conditions"][0]["message"] == "no nodes available to schedule pods"


async def test_an_answer_lost_on_the_way_counts_as_bound_when_the_pod_says_so(engine: Engine) -> None:
    engine.api.failures = [ConnectionLost("connection reset")]
    engine.api.show("p", node="n1")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.events), "an event")
    assert engine.api.events[0]["reason"] == "Scheduled"
    assert engine.state.is_assumed("p-uid")


async def test_an_answer_lost_on_the_way_is_written_again_when_the_pod_has_no_node(engine: Engine) -> None:
    engine.api.failures = [refused(500, "etcdserver: request timed out")]
    engine.api.show("p")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.bindings), "bound in the end")
    assert engine.api.bindings == [("p", "p-uid", "n1")]
    assert not engine.api.patches


async def test_a_pod_bound_by_another_scheduler_takes_no_room_on_our_node(engine: Engine) -> None:
    engine.api.failures = [refused(409, "pod is already assigned to node n9")]
    engine.api.show("p", node="n9")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.events), "an event")
    assert not engine.state.is_assumed("p-uid")
    assert "bound to n9 by another scheduler" in engine.api.events[0]["note"]


async def test_a_namesake_is_not_taken_for_the_pod(engine: Engine) -> None:
    engine.api.failures = [refused(409, "precondition failed: UID")]
    engine.api.show("p", node="n1", uid="another")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.events), "an event")
    assert "replaced by another" in engine.api.events[0]["note"]
    assert engine.state.assumed_count == 0


async def test_a_refusal_is_reported_with_its_reason(engine: Engine) -> None:
    engine.api.failures = [refused(403, "pods/binding is forbidden")]
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.patches), "a reason")
    condition = engine.api.patches[0][1]["status"]["conditions"][0]
    assert condition["reason"] == "SchedulerError"
    assert "forbidden" in condition["message"]


async def test_nothing_is_written_without_the_lease(engine: Engine) -> None:
    engine.leading = False
    engine.add_node("n1")
    engine.add_pod("p")
    await asyncio.sleep(0.05)
    assert engine.api.bindings == []
    status = await engine.handle.bind(pod_info("p"), "n1")
    assert not status.is_success
    assert "Lease" in status.message
    engine.leading = True
    engine.cycle.wake()
    await eventually(lambda: bool(engine.api.bindings), "bound once leading")


async def test_a_deleting_pod_is_not_placed(engine: Engine) -> None:
    engine.add_node("n1")
    engine.add_pod("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    await eventually(lambda: bool(engine.api.events), "an event")
    assert engine.api.events[0]["note"] == "skip schedule deleting pod: ns/p"
    assert engine.api.bindings == []


async def test_what_a_fresh_list_lacks_is_gone(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("old", node="n1", cpu="1")
    engine.add_pod("waiting", cpu="500m")
    await eventually(lambda: bool(engine.api.patches), "no room")
    engine.relist_pods(pod_info("waiting", cpu="500m"))
    await eventually(lambda: bool(engine.api.bindings), "room after the list")
    assert engine.api.bindings == [("waiting", "waiting-uid", "n1")]


async def test_the_same_reason_is_patched_once(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("big", cpu="3")
    await eventually(lambda: bool(engine.api.patches), "rejected")
    engine.cycle.activate(["big-uid"])
    await eventually(
        lambda: engine.metrics.schedule_attempts.labels("unschedulable", "secondary-scheduler").value == 2,
        "a second attempt",
    )
    await asyncio.sleep(0.02)
    assert len([path for path, _ in engine.api.patches if path.endswith("/status")]) == 1


async def test_the_command_that_explains_goes_with_the_condition_in_one_patch_if_the_profile_says_so() -> None:
    options = "    pluginConfig: [{name: SecondarySchedulerOptions, args: {explainAnnotation: true}}]\n"
    for configuration, expected in (
        (CONFIGURATION, None),
        (CONFIGURATION + options, {EXPLAIN_ANNOTATION: "kubectl secondary-scheduler explain pod big -n ns"}),
    ):
        async with started(Engine(configuration=configuration)) as engine:
            engine.add_node("n1", cpu="1")
            engine.add_pod("big", cpu="3")
            await eventually(lambda engine=engine: bool(engine.api.patches), "rejected")  # type: ignore[misc]
            ((path, patch),) = engine.api.patches
        assert path.endswith("/pods/big/status")
        assert patch["status"]["conditions"][0]["reason"] == "Unschedulable"
        assert patch["metadata"].get("annotations") == expected
        assert patch["metadata"]["uid"] == "big-uid"
