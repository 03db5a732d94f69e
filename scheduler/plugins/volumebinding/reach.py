"""Which nodes can reach a volume."""

import numpy as np

from scheduler.framework import NodeView, RowArray, gather_codes
from scheduler.helpers import selector_mask
from scheduler.helpers.volumes import volume_affinity
from scheduler.kube.model import NodeSelector, PersistentVolume
from scheduler.kube.primitives.selectors import Operator

_NOWHERE: RowArray = np.zeros(0, dtype=np.intp)


class Reach:
    """Answers for some rows of a view, as indexes into them.

    A cluster of local disks has a volume per node, each bound to one host name: to look every one of them up among all
    nodes would take the square of their number, so nodes are sorted by label value once.
    """

    def __init__(self, view: NodeView, rows: RowArray) -> None:
        self._view = view
        self._rows = rows
        self._by_value: dict[str, dict[str, RowArray]] = {}

    def of(self, volume: PersistentVolume) -> RowArray | None:
        """Return where a volume can be used; None for everywhere."""
        affinity = volume.spec.node_affinity
        return self.selected(affinity.required if affinity is not None else None)

    def selected(self, source: NodeSelector | None) -> RowArray | None:
        """Return where a volume with this node affinity can be used; None for everywhere."""
        if source is None:
            return None
        selector = volume_affinity(source)
        if len(selector.terms) == 1 and selector.terms[0].error is None:
            requirements = selector.terms[0].labels.requirements
            if len(requirements) == 1:
                (requirement,) = requirements
                if requirement.operator is Operator.IN:
                    return self._valued(requirement.key, requirement.values)
        return np.flatnonzero(selector_mask(self._view, self._rows, selector))

    def _valued(self, key: str, values: frozenset[str]) -> RowArray:
        groups = self._by_value.get(key)
        if groups is None:
            groups = self._by_value[key] = self._grouped(key)
        groups_found = [groups[value] for value in values if value in groups]
        if len(groups_found) == 1:
            return groups_found[0]
        return np.concatenate(groups_found) if groups_found else _NOWHERE

    def _grouped(self, key: str) -> dict[str, RowArray]:
        column = self._view.labels(key)
        codes = gather_codes(self._view, column.codes, self._rows)
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        groups = np.split(order, starts[1:])
        return {column.values[code]: group for code, group in zip(present.tolist(), groups, strict=True) if code >= 0}
