"""What one decision sees: the node table at a time, and that with some pods added or removed."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

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
    PodAmount,
    PodAmounts,
    PodBatch,
    PodInfo,
    PodQuery,
    PodWeights,
    Resources,
    RowArray,
    TaintColumn,
    TermCounts,
    TermKind,
)
from scheduler.kube.primitives import Selector
from scheduler.state.aggregates import NamespaceSums, PodAggregates, moved_holders, moved_sums
from scheduler.state.assignments import RecentAssignments
from scheduler.state.labelgroups import WeightedQuery, moved_weights
from scheduler.state.lowerpods import LowerSums
from scheduler.state.moves import Move, MovedSums, moved_by_domain, moved_by_node, moved_terms
from scheduler.state.nominations import NominatedSums, Nominator, nominated_beside
from scheduler.state.objects import ObjectStore
from scheduler.state.table import NodeTable


class Snapshot:
    """A `NodeView` of the table. It copies nothing: see `ClusterState.snapshot` for how long it is good.

    A thin object per attempt, which holds the time of the attempt and passes everything else on. So a plugin gets one
    object for the live state, for a frozen copy and for a what-if, and cannot reach what changes the state.
    """

    def __init__(
        self,
        table: NodeTable,
        pods: Mapping[str, Mapping[str, PodInfo]],
        assignments: RecentAssignments,
        nominations: Nominations,
        now: float,
        aggregates: PodAggregates,
        namespaces: NamespaceSums,
        nominator: Nominator | None = None,
    ) -> None:
        self.table = table
        self._nominator = nominator
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
    def candidates(self) -> RowArray:
        """Rows that a pod may be given, ascending: all."""
        return self.rows

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

    def summed(self, amount: PodAmount) -> FloatArray:
        """Return the sums of an amount."""
        if amount not in self.table.sums:
            self.table.keep_sum(amount, rows_and_pods(self.table, self._pods))
        return self.table.sums[amount].requested[: self.table.size]

    def wide(self, resource: str) -> bool:
        """Tell whether amounts need int64 division."""
        amounts = self.table.amounts.get(resource)
        return amounts is not None and bool(amounts.wide_rows)

    @property
    def complete(self) -> bool:
        """Whether every node has cpu and memory."""
        return self.table.complete

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
        table = self.table
        return table.lowest_priorities.column(
            table.infos, table.size, table.log, lambda name: self._pods.get(name, {}).values()
        )

    def pods_by_node(self, query: PodQuery) -> IntArray:
        """Return how many of the pods asked for are on each node."""
        return self.aggregates.by_row(query)

    def pods_by_domain(self, query: PodQuery, key: str, nodes: NodeSet | None = None) -> IntArray:
        """Return how many of the pods asked for are in each domain; a live array."""
        return self.aggregates.by_domain(query, key, nodes)

    def weigh_pods(self, terms: Sequence[WeightedQuery], key: str, nodes: NodeSet | None = None) -> PodWeights:
        """Return the weights of the pods asked for in each domain."""
        return self.aggregates.weigh(terms, key, nodes)

    @property
    def label_set_count(self) -> int:
        """Number of sets of labels that pods on nodes have."""
        return self.aggregates.label_set_count

    def label_sets(self, selector: Selector) -> int:
        """Return how many comparisons of a requirement with a set of pod labels a selector takes in `weigh_pods`."""
        return self.aggregates.label_sets(selector)

    @property
    def bundled_terms(self) -> int:
        """Number of the terms of pods on nodes that have more than a few, below any overlay."""
        return self.aggregates.bundled_terms

    def terms_matching(self, pod: PodInfo, kind: TermKind) -> Sequence[TermCounts]:
        """Return the terms of pods on nodes that match this pod."""
        return self.aggregates.terms_matching(pod, kind)

    def requests_by_namespace(self, amounts: PodAmounts) -> Mapping[str, Resources]:
        """Return the sums of what pods count as using; a live mapping."""
        return self._namespaces.sums_of(amounts)

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

    @property
    def removed_pods(self) -> Collection[Holder]:
        """None: this is the table itself."""
        return ()

    @property
    def nomination_end(self) -> int:
        """Position one past the newest nomination; 0 where they are not watched."""
        return 0 if self._nominator is None else self._nominator.end

    def nominated_since(self, end: int) -> Collection[str] | None:
        """Return the nodes whose nominations changed."""
        return None if self._nominator is None else self._nominator.changed_since(end)

    def nomination_of(self, uid: str) -> str:
        """Return the node a pod is nominated to, or ""."""
        if self._nominator is not None:
            return self._nominator.node_of(uid) or ""
        return next(
            (name for name, pods in self.nominations.items() if any(nominee.uid == uid for nominee in pods)), ""
        )

    def with_nominated(self, pod: PodInfo) -> "tuple[RowArray, Overlay]":
        """Return this view with the pods on it that are nominated and no less important than a pod, and their rows."""
        if self._nominator is not None:
            sums = self._nominator.sums(self.table, pod.priority)
        else:
            sums = NominatedSums(self.table, pod.priority)
            sums.update(self.table, self.nominations)
        overlay, rows = self.overlay(), sums.rows
        overlay.add_nominated(sums)
        own = self.row(self.nomination_of(pod.uid))
        itself = [nominee for nominee in sums.pods.get(own, ()) if nominee.uid == pod.uid]
        for nominee in itself:
            overlay.remove_known_pod(nominee, own)
        if itself and len(sums.pods[own]) == 1:
            rows = rows[rows != own]
        return rows, overlay

    def overlay(self, candidates: RowArray | None = None) -> "Overlay":
        """Return a view on which pods can be added and removed without touching this one, and where only some rows
        are candidates: plugins see all nodes all the same."""
        return Overlay(self, self.candidates if candidates is None else candidates)

    def branch(self, candidates: RowArray | None = None) -> "Overlay":
        """As `overlay`, for many moves: an overlay of an overlay has no columns by class, so that is copied instead."""
        return self.overlay(candidates)

    def without_lower(self, priority: int) -> tuple[int, "Overlay"]:
        """Return an overlay without the pods below a priority, and how many these are."""
        table = self.table
        log, pods = table.log, self._pods
        sums = table.lower_pods.sums(
            priority, table.infos, table.size, log.end, log.since, lambda name: pods.get(name, {}).values()
        )
        overlay = self.overlay()
        overlay.remove_lower(sums)
        return int(sums.count.sum()), overlay


class Overlay(Snapshot):
    """A snapshot with pods added and removed: the rest of a gang, nominated pods, victims.

    Columns are copied when first written: a preemption changes cpu, memory and the number of pods, and leaves all else
    to the table. Lists and counts that few plugins read are computed from the moves when they are first asked for. An
    overlay of an overlay works the same: a gang's decision beside nominated pods needs it.
    """

    def __init__(self, base: Snapshot, candidates: RowArray) -> None:
        super().__init__(
            base.table,
            base._pods,
            base.assignments,
            base.nominations,
            base.now,
            base.aggregates,
            base._namespaces,
            base._nominator,
        )
        self._base = base
        self._candidates = candidates
        self._sums = MovedSums(base)
        self._changed: dict[int, dict[str, PodInfo]] = {}
        self._log: list[Assignment] | None = None
        self._added: set[str] = set()
        self._removed: dict[str, Holder] = {}
        self._moves_known: list[Move] = []
        self._unsettled: list[Callable[[], Iterable[Move]]] = []
        self._moved_terms = False
        self.moved_log: list[int] = []
        """Rows whose pods were changed, in order, with repetitions."""
        self.notes: dict[Hashable, Any] = {}
        """What is remembered as long as this view is used."""

    @property
    def base(self) -> Snapshot:
        """The view below."""
        return self._base

    @property
    def candidates(self) -> RowArray:
        """Rows that a pod may be given, ascending."""
        return self._candidates

    def forget_nominations(self, uids: Collection[str]) -> None:
        """From now on take some pods as nominated nowhere: they are to be placed together, and each would be counted
        on its node and, once placed, once more."""
        if any(nominee.uid in uids for pods in self.nominations.values() for nominee in pods):
            self._nominator = nominated_beside(uids, self.nominations)
            self.nominations = self._nominator.by_node

    def branch(self, candidates: RowArray | None = None) -> "Overlay":
        """Return a copy, where only some rows are candidates."""
        copy = Overlay(self._base, self._candidates if candidates is None else candidates)
        copy.nominations, copy._nominator = self.nominations, self._nominator
        copy._sums = self._sums.copy()
        copy._changed = {row: dict(pods) for row, pods in self._changed.items()}
        copy._log = None if self._log is None else list(self._log)
        copy._added, copy._removed = set(self._added), dict(self._removed)
        copy._moves_known, copy._unsettled = list(self._moves_known), list(self._unsettled)
        copy._moved_terms = self._moved_terms
        copy.moved_log = list(self.moved_log)
        return copy

    def narrow(self, candidates: RowArray) -> None:
        """From now on give pods these rows only."""
        self._candidates = candidates

    @property
    def _moves(self) -> list[Move]:
        """What was moved, in order. Sums take it in at once, and this when it is asked for, as few plugins do."""
        if self._unsettled:
            unsettled, self._unsettled = self._unsettled, []
            for moves in unsettled:
                for move in moves():
                    self._settle(move)
        return self._moves_known

    def requested(self, resource: str) -> FloatArray:
        """Return the sums of effective requests."""
        column = self._sums.requested.get(resource)
        return self._base.requested(resource) if column is None else column

    def nonzero_requested(self, resource: str) -> FloatArray:
        """Return the sums with defaults for containers that request nothing."""
        if resource not in ("cpu", "memory"):
            return self.requested(resource)
        column = self._sums.nonzero.get(resource)
        return self._base.nonzero_requested(resource) if column is None else column

    def summed(self, amount: PodAmount) -> FloatArray:
        """Return the sums of an amount."""
        column = self._sums.others.get(amount)
        # Few plugins ask: what was moved before is made up for at the first question.
        return self._sums.keep(amount, self._moves) if column is None else column

    @property
    def pod_count(self) -> FloatArray:
        """Pods on each node."""
        count = self._sums.count
        return self._base.pod_count if count is None else count

    def pods_on(self, row: int) -> Collection[PodInfo]:
        """Return the pods on a node."""
        pods = self._changed.get(row) if self._moves else None
        return self._base.pods_on(row) if pods is None else pods.values()

    @property
    def moved_rows(self) -> Collection[int]:
        """Rows of the pods that were added and removed."""
        return {*self._base.moved_rows, *(move.row for move in self._moves)}

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

    def weigh_pods(self, terms: Sequence[WeightedQuery], key: str, nodes: NodeSet | None = None) -> PodWeights:
        """Return the weights of the pods asked for in each domain."""
        base = self._base.weigh_pods(terms, key, nodes)
        return moved_weights(base, terms, self.labels(key).codes, nodes, self._moves)

    def terms_matching(self, pod: PodInfo, kind: TermKind) -> Sequence[TermCounts]:
        """Return the terms of pods on nodes that match this pod."""
        base = self._base.terms_matching(pod, kind)
        return moved_terms(base, pod, kind, self, self._moves) if self.pods_have_terms else base

    def requests_by_namespace(self, amounts: PodAmounts) -> Mapping[str, Resources]:
        """Return the sums of what pods count as using."""
        base = self._base.requests_by_namespace(amounts)
        return moved_sums(base, amounts, ((move.pod, move.sign) for move in self._moves))

    @property
    def pods_have_terms(self) -> bool:
        """Whether any pod on a node may have a term between pods."""
        return self._moved_terms or self._base.pods_have_terms

    @property
    def overlay_assignments(self) -> Sequence[Assignment]:
        """Pods this view adds and removes."""
        return self._assigned() if self._moves else self._base.overlay_assignments

    @property
    def removed_pods(self) -> Collection[Holder]:
        """Pods taken away."""
        return (*self._base.removed_pods, *self._removed.values()) if self._moves else self._base.removed_pods

    def add_pod(self, pod: PodInfo, row: int) -> None:
        """Put a pod on a node."""
        self._moved_terms = self._moved_terms or pod.spec.terms.any
        self._sums.use(pod, row, 1)
        self.moved_log.append(row)
        self._unsettled.append(lambda: (Move(row, pod, 1),))

    def add_pods(self, pods: Sequence[tuple[int, PodInfo]]) -> None:
        """Put pods on their rows, all at once."""
        batch = PodBatch(pods)
        self.move_pods(batch, batch.all_indices(), 1)

    def remove_pod(self, pod: PodInfo, row: int) -> None:
        """Take a pod from a node; KeyError when it is not there."""
        if all(other.uid != pod.uid for other in self.pods_on(row)):
            raise KeyError(pod.uid)
        self.remove_known_pod(pod, row)

    def remove_known_pod(self, pod: PodInfo, row: int) -> None:
        """Take a pod from a node where it is known to be."""
        self._sums.use(pod, row, -1)
        self.moved_log.append(row)
        self._unsettled.append(lambda: (Move(row, pod, -1),))

    def move_pods(self, batch: PodBatch, indices: IntArray, sign: int) -> None:
        """Put some pods of a batch on their rows, or take those there from them."""
        if len(indices):
            self._sums.use_many(batch, indices, sign)
            self.moved_log += [row for row, _ in batch.at(indices)]
            self._moved_terms = self._moved_terms or (
                sign > 0 and any(pod.spec.terms.any for _, pod in batch.at(indices))
            )
            self._unsettled.append(lambda: [Move(row, pod, sign) for row, pod in batch.at(indices)])

    def add_nominated(self, nominated: NominatedSums) -> None:
        """Put nominated pods on their rows."""
        self._sums.add_nominated(nominated)
        self.moved_log += nominated.pods
        by_row = list(nominated.pods.items())
        self._moved_terms = self._moved_terms or any(pod.spec.terms.any for _, pods in by_row for pod in pods)
        self._unsettled.append(lambda: [Move(row, pod, 1) for row, pods in by_row for pod in pods])

    def remove_lower(self, sums: LowerSums) -> None:
        """Take all pods below a priority from their nodes, before anything else is moved."""
        rows = sums.rows.tolist()
        self._sums.remove_lower(sums)
        self.moved_log += rows
        base, priority = self._base, sums.priority
        self._unsettled.append(
            lambda: [Move(row, pod, -1) for row in rows for pod in base.pods_on(row) if pod.priority < priority]
        )

    def _assigned(self) -> list[Assignment]:
        if self._log is None:
            self._log = list(self._base.overlay_assignments)
        return self._log

    def _settle(self, move: Move) -> None:
        row, pod, sign = move
        if sign > 0:
            self._pods_of(row)[pod.uid] = pod
            removed = self._removed.get(pod.uid)
            if removed is not None and removed.row == row:
                # It is back where the table has it.
                del self._removed[pod.uid]
            else:
                self._added.add(pod.uid)
                self._assigned().append(Assignment(1, self.name(row), pod.spec, pod.requests, self.now, observed=False))
        else:
            del self._pods_of(row)[pod.uid]
            # A pod of the table itself is in its log at a time of its own, and mostly in the measured load as well.
            if pod.uid in self._added:
                self._assigned().append(
                    Assignment(-1, self.name(row), pod.spec, pod.requests, self.now, observed=False)
                )
            else:
                self._removed[pod.uid] = Holder(row, pod)
        self._moves_known.append(move)

    def _pods_of(self, row: int) -> dict[str, PodInfo]:
        pods = self._changed.get(row)
        if pods is None:
            pods = self._changed[row] = {pod.uid: pod for pod in self._base.pods_on(row)}
        return pods


def rows_and_pods(table: NodeTable, by_node: Mapping[str, Mapping[str, PodInfo]]) -> Iterator[tuple[int, PodInfo]]:
    """Yield the pods on known nodes, with their rows."""
    for name, pods in by_node.items():
        row = table.row_of.get(name)
        if row is not None:
            for pod in pods.values():
                yield row, pod
