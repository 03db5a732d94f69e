"""A recording replayed under one configuration: what arrived is placed as it arrived, what went goes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from scheduler.core import Placement
from scheduler.framework import LoadReading, PodInfo
from secondary_scheduler.balance import Worst, is_measured, lowered, node_figures
from secondary_scheduler.cli.clusterrecording.form import LineType
from secondary_scheduler.cli.clusterrecording.reading import Event, Recording
from secondary_scheduler.nodeload import LOAD_KIND
from secondary_scheduler.simulation.changing import ChangingCluster
from secondary_scheduler.simulation.cluster import SimulatedCluster, is_static, without_node
from secondary_scheduler.simulation.comparing import Against, ComparedSide, PodPlacement
from secondary_scheduler.simulation.deciding import PodOutcome
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import ReadyCluster, set_load

TICK = 1.0
"""Seconds of a recording that are one step: what arrives within them is decided together, in queue order."""
_SAMPLES = 100
"""Moments at which the nodes are measured, over the whole recording."""
_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0
"""Seconds after which a pod that fits nowhere is tried again if something has changed; doubled with each try."""


@dataclass(slots=True)
class _ReplayedPod:
    """A pod whose node the replay chooses.

    Attributes:
        info: as recorded, but without a node.
        name: what it is called in the result.
        recorded_node, recorded_at: where and since when it runs in the recording; "" and NaN where it does not.
        node, placed_at: the same in the replay.
        next_try: not before then, seconds since the epoch.
        seen: the count of changes at the last try; -1 before the first.
    """

    info: PodInfo
    name: str
    recorded_node: str = ""
    recorded_at: float = math.nan
    node: str = ""
    placed_at: float = math.nan
    message: str | None = None
    pause: float = _FIRST_RETRY
    next_try: float = -math.inf
    seen: int = -1


class ReplayObserver(Protocol):
    """Looks on while a replay runs, and may end it."""

    def is_explained(self, placement: Placement) -> bool:
        """Tell whether the matrix of a decision is computed."""

    def decided(self, name: str, pod: PodInfo, outcome: PodOutcome, moment: float) -> None:
        """Take in a decision, while its matrix is valid; the pod is as it was before."""

    def measured(self, moment: float, load: LoadReading | None, waiting: Collection[str]) -> None:
        """Take in how things are at one of the moments, with the names of the pods that wait."""

    def has_enough(self) -> bool:
        """Tell whether the replay may end here."""


class Replay:
    """One configuration, once through a recording.

    Args:
        ready: the cluster as it was when the recording began, with the configuration.
        recording: what happened.
        names: what each pod is called in the result, by UID.
        taken_over: other schedulers whose pods are decided too, each with its profile.
        scheduler_names: profiles of both sides: their pods are nowhere but where the replay places them.
        report: gets what cannot be used.
        against: the other side.
        moments: when the nodes are measured, in order.
        observer: looks on.
    """

    def __init__(
        self,
        ready: ReadyCluster,
        recording: Recording,
        names: Mapping[str, str],
        *,
        taken_over: Mapping[str, str],
        scheduler_names: Collection[str],
        report: InputReport,
        against: Against,
        moments: Sequence[float] | None = None,
        observer: ReplayObserver | None = None,
    ) -> None:
        self._ready = ready
        self._state = ready.cluster.state
        self._recording = recording
        self._names = names
        self._taken_over = taken_over
        self._profiles = frozenset(ready.configuration.scheduler_names)
        self._either = frozenset(scheduler_names)
        self._report = report
        self._against = against
        self._samples = list(moments if moments is not None else moments_of(recording, _SAMPLES))
        self._observer = observer
        self._changing = ChangingCluster(ready.cluster, report)
        self._simulation = ready.simulation(self._needs_matrix, post_filters=False)
        self._load = ready.load
        self._pods: dict[str, _ReplayedPod] = {}
        self._waiting: dict[str, _ReplayedPod] = {}
        self._uids = {
            f"{event.namespace}/{event.name}": event.uid for event in recording.snapshot if event.kind == "Pod"
        }
        self._changes = 0
        self._worst = Worst()
        self._placements: dict[str, PodPlacement] = {}
        self._recorded_nodes: dict[str, str] = {}

    def run(self) -> ComparedSide:
        """Replay everything."""
        recording = self._recording
        self._simulation.register(self._ready.cluster.pending)
        for info in self._ready.cluster.pending:
            # Nobody is preempted here: what is nominated would keep its room for nothing.
            self._state.nominator.remove(info.uid)
            self._wait_for(_ReplayedPod(msgspec.structs.replace(info, nominated_node=""), self._names[info.uid]))
        self._decide(recording.start)
        for moment, events in _ticks(recording):
            self._measure_before(moment)
            if self._has_ended():
                break
            self._retry_before(moment)
            self._ready.clock.seconds = moment
            for event in events:
                self._apply(event)
            self._decide(moment)
        if not self._has_ended():
            self._measure_before(math.inf)
            self._retry_before(recording.end)
        for pod in self._pods.values():
            self._settle(pod)
        figures = node_figures(self._state, self._load, recording.end)
        return ComparedSide(
            self._ready.configuration,
            self._placements,
            figures,
            self._against.equally_good,
            self._worst,
            self._recorded_nodes,
        )

    def _has_ended(self) -> bool:
        return self._observer is not None and self._observer.has_enough()

    # What happens -------------------------------------------------------------------------------------------------

    def _apply(self, event: Event) -> None:
        if event.kind == "Pod":
            self._apply_to_pod(event)
        elif event.kind == LOAD_KIND and event.entry is not None:
            if (measured := self._changing.load(event.entry)) is not None:
                self._load = set_load(self._ready.cluster, self._ready.configuration, measured, self._moved_along)
                self._changes += 1
        elif event.type is LineType.DELETED:
            self._changing.remove(event.kind, event.namespace, event.name)
            self._changes += 1
            if event.kind == "Node":
                self._leave(event.name, event.time)
        elif event.entry is not None and self._changing.put(event.entry):
            self._changes += 1

    def _apply_to_pod(self, event: Event) -> None:
        info = self._changing.pod(event.entry) if event.entry is not None else None
        if event.type is LineType.DELETED or (info is not None and info.terminal):
            self._remove(event.uid)
        elif info is not None:
            self._replace_namesake(info)
            if info.scheduler_name in self._taken_over and not self._state.pod(info.uid):
                info = msgspec.structs.replace(info, scheduler_name=self._taken_over[info.scheduler_name])
            pod = self._pods.get(info.uid)
            if pod is not None:
                self._update(pod, info, event.time)
            elif self._is_placed_here(info):
                pod = _ReplayedPod(info, self._names[info.uid])
                self._update(pod, info, event.time)
                self._wait_for(pod)
            elif info.node_name and (info.scheduler_name not in self._either or self._state.pod(info.uid) is not None):
                # One that ran when the recording began, or that another scheduler or a kubelet has placed.
                self._state.upsert_pod(info, observed_at=info.assigned_at)
                self._state.directory.upsert(info)
                self._changes += 1

    def _replace_namesake(self, info: PodInfo) -> None:
        """Remove the pod that had this pod's name, should the recording not say that it has gone."""
        uid = self._uids.get(info.key, info.uid)
        if uid != info.uid:
            self._remove(uid)
        self._uids[info.key] = info.uid

    def _is_placed_here(self, info: PodInfo) -> bool:
        ours = info.scheduler_name in self._profiles
        return ours and not is_static(info) and self._state.pod(info.uid) is None and info.uid in self._names

    def _update(self, pod: _ReplayedPod, info: PodInfo, time: float) -> None:
        """Take in what the recording says about a pod; where it is, the replay says."""
        if info.node_name and not pod.recorded_node:
            pod.recorded_node = info.node_name
            pod.recorded_at = info.assigned_at if info.assigned_at == info.assigned_at else time
        scheduler_name = pod.info.scheduler_name
        bare = msgspec.structs.replace(without_node(info), scheduler_name=scheduler_name)
        changed = _deciding_part(pod.info) != _deciding_part(bare)
        pod.info = self._ready.cluster.templates.with_claims(bare, self._state.objects)
        if pod.node:
            placed = msgspec.structs.replace(
                pod.info, node_name=pod.node, assigned_at=pod.placed_at, started_at=info.started_at, phase=info.phase
            )
            self._state.upsert_pod(placed)
            self._state.directory.upsert(placed)
        else:
            self._state.directory.upsert(pod.info)
            if changed:
                pod.seen, pod.next_try = -1, -math.inf

    def _remove(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        self._waiting.pop(uid, None)
        if pod is not None:
            self._settle(pod)
        self._state.remove_pod(uid)
        self._state.directory.remove(uid)
        self._changes += 1

    def _leave(self, node: str, time: float) -> None:
        """A node is gone. The recording says what became of the pods that it has there; others are placed again, as
        their controllers would make new ones."""
        for pod in [pod for pod in self._pods.values() if pod.node == node]:
            self._state.remove_pod(pod.info.uid)
            if pod.recorded_node != node:
                pod.node, pod.placed_at, pod.pause, pod.next_try, pod.seen = "", math.nan, _FIRST_RETRY, time, -1
                self._state.directory.upsert(pod.info)
                self._waiting[pod.info.uid] = pod

    def _moved_along(self, cluster: SimulatedCluster, load: LoadReading) -> LoadReading:
        """Return a load in which pods use where the replay has them what they request, and nothing where they were
        recorded: what each of them used was not measured."""
        shifts: dict[str, list[float]] = {}
        for pod in self._pods.values():
            if pod.node == pod.recorded_node:
                continue
            requests = pod.info.requests
            for node, since, sign in ((pod.recorded_node, pod.recorded_at, 1), (pod.node, pod.placed_at, -1)):
                if node and is_measured(msgspec.structs.replace(pod.info, assigned_at=since), load):
                    shift = shifts.setdefault(node, [0.0, 0.0])
                    shift[0] += sign * requests.get("cpu", 0)
                    shift[1] += sign * requests.get("memory", 0)
        loads = dict(load.loads)
        for name, (cpu, memory) in shifts.items():
            node_info = cluster.state.node(name)
            if node_info is not None and name in loads:
                loads[name] = lowered(
                    loads[name],
                    100.0 * cpu / node_info.capacity_cpu if node_info.capacity_cpu else 0.0,
                    100.0 * memory / node_info.capacity_memory if node_info.capacity_memory else 0.0,
                )
        return replace(load, loads=loads)

    # Decisions ----------------------------------------------------------------------------------------------------

    def _wait_for(self, pod: _ReplayedPod) -> None:
        self._pods[pod.info.uid] = self._waiting[pod.info.uid] = pod
        self._state.directory.upsert(pod.info)

    def _is_due(self, pod: _ReplayedPod, moment: float) -> bool:
        return pod.seen != self._changes and pod.next_try <= moment and not pod.info.deleting

    def _retry_before(self, moment: float) -> None:
        """Try again what becomes due until a time, without anything happening."""
        while True:
            times = [
                pod.next_try for pod in self._waiting.values() if pod.seen != self._changes and not pod.info.deleting
            ]
            due = min(times, default=math.inf)
            if due >= moment:
                return
            self._decide(max(due, self._ready.clock.seconds))

    def _decide(self, moment: float) -> None:
        due = {uid: pod for uid, pod in self._waiting.items() if self._is_due(pod, moment)}
        if not due:
            return
        self._ready.clock.seconds = moment
        for pod in list(due.values()):
            for uid in self._simulation.companions(pod.info):
                if uid in self._waiting:
                    due[uid] = self._waiting[uid]
        changes = self._changes
        by_key = {pod.info.key: pod for pod in due.values()}
        for outcome in self._simulation.decide([pod.info for pod in due.values()]):
            self._take(by_key.pop(outcome.pod), outcome, moment)
            if self._has_ended():
                break
        for pod in by_key.values():
            self._put_off(pod, moment)
        # What was placed may let another pod in, such as one with affinity to it.
        self._changes = changes + any(pod.node for pod in due.values())

    def _take(self, pod: _ReplayedPod, outcome: PodOutcome, moment: float) -> None:
        pod.message = outcome.message
        if self._observer is not None:
            self._observer.decided(pod.name, pod.info, outcome, moment)
        if outcome.node is None:
            self._put_off(pod, moment)
            return
        pod.node, pod.placed_at = outcome.node, moment
        del self._waiting[pod.info.uid]
        self._against.note(pod.name, outcome)

    def _put_off(self, pod: _ReplayedPod, moment: float) -> None:
        pod.seen, pod.next_try = self._changes, moment + pod.pause
        pod.pause = min(_LAST_RETRY, 2 * pod.pause)

    def _needs_matrix(self, placement: Placement) -> bool:
        if self._observer is not None and self._observer.is_explained(placement):
            return True
        return self._against.needs_matrix(self._names.get(placement.pod.uid, ""), placement.node)

    # Results ------------------------------------------------------------------------------------------------------

    def _settle(self, pod: _ReplayedPod) -> None:
        """Note where a pod is at its end, or at the recording's."""
        message = None if pod.node else pod.message or "gone before it was decided"
        self._placements[pod.name] = PodPlacement(pod.info.scheduler_name, pod.node or None, message)
        if pod.recorded_node:
            self._recorded_nodes[pod.name] = pod.recorded_node

    def _measure_before(self, end: float) -> None:
        """Measure at the moments before a time, with what becomes due until then decided."""
        while self._samples and self._samples[0] < end and not self._has_ended():
            moment = self._samples.pop(0)
            self._retry_before(moment)
            figures = node_figures(self._state, self._load, moment)
            self._worst.note(moment, figures, len(self._waiting))
            if self._observer is not None:
                waiting = [pod.name for pod in self._waiting.values() if not pod.info.deleting]
                self._observer.measured(moment, self._load, waiting)


def pod_names(recording: Recording) -> dict[str, str]:
    """Return what each pod is called in the result, by UID: `namespace/name`; later pods of a name have a number."""
    names: dict[str, str] = {}
    used: Counter[str] = Counter()
    for event in (*recording.snapshot, *recording.events):
        if event.kind == "Pod" and event.entry is not None and event.uid not in names:
            key = f"{event.namespace}/{event.name}"
            used[key] += 1
            names[event.uid] = key if used[key] == 1 else f"{key} #{used[key]}"
    return names


def _ticks(recording: Recording) -> Iterator[tuple[float, Sequence[Event]]]:
    """Yield what happened within each second in which something did, and the time of the last of it."""
    group: list[Event] = []
    for event in recording.events:
        if group and event.time >= group[0].time + TICK:
            yield group[-1].time, group
            group = []
        group.append(event)
    if group:
        yield group[-1].time, group


def moments_of(recording: Recording, steps: int) -> list[float]:
    """Return the times at the ends of so many equal steps of a recording, from its beginning to its end."""
    span = recording.end - recording.start
    return [recording.start + span * number / steps for number in range(steps)] + [recording.end]


def _deciding_part(pod: PodInfo) -> tuple[object, ...]:
    """Return what can make a pod fit that did not."""
    return pod.spec.class_key, pod.spec.gates, pod.requests, pod.labels, pod.priority, pod.deleting
