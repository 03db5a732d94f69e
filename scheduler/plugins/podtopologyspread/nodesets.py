"""Which nodes count for a constraint, remembered while nodes keep their labels and taints."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from scheduler.framework import BoolArray, IntArray, NodeSet, NodeView, PodInfo
from scheduler.helpers import required_affinity_mask, untolerated_mask
from scheduler.plugins.podtopologyspread.constraints import Constraint

_MAX_CACHED = 512
_FEW_KEYS = 8
"""Beyond so many topology keys the constraints share one mask, for nodes that have all of them."""
_NO_NODE = ""
"""Stands for all keys that no node has: no label's key is empty."""


class CountedNodes(Struct):
    """The nodes that count for a constraint, and the domains they make.

    Attributes:
        nodes: None where every node that has the constraint's key counts.
        present: domains with a node that counts, by code; the last entry (no such label) is False.
        number: how many domains that is.
    """

    nodes: NodeSet | None
    present: BoolArray
    number: int


class NodeSets:
    """The memory; one per plugin instance."""

    def __init__(self) -> None:
        self._topology = -1
        self._counted: dict[tuple[object, ...], CountedNodes] = {}
        self._masks: dict[tuple[object, ...], BoolArray] = {}

    def counted(self, view: NodeView, pod: PodInfo, constraint: Constraint, keys: Sequence[str]) -> CountedNodes:
        """Return the nodes that have all `keys` and pass the constraint's policies for a pod."""
        if view.topology != self._topology or len(self._counted) >= _MAX_CACHED:
            self._counted.clear()
            self._masks.clear()
            self._topology = view.topology
        column = view.labels(constraint.topology_key)
        if not column.values:
            return CountedNodes(None, np.zeros(1, dtype=np.bool_), 0)
        spec = pod.spec
        affinity = constraint.honor_affinity and (not spec.node_selector.everything or spec.required is not None)
        if len(keys) > _FEW_KEYS:
            others = every_key(view, keys)
        else:
            others = tuple(sorted({key for key in keys if key != constraint.topology_key}))
        # Pods that ask nothing of nodes share their sets whatever class they are of.
        class_key = spec.class_key if affinity or constraint.honor_taints else b""
        token = (class_key, affinity, constraint.honor_taints, others)
        counted = self._counted.get((constraint.topology_key, token))
        if counted is None:
            mask = self._masks.get(token)
            if mask is None:
                mask = self._mask(view, pod, affinity, constraint.honor_taints, others)
                if mask is not None and len(keys) > _FEW_KEYS:
                    self._masks[token] = mask
            counted = self._counted[constraint.topology_key, token] = _counted(
                view, constraint.topology_key, token, mask
            )
        return counted

    @staticmethod
    def _mask(view: NodeView, pod: PodInfo, affinity: bool, taints: bool, keys: Sequence[str]) -> BoolArray | None:
        """Return the rows of the table that count; None for all.

        Args:
            view: the nodes.
            pod: the pod whose requirements and tolerations apply.
            affinity: whether nodes must match the pod's nodeSelector and affinity (nodeAffinityPolicy Honor).
            taints: whether nodes must have no untolerated taint (nodeTaintsPolicy Honor).
            keys: labels that nodes must have.
        """
        rows = np.arange(view.size, dtype=np.intp)
        masks: list[BoolArray] = [view.labels(key).codes >= 0 for key in keys]
        if affinity:
            matching = required_affinity_mask(view, rows, pod.spec)
            if matching is not None:
                masks.append(matching)
        if taints:
            untolerated = untolerated_mask(view, rows, pod.spec.tolerations)
            if untolerated is not None:
                masks.append(~untolerated)
        return np.logical_and.reduce(masks) if masks else None


def every_key(view: NodeView, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that nodes must have, as a key for nodes that have all of them."""
    return tuple(sorted(set(keys))) if all(view.labels(key).values for key in keys) else (_NO_NODE,)


def _counted(view: NodeView, key: str, token: tuple[object, ...], mask: BoolArray | None) -> CountedNodes:
    column = view.labels(key)
    codes = column.codes[view.rows] if mask is None else column.codes[view.rows[mask[view.rows]]]
    present = np.zeros(len(column.values) + 1, dtype=np.bool_)
    present[codes] = True
    present[-1] = False
    nodes = None if mask is None else NodeSet(token, mask)
    return CountedNodes(nodes, present, int(np.count_nonzero(present)))


def matching_pods(
    view: NodeView, pod: PodInfo, constraint: Constraint, counted: CountedNodes, *, kept: bool
) -> IntArray:
    """Return the pods that match a constraint, by domain; `kept`: whether the count is kept for the next pod."""
    query = constraint.query(pod.namespace)
    if query is None:
        return np.zeros(len(counted.present), dtype=np.int64)
    if kept:
        return view.pods_by_domain(query, constraint.topology_key, counted.nodes)
    return view.weigh_pods([(query, 1)], constraint.topology_key, counted.nodes).counts
