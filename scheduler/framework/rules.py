"""Rules: what a filter or a score says of "a node", written once, for one node (plain numbers) or for all (columns).

Upstream asks every plugin about every node (or a sample of them) for each pod. Here answers are kept in columns, per
class of pods or for all pods that are alike in what was read of them (`scheduler.core.shared`): five times as many
decisions per second of pods of one class at 5,000 nodes (docs/performance.md). A rule reads pod and nodes through what
it is given, so what an answer follows from is recorded. It need not be declared beside the rule, where the next author
would forget it.

Numpy takes as long for one node as Python for twenty, and Python for 5,000 nodes as numpy for a million. So a class's
columns are made by numpy, and the row that the last placement changed is asked about in plain numbers; both must give
the same digits (tests/unit/scheduler/plugins/test_rules.py).
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable, MutableMapping, Sequence
from enum import IntEnum
from functools import cache, partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from scheduler.framework.interface import FilterPlugin
from scheduler.framework.load import LoadColumns
from scheduler.framework.objects import PodInfo, SpecInfo
from scheduler.framework.status import MAX_REASONS, AnyArray, BoolArray, Code, IntArray, RowArray, Verdicts
from scheduler.framework.view import NodeView


class Reads(IntEnum):
    """What the answer about a node follows from, in addition to the pod's `spec`: each includes those before it.

    NOTHING: the plugin takes no part for such pods: every node passes, or PreScore says Skip. NODE: the node object
    (labels, taints, images, allocatable). PODS: the pods on the node, too. ANYTHING: it is asked in every attempt.
    """

    NOTHING = 0
    NODE = 1
    PODS = 2
    ANYTHING = 3


Node = Any
"""What readers take: a row, or many."""
Reader = Callable[[Node], Any]
"""Returns the value of a column at a node: a float, or a column of them, which the rule must not change."""
Rule = Callable[[Node], Any]
"""A filter's returns, per reason, whether it keeps the pod off a node: bools, or columns of them. A score's returns the
score of a node, within 0..100 unless it is normalised, and cut towards zero where it has a fraction."""
ColumnOf = Callable[[NodeView], AnyArray]
Value = tuple[Callable[[NodeView], Hashable], Hashable]
"""Something of the cluster that an answer follows from, and what it was."""


@runtime_checkable
class FilterRule(Protocol):
    """Implemented by a Filter plugin whose verdict on a node follows from that node, its pods, and what it says here.

    A plugin that does not, or a wrapper that does not pass this method on, is called in every attempt.
    """

    @abstractmethod
    def filter_rule(self, spec: SpecInfo, nodes: Nodes) -> Rule | Reads:
        """Return the rule of `filter` for pods with a spec; or in one word what `filter` reads of a node, which is then
        asked instead.

        Anything but ANYTHING promises that PreFilter answers Success or Skip without naming nodes; that neither it nor
        Filter counts anything, or leaves in the CycleState what Reserve or a later extension point needs; and that the
        verdict on one node does not depend on the others. All that the rule reads comes from `spec` and `nodes`, and
        every reader is made before the rule is returned.
        """


@runtime_checkable
class ScoreRule(Protocol):
    """The same for a Score plugin, its PreScore and its raw scores.

    A plugin that is a `ScoreNormalizer` may have an attribute `by_range`: true where a normalised score follows
    from the raw one and the least and the largest of the feasible nodes.
    """

    @abstractmethod
    def score_rule(self, spec: SpecInfo, nodes: Nodes) -> Rule | Reads:
        """Return the rule of `score` for pods with a spec, or a word, as `FilterRule.filter_rule`."""


class LateReadError(Exception):
    """A rule asked for something only when it was asked about a node: too late to be a part of what is known of it."""


class SpecReads:
    """A spec that notes what is read of it: by name, or by the function that was given to `of`."""

    __slots__ = ("_is_open", "_reads", "_spec")

    def __init__(self, spec: SpecInfo, reads: MutableMapping[str | Callable[[SpecInfo], Any], None]) -> None:
        self._spec, self._reads, self._is_open = spec, reads, True

    def __getattr__(self, name: str) -> Any:
        self._note(name)
        return getattr(self._spec, name)

    def of(self, read: Callable[[SpecInfo], Any]) -> Any:
        """Return what a function makes of the spec, and note that instead of what it reads."""
        self._note(read)
        return read(self._spec)

    def close(self) -> None:
        """Let nothing else be read from now on."""
        self._is_open = False

    def _note(self, read: str | Callable[[SpecInfo], Any]) -> None:
        if read not in self._reads:
            if not self._is_open:
                raise LateReadError(f"spec.{read}")
            self._reads[read] = None


class ClassPod(NamedTuple):
    """What pods of one class have in common: a `filter` or `score` that keeps to its word reads no more of a pod."""

    spec: SpecInfo

    @property
    def namespace(self) -> str:
        """The pods' namespace."""
        return self.spec.namespace

    @property
    def node_name(self) -> str:
        """None: pods with a node are not decided about."""
        return ""


