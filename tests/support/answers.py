"""What a scheduler answers, for the tests of who asks: JSON-ready, each field as it is in any answer."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.answers import Decision, DecisionList

API = {"apiVersion": "secondary-scheduler.io/v1"}
NOTHING_FITS: dict[str, Any] = {"evaluated": 3, "feasible": 0, "ties": 0, "nodes": [], "rejected": []}


def decision(**fields: Any) -> dict[str, Any]:
    """One that placed shop/web on n1, without details."""
    return {
        "time": "2026-11-24T10:00:00Z", "pod": "shop/web", "uid": "u", "schedulerName": "s", "attempt": 1,
        "result": "scheduled", "node": "n1", "message": None, "total": 250, "evaluatedNodes": 3, "feasibleNodes": 2,
        "loadAgeSeconds": {}, "details": None,
        **fields,
    }  # fmt: skip


def waiting(pod: str = "shop/web", seconds: float = 3.5, queue: str = "active", **fields: Any) -> dict[str, Any]:
    """A pod in the queue."""
    return {
        "pod": pod, "queue": queue, "priority": 0, "since": "2026-11-24T10:00:00Z", "seconds": seconds, "attempts": 1,
        "rejectedBy": [], **fields,
    }  # fmt: skip


def tried_again(**fields: Any) -> dict[str, Any]:
    """Where the pod that is asked about waits, and fits nowhere."""
    return waiting(**{"wokenBy": {}, "now": NOTHING_FITS, **fields})


def decisions(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The answer about decisions."""
    return {**API, "kind": "DecisionList", "items": list(items), **fields}


def read_decisions(*items: dict[str, Any], **fields: Any) -> DecisionList:
    """The same as it is read."""
    return msgspec.convert(decisions(*items, **fields), DecisionList)


def read_decision(**fields: Any) -> Decision:
    """A decision as it is read."""
    return msgspec.convert(decision(**fields), Decision)
