"""The pods of the configuration's schedulers, placed and waiting, to choose one from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from secondary_scheduler.views.paging import page_of
from secondary_scheduler.views.scenes import Scene

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
