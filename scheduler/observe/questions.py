"""What may be asked about decisions. The scheduling loop answers."""

from __future__ import annotations

from msgspec import Struct


class PodsQuestion(Struct, frozen=True):
    """Why pods are where they are.

    Attributes:
        namespace: whose pods; None for all. Pods of other namespaces are counted and not named.
        pod: only the one of this name, and where it waits; only with a namespace.
        most: decisions to show.
        node: also what every plugin says of the pod on this node; only with a pod.
    """

    namespace: str | None
    pod: str | None
    most: int
    node: str | None = None


class QueueQuestion(Struct, frozen=True):
    """What waits.

    Attributes:
        namespace: whose pods are named; None for all. Those of other namespaces are counted.
        most: pods to show, of each queue.
    """

    namespace: str | None
    most: int


class NodeQuestion(Struct, frozen=True):
    """What is known of a node; names no pod."""

    node: str


class ChosenQuestion(Struct, frozen=True):
    """The last decisions that chose a node, of all namespaces."""

    node: str
    most: int


class ShadowQuestion(Struct, frozen=True):
    """The last decisions in which a shadow differs.

    Attributes:
        namespace: whose pods are named; None for all.
        most: differences to show.
    """

    namespace: str | None
    most: int


Question = PodsQuestion | QueueQuestion | NodeQuestion | ChosenQuestion | ShadowQuestion


class UnansweredError(Exception):
    """A question cannot be answered; `status` is an HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
