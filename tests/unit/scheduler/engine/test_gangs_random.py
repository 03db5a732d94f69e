"""Random gangs, rivals, refused and lost Bindings: at rest a gang is bound as a whole or not at all, no node holds more
than it has, and pods that are left out really do not fit."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from scheduler.core import decide_gang
from scheduler.engine import turns
from scheduler.framework import GangPlugin, PodInfo, conclude
from scheduler.kube.client import ConnectionLost
from scheduler.kube.model import POD_GROUP_LABEL, EventType
from tests.unit.scheduler.engine.fakes import FakeApi
from tests.unit.scheduler.engine.gangs import GangEngine
from tests.unit.scheduler.engine.test_cycle import refused

_NAMES = ("secondary-scheduler", "second-scheduler")
_QUIET_SECONDS = 0.25


class EchoApi(FakeApi):
    """Shows what was bound to the watch, a moment later."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.engine: GangEngine | None = None
        self.known: dict[str, PodInfo] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def post(
        self, path: str, body: object, allowed: Callable[[], bool] = lambda: True, prepaid: bool = False
    ) -> bytes:
        lost = path.endswith("/binding") and bool(self.failures) and isinstance(self.failures[0], ConnectionLost)
        if lost and isinstance(body, dict):
            # It was written, and the answer got lost.
            self.show(body["metadata"]["name"], node=body["target"]["name"])
            self.bindings.append((body["metadata"]["name"], body["metadata"]["uid"], body["target"]["name"]))
        before = len(self.bindings) - lost
        try:
            return await super().post(path, body)
        finally:
            for name, _, node in self.bindings[before:]:
                task = asyncio.create_task(self._echo(name, node))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def _echo(self, name: str, node: str) -> None:
        await asyncio.sleep(self.rng.random() * 0.02)
        assert self.engine is not None
        bound = msgspec.structs.replace(self.known[name], node_name=node, resource_version="2")
        self.engine.pods.apply([(EventType.MODIFIED, bound)])


class Story:
    """What happens in one run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.api = EchoApi(random.Random(seed + 1))
        self.engine = GangEngine(profiles=2, api=self.api)
        self.api.engine = self.engine
        # With backoff, another pod may take the node of a member whose Binding was refused twice.
        self.engine.queue._max_backoff = 0
        self.minimum: dict[str, int] = {}
        self.room: dict[str, int] = {}
        self._add_node()

    def step(self) -> None:
        choice = self.rng.random()
        if choice < 0.35:
            self._add_gang()
        elif choice < 0.6:
            self._add_node()
        elif choice < 0.7:
            self._add_pod(f"alone-{len(self.api.known)}", "")
        elif choice < 0.8 and self.minimum:
            name = self.rng.choice(list(self.minimum))
            self.minimum[name] = max(1, self.minimum[name] - 1)
            self.engine.add_group(
                name, self.minimum[name], event=EventType.MODIFIED, version=self.rng.randint(2, 10**6)
            )
        elif choice < 0.9 and self.minimum:
            self._add_pod(f"late-{len(self.api.known)}", self.rng.choice(list(self.minimum)))
        else:
            failure = self.rng.choice((refused(403, "no"), refused(403, "no"), ConnectionLost("reset")))
            self.api.failures += [None] * self.rng.randint(0, 2) + [failure]

    def _add_node(self) -> None:
        name, cpus = f"n{len(self.room)}", self.rng.randint(1, 4)
        self.room[name] = cpus
        self.engine.add_node(name, cpu=str(cpus))

    def _add_gang(self) -> None:
        name, size = f"g{len(self.minimum)}", self.rng.randint(1, 6)
        self.minimum[name] = self.rng.randint(1, size)
        group_first = self.rng.random() < 0.5
        if group_first:
            self.engine.add_group(name, self.minimum[name])
        for number in range(size):
            self._add_pod(f"{name}-{number}", name)
        if not group_first:
            self.engine.add_group(name, self.minimum[name])

    def _add_pod(self, name: str, group: str) -> None:
        fields: dict[str, Any] = {"cpu": "1", "scheduler": self.rng.choice(_NAMES)}
        # No preemption: the fake API server does not delete victims.
        fields |= {"priority": self.rng.choice((0, 0, 5)), "preemptionPolicy": "Never"}
        add = self.engine.add_member if group else self.engine.add_pod
        pod = add(name, group, **fields) if group else add(name, **fields)
        self.api.known[name] = pod

    async def rest(self) -> None:
        """Wait until nothing has been bound or written for a while."""
        before: object = None
        while (now := (len(self.api.bindings), len(self.api.patches), self.engine.state.assumed_count)) != before:
            before = now
            await asyncio.sleep(_QUIET_SECONDS)

    def check(self) -> None:
        nodes = {name: node for name, _, node in self.api.bindings}
        assert len(nodes) == len(self.api.bindings), "a pod was bound twice"
        assert all(count <= self.room[node] for node, count in Counter(nodes.values()).items())
        assert self.engine.state.assumed_count == 0
        for name, minimum in self.minimum.items():
            members = [pod for pod in self.api.known.values() if pod.labels.get(POD_GROUP_LABEL) == name]
            bound = [pod for pod in members if pod.name in nodes]
            assert not bound or len(bound) >= minimum, f"{name}: {len(bound)} of at least {minimum}"
            if not bound and len(members) >= minimum:
                self._does_not_fit(members[0])
        alone = [pod for pod in self.api.known.values() if POD_GROUP_LABEL not in pod.labels]
        if any(pod.name not in nodes for pod in alone):
            assert sum(self.room.values()) == len(nodes)

    def _does_not_fit(self, pod: PodInfo) -> None:
        runners = self.engine.runners
        plugin = runners[pod.scheduler_name].plugins["Coscheduling"]
        assert isinstance(plugin, GangPlugin)
        gang = plugin.gang_of(pod)
        assert gang is not None
        snapshot = self.engine.state.snapshot(0.0)
        asking = decide_gang(
            snapshot, gang, gang.waiting, lambda member: runners[member.scheduler_name], random.Random(1), gang.missing
        )
        decision = conclude(asking)
        assert len(decision.placed) < decision.gang.missing, f"{gang.name} would fit"


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 60))])
async def test_all_or_none_at_rest(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        # Each member is decided in a turn of its own.
        monkeypatch.setattr(turns, "TURN_SECONDS", -1.0)
    story = Story(seed)
    story.engine.recorder.start()
    task = asyncio.create_task(story.engine.cycle.run())
    try:
        for _ in range(4):
            for _ in range(story.rng.randint(1, 8)):
                story.step()
                if story.rng.random() < 0.5:
                    await asyncio.sleep(0.005)
            await story.rest()
            story.check()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await story.engine.recorder.drain(1)
    assert not task.done() or task.cancelled()
