"""What a rebalancer says of itself: its condition, the last plan and the last moves, as bounded JSON."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.engine import EventRecorder, Regarding
from scheduler.framework import PodInfo
from scheduler.kube.model import Object
from scheduler.kube.primitives import format_seconds
from secondary_scheduler.rebalancestatus import (
    REBALANCING,
    MoveGain,
    MoveStatus,
    NodeLoads,
    PastMoveStatus,
    PlanStatus,
    RebalanceStatus,
    StatusCondition,
    StoppedBy,
    UnevennessChange,
    Workload,
)
from secondary_scheduler.rebalancing import History, MoveOutcome, PastMove, PlannedMove, RebalancePlan, unevenness

MAX_MOVES = 20
_MAX_NAMES = 10
_MAX_TEXT = 300


class Mode(enum.StrEnum):
    """What becomes of a plan; OpenShift's words."""

    OFF = "Off"
    PREDICTIVE = "Predictive"
    """Evictions are asked for with `dryRun: [All]`: nothing is changed."""
    AUTOMATIC = "Automatic"


@dataclass(frozen=True, slots=True)
class RebalancingCondition:
    """Whether pods are moved now; `since` is in seconds since the epoch."""

    status: bool
    reason: str
    message: str
    since: float = math.nan

    def after(self, before: RebalancingCondition | None, now: float) -> RebalancingCondition:
        """Return this condition with its time: that of the former one, if only its words have changed."""
        same = before is not None and before.status == self.status and not math.isnan(before.since)
        return replace(self, since=before.since if same and before is not None else now)


@dataclass(slots=True)
class RoundReport:
    """What is shown.

    Attributes:
        mode: as it was set.
        effective: as it is now: Predictive where Automatic was stopped.
        plan: the last one; `answers` are what the API server said to its moves, by the pod's UID.
    """

    mode: Mode
    effective: Mode
    condition: RebalancingCondition
    configuration: str = ""
    plan: RebalancePlan | None = None
    planned_at: float = math.nan
    answers: dict[str, str] = field(default_factory=dict)


def rebalance_status(report: RoundReport, history: History) -> RebalanceStatus:
    """Return the status that the ConfigMap gets."""
    condition = report.condition
    return RebalanceStatus(
        mode=report.mode.value,
        effective_mode=report.effective.value,
        configuration_hash=report.configuration,
        conditions=(
            StatusCondition(
                REBALANCING,
                "True" if condition.status else "False",
                condition.reason,
                condition.message[:_MAX_TEXT],
                _time(condition.since),
            ),
        ),
        last_plan=None if report.plan is None else _plan(report.plan, report.planned_at, report.answers),
        moves=tuple(_past(move) for move in reversed(history.moves[-MAX_MOVES:])),
    )


def _plan(plan: RebalancePlan, at: float, answers: Mapping[str, str]) -> PlanStatus:
    before, after = plan.before, plan.after
    return PlanStatus(
        time=_time(at),
        pods=plan.pods,
        overloaded=tuple(before.overloaded[:_MAX_NAMES]) if before is not None else (),
        overloaded_nodes=len(before.overloaded) if before is not None else 0,
        spread=UnevennessChange(
            round(unevenness(before.spread), 2) if before is not None else None,
            round(unevenness(after.spread), 2) if after is not None else None,
        ),
        moves=tuple(_move(move, answers) for move in plan.moves[:MAX_MOVES]),
        stopped=tuple(
            StoppedBy(refusal.reason.value, refusal.reason.rule, refusal.message[:_MAX_TEXT])
            for refusal in plan.stopped[:_MAX_NAMES]
        ),
        not_moved={reason.value: count for reason, count in plan.counts.most_common()},
    )


def _move(move: PlannedMove, answers: Mapping[str, str]) -> MoveStatus:
    return MoveStatus(
        pod=move.pod,
        uid=move.uid,
        source=NodeLoads(move.source.name, _load(move.source.before), _load(move.source.after)),
        target=NodeLoads(move.target.name, _load(move.target.before), _load(move.target.after)),
        equally_good_nodes=move.equally_good,
        gain=MoveGain(move.gain.total, move.gain.attainable, move.minimum_gain),
        share=move.share.source,
        answer=answers.get(move.uid, "")[:_MAX_TEXT],
    )


