"""What is kept of a decision, and how it is shown."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from scheduler.answers import Decision
from scheduler.kube.primitives import format_seconds

RECORD_BYTES: Final = 700
"""What a record takes beside its message and details: 250 as measured with tracemalloc, and names that it keeps."""
MAX_VICTIMS: Final = 20
"""Victims that are named; the others are counted."""
MAX_MESSAGE: Final = 2000
Result = Literal["binding", "scheduled", "unschedulable", "error"]


class PreemptedPod(NamedTuple):
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
    victims: tuple[PreemptedPod, ...] = ()
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

    def answer(self, namespace: str | None) -> Decision:
        """Return what is shown to somebody who may read the pods of one namespace, or of all."""
        readable = [victim for victim in self.victims if namespace is None or victim.namespace == namespace]
        return Decision(
            time=format_seconds(self.at),
            pod=f"{self.namespace}/{self.name}",
            uid=self.uid,
            scheduler_name=self.scheduler_name,
            attempt=self.attempt or None,
            result=self.result,
            node=self.node,
            message=self.message or None,
            total=self.total,
            evaluated_nodes=self.evaluated,
            feasible_nodes=self.feasible,
            load_age_seconds={source: round(age, 1) for source, age in self.load_ages.items()},
            details=None if self.details is None else already_encoded(self.details),
            waited_seconds=None if self.waited is None else round(self.waited, 3),
            rejected_by=self.rejectors,
            queue=self.queue,
            nominated_node=self.nominated_node,
            victims=tuple(f"{victim.namespace}/{victim.name}" for victim in readable) if self.victim_count else None,
            victim_count=self.victim_count,
            decided_by=self.decided_by,
        )


def already_encoded(part: bytes) -> Any:
    """Return a part of an answer that is JSON already, to be encoded as it is: reading it takes the loop's time."""
    return msgspec.Raw(part)
