"""How the nodes were at some moments of a recording: with the pods where the recording has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from scheduler.config import Configuration
from scheduler.framework import LoadReading
from secondary_scheduler.cli.clusterrecording.form import LineType
from secondary_scheduler.cli.clusterrecording.reading import Event, Recording
from secondary_scheduler.cli.errors import InputError
from secondary_scheduler.nodeload import LOAD_KIND
from secondary_scheduler.simulation.changing import ChangingCluster
from secondary_scheduler.simulation.cluster import SimulatedCluster
from secondary_scheduler.simulation.copying import copy_cluster
from secondary_scheduler.simulation.report import Report
from secondary_scheduler.simulation.settingup import Conditions, set_load
from secondary_scheduler.simulation.watcherload import read_load
from secondary_scheduler.views.nodes import NodeColumns, node_columns


class _Spec(Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"


class _Status(Struct):
    phase: str = ""


class _Pod(Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_pod = msgspec.json.Decoder(_Pod)


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
        self._report = Report(lambda line: None)
        self._changing = ChangingCluster(cluster, self._report)
        self._waiting = waiting
        measured = conditions.measured or cluster.load
        self._load = set_load(cluster, configuration, measured, None) if measured is not None else None

    def apply(self, event: Event) -> None:
        """Take in what happened."""
        if event.kind == "Pod":
            self._apply_to_pod(event)
        elif event.kind == LOAD_KIND and event.entry is not None:
            self._load = self._read_load(event) or self._load
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

    def _read_load(self, event: Event) -> LoadReading | None:
        assert event.entry is not None
        try:
            measured = read_load(bytes(event.entry.data), str(event.entry.place), self._report)
        except InputError:
            return None
        return set_load(self._cluster, self._configuration, measured, None)


def _waiting_at_first(recording: Recording) -> dict[str, str]:
    """Return the scheduler of each pod that had no node when the recording began, by UID."""
    waiting: dict[str, str] = {}
    for event in recording.snapshot:
        if event.kind != "Pod" or event.entry is None:
            continue
        try:
            pod = _pod.decode(event.entry.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if not pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
            waiting[event.uid] = pod.spec.scheduler_name
    return waiting
