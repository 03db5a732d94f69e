"""What becomes of the pods: evictions, where their replacements are, and how even the true load is.

In a run nobody but who is measured deletes pods: each that goes was evicted. The k-th pod that a controller makes is
taken for the replacement of its k-th pod that went.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.rebalancing.world import BASE_CPU, LABEL, NAMESPACE
from devcluster.pod_loads import PodUses
from scheduler.kube.model import DecodeError, EventType, ObjectMeta, ResourceVersion, Unstructured


@dataclass(frozen=True)
class Eviction:
    """A pod that went.

    Attributes:
        at: on the monotonic clock.
        again: it was itself made in place of another.
    """

    pod: str
    workload: str
    node: str
    at: float
    again: bool


@dataclass(frozen=True)
class Spread:
    """How even the true CPU load of the nodes is, in per cent."""

    stddev: float
    largest: float
    overloaded: int


class Observer:
    """Receives all pods from a Reflector (a Sink).

    Args:
        cores: of each node.
        expected: how many pods the workloads have.
        limit: per cent above which a node is overloaded.
        staying: workloads whose pods have to stay where they are.
    """

    def __init__(
        self, cores: Mapping[str, int], expected: int, limit: float, staying: Collection[str] = frozenset()
    ) -> None:
        self._cores, self._expected, self._limit, self._staying = cores, expected, limit, staying
        self._uses = PodUses()
        self._live: dict[str, str] = {}
        self._workload_of: dict[str, str] = {}
        self._leaving: set[str] = set()
        self._first: frozenset[str] | None = None
        self._node_of: dict[str, str] = {}
        self._made: defaultdict[str, list[str]] = defaultdict(list)
        self.evictions: list[Eviction] = []
        self.balanced_since: tuple[float, int] | None = None
        """Since when no pod may leave an overloaded node any more and all have a node, and after how many evictions."""

    def begin(self) -> None:
        """From now on, a pod that goes was evicted."""
        self._first = frozenset(self._live)
        self._note_balance()

    def end(self) -> None:
        """From now on, a pod that goes is of no interest."""
        self._first = None

    @property
    def placed(self) -> bool:
        """Whether all pods are there, have nodes, and none is going."""
        live = [uid for uid in self._live if uid not in self._leaving]
        return len(live) == self._expected == len(self._live) and all(uid in self._node_of for uid in live)

    @property
    def pods(self) -> int:
        """How many there are."""
        return len(self._live)

    @property
    def waiting(self) -> int:
        """How many have no node."""
        return sum(uid not in self._node_of for uid in self._live)

    def loads(self) -> dict[str, float]:
        """The true CPU load of each node in per cent."""
        uses = self._uses.by_node()
        return {
            name: 100.0 * min(1.0, BASE_CPU + (uses[name].cpu / cores if name in uses else 0.0))
            for name, cores in self._cores.items()
        }

    def spread(self) -> Spread:
        """How even they are."""
        loads = list(self.loads().values())
        return Spread(statistics.pstdev(loads), max(loads), sum(load > self._limit for load in loads))

    def came_back(self) -> int:
        """How many evictions ended where they began: the replacement is on the same node."""
        uids_of = {workload: list(uids) for workload, uids in self._made.items()}
        count = 0
        for eviction in self.evictions:
            replacements = uids_of.get(eviction.workload)
            if replacements:
                count += self._node_of.get(replacements.pop(0)) == eviction.node
        return count

    def replace(self, items: Sequence[Unstructured], resource_version: ResourceVersion) -> None:
        """See Sink."""
        self._uses.replace(items, resource_version)
        for uid in self._live.keys() - {item.metadata.uid for item in items}:
            self._gone(uid, self._live[uid])
        for item in items:
            self._show(item)
        self._note_balance()

    def apply(self, events: Sequence[tuple[EventType, Unstructured]]) -> None:
        """See Sink."""
        self._uses.apply(events)
        for kind, item in events:
            if item.metadata.namespace != NAMESPACE:
                continue
            if kind is EventType.DELETED:
                self._gone(item.metadata.uid, item.metadata.name)
            else:
                self._show(item)
        self._note_balance()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """See Sink."""
        raise RuntimeError(f"pod {metadata.key} of the benchmark cannot be read: {error}")

    def _show(self, item: Unstructured) -> None:
        if item.metadata.namespace != NAMESPACE:
            return
        uid = item.metadata.uid
        if uid not in self._live:
            self._live[uid] = item.metadata.name
            self._workload_of[uid] = item.content["metadata"]["labels"][LABEL]
            if self._first is not None:
                self._made[self._workload_of[uid]].append(uid)
        if node := item.content["spec"].get("nodeName"):
            self._node_of[uid] = node
        if item.content["metadata"].get("deletionTimestamp"):
            self._leave(uid, item.metadata.name)

    def _gone(self, uid: str, name: str) -> None:
        self._leave(uid, name)
        self._live.pop(uid, None)
        self._leaving.discard(uid)

    def _leave(self, uid: str, name: str) -> None:
        if uid in self._leaving or uid not in self._live:
            return
        self._leaving.add(uid)
        if self._first is not None:
            workload, node = self._workload_of[uid], self._node_of.get(uid, "")
            self.evictions.append(Eviction(name, workload, node, time.monotonic(), uid not in self._first))

    def _has_more_to_do(self) -> bool:
        """Whether a pod may leave an overloaded node."""
        overloaded = {name for name, load in self.loads().items() if load > self._limit}
        return any(
            self._node_of.get(uid) in overloaded and self._workload_of[uid] not in self._staying for uid in self._live
        )

    def _note_balance(self) -> None:
        if self._first is None:
            return
        if not self.placed or self._has_more_to_do():
            self.balanced_since = None
        elif self.balanced_since is None:
            self.balanced_since = (time.monotonic(), len(self.evictions))
