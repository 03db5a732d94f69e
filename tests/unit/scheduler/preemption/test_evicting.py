"""Evictions of plugins that have no PreEnqueue: while they are under way the pod preempts nobody else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pytest

from scheduler.catalog import DEFAULT_KUBERNETES
from scheduler.config import load_configuration
from scheduler.core import PostFilterOutcome, decide, run_post_filters
from scheduler.engine.handle import PREEMPTIONS_AT_ONCE, VICTIMS_AT_ONCE, Evictor
from scheduler.framework import SUCCESS, Eviction, PodInfo, PodListener, ProfileRunner, Status, conclude, failure
from scheduler.observe import Metrics
from scheduler.plugins import build_profile
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.victims import Candidate
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod
from tests.unit.scheduler.plugins.quotas import names, running


class SlowHandle:
    """An API server that deletes nobody before it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.deleted: list[str] = []
        self.patched: list[str] = []
        self.waiting = self.most_waiting = 0
        self.activated: list[str] = []
        self.looked_at: list[str] = []
        self.listeners: list[PodListener] = []
        self.refuses = False
        self.tasks: list[asyncio.Task[None]] = []
        self.still_there: list[PodInfo] = []
        self.evictor = Evictor(self, Metrics())  # type: ignore[arg-type]  # as much of a Handle as evictions need

    def now(self) -> float:
        return NOW

    async def patch_pod(self, pod: PodInfo, patch: Mapping[str, Any], subresource: str = "") -> Status:
        self.patched.append(pod.name)
        return SUCCESS

    async def delete_pod(self, pod: PodInfo) -> Status:
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        await self.go.wait()
        self.waiting -= 1
        if self.refuses:
            return failure("no")
        self.deleted.append(pod.name)
        return SUCCESS

    def evict(self, eviction: Eviction, finished: Callable[[bool], None]) -> None:
        self.tasks.append(asyncio.create_task(self.evictor.carry_out(eviction, finished)))

    def event(self, *args: Any) -> None:
        pass

    def reject_waiting(self, pod: PodInfo, plugin: str, message: str) -> bool:
        return False

    def pods_on(self, node: str) -> list[PodInfo]:
        """The watch is slow, too: nobody has been seen to go."""
        return self.still_there

    def watch_pods(self, listener: PodListener) -> None:
        self.listeners.append(listener)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self.activated += [each.name for each in pods]

    def look_at_gates(self, pods: Iterable[PodInfo]) -> None:
        self.looked_at += [each.name for each in pods]


def profile(handle: SlowHandle, plugin: str) -> ProfileRunner:
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: test
  plugins:
    multiPoint: {{enabled: [{{name: {plugin}}}]}}
    postFilter: {{enabled: [{{name: {plugin}}}], disabled: [{{name: "*"}}]}}
