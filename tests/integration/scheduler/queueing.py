"""A stage for queueing: the real kube-scheduler and our daemon on one API server, and what either has done after every
step of a scenario.

The real one plays first; a step of it is over when nothing has changed for a while. Ours has to come to the same state
after the same step, and to stay there. There is no controller and no kubelet: steps do what they would do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.conformance import profiles
from tests.conformance.apiclient import COLLECTIONS, Api
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.schedulerlog import parse
from tests.integration.scheduler.preemption import OURS, our_daemon

Json = dict[str, Any]
REAL = profiles.scheduler_name(profiles.PLAIN)
NAMESPACE, ELSEWHERE = "queue-a", "queue-b"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PRIORITIES = {"low": 10, "mid": 50, "high": 100}
"""Priority classes; their pods preempt nobody, those of `eager` do."""
QUIET_SECONDS = 0.5
"""A step of the real scheduler is over when nothing has changed for so long."""
_STAYS_SECONDS = 0.3
_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_SEEN_SECONDS = 0.3
"""After so long both schedulers know what is on the stage."""
_CLEARED = ("Pod", "PersistentVolumeClaim")
_CLEARED_EVERYWHERE = ("PersistentVolume", "StorageClass", "CSINode", "Node")
_BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = "volume.kubernetes.io/selected-node"

Step = Callable[[Api, str], Awaitable[None]]
"""What happens: given the API and the name of the scheduler whose turn it is."""


@dataclass(frozen=True)
class State:
    """What can be seen from outside. `attempts`: how often a pod was rejected so far."""

    bound: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    """Claims by the volume or node chosen for them, volumes by their claim."""
    events: frozenset[tuple[str, str, str]] = frozenset()
    """Pod, reason, note."""


# Objects --------------------------------------------------------------------------------------------------------------


def node(name: str, cpu: str = "2", *, taints: tuple[Json, ...] = (), **labels: str) -> Json:
    """A ready node; its zone is given as label `zone`."""
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    named = {ZONE if key == "zone" else key: value for key, value in labels.items()}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, **named}},
        "spec": {"taints": list(taints)},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str, cpu: str = "100m", *, on: str = "", **spec: Any) -> Json:
    """A pod that waits, or one that runs on a node; `labels`, `namespace` and `ports` are what they say."""
    labels, namespace = spec.pop("labels", {}), spec.pop("namespace", NAMESPACE)
    priority = spec.pop("priority", "")
    container = {
        "name": "c",
        "image": "i",
        "ports": spec.pop("ports", []),
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            **({"nodeName": on} if on else {}),
            **({"priorityClassName": f"queue-{priority}"} if priority else {}),
            **spec,
        },
        **({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}} if on else {}),
    }


def claim(name: str, storage_class: str = "", *, volume: str = "", mode: str = "ReadWriteOnce") -> Json:
    """A claim, bound to a volume where one is given."""
    spec: Json = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
    }
    metadata: Json = {"name": name, "namespace": NAMESPACE}
    item: Json = {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = _BOUND
        item["status"] = {"phase": "Bound"}
    return item


def volume(
    name: str,
    storage_class: str = "",
    *,
    host: str = "",
    claimed_by: str = "",
    driver: str = "",
    mode: str = "ReadWriteOnce",
) -> Json:
    """A volume of any node or of one, free or bound to a claim."""
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        **({"csi": {"driver": driver, "volumeHandle": name}} if driver else {"local": {"path": "/mnt"}}),
    }
    expression = {"key": HOSTNAME, "operator": "In" if host else "Exists", **({"values": [host]} if host else {})}
    spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if claimed_by:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": claimed_by}
    phase = "Bound" if claimed_by else "Available"
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


def storage_class(name: str, provisioner: str = "kubernetes.io/no-provisioner") -> Json:
    """A class whose claims are bound once a pod has a node."""
    item: Json = {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}
    return item | {"volumeBindingMode": "WaitForFirstConsumer"}


def csi_node(name: str, limit: int) -> Json:
    """How many volumes of driver.example.com a node takes."""
    driver = {"name": "driver.example.com", "nodeID": name, "topologyKeys": [], "allocatable": {"count": limit}}
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}


def using(claim_name: str) -> Json:
    """The spec of a pod with a volume."""
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]}


# Steps ----------------------------------------------------------------------------------------------------------------


def create(*items: Json) -> Step:
    """Objects come, one after the other; a pod without a node belongs to the scheduler whose turn it is."""

    async def act(api: Api, scheduler: str) -> None:
        for item in items:
            if item["kind"] == "Pod":
                item = item | {"spec": {**item["spec"], "schedulerName": scheduler}}
            await api.create(item)

    return act


def patch(kind: str, name: str, body: Json, part: str = "", namespace: str = NAMESPACE) -> Step:
    """An object, or its status or another part, changes."""

    async def act(api: Api, _: str) -> None:
        group, plural, namespaced = COLLECTIONS[kind]
        path = f"{group}/namespaces/{namespace}/{plural}" if namespaced else f"{group}/{plural}"
        await api.call("PATCH", f"{path}/{name}{f'/{part}' if part else ''}", body)

    return act


def delete(kind: str, *names: str) -> Step:
    """Objects go at once."""

    async def act(api: Api, _: str) -> None:
        for name in names:
            await api.delete({"kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}})

    return act


def pause(seconds: float) -> Step:
    """Time passes."""

    async def act(_: Api, __: str) -> None:
        await asyncio.sleep(seconds)

    return act


# Reading --------------------------------------------------------------------------------------------------------------

_KLOG_TIME = re.compile(r"[IWEF]\d{4} (\d\d):(\d\d):(\d\d\.\d+) ")
_REJECTED = {
    "Unable to schedule pod; no fit; waiting",
    "Unable to schedule pod; no nodes are registered to the cluster; waiting",
    "Error scheduling pod; retrying",
}
_PLACED = "Successfully bound pod to node"


class AttemptLog:
    """When a scheduler turned pods down or bound them, from its log: pod, seconds since midnight, whether bound."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""
        self.entries: list[tuple[str, float, bool]] = []

    def read(self) -> None:
        """Take in what has been written since."""
        lines = (self._rest + self._file.read()).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line.decode("utf-8", "replace"))

    def forget(self) -> None:
        """Start over."""
        self.read()
        self.entries.clear()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, text: str) -> None:
        if text.startswith("{"):
            values = json.loads(text)
            message, moment = values.get("event"), datetime.fromisoformat(values["timestamp"]).astimezone(UTC)
            seconds = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
        else:
            line, clock = parse(text), _KLOG_TIME.match(text)
            if line is None or clock is None:
                return
            message, values = line.message, line.values
            seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])
        if message in _REJECTED or message == _PLACED:
            self.entries.append((values["pod"].partition("/")[2], seconds, message == _PLACED))


