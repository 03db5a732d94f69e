"""What a rebalancer says of itself: its condition, the last plan and the last moves, as bounded JSON."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from scheduler.kube.primitives import format_time
from secondary_scheduler.rebalancing import History, Move, PastMove, RebalancePlan, unevenness

API_VERSION = "secondary-scheduler.io/v1"
KIND = "RebalanceStatus"
CONDITION = "Rebalancing"
MOST_MOVES = 20
_MOST_NAMES = 10
_MOST_TEXT = 300


class Mode(enum.StrEnum):
    """What becomes of a plan; OpenShift's words."""

    OFF = "Off"
    PREDICTIVE = "Predictive"
    """Evictions are asked for with `dryRun: [All]`: nothing is changed."""
    AUTOMATIC = "Automatic"


@dataclass(frozen=True, slots=True)
class Condition:
    """Whether pods are moved now; `since` is in seconds since the epoch."""

    status: bool
    reason: str
    message: str
    since: float = math.nan

    def after(self, former: Condition | None, now: float) -> Condition:
        """Return this condition with its time: that of the former one, if only its words have changed."""
        same = former is not None and former.status == self.status and not math.isnan(former.since)
        return replace(self, since=former.since if same and former is not None else now)


@dataclass(slots=True)
class Report:
    """What is shown.

    Attributes:
        mode: as it was set.
        effective: as it is now: Predictive where Automatic was stopped.
        plan: the last one; `answers` are what the API server said to its moves, by the pod's UID.
    """

    mode: Mode
    effective: Mode
    condition: Condition
    configuration: str = ""
    plan: RebalancePlan | None = None
    planned_at: float = math.nan
    answers: dict[str, str] = field(default_factory=dict)


def status_document(report: Report, history: History) -> dict[str, Any]:
    """Return the status as data that is ready for JSON."""
    condition = report.condition
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "mode": report.mode.value,
        "effectiveMode": report.effective.value,
        "configurationHash": report.configuration,
        "conditions": [
            {
                "type": CONDITION,
                "status": "True" if condition.status else "False",
                "reason": condition.reason,
                "message": condition.message[:_MOST_TEXT],
                "lastTransitionTime": _time(condition.since),
            }
        ],
        "lastPlan": None if report.plan is None else _plan(report.plan, report.planned_at, report.answers),
        "moves": [_past(move) for move in reversed(history.moves[-MOST_MOVES:])],
    }


def _plan(plan: RebalancePlan, at: float, answers: Mapping[str, str]) -> dict[str, Any]:
    before, after = plan.before, plan.after
    return {
        "time": _time(at),
        "pods": plan.pods,
        "overloaded": _names(before.overloaded if before is not None else ()),
        "overloadedNodes": len(before.overloaded) if before is not None else 0,
        "spread": {
            "before": round(unevenness(before.spread), 2) if before is not None else None,
            "after": round(unevenness(after.spread), 2) if after is not None else None,
        },
        "moves": [_move(move, answers) for move in plan.moves[:MOST_MOVES]],
        "stopped": [
            {"reason": refusal.reason.value, "rule": refusal.reason.rule, "message": refusal.message[:_MOST_TEXT]}
            for refusal in plan.stopped[:_MOST_NAMES]
        ],
        "notMoved": {reason.value: count for reason, count in plan.counts.most_common()},
    }


def _move(move: Move, answers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "pod": move.pod,
        "uid": move.uid,
        "from": {"node": move.source.name, "before": _load(move.source.before), "after": _load(move.source.after)},
        "to": {"node": move.target.name, "before": _load(move.target.before), "after": _load(move.target.after)},
        "equallyGoodNodes": move.equally_good,
        "gain": {"points": move.gain.total, "attainable": move.gain.attainable, "minimum": move.minimum_gain},
        "share": move.share.source,
        "answer": answers.get(move.uid, "")[:_MOST_TEXT],
    }


def _past(move: PastMove) -> dict[str, Any]:
    kind, namespace, name = move.workload
    return {
        "pod": move.pod,
        "workload": {"kind": kind, "namespace": namespace, "name": name},
        "from": move.source,
        "to": move.target,
        "begunAt": _time(move.begun_at),
        "endedAt": _time(move.ended_at),
        "outcome": move.outcome.value if move.outcome is not None else None,
        "detail": move.detail[:_MOST_TEXT],
    }


def _load(load: Mapping[str, float]) -> dict[str, float | None]:
    return {resource: None if math.isnan(value) else round(value, 1) for resource, value in load.items()}


def _names(names: Sequence[str]) -> list[str]:
    return list(names[:_MOST_NAMES])


def _time(seconds: float) -> str | None:
    return None if math.isnan(seconds) else format_time(datetime.fromtimestamp(seconds, UTC))
