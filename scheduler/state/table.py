"""The node table: one row per node, one column per fact. Knows no plugin.

Facts lie in columns and not in an object per node (upstream's NodeInfo), as a plugin compares one fact of all nodes:
5,000 rows take numpy 3 to 11 us per operation, 5,000 attribute reads take Python 300 us. What few plugins compare (a
label, an image) stays in the NodeInfo, and becomes a column when a plugin first asks for it.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from scheduler.framework import (
    BoolArray,
    FloatArray,
    ImageColumn,
    IntArray,
    LabelColumn,
    LoadColumns,
    LoadReading,
    NodeInfo,
    PodAmount,
    PodInfo,
    RowArray,
)
from scheduler.state.columns import (
    LOAD_FIELDS,
    Amounts,
    Taints,
    copy_label_column,
    copy_load,
    grow_label_column,
    grow_load,
    grown,
    label_column,
    lay_out_load,
    set_label,
    set_load_row,
)
from scheduler.state.lowerpods import LowerPods

_FIRST_CAPACITY = 64
_FEW_VALUES = 64
"""Beside two per node, a label's column may have so many values before it is made again."""
_MEMBERSHIPS = itertools.count(1)
"""Numbers for `membership`, `topology` and `layout`, unique in the process: a plugin's cache can tell two tables (the
live one and a frozen copy) apart by them."""


