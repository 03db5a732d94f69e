"""Preemptors whose victims have yet to go are parked: the queue asks them when that may have changed, and wakes whom it
would wake if it asked each of them about every pod that goes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
from hypothesis import settings, strategies as st
from hypothesis.stateful import initialize, rule

from scheduler.config import load_configuration
from scheduler.core import decide, run_post_filters
from scheduler.framework import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Eviction,
    PodInfo,
    PodListener,
    Status,
    conclude,
    pod_update_events,
)
from scheduler.plugins import build_profile
from scheduler.state import ClusterState, SchedulingQueue
from tests.support.faketime import ManualClocks
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod
from tests.unit.scheduler.plugins.quotas import running
from tests.unit.scheduler.state.twoqueues import TwoQueues

TEXT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: test}]
"""
CORES = 3
NODES = ("n1", "n2", "n3")


class FullNodes:
    """Nodes full of pods of low priority, a queue, and an API server that is played by hand; it is the plugins'
    handle, too. Without `concern`, the queue asks everybody."""

    def __init__(self, clock: ManualClocks, nodes: Iterable[str] = NODES, *, concern: bool) -> None:
        full = {"cpu": str(CORES), "memory": "16Gi", "pods": "110"}
        self.evictions: list[tuple[Eviction, Callable[[bool], None]]] = []
        self.victims: list[str] = []
        self.questions: Counter[str] = Counter()
        pods = {name: [running(f"{name}-{index}", "a", "1", 1) for index in range(CORES)] for name in nodes}
        self.state: ClusterState = cluster(*(node(name, allocatable=full) for name in nodes), pods=pods)
        self.runner = build_profile(load_configuration(TEXT, source="test").profiles[0], self)  # type: ignore[arg-type]
        self.rng = random.Random(1)
        hints = self.runner.hint_registrations()
        if not concern:
            hints = {
                name: tuple(each._replace(concern=None) for each in registrations)
                for name, registrations in hints.items()
            }
        self.queue = SchedulingQueue(
            clocks=clock.clocks,
            sort_key=lambda info, at: (-info.priority, info.name),
            pre_enqueue=self._pre_enqueue,
            hints={"test": hints},
        )

    def _pre_enqueue(self, info: PodInfo) -> Status:
        self.questions[info.name] += 1
        return self.runner.run_pre_enqueue(info)

    # What plugins call ----------------------------------------------------------------------------------------------

    def pods_on(self, name: str) -> Iterable[PodInfo]:
        return self.state.pods_on(name)

    def watch_pods(self, listener: PodListener) -> None:
        self.state.watch_pods(listener)

    def evict(self, eviction: Eviction, finished: Callable[[bool], None]) -> None:
        self.evictions.append((eviction, finished))
        self.victims += [victim.uid for victim in eviction.victims]

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self.queue.activate([each.uid for each in pods])

    def look_at_gates(self, pods: Iterable[PodInfo]) -> None:
        self.queue.look_at_gates([each.uid for each in pods])

    # What happens ---------------------------------------------------------------------------------------------------

    def attempt(self) -> bool:
        """Try the next pod, as the engine does; false without any."""
        queued = self.queue.pop()
        if queued is None:
            return False
        snapshot = self.state.snapshot(NOW)
        placement = conclude(decide(snapshot, queued.pod, self.runner, self.rng))
        if placement.node is not None:
            bound = self.state.assume(queued.pod, placement.node, NOW)
            self.queue.done(queued.pod.uid)
            self.state.upsert_pod(bound)
            self.queue.on_event(ASSIGNED_POD_ADD, new=bound)
            return True
        outcome = conclude(run_post_filters(snapshot, placement, self.runner))
        self.queue.add_unschedulable(queued, rejectors=placement.rejectors, pending=placement.pending)
        if outcome.nominated_node is not None:
            self.state.nominator.set(queued.pod, outcome.nominated_node)
        return True

    def answer(self, index: int, *, complete: bool) -> None:
        """All requests of an eviction are answered."""
        if self.evictions:
            self.evictions.pop(index % len(self.evictions))[1](complete)

    def terminating(self, uid: str) -> None:
        """The watch shows that a pod has been deleted, with a grace period."""
        old = self.state.pod(uid)
        if old is not None:
            new = msgspec.structs.replace(old, deleting=True, resource_version=f"{old.resource_version}1")
            self.state.upsert_pod(new)
            for event in pod_update_events(old, new):
                self.queue.on_event(event, old=old, new=new)

    def gone(self, uid: str) -> None:
        """The watch shows that a pod is gone."""
        old = self.state.remove_pod(uid)
        if old is not None:
            self.queue.on_event(ASSIGNED_POD_DELETE, old=old)


