"""What becomes of a pod when another profile or configuration decides, and a shadow's decision beside the live one.

A shadow decides on the snapshot of the decision that was made.
"""

from __future__ import annotations

import enum

from msgspec import Struct

from scheduler.answers import JudgedNode
from scheduler.core.detail import MAX_REASON
from scheduler.core.explain import Explanation, explain
from scheduler.core.placement import Placement
from scheduler.framework import ProfileRunner
from scheduler.state import Snapshot


class Change(enum.Enum):
    """What becomes of a pod: other programs are told in the words of what compares."""

    SAME = enum.auto()
    MOVED = enum.auto()
    GAINED = enum.auto()
    """It gets a node, and had none."""
    LOST = enum.auto()
    NEITHER = enum.auto()


def change_of(old: str | None, new: str | None) -> Change:
    """Return what a pod's node says, before and after; None: no node."""
    if old is None:
        return Change.NEITHER if new is None else Change.GAINED
    if new is None:
        return Change.LOST
    return Change.SAME if old == new else Change.MOVED


class ComparedDecision(Struct, frozen=True):
    """A decision and its shadow.

    Attributes:
        shadow_node: a node with the shadow's best score: the live one if it is among these; None if none fits.
        shadow_ties: how many nodes share the shadow's best score.
        shadow_message: why the shadow places the pod nowhere.
        score_loss: by how much the live node has a lower total than the best, as the shadow scores; 0 where the
            shadow would not place the pod there.
        live, shadow: what each profile says of both nodes; empty where both choose the same.
    """

    live_node: str | None
    shadow_node: str | None
    shadow_ties: int
    shadow_message: str | None
    score_loss: int
    live: tuple[JudgedNode, ...]
    shadow: tuple[JudgedNode, ...]

    @property
    def change(self) -> Change:
        """What would become of the pod, did the shadow decide."""
        return change_of(self.live_node, self.shadow_node)


def compare_decisions(
    snapshot: Snapshot, placement: Placement, live: ProfileRunner, shadow: ProfileRunner
) -> ComparedDecision:
    """Return what a shadow would have decided.

    Neither columns of classes nor chance are used, so nothing that later decisions depend on changes.

    Args:
        snapshot: of the decision; unchanged since.
        placement: the decision.
        live: the profile that made it.
        shadow: the other profile.

    Raises:
        Exception: a plugin has a defect.
    """
    pod, node = placement.pod, placement.node
    judged = explain(snapshot, pod, shadow)
    choice = node if node in judged.best else next(iter(judged.best), None)
    names = [name for name in (node, choice) if name is not None] if node != choice else []
    # The live profile's matrix is computed only where it says something that the decision does not.
    own = explain(snapshot, pod, live) if names else judged
    return ComparedDecision(
        node,
        choice,
        len(judged.best),
        None if judged.message is None else judged.message[:MAX_REASON],
        _loss(judged, node, choice),
        tuple(_judged(own, name) for name in names),
        tuple(_judged(judged, name) for name in names),
    )


def _loss(judged: Explanation, node: str | None, choice: str | None) -> int:
    if node is None or choice is None or node == choice:
        return 0
    live = judged.node(node)
    return judged.node(choice).total - live.total if live.feasible else 0


def _judged(explanation: Explanation, name: str) -> JudgedNode:
    node = explanation.node(name)
    rejection = node.rejection
    return JudgedNode(
        name,
        "" if node.feasible or rejection is None else rejection.plugin,
        "" if node.feasible or rejection is None else rejection.message[:MAX_REASON],
        node.total,
        {plugin: score.weighted for plugin, score in node.scores.items()},
    )
