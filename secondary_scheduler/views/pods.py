"""Pods: those that wait, by the queue that they would be in after one attempt; what the running scheduler says of one;
and all of the configuration's schedulers, to choose one from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.answers import Decision, DecisionDetail, DecisionList, TriedAgain
from secondary_scheduler.simulation.deciding import GATED, PLACED, UNDECIDED, UNSCHEDULABLE
from secondary_scheduler.views.nodes import page_of
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.runs import PodDecision

_MAX_NAMESPACES = 1000
WAITING = "waiting"
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


def listed_pods(page_model: PageModel, wanted: PodFilter, page: int) -> PodList:
    """Return a page of the pods; those that wait come first, the last page for a larger number."""
    decisions = page_model.run.decisions
    every = [PodRow(decision.pod, decision.scheduler_name, None, decision.waiting) for decision in decisions]
    every += _placed(page_model)
    text = wanted.text.casefold()
    rows = [
        row
        for row in every
        if wanted.namespace in ("", row.namespace)
        and wanted.state in ("", row.state)
        and (text in row.key.casefold() or text in (row.node or "").casefold())
    ]
    rows.sort(key=lambda row: (row.node is not None, row.key))
    page_rows, page, pages = page_of(rows, page)
    namespaces = sorted({row.namespace for row in every})[:_MAX_NAMESPACES]
    return PodList(page_rows, len(rows), len(every), page, pages, namespaces)


def _placed(page_model: PageModel) -> Iterator[PodRow]:
    names = frozenset(page_model.configuration.scheduler_names)
    for node in page_model.run.before.infos:
        for pod in page_model.pods_on(node.name):
            if pod.scheduler_name in names:
                yield PodRow(pod.key, pod.scheduler_name, node.name)


_MAX_REASONS = 50
_MAX_SCHEDULERS = 20
_QUEUES = (
    (UNSCHEDULABLE, "Unschedulable", "No node fits. They wait until something changes that may help."),
    (GATED, "Gated", "A scheduling gate or a plugin keeps them out of the queue."),
    (UNDECIDED, "Not decided", "Nothing was tried for them; the reason says why."),
    (PLACED, "Active", "They are tried in this order, and each gets a node."),
)


@dataclass(frozen=True, slots=True)
class WaitReason:
    """Why pods wait: a plugin's reason for at least one node, or the message where no plugin is behind it.

    Attributes:
        pods: how many.
        plugin: "" where it is a message.
        nodes: rejected for this reason, of all these pods together.
    """

    plugin: str
    text: str
    pods: int
    nodes: int


@dataclass(frozen=True, slots=True)
class WaitingQueue:
    """Pods that wait for the same kind of reason.

    Attributes:
        rows: the page of them that is shown.
        number: of all that the reader may see.
        hidden: of those that it may not see.
        longest: seconds that the oldest of them waits; None where no object says.
    """

    result: str
    title: str
    about: str
    rows: Sequence[PodDecision]
    number: int
    hidden: int
    longest: float | None
    reasons: tuple[WaitReason, ...]
    page: int
    pages: int


def queues(page_model: PageModel, page: int) -> list[WaitingQueue]:
    """Return the queues that hold pods; `page` is that of the tables, each as far as it goes."""
    every = (_queue(page_model, result, title, about, page) for result, title, about in _QUEUES)
    return [queue for queue in every if queue.number or queue.hidden]


def other_schedulers(page_model: PageModel) -> list[tuple[str, int]]:
    """Return how many pending pods other schedulers have, the most first."""
    return page_model.others.most_common(_MAX_SCHEDULERS)


def _queue(page_model: PageModel, result: str, title: str, about: str, page: int) -> WaitingQueue:
    waiting = page_model.run.decisions if page_model.run.queue is None else page_model.run.queue
    rows = [decision for decision in waiting if decision.result == result]
    page_rows, page, pages = page_of(rows, page)
    waits = [decision.waiting for decision in rows if decision.waiting is not None]
    reasons = () if result == PLACED else _reasons(rows)
    hidden = page_model.withheld.decisions[result]
    return WaitingQueue(
        result, title, about, page_rows, len(rows), hidden, max(waits, default=None), reasons, page, pages
    )


def _reasons(rows: Sequence[PodDecision]) -> tuple[WaitReason, ...]:
    pods: Counter[tuple[str, str]] = Counter()
    nodes: Counter[tuple[str, str]] = Counter()
    for decision in rows:
        groups = decision.details.rejected if decision.details is not None else ()
        for group in groups:
            pods[group.plugin, group.reason] += 1
            nodes[group.plugin, group.reason] += group.nodes
        if not groups:
            pods["", decision.message or ""] += 1
    reasons = [WaitReason(plugin, text, number, nodes[plugin, text]) for (plugin, text), number in pods.items()]
    return tuple(sorted(reasons, key=lambda reason: (-reason.pods, -reason.nodes, reason.text))[:_MAX_REASONS])


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """What the running scheduler says about a pod.

    Attributes:
        last: the newest attempt.
        earlier: the attempts before, the newest first.
        waiting: where it waits; None where it does not.
        detail: of the last attempt, or else of what would be decided now.
        scheduler_names: those that it decides for.
    """

    last: Decision | None
    earlier: tuple[Decision, ...]
    waiting: TriedAgain | None
    detail: DecisionDetail | None
    scheduler_names: tuple[str, ...] = ()


def running_pod(answer: DecisionList) -> PodAnswer:
    """Return what a scheduler's answer says about a pod."""
    last = answer.items[0] if answer.items else None
    waiting = answer.waiting or None
    detail = last.details if last is not None else None
    if detail is None and waiting is not None:
        detail = waiting.now
    return PodAnswer(last, answer.items[1:], waiting, detail, answer.scheduler_names)
