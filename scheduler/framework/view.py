"""What plugins read: columns over nodes, with the pods that this attempt adds or removes."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field

from scheduler.framework.load import LoadColumns
from scheduler.framework.objects import NodeInfo, PodInfo, Resources, SpecInfo
from scheduler.framework.podcounts import NodeSet, PodBatch, PodQuery, PodWeights, TermCounts, TermKind
from scheduler.framework.status import BoolArray, FloatArray, IntArray, RowArray
from scheduler.kube.model import Taint
from scheduler.kube.primitives import Selector

PodAmounts = Callable[[PodInfo], Resources]
"""Says what a pod counts as using."""
PodAmount = Callable[[PodInfo], int]
"""The same of one resource."""


class LabelColumn(Struct):
    """Values of one label key: `codes[row]` indexes `values`, -1 where the node has no such label. Values that no node
    has any more may be among them. Codes keep their meaning for as long as `NodeView.topology` stays the same."""

    codes: RowArray
    values: list[str] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)


class TaintColumn(Struct):
    """Taint sets: `codes[row]` indexes `classes`; nodes with equal taints share a class. Codes keep their meaning for
    as long as `NodeView.topology` stays the same."""

    codes: RowArray
    classes: list[tuple[Taint, ...]] = field(default_factory=list)


class ImageColumn(NamedTuple):
    """Nodes that hold an image, its size in bytes (first reporter's), and how many they are."""

    present: BoolArray
    size: int
    nodes: int


class Assignment(NamedTuple):
    """A pod given to a node (+1) or taken from it (-1), for estimating load that is not measured yet.

    `at` is when it was assigned (assumed by us, or as its object says) and, for `observed` entries, when this
    process first saw it bound; both kinds are logged for every pod, so that a reader picks the one it needs. Of the pod
    only what its class shares is kept, many thousands of entries may be; and its `requests`, which are those of the
    class unless it is being resized.
    """

    sign: int
    node: str
    spec: SpecInfo
    requests: Resources
    at: float
    observed: bool


class AssignmentLog(Protocol):
    """Assignments in order. `start` is the index of the oldest kept; a reader behind it begins again from `start`."""

    @property
    def start(self) -> int:
        """Index of the oldest entry still kept."""

    @property
    def end(self) -> int:
        """Index one past the newest entry."""

    def since(self, index: int) -> Sequence[Assignment]:
        """Return the entries from an index (not before `start`) on."""


class Holder(NamedTuple):
    """A pod on a node that holds something asked for."""

    row: int
    pod: PodInfo


ObjectListener = Callable[[Any | None, Any | None], None]
"""Called with the old and the new state of an object; None where there is none."""
_D = TypeVar("_D")


class Objects(Protocol):
    """Objects of the kinds that enabled plugins watch; "" is the namespace of those of the cluster."""

    def derived(self, make: "Callable[[Any], _D]") -> _D:
        """Return what is derived from the objects: made by the first call with a function, the same for all others.

        For what several profiles must share, such as accounts of what is taken.
        """

    def listen(self, kind: str, listener: ObjectListener) -> None:
        """Call a function whenever an object of a kind changes, as `latest` shows it."""

    def generation(self, *kinds: str) -> int:
        """Return a number that grows with every change to one of the kinds."""

    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return an object, or None."""

    def in_namespace(self, kind: str, namespace: str) -> Collection[Any]:
        """Return the objects of a kind in a namespace."""

    def every(self, kind: str) -> Iterator[Any]:
        """Yield all objects of a kind."""

    def count(self, kind: str) -> int:
        """Return how many objects of a kind there are."""

    def latest(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return an object as assumed, else as the API server has it, or None."""

    def latest_by(self, kind: str, key: Callable[[Any], str], value: str) -> Collection[Any]:
        """Return the objects of a kind, as `latest` shows them, for which a function gives a value.

        Kept as an index from the first call on, so the function must be the same object each time.
        """

    def assume(self, kind: str, item: Any) -> None:
        """Show an object through `latest` as it is about to be written; ValueError when it is out of date or gone."""

    def restore(self, kind: str, namespace: str, name: str) -> None:
        """Forget the assumed state of an object, if there is one."""


class NodeView(Protocol):
    """The nodes and their pods as an attempt sees them: columns over nodes. Upstream's counterpart is the snapshot with
    a NodeInfo per node.

    Every column has `size` entries; rows without a node hold zeros and are in no `rows`. A node keeps its row as long
    as it exists, so that plugins and classes may keep columns of their own; the row of a removed node is used again,
    and `membership` says so.

    Arrays belong to the table: read, never written, and not kept beyond the call, as the ordinary view shows the live
    columns and not a copy. The numbers `membership`, `topology`, `layout` and `generation` tell a cache what changed
    without looking at the columns. Amounts are float64: exact up to 2^53, and numpy divides them faster than int64;
    `wide` tells where that is not exact enough.
    """

    @property
    def now(self) -> float:
        """Time of the attempt, seconds since the epoch: data, not a clock."""

    @property
    def size(self) -> int:
        """Length of every column."""

    @property
    def rows(self) -> RowArray:
        """Rows that hold a node, ascending; the same object while no node comes or goes."""

    @property
    def dense(self) -> bool:
        """Whether `rows` is 0..size-1, so that a column over all rows needs no gathering."""

    @property
    def membership(self) -> int:
        """A number that changes when a node comes or goes."""

    @property
    def topology(self) -> int:
        """A number that changes when a node comes or goes, or its labels or taints change."""

    @property
    def generation(self) -> int:
        """A number that grows with every change to the nodes and the pods on them, below any overlay."""

    def changed_since(self, generation: int) -> Collection[int] | None:
        """Return the rows whose node or pods changed since a generation of the same `membership`, below any overlay;
        None where that is no longer known."""

    @property
    def moved_rows(self) -> Collection[int]:
        """Rows on which an overlay shows other pods than there are."""

    @property
    def layout(self) -> int:
        """A number that changes when a column becomes another array, or one that was shorter."""

    @property
    def nominations(self) -> "Nominations":
        """Pods that preemption has promised a node."""

    @property
    def nomination_end(self) -> int:
        """A number that grows with every change of the nominations that makes a difference to other pods."""

    def nominated_since(self, end: int) -> Collection[str] | None:
        """Return the nodes whose nominations changed since a `nomination_end` of the same `membership`; None where
        that is not known."""

    def nomination_of(self, uid: str) -> str:
        """Return the node a pod is nominated to, or ""."""

    def with_nominated(self, pod: PodInfo) -> tuple[RowArray, "NodeView"]:
        """Return this view with the pods on it that are nominated and no less important than a pod, but not the pod
        itself; and their rows, ascending."""

    def overlay(self) -> "WhatIfView":
        """Return a view on which pods can be added and removed without touching this one."""

    def without_lower(self, priority: int) -> tuple[int, "WhatIfView"]:
        """Return an overlay without the pods below a priority, and how many these are; not for overlays."""

    @property
    def objects(self) -> Objects:
        """Objects of other kinds, as they are now (also for a frozen view)."""

    def row(self, name: str) -> int:
        """Return the row of a node, or -1."""

    def name(self, row: int) -> str:
        """Return the name of the node in a row."""

    def info(self, row: int) -> NodeInfo:
        """Return the node in a row."""

    def allocatable(self, resource: str) -> FloatArray:
        """Return allocatable amounts; zeros for a resource no node has."""

    def requested(self, resource: str) -> FloatArray:
        """Return the sums of effective requests of the pods on each node."""

    def nonzero_requested(self, resource: str) -> FloatArray:
        """Return `requested` with 100m/200Mi for containers that request no cpu/memory; other resources as
        `requested`."""

    def summed(self, amount: PodAmount) -> FloatArray:
        """Return the sums of an amount over each node's pods.

        Kept as a column from the first call on, so the function must be the same object each time. What it returns
        follows from `requests` and `limits` of the pod, and from the containers, the overhead and the pod-level
        resources of its spec: only where these change the column does.
        """

    def wide(self, resource: str) -> bool:
        """Tell whether amounts are so large (82 TiB) that a float64 quotient may differ from Go's integer division."""

    @property
    def complete(self) -> bool:
        """Whether every node has cpu and memory; `layout` changes when that does."""

    @property
    def capacity_cpu(self) -> FloatArray:
        """CPU capacity (not allocatable) in milli-units."""

    @property
    def allowed_pods(self) -> FloatArray:
        """Allocatable pods."""

    @property
    def pod_count(self) -> FloatArray:
        """Pods on each node."""

    @property
    def unschedulable(self) -> BoolArray:
        """spec.unschedulable."""

    @property
    def taints(self) -> TaintColumn:
        """Taint classes."""

    def labels(self, key: str) -> LabelColumn:
        """Return the values of a label."""

    def image(self, name: str) -> ImageColumn | None:
        """Return which nodes hold an image; None when none does."""

    def pods_on(self, row: int) -> Collection[PodInfo]:
        """Return the pods on a node, assumed ones included."""

    def holders(self, key: str) -> Collection[Holder]:
        """Return the pods on nodes that have a key among `SpecInfo.holds`."""

    @property
    def attachable(self) -> IntArray:
        """Sums of `SpecInfo.attachable` of the pods on each node: a column."""

    @property
    def lowest_priority(self) -> IntArray:
        """The lowest priority of the pods on each node: a column. Pods that an overlay adds are not in it."""

    @property
    def label_set_count(self) -> int:
        """Number of sets of labels that pods on nodes have."""

    def label_sets(self, selector: Selector) -> int:
        """Return how many comparisons with a set of pod labels a selector takes that is not asked for twice."""

    def pods_by_node(self, query: PodQuery) -> IntArray:
        """Return how many of the pods asked for are on each node: a column. Like those, read it and do not keep it."""

    def pods_by_domain(self, query: PodQuery, key: str, nodes: NodeSet | None = None) -> IntArray:
        """Return how many of the pods asked for are in each domain of a topology key, on some or all nodes.

        Indexed by the codes of `labels(key)`; one more entry at the end, always 0, is what code -1 picks.
        """

    def weigh_pods(self, terms: Sequence[tuple[PodQuery, int]], key: str, nodes: NodeSet | None = None) -> PodWeights:
        """Return, per domain of a topology key, the sum of the weights of all queries over the pods they ask for.

        For pods with more terms than are worth a count each: unlike those of `pods_by_domain`, nothing is kept.
        """

    @property
    def bundled_terms(self) -> int:
        """Number of the terms of pods on nodes that have more than a few; those an overlay adds are not in it."""

    def terms_matching(self, pod: PodInfo, kind: TermKind) -> Sequence[TermCounts]:
        """Return the terms of a kind, of pods on nodes, that match this pod."""

    @property
    def pods_have_terms(self) -> bool:
        """Whether any pod on a node may have a term of affinity or anti-affinity between pods."""

    def requests_by_namespace(self, amounts: PodAmounts) -> Mapping[str, Resources]:
        """Return the sums, per namespace, of what the pods with a node count as using; read it and do not keep it.

        Kept as an index from the first call on, so the function must be the same object each time.
        """

    def load(self, source: str) -> LoadColumns | None:
        """Return the latest answer of a load source; None before the first."""

    @property
    def assignments(self) -> AssignmentLog:
        """Recent assignments of the table below this view."""

    @property
    def overlay_assignments(self) -> Sequence[Assignment]:
        """Pods this view adds to or removes from the table."""

    @property
    def removed_pods(self) -> Collection[Holder]:
        """Pods of the table that this view shows on no node, or on another one; with their rows in the table."""


class WhatIfView(NodeView, Protocol):
    """A view with some pods added or removed."""

    def add_pod(self, pod: PodInfo, row: int) -> None:
        """Put a pod on a node."""

    def add_pods(self, pods: Sequence[tuple[int, PodInfo]]) -> None:
        """Put pods on their rows, all at once."""

    def remove_pod(self, pod: PodInfo, row: int) -> None:
        """Take a pod from a node; KeyError when it is not there."""

    def branch(self) -> "WhatIfView":
        """Return a copy."""

    def forget_nominations(self, uids: Collection[str]) -> None:
        """From now on take some pods as nominated nowhere: they are to be placed together."""

    def move_pods(self, batch: PodBatch, indices: IntArray, sign: int) -> None:
        """Put some pods of a batch on their rows (+1), or take those there from them (-1), at little cost for each."""


Nominations = Mapping[str, Sequence[PodInfo]]
"""Pods nominated to run on a node, by node name."""


def gather(view: NodeView, column: FloatArray, rows: RowArray) -> FloatArray:
    """Return a column's values at rows; the column itself, uncopied, where rows are all of a dense view."""
    # Rows are always in range; "clip" spares numpy the copy by which it would check that.
    return column if rows is view.rows and view.dense else column.take(rows, mode="clip")


def gather_codes(view: NodeView, column: RowArray, rows: RowArray) -> RowArray:
    """Return class codes at rows, as `gather`."""
    return column if rows is view.rows and view.dense else column.take(rows, mode="clip")
