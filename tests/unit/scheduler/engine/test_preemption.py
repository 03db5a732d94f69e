"""What the engine does when a pod fits nowhere: nominate, evict, wait, take the room. Against a fake API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from scheduler.framework import SUCCESS, Code, CycleState, Eviction, PodInfo, Status, pod_as_preemptor
from scheduler.kube.client.errors import api_error
from scheduler.kube.model import EventType
from tests.unit.scheduler.engine.fakes import Engine, FakeApi, behaving_as, eventually, started
from tests.unit.scheduler.engine.pods import pod_info


class Evicting(FakeApi):
    """Remembers deletions in the order of all writes; a deletion can be held back, or refused."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[str, str]] = []
        self.deleted: list[str] = []
        self.refused: dict[str, int] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def patch(
        self, path: str, body: Any, content_type: str = "", allowed: Callable[[], bool] = lambda: True
    ) -> bytes:
        self.writes.append(("patch", path.split("/")[6]))
        return await super().patch(path, body, content_type)

    async def delete(self, path: str, body: Any = None, allowed: Callable[[], bool] = lambda: True) -> bytes:
        name = path.rsplit("/", 1)[1]
        await self.gate.wait()
        self.writes.append(("delete", name))
        if self.refused.get(name, 0):
            self.refused[name] -= 1
            raise api_error("DELETE", path, 403, b"")
        assert body == {"preconditions": {"uid": f"{name}-uid"}}
        self.deleted.append(name)
        return b"{}"

    def statuses(self, name: str) -> list[dict[str, Any]]:
        return [body["status"] for path, body in self.patches if path.endswith(f"/pods/{name}/status")]


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(api=Evicting())
    async with started(engine):
        yield engine


def gone(engine: Engine, pod: PodInfo) -> None:
    engine.pods.apply([(EventType.DELETED, pod)])


def changed(engine: Engine, name: str, **fields: Any) -> PodInfo:
    pod = pod_info(name, **fields)
    engine.pods.apply([(EventType.MODIFIED, pod)])
    return pod


