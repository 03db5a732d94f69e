"""Node selectors and taints over columns: a key is decided once per distinct label value, a taint once per distinct set
of taints, then looked up for every node."""

from collections.abc import Sequence

import numpy as np

from scheduler.framework import BoolArray, NodeInfo, NodeView, RowArray, SpecInfo, gather_codes
from scheduler.helpers.tolerations import has_untolerated_taint, relevant_tolerations
from scheduler.kube.model import Toleration
from scheduler.kube.primitives import ANY_VALUE, CompiledNodeSelector, CompiledNodeSelectorTerm, Selector, Values


def labels_mask(view: NodeView, rows: RowArray, selector: Selector) -> BoolArray | None:
    """Return which rows have labels that a selector selects; None when it selects everything."""
    if selector.everything:
        return None
    if selector.nothing or not all(view.labels(key).values for key in selector.required):
        return np.zeros(len(rows), dtype=np.bool_)
    mask: BoolArray | None = None
    for key, values in selector.required.items():
        has_value = _has_value(view, rows, key, values)
        mask = has_value if mask is None else mask & has_value
    for key, values in selector.refused.items():
        if view.labels(key).values:
            others = ~_has_value(view, rows, key, values)
            mask = others if mask is None else mask & others
    return np.ones(len(rows), dtype=np.bool_) if mask is None else mask


def _has_value(view: NodeView, rows: RowArray, key: str, values: Values) -> BoolArray:
    """Return which rows have a label with one of some values."""
    column = view.labels(key)
    codes = gather_codes(view, column.codes, rows)
    if values == ANY_VALUE:
        present: BoolArray = codes >= 0
        return present
    if isinstance(values, frozenset):
        wanted = [column.index[value] for value in values if value in column.index]
    else:
        wanted = [code for value, code in column.index.items() if value in values]
    if not wanted:
        return np.zeros(len(codes), dtype=np.bool_)
    if len(wanted) == 1:
        mask: BoolArray = codes == wanted[0]
        return mask
    # One entry per value and a last one for "absent", which code -1 picks.
    is_wanted = np.zeros(len(column.values) + 1, dtype=np.bool_)
    is_wanted[wanted] = True
    return is_wanted.take(codes, mode="wrap")


def term_mask(view: NodeView, rows: RowArray, term: CompiledNodeSelectorTerm) -> BoolArray:
    """Return which rows satisfy one term; none where the term is invalid."""
    if term.error is not None or term.no_node:
        return np.zeros(len(rows), dtype=np.bool_)
    mask = labels_mask(view, rows, term.labels)
    if mask is None:
        mask = np.ones(len(rows), dtype=np.bool_)
    if term.names is not None:
        mask &= _is_named(view, rows, term.names)
    if term.other_names:
        mask &= ~_is_named(view, rows, term.other_names)
    return mask


def _is_named(view: NodeView, rows: RowArray, names: frozenset[str]) -> BoolArray:
    named: BoolArray = np.isin(rows, [view.row(name) for name in names])
    return named


def selector_mask(view: NodeView, rows: RowArray, selector: CompiledNodeSelector) -> BoolArray:
    """Return which rows satisfy any of the terms."""
    mask = np.zeros(len(rows), dtype=np.bool_)
    for term in selector.terms:
        mask |= term_mask(view, rows, term)
        if mask.all():
            break
    return mask


def required_affinity_mask(view: NodeView, rows: RowArray, spec: SpecInfo) -> BoolArray | None:
    """Return which rows satisfy a pod's nodeSelector and required affinity (GetRequiredNodeAffinity.Match); None where
    the pod requires nothing and all do."""
    mask = labels_mask(view, rows, spec.node_selector)
    if spec.required is not None:
        terms = selector_mask(view, rows, spec.required)
        mask = terms if mask is None else mask & terms
    return mask


def untolerated_mask(view: NodeView, rows: RowArray, tolerations: Sequence[Toleration]) -> BoolArray | None:
    """Return which rows have a NoSchedule or NoExecute taint that is not tolerated; None where none has.

    Each distinct set of taints is looked at once, not each node.
    """
    column = view.taints
    tolerations = relevant_tolerations(tolerations, column.classes)
    untolerated = [has_untolerated_taint(taints, tolerations) for taints in column.classes]
    if not any(untolerated):
        return None
    mask: BoolArray = np.array(untolerated, dtype=np.bool_)[gather_codes(view, column.codes, rows)]
    return mask


def node_matches(spec: SpecInfo, node: NodeInfo) -> bool:
    """Tell whether one node satisfies a pod's nodeSelector and required affinity, as queueing hints ask."""
    if not spec.node_selector.matches(node.labels):
        return False
    return spec.required is None or spec.required.matches(node.name, node.labels)
