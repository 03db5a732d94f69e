"""What one decision sees: the node table at a time, and that with some pods added or removed."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from scheduler.framework import (
    Assignment,
    BoolArray,
    FloatArray,
    Holder,
    ImageColumn,
    IntArray,
    LabelColumn,
    LoadColumns,
    NodeInfo,
    NodeSet,
    Nominations,
    PodAmounts,
    PodInfo,
    PodQuery,
    Resources,
    RowArray,
    TaintColumn,
    TermCounts,
    TermKind,
)
from scheduler.state.aggregates import PodAggregates
from scheduler.state.assignments import RecentAssignments
from scheduler.state.holdings import moved_holders
from scheduler.state.moves import Move, moved_by_domain, moved_by_node, moved_terms
from scheduler.state.namespaces import NamespaceSums, moved_sums
from scheduler.state.objects import ObjectStore
from scheduler.state.table import NodeTable


class Snapshot:
    """A `NodeView` of the table. It copies nothing: see `ClusterState.snapshot` for how long it is good."""

    def __init__(
        self,
        table: NodeTable,
        pods: Mapping[str, Mapping[str, PodInfo]],
        assignments: RecentAssignments,
        nominations: Nominations,
        now: float,
        aggregates: PodAggregates,
        namespaces: NamespaceSums,
    ) -> None:
        self.table = table
        self._pods = pods
        self.assignments = assignments
        self.nominations = nominations
        self.now = now
        self.aggregates = aggregates
        self._namespaces = namespaces

    @property
    def size(self) -> int:
        """Length of every column."""
        return self.table.size

    @property
    def rows(self) -> RowArray:
        """Rows that hold a node, ascending."""
        return self.table.rows

    @property
    def dense(self) -> bool:
        """Whether every row holds a node."""
        return self.table.dense

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return len(self.table.row_of)

    @property
    def membership(self) -> int:
        """A number that changes when a node comes or goes."""
        return self.table.membership

    @property
    def generation(self) -> int:
        """The table's generation."""
        return self.table.generation

    def changed_since(self, generation: int) -> Collection[int] | None:
        """Return the rows of the table that changed since a generation."""
        return self.table.changed_since(generation)

    @property
    def moved_rows(self) -> Collection[int]:
        """None: this is the table itself."""
        return ()

    @property
    def topology(self) -> int:
        """A number that changes when a node comes or goes, or its labels or taints change."""
        return self.table.topology

    @property
    def layout(self) -> int:
        """A number that changes when a column becomes another array."""
        return self.table.layout

    @property
    def objects(self) -> ObjectStore:
        """Objects of other kinds, as they are now."""
        return self.aggregates.objects

    def row(self, name: str) -> int:
        """Return the row of a node, or -1."""
        return self.table.row_of.get(name, -1)

    def name(self, row: int) -> str:
        """Return the name of the node in a row."""
        return self.info(row).name

    def info(self, row: int) -> NodeInfo:
        """Return the node in a row; LookupError for an empty row."""
        info = self.table.infos[row]
        if info is None:
            raise LookupError(f"row {row} holds no node")
        return info

    def allocatable(self, resource: str) -> FloatArray:
        """Return allocatable amounts."""
        return self.table.column(resource, "allocatable")

    def requested(self, resource: str) -> FloatArray:
        """Return the sums of effective requests."""
        return self.table.column(resource, "requested")

    def nonzero_requested(self, resource: str) -> FloatArray:
        """Return the sums with defaults for containers that request nothing."""
        amounts = self.table.nonzero.get(resource)
        return self.requested(resource) if amounts is None else amounts.requested[: self.table.size]

    def declared(self, field: str) -> FloatArray:
        """Return the sums of a field of `Declared`."""
        if field not in self.table.declared:
            self.table.keep_declared(field, rows_and_pods(self.table, self._pods))
        return self.table.declared[field].requested[: self.table.size]

    def wide(self, resource: str) -> bool:
        """Tell whether amounts need int64 division."""
        amounts = self.table.amounts.get(resource)
        return amounts is not None and bool(amounts.wide_rows)

    @property
    def basics(self) -> FloatArray:
        """Cpu and memory allocatable, requested, nonzero requested; allowed pods; pods."""
        # Not cut to size: of an array that is not contiguous, `take` would copy all of it first.
        return self.table.basics

    @property
    def capacity_cpu(self) -> FloatArray:
        """CPU capacity in milli-units."""
        return self.table.capacity_cpu[: self.table.size]

    @property
    def allowed_pods(self) -> FloatArray:
        """Allocatable pods."""
        return self.table.pods.allocatable[: self.table.size]

    @property
    def pod_count(self) -> FloatArray:
        """Pods on each node."""
        return self.table.pods.requested[: self.table.size]

    @property
    def unschedulable(self) -> BoolArray:
        """spec.unschedulable."""
        return self.table.unschedulable[: self.table.size]

    @property
    def taints(self) -> TaintColumn:
        """Taint classes."""
        column = self.table.taints.column
        return TaintColumn(column.codes[: self.table.size], column.classes)

    def labels(self, key: str) -> LabelColumn:
        """Return the values of a label."""
        column = self.table.labels(key)
        return LabelColumn(column.codes[: self.table.size], column.values, column.index)

    def image(self, name: str) -> ImageColumn | None:
        """Return which nodes hold an image."""
        column = self.table.image(name)
        return None if column is None else column._replace(present=column.present[: self.table.size])

    def pods_on(self, row: int) -> Collection[PodInfo]:
        """Return the pods on a node."""
        return self._pods.get(self.name(row), {}).values()

    def holders(self, key: str) -> Collection[Holder]:
        """Return the pods on nodes that hold something."""
        return self.aggregates.holdings.of(key)

    @property
    def attachable(self) -> IntArray:
        """Volumes on each node that may have to be attached."""
        return self.aggregates.holdings.attachable(self.table.size)

    @property
    def lowest_priority(self) -> IntArray:
        """The lowest priority of the pods on each node, below any overlay."""
        return self.table.lowest_priorities.column(self.table, lambda name: self._pods.get(name, {}).values())

    def pods_by_node(self, query: PodQuery) -> IntArray:
        """Return how many of the pods asked for are on each node."""
        return self.aggregates.by_row(query)

    def pods_by_domain(self, query: PodQuery, key: str, nodes: NodeSet | None = None) -> IntArray:
        """Return how many of the pods asked for are in each domain; a live array."""
        return self.aggregates.by_domain(query, key, nodes)

    def terms_meaning(self, pod: PodInfo, kind: TermKind) -> Sequence[TermCounts]:
        """Return the terms of pods on nodes that mean this pod."""
        return self.aggregates.terms_meaning(pod, kind)

    def requests_by_namespace(self, amounts: PodAmounts) -> Mapping[str, Resources]:
        """Return the sums of what pods count as using; a live mapping."""
        return self._namespaces.by(amounts)

    @property
    def pods_have_terms(self) -> bool:
        """Whether any pod on a node may have a term between pods."""
        return self.aggregates.has_terms

    def load(self, source: str) -> LoadColumns | None:
        """Return the latest answer of a load source; its columns may be longer than `size`."""
        return self.table.load(source)

    @property
    def overlay_assignments(self) -> Sequence[Assignment]:
        """Nothing: this is the table itself."""
        return ()

    def overlay(self) -> "Overlay":
        """Return a view on which pods can be added and removed without touching this one."""
        return Overlay(self)


