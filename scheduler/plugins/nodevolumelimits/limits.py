"""What drivers say about nodes, as columns."""

import numpy as np
from msgspec import Struct, field

from scheduler.framework import BoolArray, IntArray, NodeView, Objects
from scheduler.helpers.csimigration import migrated_plugins
from scheduler.helpers.volumes import CSI_NODE
from scheduler.kube.model import CSINode

NO_LIMIT = np.iinfo(np.int64).max


def limits_of(node: CSINode | None) -> dict[str, int]:
    """Return the volumes each driver can attach to a node; a driver without a limit is absent."""
    if node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def drivers_of(node: CSINode | None) -> set[str]:
    """Return the drivers that a node has."""
    return set() if node is None else {driver.name for driver in node.spec.drivers}


class Columns(Struct):
    """Entries for rows without a node, and where a driver has no limit, are NO_LIMIT.

    Attributes:
        kinds: per row, which of `examples` the node is like in what decides whether a driver counts in-tree volumes:
            whether there is a CSINode, and the plugins it migrated.
        limits: per driver, its limit on each row.
        installed: per driver, whether each row has it; empty where nobody asks.
    """

    migration_kinds: IntArray
    examples: list[CSINode | None] = field(default_factory=list)
    limits: dict[str, IntArray] = field(default_factory=dict)
    installed: dict[str, BoolArray] = field(default_factory=dict)


class CSINodeLimits:
    """The columns, rebuilt when a CSINode changes or nodes are added or removed."""

    def __init__(self, *, with_installed: bool) -> None:
        """`with_installed`: whether `Columns.installed` is wanted."""
        self._with_installed = with_installed
        self._objects: Objects | None = None
        self._versions = (-1, -1)
        self._columns = Columns(np.zeros(0, dtype=np.int64))

    def columns(self, view: NodeView) -> Columns:
        """Return the columns for a view."""
        versions = (view.membership, view.objects.generation(CSI_NODE))
        if self._objects is not view.objects or self._versions != versions:
            self._objects, self._versions, self._columns = view.objects, versions, self._built(view)
        return self._columns

    def _built(self, view: NodeView) -> Columns:
        columns = Columns(np.zeros(view.size, dtype=np.int64))
        known: dict[frozenset[str] | None, int] = {}
        for row in view.rows.tolist():
            node: CSINode | None = view.objects.get(CSI_NODE, "", view.name(row))
            migration_kind = None if node is None else migrated_plugins(node)
            if migration_kind not in known:
                known[migration_kind] = len(known)
                columns.examples.append(node)
            columns.migration_kinds[row] = known[migration_kind]
            for driver in drivers_of(node) if self._with_installed else ():
                if driver not in columns.installed:
                    columns.installed[driver] = np.zeros(view.size, dtype=np.bool_)
                columns.installed[driver][row] = True
            for driver, limit in limits_of(node).items():
                if driver not in columns.limits:
                    columns.limits[driver] = np.full(view.size, NO_LIMIT, dtype=np.int64)
                columns.limits[driver][row] = limit
        return columns