class Nodes(ABC):
    """Nodes as a rule reads them, and what Python and numpy spell differently. Notes what is read.

    `at_least`, `at_most` and `floor` may overwrite their first operand with the result, as a new column of 5,000 nodes
    costs as much as the arithmetic: it has to be the rule's own, never what a reader returned.

    Attributes:
        layout: `NodeView.layout` when the readers were made: with another one, rules are made again. A view's own is
            no record of it, as it goes along with the table.
        in_columns: whether values are columns.

    Args:
        view: the nodes.
        what_if: whether the view is one on which pods are moved: its columns are copied when they are first written, so
            that those of pods are looked up again at each `look`.
    """

    in_columns: bool
    at_least: Callable[[Any, float], Any]
    at_most: Callable[[Any, Any], Any]
    floor: Callable[[Any], Any]
    select: Callable[[Any, Any, Any], Any]

    def __init__(self, view: NodeView, *, what_if: bool = False) -> None:
        self._view = view
        self._what_if = what_if
        self.layout = view.layout
        self._readers: dict[tuple[str, str], Reader] = {}
        self._is_open = True
        self._reads = Reads.NODE
        self._values: list[Value] = []

    def record(self, make: Callable[[Any, Nodes], Rule | Reads], spec: SpecInfo) -> RecordedRule:
        """Return a rule and what it reads of nodes and cluster."""
        self._is_open, self._reads, self._values = True, Reads.NODE, []
        try:
            rule = make(spec, self)
        finally:
            self._is_open = False
        if isinstance(rule, Reads):
            return RecordedRule(rule, None, tuple(self._values))
        return RecordedRule(self._reads, rule, tuple(self._values))

    # Of the node ----------------------------------------------------------------------------------------------------

    def allocatable(self, resource: str) -> Reader:
        """Return a reader of `NodeView.allocatable`."""
        return self._named("allocatable", resource)

    @property
    def allowed_pods(self) -> Reader:
        """A reader of `NodeView.allowed_pods`."""
        return self._named("allowed_pods")

    @property
    def capacity_cpu(self) -> Reader:
        """A reader of `NodeView.capacity_cpu`."""
        return self._named("capacity_cpu")

    def column(self, column: AnyArray) -> Reader:
        """Return a reader of a column that is the same array while what was read otherwise stays the same, such as that
        of a load."""
        self._note(Reads.NODE)
        return self._fixed(column[: self._view.size])

    # Of the pods on it, too -----------------------------------------------------------------------------------------

    def requested(self, resource: str) -> Reader:
        """Return a reader of `NodeView.requested`."""
        return self._named("requested", resource)

    def nonzero_requested(self, resource: str) -> Reader:
        """Return a reader of `NodeView.nonzero_requested`."""
        return self._named("nonzero_requested", resource)

    @property
    def pod_count(self) -> Reader:
        """A reader of `NodeView.pod_count`."""
        return self._named("pod_count")

    def of_pods(self, column: ColumnOf) -> Reader:
        """Return a reader of a column that a function makes of nodes, their pods, and what was read otherwise; another
        array each time, maybe."""
        self._note(Reads.PODS)
        return self._changing(column)

    # Of the cluster -------------------------------------------------------------------------------------------------

    def value(self, read: Callable[[NodeView], Any]) -> Any:
        """Return what a function makes of the cluster: it is asked again in every attempt, and where it returns
        something else, rules are made again."""
        self._note(Reads.NODE)
        value = read(self._view)
        self._values.append((read, value))
        return value

    def load(self, source: str) -> LoadColumns | None:
        """Return the latest answer of a load source."""
        self.value(_load_version(source))
        return self._view.load(source)

    def wide(self, resource: str) -> bool:
        """Return `NodeView.wide`; it changes with the layout."""
        return self._view.wide(resource)

    @property
    def complete(self) -> bool:
        """`NodeView.complete`; it changes with the layout."""
        return self._view.complete

    @property
    def count(self) -> int:
        """How many nodes there are; it changes with the layout."""
        return len(self._view.rows)

    def image(self, name: str) -> tuple[Reader, int, int] | None:
        """Return a reader of which nodes hold an image, its size in bytes, and the number of these nodes; None without
        any."""
        facts: tuple[int, int] | None = self.value(partial(_image_facts, name))
        if facts is None:
            return None
        return self._changing(partial(_image_present, name)), *facts

    # ----------------------------------------------------------------------------------------------------------------

    def _note(self, reads: Reads) -> None:
        if not self._is_open:
            raise LateReadError("a reader of nodes")
        if reads > self._reads:
            self._reads = reads

    def _named(self, columns: str, resource: str = "") -> Reader:
        if not self._is_open:
            raise LateReadError(columns)
        if columns in _OF_PODS:
            self._reads = Reads.PODS
        key = (columns, resource)
        reader = self._readers.get(key)
        if reader is None:
            if len(self._readers) >= _MAX_READERS:
                # Rules that were made keep theirs, and share them with no later one.
                self._readers.clear()
            if self._what_if and columns in _OF_PODS:
                reader = self._changing(partial(_column_named, columns, resource))
            else:
                reader = self._fixed(_column_named(columns, resource, self._view))
            self._readers[key] = reader
        return reader

    @abstractmethod
    def _fixed(self, column: AnyArray) -> Reader:
        """Return a reader of a column that stays the same array while `NodeView.layout` does."""

    @abstractmethod
    def _changing(self, column: ColumnOf) -> Reader:
        """Return a reader of a column that may be another array in the next attempt."""


