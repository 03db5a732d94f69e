"""The last decisions, kept in memory for whoever asks why a pod is where it is, or nowhere.

Every attempt leaves a short record. Its details (who rejected which nodes, the scores of the best) are computed once
more on the same snapshot, before anything else changes it. That costs many times what the decision did, which the
columns of a class make cheap, so it may take a fixed share of the processor's time: on a calm cluster each decision has
its details, in a stream of pods a sample of them has. While pods come one after the other, or wait to be tried, it is a
share of the time that this process gets: the same share of all the time that goes by would be a multiple of that, the
more the less each pod costs and the more others the machine has to serve.
"""

from __future__ import annotations

import math
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import msgspec
import structlog
from msgspec import Struct

from scheduler.core import Placement, PostFilterOutcome, detail_of, explain
from scheduler.engine.allowance import Allowance
from scheduler.engine.failures import UNSCHEDULABLE, AttemptFailure
from scheduler.engine.rejectioncounts import RejectionCounts
from scheduler.framework import Clocks, MonotonicSeconds, PodInfo, ProfileRunner, WallSeconds
from scheduler.kube.primitives import format_time
from scheduler.state import QueuedPod, Snapshot

BEST_NODES: Final = 5
"""Nodes whose scores a record keeps, beside the chosen one."""
HISTORY_BYTES: Final = 8 << 10
"""Memory per record, by which the daemon limits them all: most have less."""
_BURST_SECONDS: Final = 0.02
"""Processor time for details that a calm period may save up."""
_STREAM_BURST_SECONDS: Final = 0.005
"""The same for what comes in a stream of pods: a thousand of them shall not pay for much more than their share."""
_CALM_SECONDS: Final = 0.1
"""A pod that comes this long after the one before it is not of a stream."""
_RECORD_BYTES: Final = 700
"""What a record takes beside its message and details: 250 as measured with tracemalloc, and names that it keeps."""
_MOST_VICTIMS: Final = 20
"""Victims that are named; the others are counted."""
_MOST_MESSAGE: Final = 2000
API_VERSION: Final = "secondary-scheduler.io/v1"
_encode = msgspec.json.Encoder().encode
Result = Literal["binding", "scheduled", "unschedulable", "error"]
log = structlog.get_logger(component="decisions")


class HistoryLimits(Struct, frozen=True):
    """How much is kept.

    Attributes:
        records: decisions, 0 for none.
        bytes: memory for them, about.
        detail_share: share of the processor's time that details may take, from 0 for none to 1.
        processor_time: returns the seconds that the process has used.
    """

    records: int
    bytes: int
    detail_share: float
    processor_time: Callable[[], MonotonicSeconds] = lambda: MonotonicSeconds(time.process_time())


class _Victim(NamedTuple):
    namespace: str
    name: str


