"""A stage for preemption: one API server, the real kube-scheduler and our daemon as processes, and a transcript of what
either does in a scenario.

There is no kubelet and no controller: the stage itself lets terminating pods go after a while, and fills in what a
PodDisruptionBudget allows. Both schedulers run all the time; the pods of a scenario belong to one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.support.waiting import PATIENCE_SECONDS

Json = dict[str, Any]
REAL, OURS = "conformance-default", "ours"
NAMESPACE = "team-a"
QUIET_SECONDS = 1.6
"""A scenario is over when nothing has happened for so long: longer than the first back-off."""
_SEEN_SECONDS = 0.5
"""After so long both schedulers know what is on the stage."""
TERMINATING_SECONDS = 1.0
"""How long a pod with a grace period takes to go."""
PRIORITIES = {"low": 10, "mid": 50, "high": 100, "never": 100}
"""Priority classes; pods of `never` preempt nobody."""


@dataclass
class Scenario:
    """Nodes (name to CPU), pods that run, budgets, and what then comes: pods, each after everything is quiet, or in a
    list, each after the first word about the one before."""

    nodes: dict[str, str]
    running: list[Json]
    incoming: list[Json | list[Json]]
    budgets: list[Json] = field(default_factory=list)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class Transcript:
    """What happened, told without what differs between any two runs."""

    bound: dict[str, str] = field(default_factory=dict)
    histories: dict[str, list[str]] = field(default_factory=dict)
    """Per pod, every change of condition, nomination, fate."""
    evicted: list[str] = field(default_factory=list)
    """In the order in which deletions began."""
    events: set[tuple[str, str, str]] = field(default_factory=set)
    """Preempted: victim, preemptor, node."""

    def add(self, pod: str, fact: str) -> None:
        history = self.histories.setdefault(pod, [])
        if not history or history[-1] != fact:
            history.append(fact)


def pod(name: str, cpu: str, priority: str, *, node: str = "", grace: int = 0, age: int = 1000, **spec: Any) -> Json:
    """A pod; `age` orders the start times of running ones, `labels` are its labels."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_760_000_000 - age))
    labels = spec.pop("labels", {})
    ports = spec.pop("ports", [])
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "priorityClassName": f"preemption-{priority}",
            "nodeName": node,
            "containers": [
                {"name": "c", "image": "i", "ports": ports, "resources": {"requests": {"cpu": cpu}}},
            ],
            **spec,
        },
        "status": {"phase": "Running", "startTime": started} if node else {},
    }


def budget(name: str, allowed: int, app: str) -> Json:
    """A PodDisruptionBudget for the pods of an app, as its controller would have filled it in."""
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": 1,
        },
    }


def _node(name: str, cpu: str, labels: dict[str, str]) -> Json:
    resources = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


