"""The pods of the configuration's schedulers, placed and waiting, to choose one from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.answers import Decision, DecisionDetail, DecisionList, TriedAgain
from secondary_scheduler.views.decisions import MatrixRow, score_matrix
from secondary_scheduler.views.nodes import page_of
from secondary_scheduler.views.scenes import Scene


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

    last: Decision | None
    earlier: tuple[Decision, ...]
    waiting: TriedAgain | None
    shown: Shown | None
    scheduler_names: tuple[str, ...] = ()


def running_pod(answer: DecisionList) -> RunningPod:
    """Return what a scheduler's answer says about a pod."""
    last = answer.items[0] if answer.items else None
    waiting = answer.waiting or None
    detail = last.details if last is not None else None
    if detail is None and waiting is not None:
        detail = waiting.now
    shown = _shown(detail) if detail is not None else None
    return RunningPod(last, answer.items[1:], waiting, shown, answer.scheduler_names)


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
