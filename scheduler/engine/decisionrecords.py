"""What is kept of a decision, and how it is shown."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from scheduler.kube.primitives import format_time

RECORD_BYTES: Final = 700
"""What a record takes beside its message and details: 250 as measured with tracemalloc, and names that it keeps."""
MOST_VICTIMS: Final = 20
"""Victims that are named; the others are counted."""
MOST_MESSAGE: Final = 2000
API_VERSION: Final = "secondary-scheduler.io/v1"
Result = Literal["binding", "scheduled", "unschedulable", "error"]


class Victim(NamedTuple):
    """A pod that is preempted."""

    namespace: str
    name: str


class Record(msgspec.Struct, gc=False):
    """One attempt to place a pod. It holds no object of the cluster: a pod may have a megabyte.

    It is a Struct without garbage collection, which is made in a fifth of a dataclass's time and never walked: there is
    one for every pod. What is shown is made of it when somebody asks.

    `attempt` is 0 until the attempt ends; `size` is bytes, about, as they were when it was measured last. `decided_by`
    is the pod of the leader before that handed the record over; "" for one of our own.
    """

    number: int
    at: float
    namespace: str
    name: str
    uid: str
    scheduler_name: str
    result: Result
    message: str
    rejectors: tuple[str, ...]
    node: str | None
    total: int
    evaluated: int
    feasible: int
    load_ages: Mapping[str, float]
    details: bytes | None
    attempt: int = 0
    waited: float | None = None
    queue: str = ""
    nominated_node: str = ""
    victims: tuple[Victim, ...] = ()
    victim_count: int = 0
    size: int = RECORD_BYTES
    decided_by: str = ""

    def measure(self) -> int:
        """Note and return the size."""
        size = RECORD_BYTES
        if self.details is not None:
            size += len(self.details)
        if self.message:
            size += sys.getsizeof(self.message)
        if self.victims:
            size += sum(len(victim.namespace) + len(victim.name) for victim in self.victims)
        self.size = size
        return size


def shown_time(at: float) -> str:
    """Return a time, in seconds since 1970, as answers have it."""
    return format_time(datetime.fromtimestamp(at, UTC))


def shown(record: Record, namespace: str | None) -> dict[str, Any]:
    """Return a record as shown to somebody who may read the pods of one namespace, or of all."""
    fields: dict[str, Any] = {
        "time": shown_time(record.at),
        "pod": f"{record.namespace}/{record.name}",
        "uid": record.uid,
        "schedulerName": record.scheduler_name,
        "attempt": record.attempt or None,
        "result": record.result,
        "node": record.node,
        "message": record.message or None,
        "total": record.total,
        "evaluatedNodes": record.evaluated,
        "feasibleNodes": record.feasible,
        "loadAgeSeconds": {source: round(age, 1) for source, age in record.load_ages.items()},
        "details": None if record.details is None else msgspec.Raw(record.details),
    }
    if record.waited is not None:
        fields["waitedSeconds"] = round(record.waited, 3)
    if record.rejectors:
        fields["rejectedBy"] = list(record.rejectors)
    if record.queue:
        fields["queue"] = record.queue
    if record.nominated_node:
        fields["nominatedNode"] = record.nominated_node
    if record.victim_count:
        named = [victim for victim in record.victims if namespace is None or victim.namespace == namespace]
        fields["victims"] = [f"{victim.namespace}/{victim.name}" for victim in named]
        fields["victimCount"] = record.victim_count
    if record.decided_by:
        fields["decidedBy"] = record.decided_by
    return fields