async def test_a_victim_is_told_why_deleted_and_replaced(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    victim = engine.add_pod("low", node="n1", cpu="800m", priority=1, metadata={"generation": 3})
    engine.add_pod("high", cpu="500m", priority=10)
    await eventually(lambda: engine.api.deleted == ["low"], "the victim is deleted")
    (condition,) = engine.api.statuses("low")[0]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "secondary-scheduler: preempting to accommodate a higher priority pod",
        "observedGeneration": 3,
    }
    (status,) = engine.api.statuses("high")
    assert status["nominatedNodeName"] == "n1"
    assert status["conditions"][0]["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    await eventually(lambda: len(engine.api.events) == 2, "both events")
    event = next(event for event in engine.api.events if event["reason"] == "Preempted")
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert event["note"] == "Preempted by pod high-uid on node n1"
    assert (event["regarding"]["uid"], event["related"]["uid"]) == ("low-uid", "high-uid")
    assert engine.api.bindings == []
    gone(engine, victim)
    await eventually(lambda: engine.api.bindings == [("high", "high-uid", "n1")], "the room is taken")
    assert engine.state.nominator.by_node == {}
    samples = {sample.name: sample.value for metric in engine.metrics.registry.collect() for sample in metric.samples}
    assert samples["scheduler_preemption_attempts_total"] == 1
    assert samples["scheduler_preemption_victims_sum"] == 1


async def test_the_room_is_kept_from_lower_pods_before_the_watch_shows_the_nomination(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    victim = engine.add_pod("low", node="n1", cpu="800m", priority=1)
    high = engine.add_pod("high", cpu="900m", priority=10)
    await eventually(lambda: engine.api.deleted == ["low"], "the victim is deleted")
    assert engine.state.nominator.node_of(high.uid) == "n1"
    engine.add_pod("sneak", cpu="800m", priority=5)
    gone(engine, victim)
    await eventually(lambda: bool(engine.api.bindings), "one is bound")
    assert engine.api.bindings == [("high", "high-uid", "n1")]


async def test_an_eviction_that_fails_unexpectedly_lets_the_preemptor_try_again(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    victim = engine.add_pod("low", node="n1", cpu="800m", priority=1)
    delete, errors = engine.api.delete, [ValueError("a defect"), OSError("another")]

    async def fail(path: str, body: Any = None, **options: Any) -> bytes:
        if errors:
            raise errors.pop()
        return await delete(path, body, **options)

    engine.api.delete = fail  # type: ignore[method-assign]
    engine.add_pod("high", cpu="900m", priority=10)
    await eventually(lambda: engine.api.deleted == ["low"], "the victim is deleted in the end", 30)
    gone(engine, victim)
    await eventually(lambda: engine.api.bindings == [("high", "high-uid", "n1")], "the room is taken")


async def test_the_last_victim_goes_after_all_others_and_the_preemptor_is_parked_until_then(engine: Engine) -> None:
    engine.add_node("n1", cpu="4")
    for name in ("a", "b", "c"):
        engine.add_pod(name, node="n1", cpu="1", priority=1)
    engine.api.gate.clear()
    high = engine.add_pod("high", cpu="4", priority=10)
    await eventually(lambda: len(engine.api.writes) >= 3, "the conditions of two victims, and the preemptor's status")
    engine.queue.activate([high.uid])
    assert engine.queue.queue_of(high.uid) == "gated"
    engine.api.gate.set()
    await eventually(lambda: len(engine.api.deleted) == 3, "all are deleted")
    first, last = set(engine.api.deleted[:2]), engine.api.deleted[2]
    assert ("patch", last) in engine.api.writes
    assert engine.api.writes.index(("patch", last)) > max(engine.api.writes.index(("delete", name)) for name in first)
    for name in ("a", "b", "c"):
        gone(engine, pod_info(name, node="n1", cpu="1", priority=1))
    await eventually(lambda: bool(engine.api.bindings), "the room is taken")


async def test_a_refused_deletion_is_tried_again(engine: Engine) -> None:
    engine.api.refused = {"low": 1}
    engine.add_node("n1", cpu="1")
    engine.add_pod("low", node="n1", cpu="800m", priority=1)
    engine.add_pod("high", cpu="500m", priority=10)
    await eventually(lambda: engine.api.deleted == ["low"], "deleted at the second try")


async def test_no_other_pod_is_preempted_while_victims_terminate(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_node("n2", cpu="1")
    engine.add_pod("low", node="n1", cpu="800m", priority=1)
    engine.add_pod("mid", node="n2", cpu="800m", priority=5)
    engine.add_pod("high", cpu="500m", priority=10)
    await eventually(lambda: engine.api.deleted == ["low"], "the victim is deleted")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    changed(engine, "low", node="n1", cpu="800m", priority=1, rv="2", metadata=metadata, conditions=[condition])
    changed(engine, "high", cpu="500m", priority=10, rv="2", nominated="n1")
    engine.cycle.activate(["high-uid"])
    await eventually(lambda: len(engine.api.statuses("high")) == 2, "a second attempt")
    message = engine.api.statuses("high")[1]["conditions"][0]["message"]
    assert message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert "nominatedNodeName" not in engine.api.statuses("high")[1]
    assert engine.api.deleted == ["low"]


async def test_a_lower_pod_nominated_there_loses_its_nomination(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("low", node="n1", cpu="800m", priority=1)
    engine.add_pod("mid", cpu="900m", priority=5, nominated="n1", schedulingGates=[{"name": "wait"}])
    engine.state.nominator.set(pod_info("mid", cpu="900m", priority=5, nominated="n1"), "n1")
    engine.add_pod("high", cpu="900m", priority=10)
    await eventually(lambda: engine.api.deleted == ["low"], "the victim is deleted")
    assert engine.api.statuses("mid") == [{"nominatedNodeName": None}]


async def test_a_nomination_that_helps_no_more_is_cleared(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("same", node="n1", cpu="800m", priority=10)
    engine.add_pod("high", cpu="500m", priority=10, nominated="n1")
    await eventually(lambda: bool(engine.api.statuses("high")), "rejected")
    assert engine.api.statuses("high")[0]["nominatedNodeName"] is None
    assert engine.state.nominator.by_node == {}


async def test_an_error_clears_the_nomination(engine: Engine) -> None:
    engine.api.failures = [api_error("POST", "/x", 403, b"")]
    engine.add_node("n1", cpu="1")
    engine.add_pod("high", cpu="500m", priority=10, nominated="n1")
    await eventually(lambda: bool(engine.api.statuses("high")), "the binding is refused")
    assert engine.api.statuses("high")[0]["nominatedNodeName"] is None


async def test_who_gives_a_nomination_up_lets_lower_pods_try(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("high", cpu="800m", priority=10, nominated="n1", schedulingGates=[{"name": "wait"}])
    engine.state.nominator.set(pod_info("high", cpu="800m", priority=10, nominated="n1"), "n1")
    engine.add_pod("low", cpu="800m", priority=1)
    await eventually(lambda: bool(engine.api.statuses("low")), "kept out")
    gone(engine, pod_info("high"))
    await eventually(lambda: engine.api.bindings == [("low", "low-uid", "n1")], "let in")


async def test_a_nomination_of_our_own_outlives_updates_that_do_not_show_it(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("low", node="n1", cpu="800m", priority=1)
    engine.add_pod("high", cpu="500m", priority=10)
    await eventually(lambda: engine.api.deleted == ["low"], "the victim is deleted")
    changed(engine, "high", cpu="500m", priority=10, rv="2", metadata={"labels": {"a": "b"}})
    assert engine.state.nominator.node_of("high-uid") == "n1"
    changed(engine, "high", cpu="500m", priority=10, rv="3", nominated="n1")
    assert engine.state.nominator.node_of("high-uid") == "n1"
    changed(engine, "high", cpu="500m", priority=10, rv="4")
    assert engine.state.nominator.node_of("high-uid") is None


async def test_a_victim_that_waits_for_permission_is_sent_back(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    waiting = pod_info("low", cpu="800m", priority=1)
    engine.state.assume(waiting, "n1", 0.0)
    outcome = engine.waiting.add(waiting, {"Gang": 60.0})
    engine.add_pod("high", cpu="500m", priority=10)
    status = await asyncio.wait_for(outcome, 3)
    assert (status.plugin, status.reasons) == ("DefaultPreemption", ("preempted",))
    assert engine.api.deleted == []


async def test_without_the_lease_no_pod_is_evicted(engine: Engine) -> None:
    victim = pod_info("low", node="n1")
    engine.leading = False
    assert not (await engine.handle.delete_pod(victim)).is_success
    assert not (await engine.handle.patch_pod(victim, {"status": {}}, "status")).is_success
    assert engine.api.writes == []


@pytest.mark.parametrize("spares", [True, False])
async def test_victims_that_are_terminating_already_are_left_alone_since_1_35(engine: Engine, spares: bool) -> None:
    """kube-scheduler patches and deletes them once more up to 1.34, and no longer since 1.35."""
    handle = engine.handle
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    leaving_pod = pod_info("leaving", node="n1", metadata=leaving)
    staying = pod_info("staying", node="n1")
    preemptor = pod_info("high", priority=10)
    outcomes: list[bool] = []
    for victims in ((leaving_pod, staying), (leaving_pod,)):
        eviction = Eviction("DefaultPreemption", pod_as_preemptor(preemptor), "n1", victims, spares_terminating=spares)
        handle.evict(eviction, outcomes.append)
    await eventually(lambda: outcomes == [True, True], "both are carried out")
    again = [] if spares else [("patch", "leaving"), ("delete", "leaving")]
    written = [("patch", "staying"), ("delete", "staying"), *again, *again]
    assert sorted(write for write in engine.api.writes if write[1] != "events") == sorted(written)


async def test_a_nomination_that_is_refused_as_the_pod_is_bound_by_now_is_final(engine: Engine) -> None:
    """API servers from 1.35 on answer 422; what else they find invalid is a failure."""
    handle = engine.handle

    async def refuse(path: str, body: Any, content_type: str = "", **_: Any) -> bytes:
        raise api_error("PATCH", path, 422, b"")

    engine.api.patch = refuse  # type: ignore[method-assign]
    pod = pod_info("p", node="n1")
    nomination = await handle.patch_pod(pod, {"status": {"nominatedNodeName": "n1"}}, "status")
    assert nomination.is_skip
    assert (await handle.patch_pod(pod, {"status": {"conditions": []}}, "status")).code is Code.ERROR


class Waiting:
    """A plugin whose PreBind waits for long on one node, as for a volume, and is done at once on others."""

    name = "Waiting"

    def __init__(self, engine: Engine, slow_node: str = "big", *, to_end: bool = False) -> None:
        self._handle = engine.handle
        self.slow_node = slow_node
        self.to_end = to_end
        self.began = asyncio.Event()
        self.ended: list[str] = []
        runner = next(iter(engine.runners.values()))
        runner.pre_bind = (self,)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        if node == self.slow_node and pod.name == "low":
            self.began.set()
            await self._handle.pause(600, to_end=self.to_end)
        self.ended.append(f"{pod.name} on {node}")
        return SUCCESS


def preempting_as(kubernetes: str) -> Engine:
    return Engine(api=Evicting(), configuration=behaving_as(kubernetes))


async def crowded_out(engine: Engine, plugin: Waiting) -> None:
    """A pod in PreBind on the only node where a more important one fits, which comes; another node has room for it."""
    engine.add_node("big", cpu="2")
    engine.add_pod("low", cpu="1", priority=1)
    await asyncio.wait_for(plugin.began.wait(), 3)
    engine.add_node("small", cpu="1")
    engine.add_pod("high", cpu="1500m", priority=10)


@pytest.mark.parametrize("kubernetes", ["1.36", "1.37"])
async def test_a_victim_in_pre_bind_gives_up_its_node_and_moves_to_another(kubernetes: str) -> None:
    """TestPreemptionRespectsBindingPod of kube-scheduler: it never ran, and nothing would create it again."""
    async with started(preempting_as(kubernetes)) as engine:
        plugin = Waiting(engine)
        await crowded_out(engine, plugin)
        wanted = [("high", "high-uid", "big"), ("low", "low-uid", "small")]
        await eventually(lambda: sorted(engine.api.bindings) == wanted, "both are bound", 30)
        assert engine.api.deleted == []
        assert plugin.ended == ["high on big", "low on small"]
        (condition,) = engine.api.statuses("low")[0]["conditions"]
        message = 'running PreBind plugin "Waiting": preempted by DefaultPreemption'
        assert (condition["reason"], condition["message"]) == ("SchedulerError", message)
        (event,) = [event for event in engine.api.events if event["reason"] == "Preempted"]
        assert event["note"] == "Preempted by pod high-uid on node big (in kube-scheduler memory)."


@pytest.mark.parametrize("kubernetes", ["1.34", "1.35"])
async def test_a_victim_in_pre_bind_was_deleted_up_to_1_35(kubernetes: str) -> None:
    async with started(preempting_as(kubernetes)) as engine:
        await crowded_out(engine, Waiting(engine))
        await eventually(lambda: engine.api.deleted == ["low"], "deleted")


async def test_a_wait_that_must_end_is_not_cut_short_and_its_pod_is_not_bound() -> None:
    async with started(preempting_as("1.37")) as engine:
        plugin = Waiting(engine, to_end=True)
        await crowded_out(engine, plugin)
        await asyncio.sleep(300)
        assert engine.api.deleted == engine.api.bindings == plugin.ended == []
        wanted = [("high", "high-uid", "big"), ("low", "low-uid", "small")]
        await eventually(lambda: sorted(engine.api.bindings) == wanted, "both are bound", 600)
        assert plugin.ended[0] == "low on big"


async def test_a_victim_whose_binding_is_under_way_is_deleted() -> None:
    async with started(preempting_as("1.37")) as engine:
        plugin, binding = Waiting(engine, slow_node=""), asyncio.Event()

        async def bind(*_: object, **__: object) -> Status:
            binding.set()
            await asyncio.sleep(600)
            return SUCCESS

        engine.handle.bind = bind  # type: ignore[method-assign]
        plugin.began = binding
        await crowded_out(engine, plugin)
        await eventually(lambda: engine.api.deleted == ["low"], "deleted")


@pytest.mark.parametrize("kubernetes", ["1.36", "1.37"])
async def test_a_victim_that_waits_for_permission_is_tried_again_by_itself(kubernetes: str) -> None:
    async with started(preempting_as(kubernetes)) as engine:
        runner = next(iter(engine.runners.values()))

        class Holding:
            name = "Holding"

            def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
                held = pod.name == "low" and node == "big"
                return (Status(Code.WAIT), 600.0) if held else (SUCCESS, 0.0)

        runner.permit = (Holding(),)
        engine.add_node("big", cpu="2")
        engine.add_pod("low", cpu="1", priority=1)
        await eventually(lambda: len(engine.waiting) == 1, "it waits")
        engine.add_node("small", cpu="1")
        engine.add_pod("high", cpu="1500m", priority=10)
        wanted = [("high", "high-uid", "big"), ("low", "low-uid", "small")]
        await eventually(lambda: sorted(engine.api.bindings) == wanted, "both are bound, without another event", 30)
        assert engine.api.deleted == []
        (condition,) = [each for status in engine.api.statuses("low") for each in status.get("conditions", ())]
        assert condition["message"] == "waiting on permit for pod: preempted"


async def test_a_process_that_ends_is_not_taken_for_a_preemption() -> None:
    async with started(preempting_as("1.37")) as engine:
        plugin = Waiting(engine)
        engine.add_node("big", cpu="2")
        engine.add_pod("low", cpu="1", priority=1)
        await asyncio.wait_for(plugin.began.wait(), 3)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "bind ns/low"]
        assert engine.waiting.preempt("low-uid", "DefaultPreemption")
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
