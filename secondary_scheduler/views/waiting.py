"""The pods that wait, by the queue of the scheduler that they would be in after one attempt, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from secondary_scheduler.simulation.deciding import GATED, PLACED, UNDECIDED, UNSCHEDULABLE
from secondary_scheduler.views.nodes import page_of
from secondary_scheduler.views.runs import PodDecision
from secondary_scheduler.views.scenes import Scene

_MOST_REASONS = 50
_MOST_SCHEDULERS = 20
_QUEUES = (
    (UNSCHEDULABLE, "Unschedulable", "No node fits. They wait until something changes that may help."),
    (GATED, "Gated", "A scheduling gate or a plugin keeps them out of the queue."),
    (UNDECIDED, "Not decided", "Nothing was tried for them; the reason says why."),
    (PLACED, "Active", "They are tried in this order, and each gets a node."),
)


@dataclass(frozen=True, slots=True)
class Reason:
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
class Queue:
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
    reasons: tuple[Reason, ...]
    page: int
    pages: int


def queues(scene: Scene, page: int) -> list[Queue]:
    """Return the queues that hold pods; `page` is that of the tables, each as far as it goes."""
    every = (_queue(scene, result, title, about, page) for result, title, about in _QUEUES)
    return [queue for queue in every if queue.number or queue.hidden]


def other_schedulers(scene: Scene) -> list[tuple[str, int]]:
    """Return how many pending pods other schedulers have, the most first."""
    return scene.others.most_common(_MOST_SCHEDULERS)


def _queue(scene: Scene, result: str, title: str, about: str, page: int) -> Queue:
    waiting = scene.run.decisions if scene.run.queue is None else scene.run.queue
    rows = [decision for decision in waiting if decision.result == result]
    shown, page, pages = page_of(rows, page)
    waits = [decision.waiting for decision in rows if decision.waiting is not None]
    reasons = () if result == PLACED else _reasons(rows)
    hidden = scene.withheld.decisions[result]
    return Queue(result, title, about, shown, len(rows), hidden, max(waits, default=None), reasons, page, pages)


def _reasons(rows: Sequence[PodDecision]) -> tuple[Reason, ...]:
    pods: Counter[tuple[str, str]] = Counter()
    nodes: Counter[tuple[str, str]] = Counter()
    for decision in rows:
        groups = decision.detail.rejected if decision.detail is not None else ()
        for group in groups:
            pods[group.plugin, group.reason] += 1
            nodes[group.plugin, group.reason] += group.nodes
        if not groups:
            pods["", decision.message] += 1
    reasons = [Reason(plugin, text, number, nodes[plugin, text]) for (plugin, text), number in pods.items()]
    return tuple(sorted(reasons, key=lambda reason: (-reason.pods, -reason.nodes, reason.text))[:_MOST_REASONS])