"""
    effective = load_configuration(text, source="test").profiles[0]
    return build_profile(effective, handle)  # type: ignore[arg-type]


def attempt(state: ClusterState, incoming: PodInfo, runner: ProfileRunner) -> PostFilterOutcome:
    snapshot = state.snapshot(NOW)
    return conclude(run_post_filters(snapshot, conclude(decide(snapshot, incoming, runner, random.Random(1))), runner))


def world() -> ClusterState:
    return cluster(node("n1"), node("n2"), pods={f"n{n}": [running(f"v{n}", "a", "3", 1)] for n in (1, 2)})


@pytest.mark.parametrize("plugin", ["CapacityScheduling", "PreemptionToleration"])
async def test_a_pod_whose_victims_are_going_preempts_nobody_else(plugin: str) -> None:
    handle = SlowHandle()
    state = cluster(node("n1"), pods={"n1": [running(f"v{n}", "a", "2", 1, age=n) for n in (1, 2)]})
    runner = profile(handle, plugin)
    incoming = pod("p", container("4"), priority=9)
    assert sorted(names(attempt(state, incoming, runner).victims)) == ["v1", "v2"]
    state.nominator.set(incoming, "n1")
    # Another node, where a single pod would have to go.
    state.upsert_node(node("n2"))
    state.upsert_pod(pod("v3", container("4"), priority=1, nodeName="n2"))
    again = attempt(state, incoming, runner)
    assert again.message.endswith(" waiting for the preemption for this pod to be finished")
    assert (again.nominated_node, again.victims) == (None, ())
    handle.go.set()
    await asyncio.gather(*handle.tasks)
    assert sorted(handle.deleted) == ["v1", "v2"]
    # Both were asked to go, and the watch has shown one of them gone.
    state.remove_pod("uid-v1")
    again = attempt(state, incoming, runner)
    assert again.message.endswith(" not eligible due to a terminating pod on the nominated node.")
    assert again.victims == ()
    # A higher pod takes the node from it: it may look elsewhere at once.
    state.nominator.remove(incoming.uid)
    assert names(attempt(state, incoming, runner).victims) == ["v3"]


@pytest.mark.parametrize("seen", [True, False])
async def test_the_preemptor_is_tried_when_the_last_victim_was_seen_to_go_before_the_answer_to_its_deletion(
    seen: bool,
) -> None:
    handle, state = SlowHandle(), world()
    handle.go.set()
    runner = profile(handle, "CapacityScheduling")
    victims = attempt(state, pod("p", container("2"), priority=9), runner).victims
    handle.still_there = [] if seen else list(victims)
    await asyncio.gather(*handle.tasks)
    assert handle.activated == (["p"] if seen else [])


async def test_a_pod_whose_victims_could_not_be_deleted_is_tried_again() -> None:
    handle, state = SlowHandle(), world()
    handle.refuses = True
    handle.go.set()
    runner = profile(handle, "CapacityScheduling")
    attempt(state, pod("p", container("2"), priority=9), runner)
    await asyncio.gather(*handle.tasks)
    assert (handle.deleted, handle.activated) == ([], ["p"])


async def test_a_pod_is_parked_until_the_watch_shows_that_all_its_victims_go() -> None:
    handle = SlowHandle()
    state = cluster(node("n1"), pods={"n1": [running(f"v{n}", "a", "2", 1, age=n) for n in (1, 2)]})
    runner = profile(handle, "DefaultPreemption")
    incoming = pod("p", container("4"), priority=9)
    assert runner.run_pre_enqueue(incoming).is_success
    handle.still_there = list(attempt(state, incoming, runner).victims)
    parked = [runner.run_pre_enqueue(incoming).plugin]
    handle.go.set()
    await asyncio.gather(*handle.tasks)
    # All were asked; the watch shows none of them going, then one gone, then the other with its grace period.
    parked.append(runner.run_pre_enqueue(incoming).plugin)
    last = handle.still_there.pop()
    parked.append(runner.run_pre_enqueue(incoming).plugin)
    assert parked == ["DefaultPreemption"] * 3
    handle.still_there = [msgspec.structs.replace(last, deleting=True)]
    assert runner.run_pre_enqueue(incoming).is_success


def crowd(nodes: int, victims: int) -> ClusterState:
    """Nodes full of pods that somebody may preempt."""
    names = [f"n{number:03d}" for number in range(nodes)]
    pods = {name: [running(f"{name}-{index}", "a", "1", 1) for index in range(victims)] for name in names}
    full = {"cpu": str(victims), "memory": "16Gi", "pods": "110"}
    return cluster(*(node(name, allocatable=full) for name in names), pods=pods)


@pytest.mark.parametrize(("nodes", "victims"), [(100, 1), (40, 3), (20, 9)])
async def test_many_preemptions_take_turns_so_that_other_requests_find_a_connection(nodes: int, victims: int) -> None:
    handle, state = SlowHandle(), crowd(nodes, victims)
    runner = profile(handle, "DefaultPreemption")
    for number in range(nodes):
        incoming = pod(f"p{number}", container(str(victims)), priority=9)
        outcome = attempt(state, incoming, runner)
        assert len(outcome.victims) == victims
        assert outcome.nominated_node is not None
        state.nominator.set(incoming, outcome.nominated_node)
    for _ in range(10):
        await asyncio.sleep(0)
    # The last victim of each has its turn when the others have been asked.
    assert handle.waiting == min(VICTIMS_AT_ONCE, PREEMPTIONS_AT_ONCE * max(1, victims - 1))
    assert len(handle.patched) == handle.waiting
    assert not any(runner.run_pre_enqueue(pod(f"p{number}")).is_success for number in range(nodes))
    handle.go.set()
    await asyncio.gather(*handle.tasks)
    assert len(set(handle.deleted)) == nodes * victims == len(handle.deleted)
    assert handle.most_waiting <= VICTIMS_AT_ONCE
    assert handle.activated == [f"p{number}" for number in range(nodes)], "in order"


async def test_preemptions_that_are_over_are_forgotten() -> None:
    handle, state = SlowHandle(), crowd(1, 2)
    handle.go.set()
    evictions = Evictions("x", handle, DEFAULT_KUBERNETES)  # type: ignore[arg-type]
    view = state.snapshot(NOW)
    for number in range(1000):
        gone = running(f"gone-{number}", "a", "1", 1)
        evictions.start_for_pod(pod(f"p{number}"), Candidate("n000", (gone,), 0), [], view)
        await asyncio.gather(*handle.tasks)
    assert len(evictions._requested) < 100, "memory does not grow with the number of preemptions"