def _column_named(columns: str, resource: str, view: NodeView) -> AnyArray:
    column: Any = getattr(view, columns)
    named: AnyArray = column(resource) if resource else column
    return named


class OneNode(Nodes):
    """A node is a row, and values are plain numbers."""

    in_columns = False
    at_least, at_most, floor = staticmethod(max), staticmethod(min), staticmethod(math.floor)
    select = staticmethod(lambda condition, value, other: value if condition else other)

    def __init__(self, view: NodeView, *, what_if: bool = False) -> None:
        super().__init__(view, what_if=what_if)
        self._boxes: list[tuple[ColumnOf, list[Reader]]] = []

    def look(self, view: NodeView) -> None:
        """Read from now on from a view with the same `layout`."""
        self._view = view
        for column, box in self._boxes:
            box[0] = column(view).item

    def _fixed(self, column: AnyArray) -> Reader:
        """Return a reader of numbers."""
        return column.item

    def _changing(self, column: ColumnOf) -> Reader:
        """Return a reader of numbers."""
        box: list[Reader] = [column(self._view).item]
        self._boxes.append((column, box))

        def read(row: int) -> Any:
            return box[0](row)

        return read


class ManyNodes(Nodes):
    """A node is an array of rows, and values are columns; each is gathered once, however many rules read it."""

    in_columns = True
    at_least = staticmethod(lambda values, low: np.maximum(values, low, out=values))
    at_most = staticmethod(lambda values, high: np.minimum(values, high, out=values))
    floor = staticmethod(lambda values: np.floor(values, out=values))
    select = staticmethod(np.where)

    def __init__(self, view: NodeView, *, what_if: bool = False) -> None:
        super().__init__(view, what_if=what_if)
        self._gathered: dict[object, AnyArray] = {}
        self._everywhere = False

    def look(self, view: NodeView, rows: RowArray) -> None:
        """Read from now on from a view with the same `layout`, at some rows."""
        self._view = view
        self._everywhere = rows is view.rows and view.dense
        self._gathered.clear()

    def _fixed(self, column: AnyArray) -> Reader:
        """Return a reader of columns."""
        key = object()

        def read(rows: RowArray) -> AnyArray:
            return column if self._everywhere else self._gather(key, column, rows)

        return read

    def _changing(self, column: ColumnOf) -> Reader:
        """Return a reader of columns."""
        key = object()

        def read(rows: RowArray) -> AnyArray:
            now = column(self._view)
            return now if self._everywhere else self._gather(key, now, rows)

        return read

    def _gather(self, key: object, column: AnyArray, rows: RowArray) -> AnyArray:
        values = self._gathered.get(key)
        if values is None:
            # Rows are always in range; "clip" spares numpy the copy by which it would check that.
            values = self._gathered[key] = column.take(rows, mode="clip")
        return values


class _RowsOnce(ManyNodes):
    """Nodes that one rule is asked about once, at rows that are known beforehand: its readers hold the values."""

    def __init__(self, view: NodeView, rows: RowArray) -> None:
        super().__init__(view)
        self.look(view, rows)
        self._rows = rows

    def _named(self, columns: str, resource: str = "") -> Reader:
        column = getattr(self._view, columns)
        return self._fixed(column(resource) if resource else column)

    def _fixed(self, column: AnyArray) -> Reader:
        # As in `_gather`.
        values = column if self._everywhere else column.take(self._rows, mode="clip")
        return lambda rows: values

    def _changing(self, column: ColumnOf) -> Reader:
        return self._fixed(column(self._view))


class RecordedRule(NamedTuple):
    """What came of asking for a rule: what it reads of a node, the rule (None: the plugin is asked instead), and what
    of the cluster it read."""

    reads: Reads
    rule: Rule | None
    values: tuple[Value, ...]


