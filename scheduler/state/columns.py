"""Columns over node rows that grow with the cluster.

Labels and taints are stored as codes: a selector or a toleration is judged once per distinct value, of which there are
few, and the verdicts are gathered by code.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np

from scheduler.framework import (
    BoolArray,
    FloatArray,
    LabelColumn,
    LoadColumns,
    LoadReading,
    NodeInfo,
    NodeLoad,
    RowArray,
    TaintColumn,
)
from scheduler.kube.model import Taint

WIDE = 9.0e13
"""82 TiB. Below it floor(100 * free / allocatable) in float64 equals int64 division; above it plugins use int64."""


class Amounts:
    """One resource: allocatable, and the sum of requests kept as exact integers beside the float64 column.

    The integers make a sum independent of the order in which pods came and went, whatever their sizes: float64 sums
    of amounts beyond 2^53 would depend on it, and a node that is empty again must show 0. A column of int64 would
    overflow where Go's quantities do not, and numpy divides it more slowly.
    """

    __slots__ = ("allocatable", "requested", "sums", "wide_rows")

    def __init__(self, capacity: int) -> None:
        self.allocatable: FloatArray = np.zeros(capacity)
        self.requested: FloatArray = np.zeros(capacity)
        self.sums: list[int] = [0] * capacity
        self.wide_rows: set[int] = set()

    def grow(self, capacity: int) -> None:
        """Extend to a capacity."""
        self.allocatable = grown(self.allocatable, capacity)
        self.requested = grown(self.requested, capacity)
        self.sums += [0] * (capacity - len(self.sums))

    def add(self, row: int, amount: int) -> None:
        """Add to a row's sum; a negative amount takes away."""
        total = self.sums[row] + amount
        self.sums[row] = total
        self.requested[row] = total

    def set_allocatable(self, row: int, amount: int) -> None:
        """Set a row's allocatable amount."""
        self.allocatable[row] = amount
        if amount >= WIDE:
            self.wide_rows.add(row)
        else:
            self.wide_rows.discard(row)

    def set_all_allocatable(self, rows: range, amounts: Sequence[int]) -> None:
        """Set the allocatable amounts of rows that hold none yet."""
        self.allocatable[rows.start : rows.stop] = amounts
        if max(amounts, default=0) >= WIDE:
            self.wide_rows.update(row for row, amount in zip(rows, amounts, strict=True) if amount >= WIDE)

    def clear(self, row: int) -> None:
        """Empty a row."""
        self.sums[row] = 0
        self.requested[row] = 0.0
        self.set_allocatable(row, 0)

    def copy(self) -> "Amounts":
        """Return an independent copy."""
        twin = Amounts(0)
        twin.allocatable, twin.requested = self.allocatable.copy(), self.requested.copy()
        twin.sums, twin.wide_rows = list(self.sums), set(self.wide_rows)
        return twin


