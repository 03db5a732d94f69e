"""A recording replayed: nodes and queue at each of some moments, and what became of each pod until then.

One replay, from the beginning to the end, keeps a frame per moment, so that going to another moment computes nothing.
The timeline shows all of them at a glance, as recorded and as replayed.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.config import Configuration
from scheduler.core import Placement
from scheduler.framework import FloatArray, LoadReading, PodInfo
from secondary_scheduler.balance import NodeFigures, node_figures
from secondary_scheduler.cli.clusterrecording.form import LineType
from secondary_scheduler.cli.clusterrecording.reading import Event, Recording
from secondary_scheduler.cli.replaying import TICK, Replay, moments_of, pod_names
from secondary_scheduler.kubeobjects import decode_bare_pod
from secondary_scheduler.nodeload import LOAD_KIND
from secondary_scheduler.simulation.changing import ChangingCluster
from secondary_scheduler.simulation.cluster import SimulatedCluster
from secondary_scheduler.simulation.comparing import Against
from secondary_scheduler.simulation.deciding import PodOutcome
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import Conditions, ReadyCluster, copy_cluster, make_ready, set_load
from secondary_scheduler.views.nodes import ESTIMATED, REQUESTED, NodeColumns, node_columns
from secondary_scheduler.views.runs import Limits, PodDecision, SimulationRun, record, scored_nodes

_STEPS = 60
"""Between two moments that can be chosen, at most."""
_MAX_ATTEMPTS = 20
"""Attempts of a pod that are kept: those with another result or message than the one before."""


@dataclass(frozen=True, slots=True)
class Replayable:
    """What a replay needs.

    Attributes:
        cluster: as it was when the recording began; nothing is decided on its own state.
        taken_over: other schedulers whose pods are decided too, each with its profile.
    """

    recording: Recording
    cluster: SimulatedCluster
    conditions: Conditions
    taken_over: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Frame:
    """How things are at a moment.

    Attributes:
        time: seconds since the epoch.
        columns, figures: the nodes with the pods where the replay has them.
        recorded: as it was.
        load: by name of node, as the replay's plugins see it; None where there is none.
        pods: those on each node in the replay.
        waiting: pods that wait in the replay, each with its last decision.
    """

    time: float
    columns: NodeColumns
    figures: NodeFigures
    recorded: RecordedFrame
    load: LoadReading | None
    pods: Mapping[str, tuple[PodInfo, ...]]
    waiting: tuple[PodDecision, ...]


@dataclass(frozen=True, slots=True)
class Course:
    """A whole replay.

    Attributes:
        frames: by moment, at least one.
        histories: attempts of each pod, in the order of their first ones.
        recorded_nodes: where the recording has a pod on a node, by the pod's name.
        unexplained: decisions that would have scores, had time been left.
        complete: whether it got to the end in time.
        seconds: how long it took.
    """

    configuration: Configuration
    frames: tuple[Frame, ...]
    histories: Mapping[str, Sequence[PodDecision]]
    recorded_nodes: Mapping[str, str]
    unexplained: int
    complete: bool
    seconds: float

    def run_at(self, index: int) -> SimulationRun:
        """Return what was decided until a moment, and how things are then; a pod has its last decision."""
        frame = self.frames[index]
        decisions = tuple(
            last for attempts in self.histories.values() if (last := _last(attempts, frame.time)) is not None
        )
        return SimulationRun(
            self.configuration,
            decisions,
            frame.load,
            frame.time,
            self.unexplained,
            frame.recorded.columns,
            frame.columns,
            self.seconds,
            frame.figures,
            frame.waiting,
        )


def moments(recording: Recording) -> list[float]:
    """Return the moments that can be chosen: steps of a second at least, the end last."""
    return moments_of(recording, max(1, min(_STEPS, int((recording.end - recording.start) / TICK))))


def replay_course(
    replayable: Replayable,
    configuration: Configuration,
    limits: Limits,
    *,
    report: InputReport,
    stopped: Callable[[], bool] = lambda: False,
    until: int | None = None,
) -> Course:
    """Replay a recording.

    Args:
        replayable: it stays as it is.
        configuration: whose profiles decide.
        limits: how long it may take.
        report: gets what cannot be used.
        stopped: asked now and then; once it says so, it ends.
        until: only the frame of this moment is kept, and nothing after it is replayed.

    Raises:
        CommandError: a plugin refuses its args.
    """
    began = time.monotonic()
    every = moments(replayable.recording)
    chosen = every if until is None else [every[until]]
    recorded = recorded_frames(replayable.recording, replayable.cluster, configuration, replayable.conditions, chosen)
    ready = make_ready(copy_cluster(replayable.cluster), configuration, replayable.conditions)
    names = pod_names(replayable.recording)
    watching = _Watching(ready, recorded, limits, began, stopped, scored_nodes(len(names)))
    replayed = Replay(
        ready,
        replayable.recording,
        names,
        taken_over=replayable.taken_over,
        scheduler_names=configuration.scheduler_names,
        report=report,
        against=Against(),
        moments=chosen,
        observer=watching,
    ).run()
    if not watching.frames:
        watching.measured(chosen[0], ready.load, ())
    return Course(
        configuration,
        tuple(watching.frames),
        watching.histories,
        replayed.recorded_nodes,
        watching.unexplained,
        len(watching.frames) == len(chosen),
        time.monotonic() - began,
    )


class _Watching:
    """Keeps what happens in a replay; see `Observer`."""

    def __init__(
        self,
        ready: ReadyCluster,
        recorded: Sequence[RecordedFrame],
        limits: Limits,
        began: float,
        stopped: Callable[[], bool],
        most: int,
    ) -> None:
        self._ready = ready
        self._recorded = recorded
        self._limits = limits
        self._began = began
        self._stopped = stopped
        self._most = most
        self._tries: Counter[str] = Counter()
        self._pods: dict[str, tuple[PodInfo, ...]] = {}
        self.frames: list[Frame] = []
        self.histories: dict[str, list[PodDecision]] = {}
        self.unexplained = 0

    def is_explained(self, placement: Placement) -> bool:
        del placement
        return time.monotonic() - self._began < self._limits.explained

    def decided(self, name: str, pod: PodInfo, outcome: PodOutcome, moment: float) -> None:
        attempts = self.histories.setdefault(name, [])
        self._tries[name] += 1
        if self._limits.explained and outcome.explanation is None and outcome.placement is not None:
            self.unexplained += 1
        number = attempts[0].number if attempts else len(self.histories)
        decision = record(number, outcome, pod, self._ready.assembly, moment, self._most)
        decision = replace(decision, pod=name, moment=moment, attempt=self._tries[name])
        if attempts and _fate(attempts[-1]) == _fate(decision):
            return
        if len(attempts) == _MAX_ATTEMPTS:
            attempts.pop()
        attempts.append(decision)

    def measured(self, moment: float, load: LoadReading | None, waiting: Collection[str]) -> None:
        state = self._ready.cluster.state
        columns = node_columns(state, self._ready.configuration, load, moment)
        pods = {info.name: tuple(state.pods_on(info.name)) for info in columns.infos}
        # Most nodes have the same pods as at the moment before: those are kept once.
        self._pods = {name: before if (before := self._pods.get(name)) == on else on for name, on in pods.items()}
        self.frames.append(
            Frame(
                moment,
                columns,
                node_figures(state, load, moment),
                self._recorded[len(self.frames)],
                load,
                self._pods,
                tuple(
                    replace(last, waiting=_longer(last, moment))
                    for name in waiting
                    if (last := _last(self.histories.get(name, ()), moment)) is not None
                ),
            )
        )

    def has_enough(self) -> bool:
        late = time.monotonic() - self._began > self._limits.total
        return late or self._stopped() or len(self.frames) == len(self._recorded)


def _fate(decision: PodDecision) -> tuple[str, str | None, str | None]:
    return decision.result, decision.node, decision.message


def _last(attempts: Sequence[PodDecision], moment: float) -> PodDecision | None:
    return next((attempt for attempt in reversed(attempts) if attempt.moment <= moment), None)


def _longer(decision: PodDecision, moment: float) -> float | None:
    """How long a pod waits at a moment that was decided earlier."""
    return None if decision.waiting is None else decision.waiting + max(0.0, moment - decision.moment)


WIDTH, HEIGHT = 600, 120
"""Of a chart, in its own units."""


@dataclass(frozen=True, slots=True)
class CourseRow:
    """A moment. Values are as recorded and as replayed; NaN is not known.

    Attributes:
        waiting: pods without a node.
        requested, estimated: the 95th percentile over the nodes, in per cent.
    """

    index: int
    time: float
    waiting: tuple[float, float]
    requested: tuple[float, float]
    estimated: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Two lines over time.

    Attributes:
        unit: behind a value.
        most: the value at the upper edge.
        recorded, replayed: points of each line, in pieces without gaps, as SVG reads them.
        ends: the last values, as recorded and as replayed.
    """

    title: str
    unit: str
    most: float
    recorded: tuple[str, ...]
    replayed: tuple[str, ...]
    ends: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Timeline:
    """What the page shows."""

    charts: tuple[Chart, ...]
    rows: tuple[CourseRow, ...]


