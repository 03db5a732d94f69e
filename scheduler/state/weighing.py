"""Many selectors at once: the sum of their weights per topology domain, without a count per selector.

For pods with more terms than are worth a count each. What is asked here is answered from the label groups and
forgotten: the work and the memory are those of one attempt.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.framework import NodeSet, PodClause, PodInfo, PodQuery, PodWeights, RowArray
from scheduler.kube.primitives import Selector, Values
from scheduler.state.labelgroups import LabelGroup, LabelGroups

WeightedQuery = tuple[PodQuery, int]


class _Sum:
    """A sum of weights, and how many selectors it is the sum of."""

    __slots__ = ("number", "weight")

    def __init__(self) -> None:
        self.weight = 0
        self.number = 0

    def add(self, weight: int, number: int) -> None:
        self.weight += weight
        self.number += number


def weigh(groups: LabelGroups, terms: Iterable[WeightedQuery]) -> dict[LabelGroup, _Sum]:
    """Return the weight of each label group: the sum over the queries that mean its pods.

    A query that requires no label means nearly every group: its weight is added up for all of them, and taken from the
    few that it does not mean.
    """
    weights: defaultdict[LabelGroup, _Sum] = defaultdict(_Sum)
    everywhere: defaultdict[tuple[frozenset[str] | None, bool], _Sum] = defaultdict(_Sum)
    for (alive, clauses), total in _merged(groups, terms).items():
        namespaces, selector = clauses[0]
        if len(clauses) > 1 or (selector.required and selector.size > 1):
            for group in groups.answering(PodQuery(clauses, alive)):
                weights[group].add(total.weight, total.number)
            continue
        # The groups that carry a label of a single key are those it means, or those it does not.
        weight, number = total.weight, total.number
        if not selector.required:
            everywhere[namespaces, alive].add(weight, number)
            weight, number = -weight, -number
        keys = selector.required or selector.refused
        carrying = [group for each in keys.items() for carriers in groups.carrying(*each) for group in carriers]
        for group in carrying if len(keys) < 2 else set(carrying):
            if (namespaces is None or group.namespace in namespaces) and (group.alive or not alive):
                weights[group].add(weight, number)
    for (namespaces, alive), total in everywhere.items():
        for group in groups.of_namespaces(namespaces):
            if group.alive or not alive:
                weights[group].add(total.weight, total.number)
    return weights


def weights_by_domain(
    weights: Mapping[LabelGroup, _Sum], codes: RowArray, domains: int, nodes: NodeSet | None
) -> PodWeights:
    """Return the sums per code of the groups' weights, each times its pods; and a last entry 0."""
    rows: list[int] = []
    counts: list[int] = []
    factors: list[int] = []
    for group, total in weights.items():
        if total.number:
            rows.extend(group.rows)
            counts.extend(group.rows.values())
            factors.extend((total.weight, total.number) * len(group.rows))
    sums = PodWeights(np.zeros(domains + 1, dtype=np.int64), np.zeros(domains + 1, dtype=np.int64))
    if not rows:
        return sums
    at = np.array(rows, dtype=np.intp)
    code = codes[at]
    counted = code >= 0
    if nodes is not None:
        counted &= nodes.mask[at]
    factor = np.array(factors, dtype=np.int64).reshape(-1, 2)[counted]
    count = np.array(counts, dtype=np.int64)[counted]
    np.add.at(sums.weights, code[counted], factor[:, 0] * count)
    np.add.at(sums.counts, code[counted], factor[:, 1] * count)
    return sums


def moved_weights(
    sums: PodWeights,
    terms: Sequence[WeightedQuery],
    codes: RowArray,
    nodes: NodeSet | None,
    moves: Iterable[tuple[int, PodInfo, int]],
) -> PodWeights:
    """Return the sums after pods were put on rows (+1) or taken from them (-1)."""
    known: dict[tuple[str, bool, frozenset[tuple[str, str]]], _Sum] = {}
    weights, counts = sums.weights.copy(), sums.counts.copy()
    for row, pod, sign in moves:
        if codes[row] < 0 or (nodes is not None and not nodes.mask[row]):
            continue
        # The members of a gang mostly have the same labels.
        key = (pod.namespace, pod.deleting, frozenset(pod.labels.items()))
        if key not in known:
            known[key] = _Sum()
            for query, weight in terms:
                if query.matches(pod):
                    known[key].add(weight, 1)
        weights[codes[row]] += sign * known[key].weight
        counts[codes[row]] += sign * known[key].number
    return PodWeights(weights, counts)


def label_sets(groups: LabelGroups, selector: Selector) -> int:
    """Return with how many label groups `weigh` compares a selector, of whatever namespaces."""
    if selector.nothing:
        return 0
    if selector.required:
        return min(groups.carriers(*each) for each in selector.required.items())
    return sum(groups.carriers(key, selector.refused[key]) for key in groups.known(selector.refused))


def _merged(groups: LabelGroups, terms: Iterable[WeightedQuery]) -> dict[tuple[bool, tuple[PodClause, ...]], _Sum]:
    """Return the queries that any pod can answer, with what is true of every pod left out: most are alike then."""
    merged: defaultdict[tuple[bool, tuple[PodClause, ...]], _Sum] = defaultdict(_Sum)
    for query, weight in terms:
        clauses = []
        for clause in query.clauses:
            selector = _reduced(groups, clause.selector)
            if selector is None:
                break
            clauses.append(PodClause(clause.namespaces, selector))
        else:
            merged[query.alive, tuple(clauses)].add(weight, 1)
    return merged


def _reduced(groups: LabelGroups, selector: Selector) -> Selector | None:
    """Return the part of a selector that not every pod there is satisfies; None where no pod satisfies it."""
    if selector.nothing:
        return None
    for key, values in selector.required.items():
        known = groups.values_of(key).keys()
        if not known or (isinstance(values, frozenset) and values.isdisjoint(known)):
            return None
    refused: dict[str, Values] = {}
    for key in groups.known(selector.refused):
        values = selector.refused[key]
        carried = values & groups.values_of(key).keys() if isinstance(values, frozenset) else values
        if carried:
            refused[key] = carried
    # Its hash is known already.
    return selector if refused == selector.refused else Selector(selector.required, refused)