_OF_PODS = frozenset({"requested", "nonzero_requested", "pod_count"})
_MAX_READERS = 256
"""Readers that rules share. A pod may request any resources, also such as no node has, and so name any number."""


@cache
def _load_version(source: str) -> Callable[[NodeView], int | None]:
    def version(view: NodeView) -> int | None:
        load = view.load(source)
        return None if load is None else load.version

    return version


def _image_facts(name: str, view: NodeView) -> tuple[int, int] | None:
    image = view.image(name)
    return None if image is None else (image.size, image.nodes)


def _image_present(name: str, view: NodeView) -> BoolArray:
    image = view.image(name)
    return np.zeros(view.size, dtype=np.bool_) if image is None else image.present


RuleOf = Callable[[SpecInfo, Nodes], Rule | Reads]


def answers_of(rule_of: RuleOf, spec: SpecInfo, view: NodeView, rows: RowArray) -> Any:
    """Return what a rule says of rows; None where there is none."""
    rule = rule_of(spec, _RowsOnce(view, rows))
    return None if isinstance(rule, Reads) else rule(rows)


def masks_of(rule_of: RuleOf, spec: SpecInfo, view: NodeView, rows: RowArray) -> Sequence[BoolArray]:
    """Return, per reason, the rows that a rule rejects for it; nothing where it takes no part."""
    masks: Sequence[BoolArray] | None = answers_of(rule_of, spec, view, rows)
    return () if masks is None else masks


def scores_of(rule_of: RuleOf, spec: SpecInfo, view: NodeView, rows: RowArray) -> IntArray:
    """Return a rule's scores: the body of a `score` method. 0 where it takes no part."""
    scores = answers_of(rule_of, spec, view, rows)
    return as_scores(0 if scores is None else scores, rows)


def as_scores(scores: Any, rows: RowArray) -> IntArray:
    """Return what a rule says of rows as integers."""
    return np.full(len(rows), scores, np.int64) if np.ndim(scores) == 0 else scores.astype(np.int64)


def verdicts_of(
    masks: Sequence[BoolArray], reasons: Sequence[str], code: Code, unresolvable: BoolArray | None = None
) -> Verdicts | None:
    """Return the verdicts of masks that stand for reasons: the end of a `filter` method.

    Args:
        masks: per reason, the rows that are rejected for it.
        reasons: the texts.
        code: of rejected rows,
        unresolvable: except these, where it is UnschedulableAndUnresolvable.
    """
    if not masks:
        return None
    failed = [(reason, mask) for reason, mask in zip(reasons, masks, strict=True) if mask.any()]
    if not failed:
        return None
    bits = np.zeros(len(failed[0][1]), dtype=np.int64)
    for index, (_, mask) in enumerate(failed):
        bits |= mask.astype(np.int64) << min(index, MAX_REASONS - 1)
    codes = np.where(bits == 0, 0, code).astype(np.int8)
    if unresolvable is not None:
        codes[unresolvable & (bits != 0)] = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Verdicts(codes, bits, tuple([reason for reason, _ in failed[:MAX_REASONS]]))


def local_version(
    filters: Iterable[FilterPlugin], skipped: Container[str], pod: PodInfo, view: NodeView
) -> Hashable | None:
    """Return a value that changes with everything the verdicts of filters depend on, except the pod's spec, the node
    and the pods on it; None where one of them depends on more than can be compared."""
    versions: list[Hashable] = []
    nodes = OneNode(view)
    for plugin in filters:
        if plugin.name in skipped:
            versions.append(plugin.name)
            continue
        if not isinstance(plugin, FilterRule):
            return None
        reads, _, values = nodes.record(plugin.filter_rule, pod.spec)
        if reads is Reads.ANYTHING:
            return None
        versions.append((reads, *[value for _, value in values]))
    return tuple(versions)


class _FormerMeta(type(Protocol)):  # type: ignore[misc]
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return cls


class _Former(metaclass=_FormerMeta):
    """Stands for what plugins declared by up to 0.1: whatever they make of it says nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def former(name: str) -> Any:
    """Return a stand-in for a name that plugins imported up to 0.1; such a plugin is asked in every attempt.

    Raises:
        AttributeError: it never was one.
    """
    if name not in ("DependsOn", "LocalPlugin", "Locality", "part_of"):
        raise AttributeError(f"module 'scheduler.framework' has no attribute {name!r}")
    _warn_of_former()
    return _Former


@cache
def _warn_of_former() -> None:
    message = (
        "a plugin uses Locality, of which nothing is read any more: it is asked about every node in every attempt; "
        "implement filter_rule and score_rule (docs/writing-a-plugin.md)"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=4)
