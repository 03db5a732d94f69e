"""Asks the real kube-scheduler: creates a case's cluster and pods on a real API server and reads the answers from the
scheduler's log.

What the scheduler has seen is read from the same log (nodes, pods); other kinds get a short time to reach it. Whoever
finds a difference asks again with a longer `settle` before believing it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import BinaryIO

from devcluster import processes
from tests.conformance import profiles
from tests.conformance.apiclient import COLLECTIONS, Api
from tests.conformance.case import (
    BOUND,
    ERROR,
    GATED,
    SPARES_LEAVING_VICTIMS,
    UNSCHEDULABLE,
    Answer,
    Asked,
    Case,
    Json,
    key_of,
)
from tests.conformance.controlplane import ControlPlane
from tests.conformance.schedulerlog import Attempt, LogState
from tests.conformance.surroundings import NAMESPACES, create_surroundings

SETTLE_SECONDS = 0.03
_POLL_SECONDS = 0.002
_SEEN_SECONDS = 30.0
_VERDICT_SECONDS = 20.0
_PREEMPTION_SECONDS = 0.2
_VICTIMS_SECONDS = 2.0
_ORDER = (
    ("StorageClass", "CSIDriver", "Service", "ReplicationController", "ReplicaSet", "StatefulSet"),
    (
        *("Node", "PersistentVolume", "PersistentVolumeClaim", "CSINode", "CSIStorageCapacity", "VolumeAttachment"),
        "NodeResourceTopology",
    ),
    ("Pod", "PodDisruptionBudget"),
)
_LOGGED = frozenset({"Node", "Pod"})


class NoVerdict(Exception):
    """The real scheduler did not say anything about a pod in time."""


@contextlib.asynccontextmanager
async def oracle_of(control_plane: ControlPlane) -> AsyncIterator[Oracle]:
    """Ask the scheduler of a running control plane; one oracle at a time."""
    api = Api(control_plane)
    try:
        with control_plane.log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            oracle = Oracle(control_plane, api, log)
            await oracle.prepare()
            yield oracle
    finally:
        await api.close()


class Oracle:
    """One case at a time; the cluster is empty before and after each."""

    def __init__(self, control_plane: ControlPlane, api: Api, log: BinaryIO) -> None:
        self._control_plane = control_plane
        self._api = api
        self._file = log
        self._rest = b""
        self._log = LogState()
        self._permanent: list[Json] = []

    async def prepare(self) -> None:
        """Create what all cases share, and wait until the scheduler works."""
        self._permanent = await create_surroundings(self._api)
        probe: Json = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "probe"}}
        await self._api.create(probe)
        await self._until(lambda: self._log.seen["node added", "probe"] > 0, "the scheduler sees nodes", _SEEN_SECONDS)
        await self._reset([probe])

    async def ask(self, case: Case, settle: float = SETTLE_SECONDS) -> list[Asked]:
        """Ask about every pod of a case. Raises ApiError for a case the API server refuses, NoVerdict."""
        world: list[Json] = []
        answers: list[Asked] = []
        try:
            await self._build(case, world, settle)
            for pod in case.pods:
                answered, further = await self._ask_pod(pod, case.profile, world, settle)
                answers.append(answered)
                if not further:
                    break
        finally:
            await self._reset(world)
        return answers

    async def conditions(self, case: Case) -> dict[str, str]:
        """Message of the PodScheduled condition by pod, each of which is asked on its own; "" where it is bound."""
        texts: dict[str, str] = {}
        world: list[Json] = []
        try:
            await self._build(case, world, SETTLE_SECONDS)
            for pod in case.pods:
                body = pod | {"spec": pod["spec"] | {"schedulerName": profiles.scheduler_name(case.profile)}}
                created = await self._api.create(body) | {"kind": "Pod"}
                world.append(created)
                condition = await self._condition(created)
                texts[pod["metadata"]["name"]] = condition.get("message", "")
                if condition["status"] == "True":
                    await self._wait_seen("pod added", [key_of(created)])
                else:
                    await self._api.delete(world.pop())
        finally:
            await self._reset(world)
        return texts

    async def _condition(self, pod: Json) -> Json:
        deadline = time.monotonic() + _VERDICT_SECONDS
        while time.monotonic() < deadline:
            conditions = (await self._api.get(pod)).get("status", {}).get("conditions", [])
            for condition in conditions:
                if condition["type"] == "PodScheduled":
                    return dict(condition)
            await asyncio.sleep(_POLL_SECONDS)
        raise NoVerdict(f"pod {key_of(pod)} got no PodScheduled condition")

    async def _build(self, case: Case, world: list[Json], settle: float) -> None:
        kinds = {item["kind"] for item in case.objects}
        assert kinds <= {kind for group in _ORDER for kind in group}, kinds
        for group in _ORDER:
            await self._api.create_all([item for item in case.objects if item["kind"] in group], world)
        await self._wait_seen("node added", (key_of(item) for item in world if item["kind"] == "Node"))
        pods = [item for item in case.objects if item["kind"] == "Pod"]
        await self._wait_seen("pod added", map(key_of, pods))
        await self._wait_seen("pod deleted", (key_of(pod) for pod in pods if _terminal(pod)))
        for pod in pods:
            touches = bool(pod.get("status")) + _deleting(pod)
            if touches and not _terminal(pod):
                await self._wait_seen("pod updated", [key_of(pod)], touches)
        if kinds - _LOGGED or settle > SETTLE_SECONDS:
            await asyncio.sleep(settle)

    async def _ask_pod(self, pod: Json, profile: str, world: list[Json], settle: float) -> tuple[Asked, bool]:
        body = pod | {"spec": pod["spec"] | {"schedulerName": profiles.scheduler_name(profile)}}
        before = (*self._permanent, *world)
        created = await self._api.create(body) | {"kind": "Pod"}
        key = key_of(created)
        if created["spec"].get("schedulingGates"):
            await self._wait_seen("pod queued", [key])
            await asyncio.sleep(settle)
            self._read()
            answer = Answer(GATED) if key not in self._log.attempts else Answer(ERROR, message="a gated pod was tried")
            await self._api.delete(created)
            await self._wait_seen("pod dequeued", [key])
            return Asked(created, before, answer), True
        await self._until(lambda: self._attempt(key).done, f"a verdict about pod {key}", _VERDICT_SECONDS)
        attempt = self._attempt(key)
        answer = _answer(attempt)
        further = True
        if answer.outcome == BOUND and attempt.feasible is not None:
            await self._wait_seen("pod added", [key])
            world.append(await self._started(created, len(world)))
        else:
            if "DefaultPreemption" in profiles.implemented() and answer.outcome == UNSCHEDULABLE:
                answer = await self._with_preemption(created, attempt, answer, settle)
            # The scheduler has begun to bind volumes, or to remove pods: this cluster is no longer the case's.
            further = answer.outcome != BOUND and not answer.nominated
            await self._api.delete(created)
            await self._wait_seen("pod dequeued", [key])
        return Asked(created, before, answer), further

    async def _started(self, pod: Json, number: int) -> Json:
        """A bound pod as it stands; with priorities it gets a start time, which upstream compares victims by."""
        if pod["spec"].get("priority"):
            await self._api.set_status(pod, {"startTime": f"2026-02-01T00:00:{number % 60:02d}Z"})
            await self._wait_seen("pod updated", [key_of(pod)])
        return await self._api.get(pod) | {"kind": "Pod"}

    async def _with_preemption(self, pod: Json, attempt: Attempt, answer: Answer, settle: float) -> Answer:
        await self._condition(pod)
        nominated = (await self._api.get(pod)).get("status", {}).get("nominatedNodeName", "")
        if not nominated:
            return answer
        # Victims are deleted one after the other, beside the scheduling loop.
        if self._control_plane.kubernetes.minor < SPARES_LEAVING_VICTIMS:
            await self._until(lambda: bool(attempt.victims), f"victims of {key_of(pod)}", _VERDICT_SECONDS)
        else:
            # All of them may be terminating already, and then nothing is logged.
            with contextlib.suppress(NoVerdict):
                await self._until(lambda: bool(attempt.victims), f"victims of {key_of(pod)}", _VICTIMS_SECONDS)
        await asyncio.sleep(max(_PREEMPTION_SECONDS, settle))
        self._read()
        return dataclasses.replace(answer, nominated=nominated, victims=tuple(sorted(attempt.victims)))

    async def _reset(self, world: list[Json]) -> None:
        self._read()
        await asyncio.gather(*(self._api.release(pod) for pod in world if _held(pod)))
        kinds = {item["kind"] for item in world} | {"Pod"}
        await asyncio.gather(
            *(
                self._api.delete_all(kind, namespace)
                for kind in kinds
                for namespace in (NAMESPACES if COLLECTIONS[kind][2] else ("",))
            )
        )
        await self._wait_seen("node deleted", (key_of(item) for item in world if item["kind"] == "Node"))
        await self._wait_seen("pod deleted", (key_of(item) for item in world if item["kind"] == "Pod"))
        self._log.forget()

    def _attempt(self, key: str) -> Attempt:
        return self._log.attempts.get(key) or Attempt()

    async def _wait_seen(self, event: str, names: Iterable[str], times: int = 1) -> None:
        wanted = set(names)
        if wanted:
            await self._until(
                lambda: all(self._log.seen[event, name] >= times for name in wanted),
                f"{event}: {', '.join(sorted(wanted))}",
                _SEEN_SECONDS,
            )

    async def _until(self, condition: Callable[[], bool], awaited: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self._read()
            if condition():
                return
            if time.monotonic() > deadline:
                raise NoVerdict(f"after {seconds:.0f} s the real scheduler has not yet logged: {awaited}")
            if not self._control_plane.alive():
                raise NoVerdict(f"the real scheduler has ended: {self._last_words()}")
            await asyncio.sleep(_POLL_SECONDS)

    def _last_words(self) -> str:
        log = self._control_plane.log
        text = log.read_text(errors="replace")
        panics = [line for line in text.splitlines() if "panic" in line]
        return "".join(f"{line[:1500]} | " for line in panics[:1]) + processes.last_lines(log)

    def _read(self) -> None:
        lines = (self._rest + self._file.read()).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._log.feed(line.decode("utf-8", "replace"))


def _terminal(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _held(item: Json) -> bool:
    # Other finalizers are the API server's own business.
    return any(name.startswith("example.com/") for name in item["metadata"].get("finalizers", []))


def _deleting(item: Json) -> bool:
    return "deletionTimestamp" in item["metadata"]


def _answer(attempt: Attempt) -> Answer:
    if attempt.node:
        feasible = frozenset(attempt.totals) or frozenset({attempt.node})
        best = frozenset(name for name, total in attempt.totals.items() if total == max(attempt.totals.values()))
        return Answer(
            BOUND,
            feasible=feasible,
            scores=attempt.scores,
            totals=attempt.totals,
            best=best or feasible,
            node=attempt.node,
        )
    if attempt.error:
        return Answer(ERROR, message=attempt.error)
    return Answer(UNSCHEDULABLE, message=attempt.message)
