"""What the objects of a snapshot say that a scheduler does not read: annotations, replicas, what pods used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from scheduler.kube.model import DecodeError
from scheduler.kube.primitives import QuantityError, TimestampError, epoch_seconds
from secondary_scheduler.rebalancing import (
    MOVABLE_PODS,
    POD_METRICS,
    WORKLOADS,
    ClusterFacts,
    PodFacts,
    Workload,
    facts_of_pod,
    usage_of,
)
from secondary_scheduler.simulation.objects import NamedObject, RecordedObjects
from secondary_scheduler.simulation.report import Report, with_field


class _Created(Struct, rename="camel"):
    creation_timestamp: str | None = None


class _Metadata(Struct):
    metadata: _Created | None = None


_metadata = msgspec.json.Decoder(_Metadata)


class _PodsWhenAsked(Mapping[str, PodFacts]):
    """Facts about pods, decoded when they are asked for: of 50,000 pods few are on overloaded nodes."""

    def __init__(self, objects: RecordedObjects) -> None:
        self._objects = {f"{obj.namespace}/{obj.name}": obj for obj in objects.of("Pod")}
        self._decoded: dict[str, PodFacts] = {}

    def __getitem__(self, key: str) -> PodFacts:
        if key not in self._decoded:
            try:
                self._decoded[key] = facts_of_pod(MOVABLE_PODS.decode(self._objects[key].entry.data))
            except (DecodeError, OverflowError):
                # The scheduler's own reading of it has been reported.
                raise KeyError(key) from None
        return self._decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


def read_facts(objects: RecordedObjects, report: Report) -> ClusterFacts:
    """Return the facts; what cannot be used is reported, and missing then."""
    workloads: dict[tuple[str, str, str], Workload] = {}
    for kind, codec in WORKLOADS.items():
        for obj in objects.of(kind):
            try:
                workloads[kind, obj.namespace, obj.name] = codec.decode(obj.entry.data)
            except (DecodeError, OverflowError) as error:
                report.leave_out(obj.entry.place, obj.title, with_field(error))
    usage = {}
    for obj in objects.of("PodMetrics"):
        try:
            usage[f"{obj.namespace}/{obj.name}"] = usage_of(POD_METRICS.decode(obj.entry.data))
        except (DecodeError, OverflowError, QuantityError, TimestampError) as error:
            report.leave_out(obj.entry.place, obj.title, with_field(error))
    created = {obj.name: at for obj in objects.of("Node") if not math.isnan(at := _created(obj))}
    return ClusterFacts(_PodsWhenAsked(objects), workloads, usage, created)


def _created(obj: NamedObject) -> float:
    try:
        metadata = _metadata.decode(obj.entry.data).metadata
        return epoch_seconds(metadata.creation_timestamp or "") if metadata is not None else math.nan
    except (msgspec.MsgspecError, UnicodeDecodeError, TimestampError):
        return math.nan
