"""Node selectors and taints over columns: a requirement is decided once per distinct label value, a taint once per
distinct set of taints, then looked up for every node."""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.framework import BoolArray, LabelColumn, NodeInfo, NodeView, RowArray, SpecInfo, gather_codes
from scheduler.helpers.tolerations import has_untolerated_taint, relevant_tolerations
from scheduler.kube.model import Toleration
from scheduler.kube.primitives import (
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    Requirement,
    SelectorOperator,
)


def requirement_mask(view: NodeView, rows: RowArray, requirement: Requirement) -> BoolArray:
    """Return which rows satisfy one requirement on labels."""
    column = view.labels(requirement.key)
    if not column.values:
        return np.full(len(rows), requirement.matches({}), dtype=np.bool_)
    codes = gather_codes(view, column.codes, rows)
    absent = codes < 0
    match requirement.operator:
        case SelectorOperator.EXISTS:
            return ~absent
        case SelectorOperator.DOES_NOT_EXIST:
            return absent
        case SelectorOperator.IN:
            return _is_one_of(column, codes, requirement.values)
        case SelectorOperator.NOT_IN:
            return ~_is_one_of(column, codes, requirement.values)
        case _:
            # One entry per value and a last one for "absent", which code -1 picks.
            verdicts = [requirement.matches({requirement.key: value}) for value in column.values]
            table: BoolArray = np.array([*verdicts, False], dtype=np.bool_)
            mask: BoolArray = table[codes]
            return mask


def _is_one_of(column: LabelColumn, codes: RowArray, values: frozenset[str]) -> BoolArray:
    wanted = [column.index[value] for value in values if value in column.index]
    if not wanted:
        return np.zeros(len(codes), dtype=np.bool_)
    if len(wanted) == 1:
        mask: BoolArray = codes == wanted[0]
        return mask
    # One entry per value and a last one for "absent", which code -1 picks.
    is_wanted = np.zeros(len(column.values) + 1, dtype=np.bool_)
    is_wanted[wanted] = True
    return is_wanted.take(codes, mode="wrap")


def labels_mask(view: NodeView, rows: RowArray, wanted: Mapping[str, str]) -> BoolArray | None:
    """Return which rows have all labels of `spec.nodeSelector`; None when it is empty and all have."""
    mask: BoolArray | None = None
    for key, value in wanted.items():
        column = view.labels(key)
        code = column.index.get(value)
        if code is None:
            return np.zeros(len(rows), dtype=np.bool_)
        has_value = gather_codes(view, column.codes, rows) == code
        mask = has_value if mask is None else mask & has_value
    return mask


def term_mask(view: NodeView, rows: RowArray, term: CompiledNodeSelectorTerm) -> BoolArray:
    """Return which rows satisfy one term; none where the term is invalid."""
    if term.error is not None:
        return np.zeros(len(rows), dtype=np.bool_)
    mask = np.ones(len(rows), dtype=np.bool_)
    for requirement in term.labels.requirements:
        if view.labels(requirement.key).values:
            mask &= requirement_mask(view, rows, requirement)
        elif not requirement.matches({}):
            return np.zeros(len(rows), dtype=np.bool_)
    for field in term.fields:
        if field.key != "metadata.name":
            mask &= field.negated is not (field.value == "")
            continue
        is_named = rows == view.row(field.value)
        mask &= ~is_named if field.negated else is_named
    return mask


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
    if any(node.labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    return spec.required is None or spec.required.matches(node.name, node.labels)
