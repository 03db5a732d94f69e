"""The last decisions, kept in memory for whoever asks why a pod is where it is, or nowhere.

Every attempt leaves a short record. Its details (who rejected which nodes, the scores of the best) are computed once
more on the same snapshot, before anything else changes it. That costs many times what the decision did, which the
columns of a class make cheap, so it may take a fixed share of the processor's time: on a calm cluster, and in a burst
of a hundred pods, each decision has its details, in a stream of pods a sample of them has. While pods come one after
the other, or wait to be tried, it is a share of the time that this process gets: the same share of all the time that
goes by would be a multiple of that, the more the less each pod costs and the more others the machine has to serve.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import structlog
from msgspec import Struct

from scheduler.answers import DecisionList, HistoryCoverage
from scheduler.core import Explanation, Placement, PostFilterOutcome, detail_of, explain
from scheduler.engine.allowance import Credit, ProcessorAllowance
from scheduler.engine.decisionrecords import (
    MAX_MESSAGE,
    MAX_VICTIMS,
    RECORD_BYTES,
    PreemptedPod,
    Record,
    Result,
)
from scheduler.engine.failures import UNSCHEDULABLE, AttemptFailure
from scheduler.framework import Clocks, IntArray, MonotonicSeconds, PodInfo, ProfileRunner, RowArray, WallSeconds
from scheduler.kube.primitives import format_seconds
from scheduler.state import QueuedPod, Snapshot

if TYPE_CHECKING:
    from scheduler.engine.handedover import HandedOver


BEST_NODES: Final = 5
"""Nodes whose scores a record keeps, beside the chosen one."""
HISTORY_BYTES: Final = 8 << 10
"""Memory per record, by which the daemon limits them all: most have less."""
_BURST_SECONDS: Final = 0.02
"""Processor time for details that a calm period may save up."""
_STREAM_BURST_SECONDS: Final = 0.005
"""The same for what comes in a stream of pods: a thousand of them shall not pay for much more than their share."""
_BURST_DECISIONS: Final = 100
"""Decisions of a burst that have details whatever these cost, within limits: the allowance pays for it afterwards, so a
storm has no more of them in all."""
_BURST_PERIOD: Final = 10.0
"""Seconds of calm after which there may be such a burst again."""
_BURST_MOST_SECONDS: Final = 0.25
"""Processor time for a burst's details: four times what they take on 5,000 nodes."""
_CALM_SECONDS: Final = 0.1
"""A pod that comes this long after the one before it is not of a stream."""
_encode = msgspec.json.Encoder().encode
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
        self._records: OrderedDict[int, Record] = OrderedDict()
        self._next = 0
        self._latest: dict[str, Record] = {}
        self._bytes = 0
        self._pods_wait = pods_wait
        self._calm = ProcessorAllowance(limits.detail_share, _BURST_SECONDS, clocks.monotonic)
        self._stream = ProcessorAllowance(
            limits.detail_share, _STREAM_BURST_SECONDS, limits.processor_time, clocks.monotonic
        )
        most = _BURST_DECISIONS if limits.detail_share > 0.0 else 0
        self._credit = Credit(most, _BURST_MOST_SECONDS, _BURST_PERIOD)
        self._on_credit = self._pods_waited = False
        self._decided_at = MonotonicSeconds(-math.inf)
        self._leading_since = self._since = clocks.wall()
        self._inherited_from = ""

    def __len__(self) -> int:
        return len(self._records)

    @property
    def size(self) -> int:
        """Bytes that the records take, about."""
        return self._bytes

    def begin(self) -> None:
        """This process leads from now on: before, another one decided."""
        self._leading_since = self._since = self._clocks.wall()

    def export(self) -> bytes:
        """Return all of it for the next leader, as `handedover` reads it."""
        from scheduler.engine.handedover import encode_history  # here, as it is needed at the end of a process

        return encode_history(reversed(self._records.values()), self._since)

    def inherit(self, history: HandedOver, leader: str) -> None:
        """Have what the leader before remembers, which was in a pod of this name, go before what is here; once."""
        own = list(self._records.values())
        self._records.clear()
        for number, record in enumerate(history.records, start=-len(history.records)):
            record.number, record.decided_by = number, record.decided_by or leader
            # Unlike our own it is no attempt that may still end, so `_latest` knows nothing of it.
            self._records[number] = record
            self._bytes += record.measure()
        self._records.update((record.number, record) for record in own)
        self._since, self._inherited_from = WallSeconds(history.since), leader
        self._trim()

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
            Record(
                self._next,
                self._clocks.wall(),
                pod.namespace,
                pod.name,
                pod.uid,
                pod.scheduler_name,
                "unschedulable" if node is None else "binding",
                message[:MAX_MESSAGE] if message else "",
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

    def remarked(self, uid: str, remark: str) -> None:
        """There is more to know of the decision about a pod that is being bound."""
        record = self._latest.get(uid)
        if record is not None and not record.attempt:
            before = record.size
            record.message = f"{record.message}; {remark}"[:MAX_MESSAGE] if record.message else remark
            self._bytes += record.measure() - before

    def post_filtered(self, pod: PodInfo, outcome: PostFilterOutcome) -> None:
        """Preemption was tried for a pod that fits nowhere."""
        record = self._latest.get(pod.uid)
        if record is None or record.attempt:
            return
        before = record.size
        record.nominated_node = outcome.nominated_node or ""
        # Those of the pod's own namespace first: they are named to whoever may read that.
        victims = sorted(outcome.victims, key=lambda victim: victim.namespace != pod.namespace)
        record.victims = tuple(PreemptedPod(victim.namespace, victim.name) for victim in victims[:MAX_VICTIMS])
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
        record.message = failure.message[:MAX_MESSAGE]
        record.rejectors = tuple(sorted(failure.rejectors))
        self._bytes += record.measure() - before

    def _undecided(self, queued: QueuedPod, result: Result, failure: AttemptFailure, queue: str) -> Record:
        self._next += 1
        pod = queued.pod
        return Record(
            number=self._next,
            at=self._clocks.wall(),
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            scheduler_name=pod.scheduler_name,
            result=result,
            message=failure.message[:MAX_MESSAGE],
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

    def _add(self, record: Record) -> None:
        self._records[record.number] = self._latest[record.uid] = record
        self._bytes += record.measure() if record.message or record.details else RECORD_BYTES
        self._trim()

    def _trim(self) -> None:
        while len(self._records) > self._most or self._bytes > self._most_bytes:
            _, oldest = self._records.popitem(last=False)
            self._since = WallSeconds(oldest.at)
            self._forget(oldest)

    def _drop(self, record: Record) -> None:
        del self._records[record.number]
        self._forget(record)

    def _forget(self, record: Record) -> None:
        self._bytes -= record.size
        if self._latest.get(record.uid) is record:
            del self._latest[record.uid]

    def _details(self, snapshot: Snapshot, pod: PodInfo, node: str | None, runner: ProfileRunner) -> bytes | None:
        if not self._may_take_details():
            return None
        # Of this thread: what else a busy machine does meanwhile must not cost a burst its scores.
        began = time.thread_time()
        try:
            explanation = explain(snapshot, pod, runner)
            self.rejections.note(snapshot, explanation)
            return _encode(detail_of(explanation, snapshot, runner, node, BEST_NODES))
        except Exception:
            # A plugin's defect that the decision itself did not meet: the pod must not pay for our curiosity.
            log.exception("the details of a decision could not be computed", pod=pod.key)
            return None
        finally:
            seconds = time.thread_time() - began
            self._calm.spend(seconds)
            self._stream.spend(seconds)
            if self._on_credit:
                self._credit.spend(seconds)

    def _may_take_details(self) -> bool:
        now, before = self._clocks.monotonic(), self._decided_at
        self._decided_at = now
        follows_closely, pods_waited = now - before < _CALM_SECONDS, self._pods_waited
        self._pods_waited = self._pods_wait()
        if not (follows_closely or pods_waited):
            self._credit.refill(now - before)
        allowance = self._stream if follows_closely or self._pods_waited else self._calm
        if allowance.available():
            self._on_credit = False
            return True
        self._on_credit = self._credit.take()
        return self._on_credit

    # What is shown --------------------------------------------------------------------------------------------------

    def show(
        self, *, namespace: str | None = None, pod: str | None = None, node: str | None = None, limit: int = 100
    ) -> DecisionList:
        """Return the last decisions, the newest first.

        Args:
            namespace: only pods of it; victims of other namespaces are counted and not named. None: of all.
            pod: only the pod of this name.
            node: only those that chose this node.
            limit: decisions to return.
        """
        records = (
            record
            for record in reversed(self._records.values())
            if (namespace is None or record.namespace == namespace)
            and (pod is None or record.name == pod)
            and (node is None or record.node == node)
        )
        return DecisionList(items=tuple(record.answer(namespace) for record in islice(records, limit)))

    def coverage(self) -> HistoryCoverage:
        """Return what the history covers."""
        decided = [record for record in self._records.values() if record.evaluated]
        return HistoryCoverage(
            format_seconds(self._since),
            format_seconds(self._leading_since),
            self._inherited_from or None,
            len(decided),
            sum(record.details is not None for record in decided),
        )

    def uid_of(self, namespace: str, name: str) -> str | None:
        """Return the UID of the pod of this name that was decided about last; None where it is not remembered."""
        records = reversed(self._records.values())
        return next((record.uid for record in records if (record.namespace, record.name) == (namespace, name)), None)

    def count_chosen(self, node: str) -> int:
        """Return how many of the remembered decisions chose a node."""
        return sum(record.node == node for record in self._records.values())


_WINDOW: Final = 500
"""Decisions after which counting begins again; what was counted before is shown for as many more."""
_GROWTH: Final = 64


class _Window:
    """Counts of some decisions."""

    def __init__(self) -> None:
        self.decisions = 0
        self.by_plugin: dict[str, IntArray] = {}

    def count(self, plugin: str, rows: RowArray, size: int) -> None:
        counts = self.by_plugin.get(plugin)
        if counts is None or len(counts) < size:
            grown = np.zeros(size + _GROWTH, dtype=np.int64)
            if counts is not None:
                grown[: len(counts)] = counts
            counts = self.by_plugin[plugin] = grown
        counts[rows] += 1

    def forget(self, row: int) -> None:
        for counts in self.by_plugin.values():
            if row < len(counts):
                counts[row] = 0


class RejectionCounts:
    """By node and plugin, of the last 500 to 1,000 decisions that were looked at.

    A node is counted for the plugin that rejected it first. A row that another node has taken over begins at nothing.
    """

    def __init__(self) -> None:
        self._latest, self._before = _Window(), _Window()
        self._names: list[str] = []
        self._membership = -1

    def note(self, snapshot: Snapshot, explanation: Explanation) -> None:
        """Count the rejections of a decision; of one that ended with an error there are none."""
        if explanation.error is not None:
            return
        self._follow(snapshot)
        window, diagnosis, size = self._latest, explanation.diagnosis, snapshot.size
        window.decisions += 1
        if diagnosis.pre_filter is not None:
            window.count(diagnosis.pre_filter.plugin, snapshot.rows, size)
        for rejection in diagnosis.rejections:
            window.count(rejection.plugin, rejection.rows, size)
        absent = diagnosis.absent_status
        if absent is not None and diagnosis.absent:
            looked_at = [rejection.rows for rejection in diagnosis.rejections]
            rows = np.setdiff1d(snapshot.rows, np.concatenate([explanation.feasible, *looked_at]))
            window.count(absent.plugin, rows, size)
        if window.decisions >= _WINDOW:
            self._latest, self._before = _Window(), window

    def of(self, snapshot: Snapshot, row: int) -> tuple[int, dict[str, int]]:
        """Return how many decisions were looked at, and by plugin how many of them it kept from the node in a row."""
        self._follow(snapshot)
        counts: dict[str, int] = {}
        for window in (self._before, self._latest):
            for plugin, by_row in window.by_plugin.items():
                if row < len(by_row) and by_row[row]:
                    counts[plugin] = counts.get(plugin, 0) + int(by_row[row])
        return self._before.decisions + self._latest.decisions, counts

    def _follow(self, snapshot: Snapshot) -> None:
        """Forget what was counted for nodes that have gone."""
        if snapshot.membership == self._membership:
            return
        self._membership = snapshot.membership
        before, self._names = self._names, [""] * snapshot.size
        for row in snapshot.rows.tolist():
            self._names[row] = snapshot.name(row)
        for row, name in enumerate(before):
            if name and (row >= len(self._names) or self._names[row] != name):
                self._latest.forget(row)
                self._before.forget(row)
