"""Reads what the real kube-scheduler writes at -v=10 about its decisions (klog's text format)."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

VMODULE = "schedule_one=10,eventhandlers=4,binder=4"
"""The files whose lines we read, at the levels they need; everything else, such as HTTP bodies, stays out."""

_LINE = re.compile(r'[IWEF]\d{4} [\d:.]+ +\d+ (?P<file>[\w.]+):\d+\] "(?P<message>(?:[^"\\]|\\.)*)"(?P<rest>.*)')
_PAIR = re.compile(r' (?P<key>[\w./]+)=(?P<value>"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\S*)')


class Line(NamedTuple):
    """One structured log line."""

    message: str
    values: dict[str, str]


def parse(text: str) -> Line | None:
    """Parse a line; None for what is not a structured one."""
    match = _LINE.match(text)
    if match is None:
        return None
    values = {pair["key"]: _unquote(pair["value"]) for pair in _PAIR.finditer(match["rest"])}
    return Line(_unquote(f'"{match["message"]}"'), values)


def _unquote(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        # Go escapes bytes that JSON has no form for (\x01); nothing we compare holds them.
        return value[1:-1]


@dataclass
class Attempt:
    """The first scheduling attempt of one pod, as far as it has been logged."""

    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    feasible: int | None = None
    """How many nodes the scheduler says were feasible; None where it did not say."""
    node: str = ""
    message: str = ""
    error: str = ""
    victims: set[str] = field(default_factory=set)
    done: bool = False


@dataclass
class LogState:
    """What the log has told so far. `feed` takes it line by line."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often ("node added" | "node deleted" | "pod added" | "pod deleted" | …, name) was logged by the event
    handlers."""

    def feed(self, text: str) -> None:
        """Take one line."""
        line = parse(text)
        if line is None:
            return
        if line.message in _EVENTS:
            kind, key = _EVENTS[line.message]
            self.seen[(kind, line.values.get(key, ""))] += 1
            return
        key = line.values.get("pod", "")
        if line.message == "Attempting to schedule pod":
            self.attempts.setdefault(key, Attempt())
            return
        if line.message == "Preemptor Pod preempted victim Pod":
            preemptor = self.attempts.get(line.values.get("preemptor", ""))
            if preemptor is not None:
                preemptor.victims.add(line.values["victim"])
            return
        attempt = self.attempts.get(key)
        if attempt is not None and not attempt.done:
            _note(attempt, line)

    def forget(self) -> None:
        """Start over."""
        self.attempts.clear()
        self.seen.clear()


_EVENTS = {
    "Add event for node": ("node added", "node"),
    "Delete event for node": ("node deleted", "node"),
    "Add event for scheduled pod": ("pod added", "pod"),
    "Update event for scheduled pod": ("pod updated", "pod"),
    "Delete event for scheduled pod": ("pod deleted", "pod"),
    "Add event for unscheduled pod": ("pod queued", "pod"),
    "Delete event for unscheduled pod": ("pod dequeued", "pod"),
}


def _note(attempt: Attempt, line: Line) -> None:
    values = line.values
    match line.message:
        case "Plugin scored node for pod":
            attempt.scores.setdefault(values["node"], {})[values["plugin"]] = int(values["score"])
        case "Calculated node's final score for pod":
            attempt.totals[values["node"]] = int(values["score"])
        case "Successfully bound pod to node":
            attempt.node, attempt.done = values["node"], True
            attempt.feasible = int(values["feasibleNodes"])
        case "BindPodVolumes":
            # Its volumes are bound by a controller that is not there: the choice is made, and is all we ask.
            attempt.node, attempt.done = values["node"], True
        case "Unable to schedule pod; no fit; waiting":
            attempt.message, attempt.done = values["err"], True
        case "Unable to schedule pod; no nodes are registered to the cluster; waiting":
            attempt.error, attempt.done = "no nodes available to schedule pods", True
        case "Error scheduling pod; retrying":
            attempt.error, attempt.done = values.get("err", ""), True