class Player:
    """Where scenarios are played."""

    def __init__(self, plane: ControlPlane, api: Api, session: aiohttp.ClientSession) -> None:
        self._plane = plane
        self._api = api
        self._session = session
        self._last_change = 0.0
        self._going: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def prepare(self) -> None:
        """Make what every scenario needs."""
        await self._api.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for name, value in PRIORITIES.items():
            policy = "Never" if name == "never" else "PreemptLowerPriority"
            metadata = {"name": f"preemption-{name}"}
            item = {"kind": "PriorityClass", "metadata": metadata, "value": value, "preemptionPolicy": policy}
            await self._api.create(item)

    async def play(self, scenario: Scenario, scheduler: str, patience: float = 1) -> Transcript:
        """Play a scenario with one of the schedulers, and clear the stage; `patience` stretches the waits for quiet."""
        transcript = Transcript()
        uids: dict[str, str] = {}
        watch = asyncio.create_task(self._watch(transcript, uids))
        try:
            await self._set(scenario, scheduler)
            self._last_change = time.monotonic()
            await self._quiet(_SEEN_SECONDS * patience)
            for group in scenario.incoming:
                for incoming in group if isinstance(group, list) else [group]:
                    await self._create(incoming, scheduler)
                    await self._answered(transcript, incoming["metadata"]["name"])
                self._last_change = time.monotonic()
                await self._quiet(QUIET_SECONDS * patience)
            await self._read_events(transcript, uids)
        finally:
            watch.cancel()
            await asyncio.gather(watch, *self._tasks, return_exceptions=True)
            await self._clear(scenario)
        return transcript

    async def _set(self, scenario: Scenario, scheduler: str) -> None:
        for name, cpu in scenario.nodes.items():
            await self._api.create(_node(name, cpu, scenario.labels.get(name, {})))
        for running in scenario.budgets:
            await self._api.create(running)
        for running in scenario.running:
            await self._create(running, scheduler)

    async def _create(self, item: Json, scheduler: str) -> None:
        await self._api.create({**item, "spec": {**item["spec"], "schedulerName": scheduler}})

    async def _clear(self, scenario: Scenario) -> None:
        await self._api.delete_all("Pod", NAMESPACE)
        for item in await self._api.list_all("Pod", NAMESPACE):
            await self._api.delete(item)
        await self._api.delete_all("PodDisruptionBudget", NAMESPACE)
        for name in scenario.nodes:
            await self._api.delete({"kind": "Node", "metadata": {"name": name}})
        await self._api.call("DELETE", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
        self._going.clear()
        await asyncio.sleep(0.3)

    async def _quiet(self, seconds: float) -> None:
        deadline = time.monotonic() + 20 * seconds
        while (left := min(self._last_change + seconds, deadline) - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)

    @staticmethod
    async def _answered(transcript: Transcript, name: str) -> None:
        """Wait for the first word about a pod, so that the next one comes second for both schedulers."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while name not in transcript.histories and name not in transcript.bound:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def _watch(self, transcript: Transcript, uids: dict[str, str]) -> None:
        url = f"{self._plane.api_server}/api/v1/namespaces/{NAMESPACE}/pods?watch=1&timeoutSeconds=120"
        async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as response:
            async for line in response.content:
                event = json.loads(line)
                uids[event["object"]["metadata"]["uid"]] = event["object"]["metadata"]["name"]
                self._tell(transcript, event["type"], event["object"])

    def _tell(self, transcript: Transcript, kind: str, item: Json) -> None:
        name, status = item["metadata"]["name"], item["status"]
        self._last_change = time.monotonic()
        deleting = "deletionTimestamp" in item["metadata"] or kind == "DELETED"
        for condition in status.get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                nominated = status.get("nominatedNodeName", "-")
                transcript.add(name, f"{condition['reason']} {condition['message']} nominated={nominated}")
            if condition["type"] == "DisruptionTarget":
                # The condition starts with the scheduler's name.
                text = condition["message"].partition(": ")[2]
                transcript.add(name, f"DisruptionTarget {condition['status']} {condition['reason']} {text}")
        if item["spec"].get("nodeName") and kind != "DELETED" and not deleting:
            transcript.bound[name] = item["spec"]["nodeName"]
        if deleting and name not in transcript.evicted:
            transcript.evicted.append(name)
            transcript.bound.pop(name, None)
        if kind != "DELETED" and deleting and name not in self._going:
            self._going.add(name)
            task = asyncio.create_task(self._let_go(item))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _let_go(self, item: Json) -> None:
        await asyncio.sleep(TERMINATING_SECONDS)
        await self._api.delete({**item, "kind": "Pod"})

    async def _read_events(self, transcript: Transcript, uids: dict[str, str]) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
        for event in (await self._api.call("GET", path))["items"]:
            if event["reason"] != "Preempted":
                continue
            note = event["note"].removeprefix("Preempted by pod ")
            uid, _, node = note.partition(" on node ")
            assert event["related"]["uid"] == uid
            assert (event["type"], event["action"]) == ("Normal", "Preempting")
            transcript.events.add((event["regarding"]["name"], uids[uid], node))


@contextlib.contextmanager
def our_daemon(plane: ControlPlane, directory: Path, profile: Json | None = None) -> Iterator[Path]:
    """Our scheduler as a process, with the fields of a profile; gives its log, in JSON, which must hold no traceback in
    the end."""
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.layout.kubeconfig)},
        "profiles": [{"schedulerName": OURS, **(profile or {})}],
    }
    with daemon_running(directory, json.dumps(configuration)) as log:
        yield log


@contextlib.contextmanager
def daemon_running(directory: Path, configuration: str, flags: Sequence[str] = ("--secure-port=0",)) -> Iterator[Path]:
    """Our scheduler as a process; gives its log, in JSON, which must hold no traceback in the end."""
    config, log = directory / "config.yaml", directory / "log"
    config.write_text(configuration)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-m", "scheduler", f"--config={config}", *flags, "--logging-format=json"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as daemon:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while "caches are filled" not in log.read_text():
                assert daemon.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(0.1)
            yield log
            assert daemon.poll() is None, log.read_text()[-2000:]
            assert "Traceback" not in log.read_text(), log.read_text()[-4000:]
        finally:
            daemon.terminate()


@contextlib.contextmanager
def stage_running(directory: Path) -> Iterator[tuple[Player, asyncio.Runner]]:
    """Start everything; the runner is where the stage's coroutines belong."""
    with control_plane_running() as plane, asyncio.Runner() as runner:

        async def open_stage() -> tuple[Player, Api, aiohttp.ClientSession]:
            api = Api(plane)
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=plane.ssl_context()))
            stage = Player(plane, api, session)
            await stage.prepare()
            return stage, api, session

        stage, api, session = runner.run(open_stage())
        try:
            with our_daemon(plane, directory):
                yield stage, runner
        finally:
            runner.run(api.close())
            runner.run(session.close())
