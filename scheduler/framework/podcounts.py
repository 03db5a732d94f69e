"""Questions about the pods on nodes that the state answers from counts it keeps up to date."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from scheduler.framework.objects import PodInfo
from scheduler.framework.podterms import AffinityTerm
from scheduler.framework.status import BoolArray, FloatArray, IntArray, RowArray
from scheduler.kube.primitives import Selector


class PodClause(NamedTuple):
    """Pods of some namespaces (None: of all) with some labels."""

    namespaces: frozenset[str] | None
    selector: Selector

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod is meant."""
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


class PodQuery(NamedTuple):
    """Pods that satisfy every clause; `alive` leaves out those that are being deleted."""

    clauses: tuple[PodClause, ...]
    alive: bool = False

    def matches(self, pod: PodInfo) -> bool:
        """Tell whether a pod is meant."""
        if self.alive and pod.deleting:
            return False
        return all(clause.matches(pod.namespace, pod.labels) for clause in self.clauses)


class NodeSet(Struct, frozen=True):
    """Some nodes. Equal tokens must mean equal masks for as long as `NodeView.topology` stays the same."""

    token: Hashable
    mask: BoolArray


class PodWeights(NamedTuple):
    """Sums over selectors, per topology domain: of the weights of those that mean a pod, and of how many they are.

    The last entry of both stands for nodes without the label and is 0.
    """

    weights: IntArray
    counts: IntArray


class TermKind(Enum):
    """Whose term it is, seen from the pod that has it."""

    AFFINITY = 0
    ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3


class TermCounts(NamedTuple):
    """A term that pods on nodes have: how many of them there are in each domain of its key. The last entry of `counts`
    stands for nodes without the label and is 0."""

    term: AffinityTerm
    weight: int
    counts: IntArray


class PodBatch:
    """Pods that may be put on rows or taken from them together.

    Attributes:
        pods: (row, pod), and `rows` the former alone.
        requests: by resource, what each pod occupies.
        nonzero: the same for cpu and memory, with defaults for containers that request nothing.
    """

    __slots__ = ("nonzero", "pods", "requests", "rows")

    def __init__(self, pods: Sequence[tuple[int, PodInfo]]) -> None:
        self.pods = pods
        self.rows: RowArray = np.array([row for row, _ in pods], dtype=np.intp)
        names = {name for _, pod in pods for name, amount in pod.requests.items() if amount}
        self.requests: dict[str, FloatArray] = {
            name: np.array([pod.requests.get(name, 0) for _, pod in pods], dtype=np.float64) for name in names
        }
        self.nonzero: dict[str, FloatArray] = {
            "cpu": np.array([pod.nonzero_cpu for _, pod in pods], dtype=np.float64),
            "memory": np.array([pod.nonzero_memory for _, pod in pods], dtype=np.float64),
        }

    def all_indices(self) -> IntArray:
        """Return the indices of all pods."""
        return np.arange(len(self.pods))

    def at(self, indices: IntArray) -> Iterator[tuple[int, PodInfo]]:
        """Yield the pods of some indices, with their rows."""
        return (self.pods[index] for index in indices.tolist())
