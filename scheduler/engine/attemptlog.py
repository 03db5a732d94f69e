"""Who follows attempts: the log, beyond their outcome, at the verbosity that upstream's lines or the operator's
logLevel ask for, the history of decisions, traces, and shadows. Nothing is computed for what nobody asked for. Members
of a gang have the same lines as other pods.

- 4 (Debug): that an attempt begins, and which plugin rejected how many nodes.
- 5: what PostFilter answered.
- 6 (Trace): the scores of the best nodes, by plugin.
- 8 (TraceAll): those of all nodes, in one line per node and plugin, as upstream at 10.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import structlog

from scheduler.core import Placement, PostFilterOutcome, explain
from scheduler.engine.decisions import DecisionHistory
from scheduler.engine.failures import AttemptFailure
from scheduler.engine.shadows import Shadows
from scheduler.engine.timing import AttemptTraces
from scheduler.framework import MonotonicSeconds, PodInfo, ProfileRunner, Status
from scheduler.state import QueuedPod, Snapshot

DEBUG: Final = 4
POST_FILTER: Final = 5
SCORES: Final = 6
ALL_SCORES: Final = 8
BEST_NODES: Final = 5
"""Nodes whose scores are shown at `SCORES`."""
log = structlog.get_logger(component="cycle")


class AttemptLog:
    """Writes these lines, and tells the history, the traces and the shadows.

    Attributes:
        debug: whether anything of this is written.
        follows_beginnings: whether anybody wants to hear of beginnings; the caller of `begin` asks it first.
        follows_decisions: whether anybody wants to hear of decisions; the caller of `decided` asks it first.
        scores: whether scores are written.
    """

    def __init__(
        self,
        verbosity: int,
        history: DecisionHistory | None = None,
        traces: AttemptTraces | None = None,
        shadows: Shadows | None = None,
    ) -> None:
        self._history = history
        self._traces = traces
        self._shadows = shadows
        self.debug = verbosity >= DEBUG
        self.follows_beginnings = self.debug or traces is not None
        followers = (history, traces, shadows)
        self.follows_decisions = self.debug or any(follower is not None for follower in followers)
        self.scores = verbosity >= SCORES
        self._post_filter = verbosity >= POST_FILTER
        self._all = verbosity >= ALL_SCORES

    def begin(self, queued: QueuedPod, started: float) -> None:
        """An attempt begins; it began at this time of `time.perf_counter`."""
        if self._traces is not None:
            self._traces.begin(queued, started)
        if self.debug:
            log.debug("Attempting to schedule pod", pod=queued.pod.key, attempt=queued.attempts)

    def decided(self, snapshot: Snapshot, placement: Placement, runner: ProfileRunner) -> None:
        """A node was chosen on this snapshot, or there is none."""
        if self._traces is not None:
            self._traces.decided(placement)
        if self._history is not None:
            self._history.decided(snapshot, placement, runner)
        if self._shadows is not None:
            self._shadows.decided(snapshot, placement, runner)
        if not self.debug:
            return
        if placement.node is None:
            self._rejected(placement)
        elif self.scores:
            self._scored(snapshot, placement.pod, runner, placement.node)

    def _rejected(self, placement: Placement) -> None:
        """An attempt found no node: say which plugin rejected how many."""
        diagnosis = placement.diagnosis
        if diagnosis is None:
            log.debug("attempt failed", pod=placement.pod.key, err=placement.message)
            return
        counts: Counter[str] = Counter()
        for rejection in diagnosis.rejections:
            counts[rejection.plugin] += len(rejection.rows)
        if diagnosis.pre_filter is not None:
            counts[diagnosis.pre_filter.plugin or "PreFilter"] += diagnosis.total
        if diagnosis.absent:
            counts[" ".join(diagnosis.absent_plugins) or "PreFilter"] += diagnosis.absent
        log.debug(
            "nodes rejected",
            pod=placement.pod.key,
            evaluatedNodes=placement.evaluated,
            rejectedBy=dict(counts.most_common()),
        )

    def post_filtered(self, pod: PodInfo, outcome: PostFilterOutcome) -> None:
        """PostFilter answered."""
        if self._traces is not None:
            self._traces.post_filtered(pod, outcome)
        if self._history is not None:
            self._history.post_filtered(pod, outcome)
        if self._post_filter and outcome.status is not None:
            log.debug(
                "Status after running PostFilter plugins for pod",
                pod=pod.key,
                plugin=outcome.status.plugin,
                status=outcome.status.message or outcome.status.code.name.lower(),
                victims=len(outcome.victims),
                nominatedNode=outcome.nominated_node or "",
            )

    def waited(self, pod: PodInfo, seconds: float, status: Status) -> None:
        """A pod that has a node waited for a permission so long; this is what came."""
        if self._traces is not None:
            self._traces.waited(pod, seconds, status)

    def binding(self, pod: PodInfo) -> None:
        """PreBind begins."""
        if self._traces is not None:
            self._traces.binding(pod)

    def pre_bound(self, pod: PodInfo) -> None:
        """PreBind ended with success; Bind begins."""
        if self._traces is not None:
            self._traces.pre_bound(pod)

    def bound(self, queued: QueuedPod, now: MonotonicSeconds) -> None:
        """A pod was bound to the node that it was given, at this time."""
        if self._traces is not None:
            self._traces.bound(queued)
        if self._history is not None:
            self._history.bound(queued, now)

    def not_tried(self, queued: QueuedPod) -> None:
        """A pod is returned to the queue as if it had not been tried."""
        if self._traces is not None:
            self._traces.not_tried(queued.pod.uid)
        if self._history is not None:
            self._history.not_tried(queued.pod.uid)

    def remarked(self, uid: str, remark: str) -> None:
        """There is more to know of the decision about a pod that is being bound."""
        if self._history is not None:
            self._history.remarked(uid, remark)

    def failed(self, queued: QueuedPod, failure: AttemptFailure, queue: str) -> None:
        """An attempt ended without a node; the pod waits in this queue now, or is gone where that is ""."""
        if self._traces is not None:
            self._traces.failed(queued, failure, queue)
        if self._history is not None:
            self._history.failed(queued, failure, queue)

    def _scored(self, snapshot: Snapshot, pod: PodInfo, runner: ProfileRunner, chosen: str) -> None:
        """A node was chosen: show the scores, which are computed once more for it, plugin by plugin."""
        explanation = explain(snapshot, pod, runner)
        if not self._all:
            for name, node in explanation.nodes(BEST_NODES):
                scores = {plugin: score.weighted for plugin, score in node.scores.items()}
                log.debug(
                    "node scored", pod=pod.key, node=name, score=node.total, chosen=name == chosen, plugins=scores
                )
            return
        for name, node in explanation.nodes(len(explanation.feasible)):
            for plugin, score in node.scores.items():
                log.debug("Plugin scored node for pod", pod=pod.key, plugin=plugin, node=name, score=score.weighted)
            log.debug("Calculated node's final score for pod", pod=pod.key, node=name, score=node.total)
