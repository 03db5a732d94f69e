"""The pods of the configuration's schedulers, placed and waiting, to choose one from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from scheduler.core import DecisionDetail
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.views.decisions import MatrixRow, score_matrix
from secondary_scheduler.views.nodes import page_of
from secondary_scheduler.views.scenes import Scene


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


_MOST_NAMESPACES = 1000
PLACED, WAITING = "placed", "waiting"
STATES = (PLACED, WAITING)


@dataclass(frozen=True, slots=True)
class PodFilter:
    """What is shown; an empty field lets everything pass. `text` is a part of the pod's or its node's name."""

    text: str = ""
    namespace: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod. `node` is None, and `waiting` may be seconds, where it waits."""

    key: str
    scheduler_name: str
    node: str | None
    waiting: float | None = None

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """Its name there."""
        return self.key.partition("/")[2]

    @property
    def state(self) -> str:
        """One of `STATES`."""
        return WAITING if self.node is None else PLACED


@dataclass(frozen=True, slots=True)
class PodList:
    """One page of the pods that pass the filter.

    Attributes:
        number: how many pass.
        every: how many there are.
        pages: how many pages.
        namespaces: of all pods.
    """

    rows: Sequence[PodRow]
    number: int
    every: int
    page: int
    pages: int
    namespaces: Sequence[str]


def listed_pods(scene: Scene, wanted: PodFilter, page: int) -> PodList:
    """Return a page of the pods; those that wait come first, the last page for a larger number."""
    every = [*_waiting(scene), *_placed(scene)]
    text = wanted.text.casefold()
    rows = [
        row
        for row in every
        if wanted.namespace in ("", row.namespace)
        and wanted.state in ("", row.state)
        and (text in row.key.casefold() or text in (row.node or "").casefold())
    ]
    rows.sort(key=lambda row: (row.node is not None, row.key))
    shown, page, pages = page_of(rows, page)
    namespaces = sorted({row.namespace for row in every})[:_MOST_NAMESPACES]
    return PodList(shown, len(rows), len(every), page, pages, namespaces)


def _waiting(scene: Scene) -> Iterator[PodRow]:
    for decision in scene.run.decisions:
        yield PodRow(decision.key, decision.scheduler_name, None, decision.waiting)


def _placed(scene: Scene) -> Iterator[PodRow]:
    names = frozenset(scene.configuration.scheduler_names)
    for node in scene.run.before.infos:
        for pod in scene.pods_on(node.name):
            if pod.scheduler_name in names:
                yield PodRow(pod.key, pod.scheduler_name, node.name)