def test_a_pod_that_goes_asks_the_preemptor_whose_victim_it_was() -> None:
    names = [f"n{number:03}" for number in range(200)]
    world = FullNodes(ManualClocks(), names, concern=True)
    preemptors = [
        pod(f"p{number:03}", container(str(CORES)), priority=9, schedulerName="test") for number in range(200)
    ]
    for each in preemptors:
        world.queue.add(each)
    while world.attempt():
        pass
    evictions = [eviction for eviction, _ in world.evictions]
    assert len(evictions) == len(preemptors)
    # Until the first pod goes they are rejected, and not parked yet.
    world.gone(evictions[0].victims[0].uid)
    assert world.queue.counts()["gated"] == len(preemptors)
    world.questions.clear()
    for eviction in evictions:
        for victim in eviction.victims:
            world.gone(victim.uid)
        world.answer(0, complete=True)
        assert world.queue.queue_of(eviction.preemptor.uid) == "active"
    assert sum(world.questions.values()) <= len(preemptors) * (CORES + 2)


def test_a_preemptor_whose_victims_take_their_time_is_woken_by_any_pod_that_goes() -> None:
    clock = ManualClocks()
    world = FullNodes(clock, ("n1", "n2"), concern=True)
    preemptor = pod("p", container(str(CORES)), priority=9, schedulerName="test")
    world.queue.add(preemptor)
    world.attempt()
    [(eviction, _)] = world.evictions
    other = next(name for name in ("n1", "n2") if name != eviction.node)
    world.gone(f"uid-{other}-0")
    assert world.queue.queue_of(preemptor.uid) == "gated"
    world.answer(0, complete=True)
    for victim in eviction.victims:
        world.terminating(victim.uid)
    assert world.queue.queue_of(preemptor.uid) == "gated"
    world.gone(f"uid-{other}-1")
    assert world.queue.queue_of(preemptor.uid) == "backoff"


def test_a_victim_that_waited_for_permission_wakes_its_preemptor_when_it_is_sent_away() -> None:
    world = FullNodes(ManualClocks(), ("n1",), concern=True)
    world.gone("uid-n1-0")
    waiting = world.state.assume(pod("low", container("1"), priority=1, schedulerName="test"), "n1", NOW)
    preemptor = pod("p", container(str(CORES)), priority=9, schedulerName="test")
    world.queue.add(preemptor)
    world.attempt()
    assert sorted(world.victims) == ["uid-low", "uid-n1-1", "uid-n1-2"]
    world.gone("uid-n1-1")
    world.answer(0, complete=True)
    world.gone("uid-n1-2")
    assert world.queue.queue_of(preemptor.uid) == "gated"
    world.state.forget(waiting.uid)
    world.queue.on_event(ASSIGNED_POD_DELETE, old=waiting, except_uid=waiting.uid)
    assert world.queue.queue_of(preemptor.uid) == "backoff"


class GateMachine(TwoQueues):
    """Two worlds, in one of which everybody is asked: at every moment each pod is in the same place in both."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds = [FullNodes(self.clock, concern=concern) for concern in (True, False)]
        self.added: set[str] = set()

    def names(self) -> Iterable[str]:
        return self.added

    preemptors = st.integers(0, 5).map(lambda index: f"p{index}")
    numbers = st.integers(0, 8)

    @initialize(cores=st.lists(st.integers(1, CORES), min_size=2, max_size=3))
    def some_preempt(self, cores: list[int]) -> None:
        for index, each in enumerate(cores):
            self.come(f"p{index}", each, 9)
            self.attempt()

    @rule(name=preemptors, cores=st.integers(1, CORES), priority=st.sampled_from((5, 9)))
    def come(self, name: str, cores: int, priority: int) -> None:
        if name not in self.added:
            self.added.add(name)
            for world in self.worlds:
                world.queue.add(pod(name, container(str(cores)), priority=priority, schedulerName="test"))

    @rule()
    def attempt(self) -> None:
        first, second = (world.attempt() for world in self.worlds)
        assert first == second

    @rule(index=st.integers(0, 5), complete=st.booleans())
    def answer(self, index: int, complete: bool) -> None:
        for world in self.worlds:
            world.answer(index, complete=complete)

    @rule(number=numbers)
    def a_victim_terminates(self, number: int) -> None:
        for world in self.worlds:
            if world.victims:
                world.terminating(world.victims[number % len(world.victims)])

    @rule(number=numbers)
    def a_victim_goes(self, number: int) -> None:
        for world in self.worlds:
            if world.victims:
                world.gone(world.victims[number % len(world.victims)])

    @rule(name=st.sampled_from(NODES), index=st.integers(0, CORES - 1), bound=st.one_of(st.none(), preemptors))
    def another_goes(self, name: str, index: int, bound: str | None) -> None:
        for world in self.worlds:
            world.gone(f"uid-{name}-{index}" if bound is None else f"uid-{bound}")

    @rule()
    def node_comes(self) -> None:
        for world in self.worlds:
            world.queue.on_event(NODE_ADD, new=world.state.node("n1"))


GateMachine.TestCase.settings = settings(max_examples=tries(40), stateful_step_count=25, deadline=None)
TestGateMachine = GateMachine.TestCase