def _past(move: PastMove) -> PastMoveStatus:
    return PastMoveStatus(
        pod=move.pod,
        workload=Workload(*move.workload),
        source=move.source,
        target=move.target,
        begun_at=_time(move.begun_at),
        ended_at=_time(move.ended_at),
        outcome=move.outcome.value if move.outcome is not None else None,
        detail=move.detail[:_MAX_TEXT],
    )


def _load(load: Mapping[str, float]) -> dict[str, float | None]:
    return {resource: None if math.isnan(value) else round(value, 1) for resource, value in load.items()}


def _time(seconds: float) -> str | None:
    return None if math.isnan(seconds) else format_seconds(seconds)


CONTROLLER = "secondary-scheduler-rebalancer"
_API_VERSIONS = {"Job": "batch/v1", "ReplicationController": "v1"}
_REASONS = {
    MoveOutcome.LANDED: "RebalanceLanded",
    MoveOutcome.ELSEWHERE: "RebalanceElsewhere",
    MoveOutcome.BACK: "RebalanceBack",
    MoveOutcome.REFUSED: "RebalanceRefused",
    MoveOutcome.EXPIRED: "RebalanceExpired",
}


class Announcer:
    """Writes them behind everything else."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def moved(self, move: PlannedMove, pod: PodInfo, workload: Object | None) -> None:
        """Say that a pod is evicted, and where its replacement is to go."""
        note = (
            f"evicts {move.pod} from {move.source.name} ({_loads(move.source.before)}); the scheduler prefers "
            f"{move.target.name} ({_loads(move.target.before)} → {_loads(move.target.after)}) by {move.gain.total} of "
            f"{move.gain.attainable} points"
        )
        node = Regarding("Node", "", move.target.name, "")
        self._record(Regarding("Pod", pod.namespace, pod.name, pod.uid), "Normal", "Rebalancing", note, node)
        owner = _regarding(move.workload, workload)
        if owner is not None:
            self._record(owner, "Normal", "Rebalancing", note, node)

    def ended(self, move: PastMove, node: str, workload: Object | None) -> None:
        """Say how a move ended."""
        owner = _regarding(move.workload, workload)
        if owner is None or move.outcome is None:
            return
        words = {
            MoveOutcome.LANDED: f"the replacement of {move.pod} is on {node}, as planned",
            MoveOutcome.ELSEWHERE: f"the replacement of {move.pod} is on {node}, not on {move.target} as planned",
            MoveOutcome.BACK: f"the replacement of {move.pod} is on {node} again, not on {move.target} as planned",
            MoveOutcome.REFUSED: f"{move.pod} was not evicted: {move.detail}",
            MoveOutcome.EXPIRED: f"{move.pod} was not replaced within 10 minutes: {move.detail}",
        }
        kind = "Normal" if move.outcome is MoveOutcome.LANDED else "Warning"
        self._record(owner, kind, _REASONS[move.outcome], words[move.outcome], None)

    def _record(self, regarding: Regarding, kind: str, reason: str, note: str, related: Regarding | None) -> None:
        self._recorder.record(regarding, CONTROLLER, kind, reason, "Rebalancing", note, related)


def _regarding(key: tuple[str, str, str], workload: Object | None) -> Regarding | None:
    """The workload as an Event names it; None where its object is not known, and so not its UID."""
    if workload is None:
        return None
    kind, namespace, name = key
    return Regarding(kind, namespace, name, workload.metadata.uid, api_version=_API_VERSIONS.get(kind, "apps/v1"))


def _loads(load: Mapping[str, float]) -> str:
    values = (f"{resource} {value:.0f} %" for resource, value in load.items() if not math.isnan(value))
    return ", ".join(values) or "load unknown"