class _Record(msgspec.Struct, gc=False):
    """One attempt to place a pod. It holds no object of the cluster: a pod may have a megabyte.

    It is a Struct without garbage collection, which is made in a fifth of a dataclass's time and never walked: there is
    one for every pod. What is shown is made of it when somebody asks.

    `attempt` is 0 until the attempt ends; `size` is bytes, about, as they were when it was measured last.
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
    victims: tuple[_Victim, ...] = ()
    victim_count: int = 0
    size: int = _RECORD_BYTES

    def measure(self) -> int:
        """Note and return the size."""
        size = _RECORD_BYTES
        if self.details is not None:
            size += len(self.details)
        if self.message:
            size += sys.getsizeof(self.message)
        if self.victims:
            size += sum(len(victim.namespace) + len(victim.name) for victim in self.victims)
        self.size = size
        return size


class DecisionHistory:
    """Records of the last attempts, the oldest dropped first. All methods run on the scheduling loop.

    Args:
        limits: how much is kept.
        clocks: of the process.
        pods_wait: tells whether other pods are ready to be tried.

    Attributes:
        rejections: who rejected which nodes, as far as decisions have details.
    """

    def __init__(
        self,
        limits: HistoryLimits,
        clocks: Clocks,
        pods_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        self._most, self._most_bytes = limits.records, limits.bytes
        self._clocks = clocks
        self.rejections = RejectionCounts()
        self._records: OrderedDict[int, _Record] = OrderedDict()
        self._next = 0
        self._latest: dict[str, _Record] = {}
        self._bytes = 0
        self._pods_wait = pods_wait
        self._calm = Allowance(limits.detail_share, _BURST_SECONDS, clocks.monotonic)
        self._stream = Allowance(limits.detail_share, _STREAM_BURST_SECONDS, limits.processor_time, clocks.monotonic)
        self._decided_at = MonotonicSeconds(-math.inf)
        self._leading_since = self._since = clocks.wall()

    def __len__(self) -> int:
        return len(self._records)

    @property
    def size(self) -> int:
        """Bytes that the records take, about."""
        return self._bytes

    def begin(self) -> None:
        """This process leads from now on: before, another one decided."""
        self._leading_since = self._since = self._clocks.wall()

    # What happens to a pod ------------------------------------------------------------------------------------------

    def decided(self, snapshot: Snapshot, placement: Placement, runner: ProfileRunner) -> None:
        """A pod was given a node on this snapshot, or none. A member of a gang may be decided about several times in
        one attempt: the last time counts."""
        pod, node = placement.pod, placement.node
        latest = self._latest.get(pod.uid)
        if latest is not None and not latest.attempt:
            self._drop(latest)
        self._next += 1
        message = placement.message or placement.remark
        self._add(
            _Record(
                self._next,
                self._clocks.wall(),
                pod.namespace,
                pod.name,
                pod.uid,
                pod.scheduler_name,
                "unschedulable" if node is None else "binding",
                message[:_MOST_MESSAGE] if message else "",
                tuple(sorted(placement.rejectors)) if placement.rejectors else (),
                node,
                placement.total,
                placement.evaluated,
                placement.feasible,
                placement.load_ages,
                self._details(snapshot, pod, node, runner),
            )
        )

    def not_tried(self, uid: str) -> None:
        """The decision about a pod, if there was one, counts for nothing: its gang takes it up again later."""
        record = self._latest.get(uid)
        if record is not None and not record.attempt:
            self._drop(record)

    def post_filtered(self, pod: PodInfo, outcome: PostFilterOutcome) -> None:
        """Preemption was tried for a pod that fits nowhere."""
        record = self._latest.get(pod.uid)
        if record is None or record.attempt:
            return
        before = record.size
        record.nominated_node = outcome.nominated_node or ""
        # Those of the pod's own namespace first: they are named to whoever may read that.
        victims = sorted(outcome.victims, key=lambda victim: victim.namespace != pod.namespace)
        record.victims = tuple(_Victim(victim.namespace, victim.name) for victim in victims[:_MOST_VICTIMS])
        record.victim_count = len(outcome.victims)
        self._bytes += record.measure() - before

    def bound(self, queued: QueuedPod, now: MonotonicSeconds) -> None:
        """A pod was bound to the node that it was given, at this time."""
        record = self._latest.get(queued.pod.uid)
        if record is None or record.attempt:
            return
        record.result, record.attempt = "scheduled", queued.attempts
        if queued.first_active_at is not None:
            record.waited = now - queued.first_active_at

    def failed(self, queued: QueuedPod, failure: AttemptFailure, queue: str) -> None:
        """An attempt ended without a node; the pod waits in this queue now, or is gone where that is ""."""
        result: Result = "unschedulable" if failure.reason == UNSCHEDULABLE else "error"
        record = self._latest.get(queued.pod.uid)
        if record is None or record.attempt:
            # It ended before any decision: no nodes, a defect, a gang that is not complete.
            self._add(self._undecided(queued, result, failure, queue))
            return
        before = record.size
        record.result, record.attempt = result, max(1, queued.attempts)
        record.node, record.queue = None, queue
        record.message = failure.message[:_MOST_MESSAGE]
        record.rejectors = tuple(sorted(failure.rejectors))
        self._bytes += record.measure() - before

    def _undecided(self, queued: QueuedPod, result: Result, failure: AttemptFailure, queue: str) -> _Record:
        self._next += 1
        pod = queued.pod
        return _Record(
            number=self._next,
            at=self._clocks.wall(),
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            scheduler_name=pod.scheduler_name,
            result=result,
            message=failure.message[:_MOST_MESSAGE],
            rejectors=tuple(sorted(failure.rejectors)),
            node=None,
            total=0,
            evaluated=0,
            feasible=0,
            load_ages={},
            details=None,
            attempt=max(1, queued.attempts),
            queue=queue,
        )

    def _add(self, record: _Record) -> None:
        self._records[record.number] = self._latest[record.uid] = record
        self._bytes += record.measure() if record.message or record.details else _RECORD_BYTES
        while len(self._records) > self._most or self._bytes > self._most_bytes:
            _, oldest = self._records.popitem(last=False)
            self._since = WallSeconds(oldest.at)
            self._forget(oldest)

    def _drop(self, record: _Record) -> None:
        del self._records[record.number]
        self._forget(record)

    def _forget(self, record: _Record) -> None:
        self._bytes -= record.size
        if self._latest.get(record.uid) is record:
            del self._latest[record.uid]

    def _details(self, snapshot: Snapshot, pod: PodInfo, node: str | None, runner: ProfileRunner) -> bytes | None:
        if not self._may_take_details():
            return None
        began = time.perf_counter()
        try:
            explanation = explain(snapshot, pod, runner)
            self.rejections.note(snapshot, explanation)
            return _encode(detail_of(explanation, snapshot, runner, node, BEST_NODES))
        except Exception:
            # A plugin's defect that the decision itself did not meet: the pod must not pay for our curiosity.
            log.exception("the details of a decision could not be computed", pod=pod.key)
            return None
        finally:
            seconds = time.perf_counter() - began
            self._calm.spend(seconds)
            self._stream.spend(seconds)

    def _may_take_details(self) -> bool:
        now, before = self._clocks.monotonic(), self._decided_at
        self._decided_at = now
        is_stream = now - before < _CALM_SECONDS or self._pods_wait()
        return (self._stream if is_stream else self._calm).available()

    # What is shown --------------------------------------------------------------------------------------------------

    def show(
        self, *, namespace: str | None = None, pod: str | None = None, node: str | None = None, most: int = 100
    ) -> dict[str, Any]:
        """Return the last decisions, the newest first, JSON-ready.

        Args:
            namespace: only pods of it; victims of other namespaces are counted and not named. None: of all.
            pod: only the pod of this name.
            node: only those that chose this node.
            most: decisions to return.
        """
        wanted = (
            record
            for record in reversed(self._records.values())
            if (namespace is None or record.namespace == namespace)
            and (pod is None or record.name == pod)
            and (node is None or record.node == node)
        )
        items = [_shown(record, namespace) for record in islice(wanted, most)]
        return {"apiVersion": API_VERSION, "kind": "DecisionList", "items": items}

    def coverage(self) -> dict[str, Any]:
        """Return what the history covers, JSON-ready: since when it has all attempts, and since when this process
        leads; how many of those that looked at nodes it has, and how many of these with details."""
        decided = [record for record in self._records.values() if record.evaluated]
        return {
            "since": _shown_time(self._since),
            "leadingSince": _shown_time(self._leading_since),
            "decisions": len(decided),
            "withDetails": sum(record.details is not None for record in decided),
        }

    def uid_of(self, namespace: str, name: str) -> str | None:
        """Return the UID of the pod of this name that was decided about last; None where it is not remembered."""
        records = reversed(self._records.values())
        return next((record.uid for record in records if (record.namespace, record.name) == (namespace, name)), None)

    def count_chosen(self, node: str) -> int:
        """Return how many of the remembered decisions chose a node."""
        return sum(record.node == node for record in self._records.values())


def _shown_time(at: float) -> str:
    return format_time(datetime.fromtimestamp(at, UTC))


def _shown(record: _Record, namespace: str | None) -> dict[str, Any]:
    """Return a record as shown to somebody who may read the pods of one namespace, or of all."""
    shown: dict[str, Any] = {
        "time": _shown_time(record.at),
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
        shown["waitedSeconds"] = round(record.waited, 3)
    if record.rejectors:
        shown["rejectedBy"] = list(record.rejectors)
    if record.queue:
        shown["queue"] = record.queue
    if record.nominated_node:
        shown["nominatedNode"] = record.nominated_node
    if record.victim_count:
        named = [victim for victim in record.victims if namespace is None or victim.namespace == namespace]
        shown["victims"] = [f"{victim.namespace}/{victim.name}" for victim in named]
        shown["victimCount"] = record.victim_count
    return shown