def timeline(course: Course, taken_over: Collection[str], resource: str) -> Timeline:
    """Return all moments; of the nodes, the shares of one resource."""
    names = {*course.configuration.scheduler_names, *taken_over}
    rows = tuple(_row(index, frame, names, resource) for index, frame in enumerate(course.frames))
    percent = "CPU" if resource == "cpu" else "memory"
    return Timeline(
        (
            _chart("Pods that wait", "", [row.waiting for row in rows], 1.0),
            _chart(
                f"Requests of {percent}, 95th percentile of the nodes", " %", [row.requested for row in rows], 100.0
            ),
            _chart(
                f"Estimated load of {percent}, 95th percentile of the nodes",
                " %",
                [row.estimated for row in rows],
                100.0,
            ),
        ),
        rows,
    )


def _row(index: int, frame: Frame, names: Collection[str], resource: str) -> CourseRow:
    waiting = sum(frame.recorded.waiting[name] for name in names)
    sides = (frame.recorded.columns, frame.columns)
    requested, estimated = (
        (_high(sides[0], by, resource), _high(sides[1], by, resource)) for by in (REQUESTED, ESTIMATED)
    )
    return CourseRow(index, frame.time, (float(waiting), float(len(frame.waiting))), requested, estimated)


def _high(columns: NodeColumns, measure: str, resource: str) -> float:
    values: FloatArray = columns.shares[measure, resource]
    known = values[~np.isnan(values)]
    return float(np.percentile(known, 95)) if len(known) else math.nan