class Taints:
    """Taint sets by class. Class 0 is that without taints; the others are those that rows have: an autoscaler writes
    times into taints, and classes that stayed would grow in number for ever, and with them the work per pod."""

    def __init__(self, capacity: int) -> None:
        self.column = TaintColumn(np.zeros(capacity, dtype=np.intp), [()])
        self._ids: dict[tuple[Taint, ...], int] = {(): 0}
        # Not kept for class 0, which always stays.
        self._rows_of_class = [0]

    def grow(self, capacity: int) -> None:
        """Extend to a capacity."""
        self.column.codes = grown(self.column.codes, capacity)

    def set(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Set a row's taints."""
        old = int(self.column.codes[row])
        code = self._ids.get(taints)
        if code == old:
            return
        if code is None:
            code = self._ids[taints] = len(self.column.classes)
            self.column.classes.append(taints)
            self._rows_of_class.append(0)
        self.column.codes[row] = code
        self._rows_of_class[code] += 1
        self._rows_of_class[old] -= 1
        if old and not self._rows_of_class[old]:
            self._drop(old)

    def _drop(self, code: int) -> None:
        """Remove a class that no row has; the last one takes its place, so that there are no holes."""
        classes = self.column.classes
        del self._ids[classes[code]]
        last, rows = classes.pop(), self._rows_of_class.pop()
        if code < len(classes):
            codes = self.column.codes
            codes[codes == len(classes)] = code
            classes[code], self._rows_of_class[code], self._ids[last] = last, rows, code

    def copy(self) -> "Taints":
        """Return an independent copy."""
        twin = Taints(0)
        twin.column = TaintColumn(self.column.codes.copy(), list(self.column.classes))
        twin._ids, twin._rows_of_class = dict(self._ids), list(self._rows_of_class)
        return twin


def label_column(key: str, infos: Iterable[NodeInfo | None], capacity: int) -> LabelColumn:
    """Build the column of a label from the nodes."""
    column = LabelColumn(np.full(capacity, -1, dtype=np.intp))
    for row, info in enumerate(infos):
        if info is not None:
            set_label(column, row, info.labels.get(key))
    return column


def set_label(column: LabelColumn, row: int, value: str | None) -> None:
    """Set a row's value; None for a node without the label."""
    if value is None:
        column.codes[row] = -1
        return
    code = column.index.get(value)
    if code is None:
        code = column.index[value] = len(column.values)
        column.values.append(value)
    column.codes[row] = code


def copy_label_column(column: LabelColumn) -> LabelColumn:
    """Return an independent copy."""
    return LabelColumn(column.codes.copy(), list(column.values), dict(column.index))


def grow_label_column(column: LabelColumn, capacity: int) -> None:
    """Extend to a capacity; new rows have no label."""
    old = len(column.codes)
    column.codes = grown(column.codes, capacity)
    column.codes[old:] = -1


LOAD_FIELDS = ("cpu_average", "cpu_stddev", "memory_average", "memory_stddev", "cpu_first", "cpu_last", "sampled_at")


def lay_out_load(reading: LoadReading, row_of: Mapping[str, int], capacity: int) -> LoadColumns:
    """Return a reading, whose loads are by the nodes' names, as columns by row."""
    block = np.full((len(LOAD_FIELDS), capacity), np.nan)
    block[-1] = 0.0
    rows: list[int] = []
    figures: list[tuple[float, ...]] = []
    for name, row in row_of.items():
        load = reading.loads.get(name)
        if load is not None:
            rows.append(row)
            figures.append(_figures(reading, load))
    if rows:
        block[:, rows] = np.array(figures).T
    return LoadColumns(reading.source, reading.timestamp, reading.window_end, *block)


def set_load_row(columns: LoadColumns, row: int, reading: LoadReading, node: str) -> None:
    """Put a node's load into its row, where the reading has one."""
    load = reading.loads.get(node)
    if load is not None:
        for field, figure in zip(LOAD_FIELDS, _figures(reading, load), strict=True):
            getattr(columns, field)[row] = figure


def _figures(reading: LoadReading, load: NodeLoad) -> tuple[float, ...]:
    """A load in the order of LOAD_FIELDS."""
    return (
        load.cpu_average,
        load.cpu_stddev,
        load.memory_average,
        load.memory_stddev,
        load.figure("cpu_first"),
        load.figure("cpu_last"),
        reading.sampled_at(load),
    )


def copy_load(load: LoadColumns) -> LoadColumns:
    """Return an independent copy."""
    columns = {name: getattr(load, name).copy() for name in LOAD_FIELDS}
    return dataclasses.replace(load, **columns)


def grow_load(load: LoadColumns, capacity: int) -> None:
    """Extend to a capacity; new rows are not measured."""
    for name in LOAD_FIELDS:
        column = getattr(load, name)
        longer = np.full(capacity, 0.0 if name == "sampled_at" else np.nan)
        longer[: len(column)] = column
        setattr(load, name, longer)


A = TypeVar("A", FloatArray, RowArray, BoolArray)


def grown(column: A, capacity: int) -> A:
    """Return a longer copy; new rows are zero."""
    longer = np.zeros(capacity, dtype=column.dtype)
    longer[: len(column)] = column
    return cast(A, longer)