class Overlay(Snapshot):
    """A snapshot with pods added and removed: the rest of a gang, nominated pods, victims. Columns are copied when
    first written."""

    def __init__(self, base: Snapshot) -> None:
        super().__init__(
            base.table,
            base._pods,
            base.assignments,
            base.nominations,
            base.now,
            base.aggregates,
            base._namespaces,
        )
        self._base = base
        self._requested: dict[str, FloatArray] = {}
        self._nonzero: dict[str, FloatArray] = {}
        self._declared: dict[str, FloatArray] = {}
        self._count: FloatArray | None = None
        self._changed: dict[int, dict[str, PodInfo]] = {}
        self._log: list[Assignment] = list(base.overlay_assignments)
        self._added: set[str] = set()
        self._moves: list[Move] = []

    def requested(self, resource: str) -> FloatArray:
        """Return the sums of effective requests."""
        column = self._requested.get(resource)
        return self._base.requested(resource) if column is None else column

    def nonzero_requested(self, resource: str) -> FloatArray:
        """Return the sums with defaults for containers that request nothing."""
        if resource not in ("cpu", "memory"):
            return self.requested(resource)
        column = self._nonzero.get(resource)
        return self._base.nonzero_requested(resource) if column is None else column

    def declared(self, field: str) -> FloatArray:
        """Return the sums of a field of `Declared`."""
        column = self._declared.get(field)
        if column is None:
            # Few plugins ask: what was moved before is made up for at the first question.
            column = self._declared[field] = self._base.declared(field).copy()
            for move in self._moves:
                column[move.row] += move.sign * getattr(move.pod.spec.declared, field)
        return column

    @property
    def basics(self) -> FloatArray:
        """Cpu and memory allocatable, requested, nonzero requested; allowed pods; pods."""
        columns = [
            column(resource)
            for column in (self.allocatable, self.requested, self.nonzero_requested)
            for resource in ("cpu", "memory")
        ]
        return np.array([*columns, self.allowed_pods, self.pod_count])

    @property
    def pod_count(self) -> FloatArray:
        """Pods on each node."""
        return self._base.pod_count if self._count is None else self._count

    def pods_on(self, row: int) -> Collection[PodInfo]:
        """Return the pods on a node."""
        pods = self._changed.get(row)
        return self._base.pods_on(row) if pods is None else pods.values()

    @property
    def moved_rows(self) -> Collection[int]:
        """Rows of the pods that were added and removed."""
        return {*self._base.moved_rows, *self._changed}

    def holders(self, key: str) -> Collection[Holder]:
        """Return the pods on nodes that hold something."""
        return moved_holders(self._base.holders(key), key, self._moves)

    @property
    def attachable(self) -> IntArray:
        """Volumes on each node that may have to be attached."""
        column = self._base.attachable
        if any(move.pod.spec.attachable for move in self._moves):
            column = column.copy()
            for row, pod, sign in self._moves:
                column[row] += sign * pod.spec.attachable
        return column

    def pods_by_node(self, query: PodQuery) -> IntArray:
        """Return how many of the pods asked for are on each node."""
        return moved_by_node(self._base.pods_by_node(query), query, self._moves)

    def pods_by_domain(self, query: PodQuery, key: str, nodes: NodeSet | None = None) -> IntArray:
        """Return how many of the pods asked for are in each domain."""
        base = self._base.pods_by_domain(query, key, nodes)
        return moved_by_domain(base, query, self.labels(key).codes, nodes, self._moves)

    def terms_meaning(self, pod: PodInfo, kind: TermKind) -> Sequence[TermCounts]:
        """Return the terms of pods on nodes that mean this pod."""
        base = self._base.terms_meaning(pod, kind)
        return moved_terms(base, pod, kind, self, self._moves)

    def requests_by_namespace(self, amounts: PodAmounts) -> Mapping[str, Resources]:
        """Return the sums of what pods count as using."""
        base = self._base.requests_by_namespace(amounts)
        return moved_sums(base, amounts, ((move.pod, move.sign) for move in self._moves))

    @property
    def pods_have_terms(self) -> bool:
        """Whether any pod on a node may have a term between pods."""
        return self._base.pods_have_terms or any(move.pod.spec.terms.any for move in self._moves)

    @property
    def overlay_assignments(self) -> Sequence[Assignment]:
        """Pods this view adds and removes."""
        return self._log

    def add_pod(self, pod: PodInfo, row: int) -> None:
        """Put a pod on a node."""
        self._pods_of(row)[pod.uid] = pod
        self._use(pod, row, 1)
        self._moves.append(Move(row, pod, 1))
        self._added.add(pod.uid)
        self._log.append(Assignment(1, self.name(row), pod, self.now, observed=False))

    def remove_pod(self, pod: PodInfo, row: int) -> None:
        """Take a pod from a node; KeyError when it is not there."""
        del self._pods_of(row)[pod.uid]
        self._use(pod, row, -1)
        self._moves.append(Move(row, pod, -1))
        # A pod of the table itself is in its log at a time of its own, and mostly in the measured load as well.
        if pod.uid in self._added:
            self._log.append(Assignment(-1, self.name(row), pod, self.now, observed=False))

    def _pods_of(self, row: int) -> dict[str, PodInfo]:
        pods = self._changed.get(row)
        if pods is None:
            pods = self._changed[row] = {pod.uid: pod for pod in self._base.pods_on(row)}
        return pods

    def _use(self, pod: PodInfo, row: int, sign: int) -> None:
        for name, amount in pod.requests.items():
            if name not in self._requested:
                self._requested[name] = self._base.requested(name).copy()
            self._requested[name][row] += sign * amount
        for name, amount in (("cpu", pod.nonzero_cpu), ("memory", pod.nonzero_memory)):
            if name not in self._nonzero:
                self._nonzero[name] = self._base.nonzero_requested(name).copy()
            self._nonzero[name][row] += sign * amount
        for name, column in self._declared.items():
            column[row] += sign * getattr(pod.spec.declared, name)
        if self._count is None:
            self._count = self._base.pod_count.copy()
        self._count[row] += sign


def rows_and_pods(table: NodeTable, by_node: Mapping[str, Mapping[str, PodInfo]]) -> Iterator[tuple[int, PodInfo]]:
    """Yield the pods on known nodes, with their rows."""
    for name, pods in by_node.items():
        row = table.row_of.get(name)
        if row is not None:
            for pod in pods.values():
                yield row, pod
