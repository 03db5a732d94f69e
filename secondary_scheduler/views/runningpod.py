"""What a running scheduler says about a pod, from its answer to the view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from scheduler.core import DecisionDetail
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.views.decisions import MatrixRow, score_matrix


class Gate(Struct, frozen=True):
    """What keeps a pod out of the queue."""

    plugin: str = ""
    message: str = ""


class Waiting(Struct, frozen=True, rename="camel"):
    """Where a pod waits; `now` is whether it would fit at this moment, where that was computed."""

    queue: str
    seconds: float
    attempts: int
    woken_by: dict[str, list[str]] = {}
    pods_ahead: int | None = None
    backoff_seconds: float | None = None
    gate: Gate | None = None
    now: DecisionDetail | None = None


class Attempt(Struct, frozen=True, rename="camel"):
    """One attempt of the running scheduler; it keeps details of a share of them, and not always the number."""

    time: str
    result: str
    scheduler_name: str
    attempt: int | None = None
    node: str | None = None
    message: str | None = None
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    load_age_seconds: dict[str, float] = {}
    details: DecisionDetail | None = None


class _Answer(Struct, frozen=True, rename="camel"):
    items: list[Attempt] | None = None
    waiting: Waiting | None = None
    scheduler_names: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """Details with the matrix of their scores; `left_out` nodes that fit are not in it."""

    detail: DecisionDetail
    plugins: tuple[str, ...]
    matrix: tuple[MatrixRow, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class RunningPod:
    """What the running scheduler says about a pod.

    Attributes:
        last: the newest attempt.
        earlier: the attempts before, the newest first.
        waiting: where it waits; None where it does not.
        shown: details of the last attempt, or else of what would be decided now.
        scheduler_names: those that it decides for.
    """

    last: Attempt | None
    earlier: tuple[Attempt, ...]
    waiting: Waiting | None
    shown: Shown | None
    scheduler_names: tuple[str, ...] = ()


def running_pod(data: Any) -> RunningPod:
    """Return what a scheduler's answer says, which is the data of its JSON.

    Raises:
        CommandError: it has another form.
    """
    try:
        answer = msgspec.convert(data, _Answer)
    except msgspec.ValidationError as error:
        message = f"the scheduler's answer has another form than this version knows: {error}"
        raise CommandError(printable(message)) from error
    attempts = tuple(answer.items or ())
    last = attempts[0] if attempts else None
    now = answer.waiting.now if answer.waiting is not None else None
    detail = last.details if last is not None and last.details is not None else now
    shown = _shown(detail) if detail is not None else None
    return RunningPod(last, attempts[1:], answer.waiting, shown, tuple(answer.scheduler_names or ()))


def _shown(detail: DecisionDetail) -> Shown:
    plugins, matrix = score_matrix(detail.nodes)
    return Shown(detail, plugins, matrix, detail.feasible - len(detail.nodes))