class QueueStage:
    """Where scenarios are played."""

    def __init__(self, api: Api, logs: dict[str, AttemptLog]) -> None:
        self._api = api
        self._logs = logs
        self._pods: set[str] = set()

    async def prepare(self) -> None:
        """Make what every scenario needs."""
        for name in (NAMESPACE, ELSEWHERE):
            await self._api.create({"kind": "Namespace", "metadata": {"name": name}})
        for name, value in {**PRIORITIES, "eager": PRIORITIES["high"]}.items():
            policy = "PreemptLowerPriority" if name == "eager" else "Never"
            metadata = {"name": f"queue-{name}"}
            item = {"kind": "PriorityClass", "metadata": metadata, "value": value, "preemptionPolicy": policy}
            await self._api.create(item)

    async def play(
        self, steps: list[Step], scheduler: str, expected: list[State] | None = None, *, patience: float = 1.0
    ) -> list[State]:
        """Play with one of the schedulers and clear the stage; returns the state after every step.

        With `expected` a step lasts until the state is the expected one and stays so, or patience is at its end.
        """
        self._logs[scheduler].forget()
        self._pods.clear()
        states: list[State] = []
        try:
            for number, step in enumerate(steps):
                await step(self._api, scheduler)
                if number == 0:
                    await asyncio.sleep(_SEEN_SECONDS)
                wanted = expected[number] if expected is not None else None
                states.append(await self._settled(scheduler, wanted, patience))
                if wanted is not None and states[-1] != wanted:
                    break
        finally:
            await self._clear()
        return states

    def attempts(self, scheduler: str) -> list[tuple[str, float, bool]]:
        """What the last play's log tells."""
        self._logs[scheduler].read()
        return list(self._logs[scheduler].entries)

    async def _settled(self, scheduler: str, wanted: State | None, patience: float) -> State:
        started = changed = time.monotonic()
        state = await self._state(scheduler)
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            latest, now = await self._state(scheduler), time.monotonic()
            if latest != state:
                state, changed = latest, now
            quiet = QUIET_SECONDS if wanted is None else _STAYS_SECONDS
            if now - changed > quiet * patience and (wanted is None or state == wanted):
                return state
            if now - started > _PATIENCE_SECONDS * patience:
                return state

    async def _state(self, scheduler: str) -> State:
        path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
        pods, claims, volumes, events = await asyncio.gather(
            self._api.list_all("Pod", NAMESPACE),
            self._api.list_all("PersistentVolumeClaim", NAMESPACE),
            self._api.list_all("PersistentVolume"),
            self._api.call("GET", path),
        )
        self._pods |= {item["metadata"]["uid"] for item in pods}
        self._logs[scheduler].read()
        attempts: dict[str, int] = {}
        for name, _, bound in self._logs[scheduler].entries:
            attempts[name] = attempts.get(name, 0) + (not bound)
        return State(
            {item["metadata"]["name"]: item["spec"]["nodeName"] for item in pods if "nodeName" in item["spec"]},
            {item["metadata"]["name"]: _condition(item) for item in pods},
            attempts,
            {item["metadata"]["name"]: _chosen(item) for item in [*claims, *volumes]},
            # What is late may tell of an earlier play's pods.
            frozenset(
                (event["regarding"]["name"], event["reason"], _note(event))
                for event in events["items"]
                if event["regarding"]["uid"] in self._pods
            ),
        )

    async def _clear(self) -> None:
        for namespace in (NAMESPACE, ELSEWHERE):
            for kind in _CLEARED:
                await self._api.delete_all(kind, namespace)
        for kind in _CLEARED_EVERYWHERE:
            await self._api.delete_all(kind)
        await patch("Namespace", ELSEWHERE, {"metadata": {"labels": {"team": None}}})(self._api, "")
        await asyncio.sleep(_SEEN_SECONDS)


