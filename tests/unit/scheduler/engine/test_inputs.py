"""What the watches deliver and which pods it wakes, against a fake API server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.engine.inputs import NodeUpdate
from scheduler.framework import PodInfo, Status
from scheduler.kube.model import ResourceVersion
from scheduler.plugins.dynamicresources import DynamicResources
from tests.unit.scheduler.engine.fakes import Engine, eventually
from tests.unit.scheduler.engine.pods import node_info, pod_info


async def test_a_pod_that_waits_for_one_of_ours_is_placed_beside_it(engine: Engine) -> None:
    near = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    engine.add_node("n1")
    engine.add_pod("p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}})
    await eventually(lambda: bool(engine.api.patches), "rejected")
    engine.add_pod("db", metadata={"labels": {"app": "db"}})
    await eventually(lambda: len(engine.api.bindings) == 1, "the other is bound")
    engine.add_pod("db", node="n1", rv="2", metadata={"labels": {"app": "db"}})
    await eventually(lambda: len(engine.api.bindings) == 2, "bound, too")


async def test_a_pod_that_ended_while_the_watch_was_lost_keeps_no_room(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("short", cpu="1")
    await eventually(lambda: bool(engine.api.events), "bound")
    engine.add_pod("next", cpu="1")
    await eventually(lambda: bool(engine.api.patches), "no room")
    engine.relist_pods(pod_info("next", cpu="1"))
    await eventually(lambda: len(engine.api.bindings) == 2, "room after the list")


async def test_nor_does_one_whose_end_was_seen_before_the_answer_to_its_binding(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    post, answered = engine.api.post, asyncio.Event()

    async def slow(path: str, body: Any, **_: Any) -> bytes:
        if path.endswith("short/binding"):
            await answered.wait()
        return await post(path, body)

    engine.api.post = slow  # type: ignore[method-assign]
    engine.add_pod("short", cpu="1")
    await eventually(lambda: engine.state.is_binding("short-uid"), "its Binding is under way")
    engine.add_pod("next", cpu="1")
    engine.relist_pods(pod_info("next", cpu="1"))
    await eventually(lambda: bool(engine.api.patches), "no room yet")
    answered.set()
    await eventually(lambda: len(engine.api.bindings) == 2, "room after the answer")


async def test_a_first_list_taken_in_by_pages_ends_as_one_taken_in_at_once(engine: Engine) -> None:
    engine.leading = False
    engine.add_node("n1")
    first = [pod_info("a", node="n1", cpu="1"), pod_info("b"), pod_info("gone", node="n1", cpu="1"), pod_info("left")]
    engine.pods.add_page(first[:2])
    # A page of a list that then started over: what it shows is older than what follows, or gone.
    engine.pods.add_page(first[2:])
    moved = pod_info("b", node="n1", cpu="1", rv="2")
    engine.relist_pods(first[0], moved, pod_info("c"))
    assert set(engine.state.pod_uids) == {"a-uid", "b-uid"}
    assert set(engine.pods.pending) == {"c-uid"}
    assert sum(engine.queue.counts().values()) == 1
    used = engine.state.snapshot(0.0).requested("cpu")
    assert used.tolist() == [2000.0]
    engine.leading = True
    engine.cycle.wake()
    await eventually(lambda: len(engine.api.bindings) == 1, "the one that waits is bound, once")


async def test_labels_that_the_api_server_adds_at_bind_are_no_change_by_a_user(engine: Engine) -> None:
    """API servers from 1.35 on copy the node's zone and region to the pod."""
    engine.add_node("n1")
    engine.add_pod("bound")
    await eventually(lambda: len(engine.api.bindings) == 1, "bound")
    seen: list[str] = []
    on_event = engine.queue.on_event

    def note(event: Any, **options: Any) -> None:
        seen.append(event.label)
        on_event(event, **options)

    engine.queue.on_event = note  # type: ignore[method-assign]
    engine.add_pod("bound", node="n1", rv="2", metadata={"labels": {"topology.kubernetes.io/zone": "a"}})
    assert seen == ["AssignedPodAdd"]


async def test_a_pod_of_a_gang_of_kubernetes_own_hears_once_that_it_is_not_followed(engine: Engine) -> None:
    for name, field in (
        ("new", {"schedulingGroup": {"podGroupName": "train"}}),
        ("old", {"workloadRef": {"name": "job", "podGroup": "workers"}}),
    ):
        engine.add_node(f"node-{name}", cpu="1")
        engine.add_pod(name, cpu="800m", **field)
    await eventually(lambda: len(engine.api.bindings) == 2, "placed by themselves")
    await eventually(lambda: len(engine.api.events) == 4, "their Events")
    notes = {
        event["regarding"]["name"]: event["note"]
        for event in engine.api.events
        if event["reason"] == "SchedulingGroupIgnored"
    }
    assert notes["new"].startswith("spec.schedulingGroup train is not followed: this pod is placed by itself.")
    assert notes["old"].startswith("spec.workloadRef job/workers is not followed")


async def test_a_list_of_nodes_asks_no_pod_whose_claims_do_not_exist(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5,000 nodes and as many pods whose claims do not exist kept a start busy for a minute."""
    for number in range(320):
        engine.add_pod(f"p{number}", resourceClaims=[{"name": "device", "resourceClaimName": "absent"}])
    assert engine.queue.counts()["gated"] == 320
    pre_enqueue, questions = DynamicResources.pre_enqueue, 0

    def counted(plugin: DynamicResources, pod: PodInfo) -> Status:
        nonlocal questions
        questions += 1
        return pre_enqueue(plugin, pod)

    monkeypatch.setattr(DynamicResources, "pre_enqueue", counted)
    engine.nodes.replace([NodeUpdate(node_info(f"n{number}"), ()) for number in range(320)], ResourceVersion("9"))
    assert len(engine.state.node_names) == 320
    assert questions == 0
    engine.add_pod("last", resourceClaims=[{"name": "device", "resourceClaimName": "absent"}])
    assert questions > 0
    assert engine.queue.counts()["gated"] == 321