def _chart(title: str, unit: str, values: Sequence[tuple[float, float]], least: float) -> Chart:
    known = [value for pair in values for value in pair if not math.isnan(value)]
    most = max([least, *known])
    recorded, replayed = (_pieces([pair[side] for pair in values], most) for side in (0, 1))
    return Chart(title, unit, most, recorded, replayed, values[-1])


def _pieces(values: Sequence[float], most: float) -> tuple[str, ...]:
    """Return the points of a line; where a value is not known, another piece begins."""
    pieces: list[list[str]] = [[]]
    width = WIDTH / max(1, len(values) - 1)
    for index, value in enumerate(values):
        if math.isnan(value):
            pieces.append([])
        else:
            pieces[-1].append(f"{index * width:.1f},{HEIGHT * (1 - value / most):.1f}")
    return tuple(" ".join(piece) for piece in pieces if piece)


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """How things were at a moment.

    Attributes:
        waiting: pods without a node, by their scheduler.
    """

    columns: NodeColumns
    waiting: Counter[str]


def recorded_frames(
    recording: Recording,
    cluster: SimulatedCluster,
    configuration: Configuration,
    conditions: Conditions,
    moments: Sequence[float],
) -> list[RecordedFrame]:
    """Return a frame per moment; moments are in order.

    Args:
        recording: what happened.
        cluster: as it was at the beginning; it stays as it is.
        configuration: says how long a load is fresh and how a pod's use is predicted.
        conditions: may name a load of the beginning.
        moments: seconds since the epoch.
    """
    past = _Past(copy_cluster(cluster), configuration, conditions, _waiting_at_first(recording))
    frames: list[RecordedFrame] = []
    events = iter(recording.events)
    event = next(events, None)
    for moment in moments:
        while event is not None and event.time <= moment:
            past.apply(event)
            event = next(events, None)
        frames.append(past.frame(moment))
    return frames


class _Past:
    """What was recorded, event by event. What cannot be used is reported by the replay, which reads the same."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        configuration: Configuration,
        conditions: Conditions,
        waiting: dict[str, str],
    ) -> None:
        self._cluster = cluster
        self._configuration = configuration
        self._report = InputReport(lambda line: None)
        self._changing = ChangingCluster(cluster, self._report)
        self._waiting = waiting
        measured = conditions.measured or cluster.load
        self._load = set_load(cluster, configuration, measured, None) if measured is not None else None

    def apply(self, event: Event) -> None:
        """Take in what happened."""
        if event.kind == "Pod":
            self._apply_to_pod(event)
        elif event.kind == LOAD_KIND and event.entry is not None:
            if (measured := self._changing.load(event.entry)) is not None:
                self._load = set_load(self._cluster, self._configuration, measured, None)
        elif event.type is LineType.DELETED:
            self._changing.remove(event.kind, event.namespace, event.name)
        elif event.entry is not None:
            self._changing.put(event.entry)

    def frame(self, moment: float) -> RecordedFrame:
        """Return how things are now."""
        columns = node_columns(self._cluster.state, self._configuration, self._load, moment)
        return RecordedFrame(columns, Counter(self._waiting.values()))

    def _apply_to_pod(self, event: Event) -> None:
        info = self._changing.pod(event.entry) if event.entry is not None else None
        if event.type is LineType.DELETED or (info is not None and info.terminal):
            self._waiting.pop(event.uid, None)
            self._cluster.state.remove_pod(event.uid)
        elif info is not None and info.node_name:
            self._waiting.pop(info.uid, None)
            self._cluster.state.upsert_pod(info, observed_at=info.assigned_at)
        elif info is not None:
            self._waiting[info.uid] = info.scheduler_name


def _waiting_at_first(recording: Recording) -> dict[str, str]:
    """Return the scheduler of each pod that had no node when the recording began, by UID."""
    waiting: dict[str, str] = {}
    for event in recording.snapshot:
        if event.kind != "Pod" or event.entry is None:
            continue
        try:
            pod = decode_bare_pod(event.entry.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if not pod.spec.node_name and not pod.has_ended:
            waiting[event.uid] = pod.spec.scheduler_name
    return waiting