def _condition(item: Json) -> str:
    status = item.get("status", {})
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            nominated = status.get("nominatedNodeName", "-")
            return f"{condition['reason']}: {condition.get('message', '')} nominated={nominated}"
    return "scheduled" if "nodeName" in item["spec"] else ""


def _note(event: Json) -> str:
    # The preemptor is named by its UID.
    return "" if event["reason"] == "Preempted" else str(event.get("note", ""))


def _chosen(item: Json) -> str:
    spec = item["spec"]
    if "claimRef" in spec:
        return str(spec["claimRef"]["name"])
    return str(spec.get("volumeName") or item["metadata"].get("annotations", {}).get(SELECTED, ""))


@contextlib.contextmanager
def queue_stage_running(directory: Path) -> Iterator[tuple[QueueStage, asyncio.Runner]]:
    """Start everything; the runner is where the stage's coroutines belong."""
    with (
        control_plane_running() as plane,
        our_daemon(plane, directory) as log,
        queue_stage(plane, {REAL: plane.log, OURS: log}) as stage,
    ):
        yield stage


@contextlib.contextmanager
def queue_stage(plane: ControlPlane, logs: Mapping[str, Path]) -> Iterator[tuple[QueueStage, asyncio.Runner]]:
    """A stage for schedulers that run, each with its log; the runner is where the stage's coroutines belong."""
    with contextlib.ExitStack() as opened, asyncio.Runner() as runner:
        read = {name: opened.enter_context(contextlib.closing(AttemptLog(path))) for name, path in logs.items()}

        async def open_stage() -> tuple[QueueStage, Api]:
            api = Api(plane)
            stage = QueueStage(api, read)
            await stage.prepare()
            return stage, api

        stage, api = runner.run(open_stage())
        try:
            yield stage, runner
        finally:
            runner.run(api.close())