class NodeTable:
    """Nodes by row. Rows of removed nodes are emptied and used again; `rows` lists those that hold a node."""

    def __init__(self) -> None:
        capacity = _FIRST_CAPACITY
        self.capacity = capacity
        self.size = 0
        self.infos: list[NodeInfo | None] = [None] * capacity
        self.row_of: dict[str, int] = {}
        self._free: list[int] = []
        self.amounts: dict[str, Amounts] = {name: Amounts(capacity) for name in ("cpu", "memory", "ephemeral-storage")}
        self.nonzero = {name: Amounts(capacity) for name in ("cpu", "memory")}
        self.sums: dict[PodAmount, Amounts] = {}
        self.pods = Amounts(capacity)
        self.basics: FloatArray = np.zeros((8, capacity))
        self._pack()
        # Named columns for what every profile reads; labels, images and load by key, as they are asked for.
        self.capacity_cpu: FloatArray = np.zeros(capacity)
        self.unschedulable: BoolArray = np.zeros(capacity, dtype=np.bool_)
        self.taints = Taints(capacity)
        self._labels: dict[str, LabelColumn] = {}
        self._label_nodes: Counter[str] = Counter()
        self.label_keys = 0
        self._no_label = LabelColumn(np.full(capacity, -1, dtype=np.intp))
        self._image_nodes: Counter[str] = Counter()
        self._undeclared: dict[str, dict[int, int]] = {}
        self._images: dict[str, ImageColumn | None] = {}
        self._load: dict[str, LoadColumns] = {}
        self._readings: dict[str, LoadReading] = {}
        self.lowest_priorities = LowestPriorities()
        self.lower_pods = LowerPods()
        self._rows: RowArray | None = None
        self._zeros: FloatArray = np.zeros(capacity)
        self.membership = next(_MEMBERSHIPS)
        self.topology = next(_MEMBERSHIPS)
        self.layout = next(_MEMBERSHIPS)
        self._wide: frozenset[str] = frozenset()
        self.complete = True
        self._incomplete: set[int] = set()
        self.log = RowLog()
        self.node_log = RowLog()

    # Rows -----------------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> RowArray:
        """Rows that hold a node, ascending; the same array until a node comes or goes."""
        if self._rows is None:
            self._rows = np.array(sorted(self.row_of.values()), dtype=np.intp)
        return self._rows

    @property
    def dense(self) -> bool:
        """Whether every row below `size` holds a node."""
        return len(self.row_of) == self.size

    @property
    def generation(self) -> int:
        """A number that grows with every change of a column."""
        return self.log.end

    def touch(self, row: int) -> None:
        """Note that something in a row changed."""
        self.log.add(row)

    def changed_since(self, generation: int) -> set[int] | None:
        """Return the rows changed since a generation; None when the log does not reach back that far."""
        rows = self.log.since(generation)
        return None if rows is None else set(rows.tolist())

    # Nodes ----------------------------------------------------------------------------------------------------------

    def set_node(self, info: NodeInfo) -> int:
        """Add or replace a node, leaving what its pods request alone; returns its row."""
        row = self.row_of.get(info.name)
        if row is None:
            row = self._new_row(info.name)
        old = self.infos[row]
        self.infos[row] = info
        for name in info.allocatable:
            if name not in self.amounts:
                self._add_resource(name)
        for name, amounts in self.amounts.items():
            amounts.set_allocatable(row, info.allocatable.get(name, 0))
        self.pods.set_allocatable(row, info.allowed_pods)
        self.capacity_cpu[row] = info.capacity_cpu
        self.unschedulable[row] = info.unschedulable
        self._note_facts(row, old, info)
        self._check_amounts()
        if old is None or old.labels != info.labels:
            self._drop_label_columns()
            self.topology = next(_MEMBERSHIPS)
        elif old.taints != info.taints:
            self.topology = next(_MEMBERSHIPS)
        self.node_log.add(row)
        self.touch(row)
        return row

    def add_nodes(self, infos: Sequence[NodeInfo]) -> Sequence[int]:
        """Add nodes that are not here, each once; returns their rows. As `set_node` for each, but column by column."""
        if self._free or not infos:
            return [self.set_node(info) for info in infos]
        rows = range(self.size, self.size + len(infos))
        self._reserve(rows.stop)
        self.size = rows.stop
        place = slice(rows.start, rows.stop)
        self.infos[place] = infos
        self.row_of.update(zip((info.name for info in infos), rows, strict=True))
        for name in dict.fromkeys(name for info in infos for name in info.allocatable):
            if name not in self.amounts:
                self._add_resource(name)
        for name, amounts in self.amounts.items():
            amounts.set_all_allocatable(rows, [info.allocatable.get(name, 0) for info in infos])
        self.pods.set_all_allocatable(rows, [info.allowed_pods for info in infos])
        self.capacity_cpu[place] = [info.capacity_cpu for info in infos]
        self.unschedulable[place] = [info.unschedulable for info in infos]
        for row, info in zip(rows, infos, strict=True):
            self._note_facts(row, None, info)
        self._check_amounts()
        self._drop_label_columns()
        self._membership_changed()
        self.node_log.extend(rows)
        self.log.extend(rows)
        return rows

    def remove_node(self, name: str) -> NodeInfo | None:
        """Remove a node and empty its row; returns the node."""
        row = self.row_of.pop(name, None)
        if row is None:
            return None
        info = self.infos[row]
        self.infos[row] = None
        for amounts in (*self.amounts.values(), *self.nonzero.values(), *self.sums.values(), self.pods):
            amounts.clear(row)
        self.capacity_cpu[row] = 0.0
        self.unschedulable[row] = False
        self.taints.set(row, ())
        for column in self._labels.values():
            set_label(column, row, None)
        for sums in self._undeclared.values():
            sums.pop(row, None)
        self._count_labels(info, None)
        for load in self._load.values():
            for field in LOAD_FIELDS:
                getattr(load, field)[row] = 0.0 if field == "sampled_at" else np.nan
        self._forget_images(info, None)
        self._free.append(row)
        self._incomplete.discard(row)
        self._membership_changed()
        self._check_amounts()
        self.node_log.add(row)
        self.touch(row)
        return info

    def _note_facts(self, row: int, old: NodeInfo | None, info: NodeInfo) -> None:
        """Set what is not an amount: taints, labels, images, and a new node's load."""
        self._note_incomplete(row, info)
        self.taints.set(row, info.taints)
        if old is None or old.labels != info.labels:
            self._count_labels(old, info)
            for key, column in self._labels.items():
                set_label(column, row, info.labels.get(key))
        self._forget_images(old, info)
        if old is None:
            for source, load in self._load.items():
                set_load_row(load, row, self._readings[source], info.name)

    def _add_resource(self, name: str) -> Amounts:
        amounts = self.amounts[name] = Amounts(self.capacity)
        for row, amount in self._undeclared.pop(name, {}).items():
            amounts.add(row, amount)
        self.layout = next(_MEMBERSHIPS)
        return amounts

    def _add_undeclared(self, name: str, row: int, amount: int) -> None:
        """Add to what pods request of a resource that no node has.

        Sparse: whoever may create pods may name any number of resources, and a column each would be the end.
        """
        sums = self._undeclared.setdefault(name, {})
        if total := sums.get(row, 0) + amount:
            sums[row] = total
            return
        sums.pop(row, None)
        if not sums:
            del self._undeclared[name]

    def _count_labels(self, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """Note which labels nodes have: only those get a column, as anybody's selector may mention any others."""
        before = len(self._label_nodes)
        if new is not None:
            nodes = self._label_nodes
            for key in new.labels:
                nodes[key] += 1
        if len(self._label_nodes) != before:
            self.label_keys += 1
        for key in old.labels if old is not None else ():
            self._label_nodes[key] -= 1
            if not self._label_nodes[key]:
                del self._label_nodes[key]
                self._labels.pop(key, None)
                self.label_keys += 1

    def _drop_label_columns(self) -> None:
        """Drop the columns with many values that no node has any more: each replaced node leaves its host name. They
        are made again without them when next asked for; the caller changes `topology`."""
        most = 2 * len(self.row_of) + _FEW_VALUES
        for key in [key for key, column in self._labels.items() if len(column.values) > most]:
            del self._labels[key]
            self.layout = next(_MEMBERSHIPS)

    def has_label(self, key: str) -> bool:
        """Tell whether any node has a label; `label_keys` is a number that changes when that does for any key."""
        return key in self._label_nodes

    def _note_incomplete(self, row: int, info: NodeInfo) -> None:
        """Keep `complete` true to its word: that every node has cpu and memory."""
        if info.allocatable.get("cpu", 0) > 0 and info.allocatable.get("memory", 0) > 0:
            self._incomplete.discard(row)
        else:
            self._incomplete.add(row)

    def _check_amounts(self) -> None:
        wide = frozenset([name for name, amounts in self.amounts.items() if amounts.wide_rows])
        complete = not self._incomplete
        if wide != self._wide or complete != self.complete:
            self._wide, self.complete = wide, complete
            self.layout = next(_MEMBERSHIPS)

    def _new_row(self, name: str) -> int:
        if self._free:
            # Columns stay as short as the cluster was large; an autoscaler would make them grow for ever.
            row = self._free.pop()
        else:
            self._reserve(self.size + 1)
            row = self.size
            self.size += 1
        self.row_of[name] = row
        self._membership_changed()
        return row

    def _membership_changed(self) -> None:
        self._rows = None
        self.membership = next(_MEMBERSHIPS)
        self.topology = next(_MEMBERSHIPS)
        # A column ends with the last row, so that it is another array once there is one more.
        self.layout = next(_MEMBERSHIPS)

    def _reserve(self, size: int) -> None:
        capacity = self.capacity
        while capacity < size:
            capacity *= 2
        if capacity > self.capacity:
            self._grow(capacity)

    def _grow(self, capacity: int) -> None:
        for amounts in (*self.amounts.values(), *self.nonzero.values(), *self.sums.values(), self.pods):
            amounts.grow(capacity)
        self.infos += [None] * (capacity - self.capacity)
        self.capacity_cpu = grown(self.capacity_cpu, capacity)
        self.unschedulable = grown(self.unschedulable, capacity)
        self.taints.grow(capacity)
        for column in self._labels.values():
            grow_label_column(column, capacity)
        self._no_label = LabelColumn(np.full(capacity, -1, dtype=np.intp))
        for load in self._load.values():
            grow_load(load, capacity)
        self._images.clear()
        self._zeros = np.zeros(capacity)
        self.capacity = capacity
        self._pack()

    def _pack(self) -> None:
        """Let the columns most pods ask about lie in one array, of which the single columns are then views.

        One `take` on the block costs little more than one on a column, and NodeResourcesFit and the two default score
        plugins need all eight: 7,500 became 11,400 decisions per second with 200 classes (docs/performance.md).
        """
        cpu, memory, pods = self.amounts["cpu"], self.amounts["memory"], self.pods
        busy = self.nonzero["cpu"], self.nonzero["memory"]
        columns = [cpu.allocatable, memory.allocatable, cpu.requested, memory.requested]
        self.basics = np.array([*columns, *(amounts.requested for amounts in busy), pods.allocatable, pods.requested])
        cpu.allocatable, memory.allocatable, cpu.requested, memory.requested = self.basics[:4]
        busy[0].requested, busy[1].requested, pods.allocatable, pods.requested = self.basics[4:]

    # Usage ----------------------------------------------------------------------------------------------------------

    def add_usage(self, row: int, pod: PodInfo, sign: int) -> None:
        """Add a pod's requests to a row, or take them away (sign -1)."""
        for name, amount in pod.requests.items():
            amounts = self.amounts.get(name)
            if amounts is not None:
                amounts.add(row, sign * amount)
            elif amount:
                self._add_undeclared(name, row, sign * amount)
        self.nonzero["cpu"].add(row, sign * pod.nonzero_cpu)
        self.nonzero["memory"].add(row, sign * pod.nonzero_memory)
        for amount_of, amounts in self.sums.items():
            amounts.add(row, sign * amount_of(pod))
        self.pods.add(row, sign)
        self.touch(row)

    def keep_sum(self, amount: PodAmount, everyone: Iterable[tuple[int, PodInfo]]) -> None:
        """Sum an amount up, and keep the sum from now on: few profiles ask for any."""
        amounts = self.sums[amount] = Amounts(self.capacity)
        for row, pod in everyone:
            amounts.add(row, amount(pod))

    def column(self, resource: str, field: str) -> FloatArray:
        """Return `allocatable` or `requested` of a resource; zeros for one that no node has."""
        amounts = self.amounts.get(resource)
        if amounts is not None:
            column: FloatArray = getattr(amounts, field)
            return column[: self.size]
        sums = self._undeclared.get(resource) if field == "requested" else None
        if not sums:
            return self._zeros[: self.size]
        column = np.zeros(self.size)
        for row, amount in sums.items():
            column[row] = amount
        return column

    # Labels, images, load -------------------------------------------------------------------------------------------

    def labels(self, key: str) -> LabelColumn:
        """Return the column of a label that nodes have, built when first asked for and kept up to date from then on;
        for other labels, one that says so.
        """
        if key not in self._label_nodes:
            return self._no_label
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = label_column(key, self.infos, self.capacity)
        return column

    def image(self, name: str) -> ImageColumn | None:
        """Return where an image is; looked up once, until any node's images change."""
        if name not in self._image_nodes:
            return None
        if name not in self._images:
            sizes = {
                row: info.images[name]
                for row in self.row_of.values()
                if (info := self.infos[row]) and name in info.images
            }
            column = None
            if sizes:
                present = np.zeros(self.capacity, dtype=np.bool_)
                present[list(sizes)] = True
                column = ImageColumn(present, sizes[min(sizes)], len(sizes))
            self._images[name] = column
        return self._images[name]

    def lay_out_load(self, reading: LoadReading) -> LoadColumns:
        """Return a reading by row, as `set_load` will show it."""
        return lay_out_load(reading, self.row_of, self.capacity)

    def set_load(self, reading: LoadReading) -> tuple[str, ...]:
        """Replace what is known of a load source by a new reading; returns the nodes that have no load in it, sorted.

        The reading's loads are by the nodes' names. It is kept, as a node that comes back later gets its load from it.
        """
        previous = self._load.get(reading.source)
        load = self.lay_out_load(reading)
        load.version = previous.version + 1 if previous is not None else 1
        self._load[reading.source] = load
        self._readings[reading.source] = reading
        self.log.forget()
        return tuple(sorted(name for name in self.row_of if name not in reading.loads))

    def _forget_images(self, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """Forget where the images are whose presence on a node has changed."""
        if old is not None and new is not None and old.images == new.images:
            return
        for name in new.images if new is not None else ():
            self._image_nodes[name] += 1
        for name in old.images if old is not None else ():
            self._image_nodes[name] -= 1
            if not self._image_nodes[name]:
                del self._image_nodes[name]
        if old is None or new is None:
            self._images.clear()
        else:
            for name in [image for image in self._images if old.images.get(image) != new.images.get(image)]:
                del self._images[name]

    @property
    def measured_until(self) -> float:
        """End of the averaging window, seconds since the epoch, of the source that is furthest behind."""
        return min((reading.window_end for reading in self._readings.values()), default=float("-inf"))

    def load(self, source: str) -> LoadColumns | None:
        """Return the latest answer of a load source."""
        return self._load.get(source)

    def load_sources(self) -> Mapping[str, LoadColumns]:
        """Return the latest answers by source."""
        return self._load

    def copy(self) -> "NodeTable":
        """Return an independent copy, for readers that outlive the next change."""
        twin = NodeTable()
        twin.capacity, twin.size = self.capacity, self.size
        twin.infos, twin.row_of, twin._free = list(self.infos), dict(self.row_of), list(self._free)
        twin.amounts = {name: amounts.copy() for name, amounts in self.amounts.items()}
        twin.nonzero = {name: amounts.copy() for name, amounts in self.nonzero.items()}
        twin.sums = {amount: amounts.copy() for amount, amounts in self.sums.items()}
        twin.complete, twin._incomplete = self.complete, set(self._incomplete)
        twin.pods = self.pods.copy()
        twin._pack()
        twin.capacity_cpu, twin.unschedulable = self.capacity_cpu.copy(), self.unschedulable.copy()
        twin.taints = self.taints.copy()
        twin._labels = {key: copy_label_column(column) for key, column in self._labels.items()}
        twin._label_nodes, twin._image_nodes = Counter(self._label_nodes), Counter(self._image_nodes)
        twin._no_label = LabelColumn(self._no_label.codes)
        twin._undeclared = {name: dict(sums) for name, sums in self._undeclared.items()}
        twin._images = dict(self._images)
        # An answer's columns are replaced as a whole by the next one, but a new node fills its row in place.
        twin._readings = dict(self._readings)
        twin._zeros = np.zeros(self.capacity)
        twin.log.forget(self.generation)
        twin._load = {source: copy_load(load) for source, load in self._load.items()}
        return twin


_CAPACITY = 131_072
"""Entries kept at most (1 MB): a reader further behind than that looks at all rows, which costs it less by then."""


class RowLog:
    """Which rows changed, in order: readers keep a position and look at what came after it. The log forgets its older
    half when it is full.

    A log, and not a dirty flag per row, as there are many readers (each class of pods, the dry runs of each class),
    which catch up at different times. A generation number per row would do as well, but finding the changed rows would
    mean comparing all of them each time.
    """

    __slots__ = ("_rows", "_used", "end", "start")

    def __init__(self) -> None:
        self._rows: RowArray = np.zeros(64, dtype=np.intp)
        self.start = 0
        self._used = 0
        self.end = 0
        """Position one past the newest entry. It only grows."""

    def add(self, row: int) -> None:
        """Append a row."""
        if self._used == len(self._rows):
            self._make_room(1)
        self._rows[self._used] = row
        self._used += 1
        self.end += 1

    def extend(self, rows: range) -> None:
        """Append many rows."""
        if len(rows) > _CAPACITY // 2:
            self.forget(self.end + len(rows))
            return
        if self._used + len(rows) > len(self._rows):
            self._make_room(len(rows))
        self._rows[self._used : self._used + len(rows)] = rows
        self._used += len(rows)
        self.end += len(rows)

    def since(self, position: int) -> RowArray | None:
        """Return the rows from a position on, repetitions included; None when the log does not reach back that far.

        The array is the log's own: read it before the next change.
        """
        if position < self.start:
            return None
        return self._rows[position - self.start : self._used]

    def forget(self, position: int | None = None) -> None:
        """Drop all entries and go on at a later position; a reader with an earlier one has to look at every row."""
        self.end = self.end + 1 if position is None else position
        self.start = self.end
        self._used = 0

    def _make_room(self, more: int) -> None:
        length = len(self._rows)
        while length < min(self._used + more, _CAPACITY):
            length *= 2
        if length > len(self._rows):
            longer = np.zeros(length, dtype=np.intp)
            longer[: self._used] = self._rows[: self._used]
            self._rows = longer
        if self._used + more <= length:
            return
        half = self._used // 2
        self._rows[:half] = self._rows[self._used - half : self._used].copy()
        self.start += self._used - half
        self._used = half


NO_PODS = np.iinfo(np.int64).max
"""Stands for a node without pods: no pod's priority is above it, so no pod preempts there."""


class LowestPriorities:
    """A column that is brought up to date when it is read.

    Only preemption reads it, so placing pods must not pay for it: a minimum cannot be kept by adding and subtracting,
    and would need a pass over the node's pods for each one that leaves.
    """

    def __init__(self) -> None:
        self._column: IntArray = np.zeros(0, dtype=np.int64)
        self._generation = -1

    def column(
        self, nodes: Sequence[NodeInfo | None], size: int, log: RowLog, pods_on: Callable[[str], Iterable[PodInfo]]
    ) -> IntArray:
        """Return the column, of `size` entries.

        Args:
            nodes: the node in each row, None in an empty one; there may be more than `size`.
            size: rows in use.
            log: the rows that changed; always the same log.
            pods_on: the pods on a node, by the node's name.
        """
        if self._generation == log.end and len(self._column) == size:
            return self._column
        changed = log.since(self._generation) if len(self._column) == size else None
        rows: Iterable[int] = range(size) if changed is None else set(changed.tolist())
        if changed is None:
            self._column = np.full(size, NO_PODS, dtype=np.int64)
        for row in rows:
            node = nodes[row]
            pods = pods_on(node.name) if node is not None else ()
            self._column[row] = min((pod.priority for pod in pods), default=NO_PODS)
        self._generation = log.end
        return self._column
