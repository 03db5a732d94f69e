"""A fake API server for the engine's tests: takes Bindings, patches and events, and can fail as a test wants."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.catalog import Watch
from scheduler.config import EffectiveProfile, load_configuration
from scheduler.engine.cycle import Profile, SchedulingCycle
from scheduler.engine.environment import plugin_environment
from scheduler.engine.failures import FailureReporter
from scheduler.engine.handle import EngineHandle
from scheduler.engine.inputs import NodeInputs, NodeUpdate, PodInputs
from scheduler.engine.objects import ObjectInputs
from scheduler.engine.recorder import EventRecorder
from scheduler.engine.waiting import WaitingPods
from scheduler.framework import EventOrder, FirstAttemptOrder, PodInfo
from scheduler.kube.client.errors import api_error
from scheduler.kube.model import EventType, ResourceVersion
from scheduler.observe.health import LoopWatch
from scheduler.observe.metrics import Metrics
from scheduler.plugins import build_profile
from scheduler.state import WATCHED_KINDS, ClusterState, SchedulingQueue
from tests.unit.scheduler.engine.pods import node_info, pod_info

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: secondary-scheduler
"""


class FakeApi:
    """Remembers what was written. `on_binding` may raise what the client would raise; `pods` answers reads."""

    def __init__(self) -> None:
        self.bindings: list[tuple[str, str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.pods: dict[str, dict[str, Any]] = {}
        self.failures: list[Exception | None] = []

    async def post(self, path: str, body: Any) -> bytes:
        if path.endswith("/binding"):
            failure = self.failures.pop(0) if self.failures else None
            if failure is not None:
                raise failure
            self.bindings.append((body["metadata"]["name"], body["metadata"]["uid"], body["target"]["name"]))
        else:
            self.events.append(body)
        return b"{}"

    async def patch(self, path: str, body: Any, content_type: str = "") -> bytes:
        self.patches.append((path, body))
        return b"{}"

    async def delete(self, path: str, body: Any = None) -> bytes:
        return b"{}"

    async def get(self, path: str) -> bytes:
        name = path.rsplit("/", 1)[1]
        if name not in self.pods:
            raise api_error("GET", path, 404, b"")
        return json.dumps(self.pods[name]).encode()

    def show(self, name: str, *, node: str = "", uid: str | None = None) -> None:
        """What a read of the pod answers."""
        self.pods[name] = {"metadata": {"uid": uid or f"{name}-uid"}, "spec": {"nodeName": node}}


class Engine:
    """The engine wired to a fake API, driven by hand."""

    def __init__(self, api: FakeApi | None = None, configuration: str = CONFIGURATION, **cycle: Any) -> None:
        self.api = api or FakeApi()
        self.metrics = Metrics()
        self.leading = True
        self.state = ClusterState()
        self.waiting = WaitingPods(time.time)
        self.recorder = EventRecorder(self.api, instance="host")  # type: ignore[arg-type]
        profiles = {
            one.scheduler_name: self._profile(one) for one in load_configuration(configuration, source="test").profiles
        }
        runners = {name: one.runner for name, one in profiles.items()}
        self.handle = next(iter(profiles.values())).handle
        sorter = next(iter(runners.values())).queue_sort
        self.queue = SchedulingQueue(
            clock=time.time,
            sort_key=sorter.sort_key,
            by_first_attempt=isinstance(sorter, FirstAttemptOrder) and sorter.orders_by_first_attempt,
            reordered_by=sorter.reordered_by if isinstance(sorter, EventOrder) else None,
            pre_enqueue=lambda pod: runners[pod.scheduler_name].run_pre_enqueue(pod),
            hints={name: runner.hint_registrations() for name, runner in runners.items()},
        )
        pending: dict[str, PodInfo] = {}
        failures = FailureReporter()
        self.cycle = SchedulingCycle(
            state=self.state,
            queue=self.queue,
            profiles=profiles,
            pending=pending,
            failures=failures,
            waiting=self.waiting,
            metrics=self.metrics,
            may_schedule=lambda: self.leading,
            watch=LoopWatch(60),
            rng=random.Random(1),
            **cycle,
        )
        self.pods = PodInputs(
            self.state,
            self.queue,
            pending=pending,
            scheduler_names=profiles,
            waiting=self.waiting,
            failures=failures,
            wake=self.cycle.wake,
        )
        self.nodes = NodeInputs(self.state, self.queue, wake=self.cycle.wake)

    def _profile(self, effective: EffectiveProfile) -> Profile:
        handle = EngineHandle(
            scheduler_name=effective.scheduler_name,
            client=self.api,  # type: ignore[arg-type]
            recorder=self.recorder,
            metrics=self.metrics,
            may_write=lambda: self.leading,
            activate=lambda uids: self.cycle.activate(uids),
            waiting=self.waiting,
            reorder=lambda uids: self.queue.reorder(uids),
            clock=time.time,
            node=self.state.node,
            exists=lambda uid: uid in self.pods.pending,
            pods_on=self.state.pods_on,
            watch_pods=self.state.watch_pods,
        )
        runner = build_profile(effective, handle, environment=plugin_environment())
        runner.use_objects(self.state.objects)
        runner.use_pods(self.state.directory)
        return Profile(runner, handle)

    def objects(self, watch: Watch) -> ObjectInputs:
        """The sink of the watch on a kind."""
        return ObjectInputs(WATCHED_KINDS[watch], self.state, self.queue, wake=self.cycle.wake)

    def add_node(self, name: str, **fields: Any) -> None:
        self.nodes.apply([(EventType.ADDED, NodeUpdate(node_info(name, **fields), ()))])

    def add_pod(self, name: str, **fields: Any) -> PodInfo:
        pod = pod_info(name, **fields)
        self.pods.apply([(EventType.ADDED, pod)])
        return pod

    def relist_pods(self, *pods: PodInfo) -> None:
        self.pods.replace(pods, ResourceVersion("9"))


async def eventually(check: Callable[[], bool], what: str) -> None:
    for _ in range(300):
        if check():
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"not within 3 s: {what}")
