"""Many selectors at once: the sum of their weights per topology domain, without a count per selector.

For pods with more terms than are worth a count each. What is asked here is answered from the label groups and
forgotten: the work and the memory are those of one attempt.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.framework import NodeSet, PodClause, PodInfo, PodQuery, PodWeights, RowArray
from scheduler.kube.primitives import Requirement, Selector, SelectorOperator
from scheduler.state.labelgroups import LabelGroup, LabelGroups, is_negative

WeightedQuery = tuple[PodQuery, int]


_Requirements = frozenset[Requirement]
_Clauses = tuple[tuple[frozenset[str] | None, _Requirements], ...]
_TRUE: _Requirements = frozenset()


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

    A query without a positive requirement means nearly every group: its weight is added up for all of them, and taken
    from the few that it does not mean.
    """
    weights: defaultdict[LabelGroup, _Sum] = defaultdict(_Sum)
    everywhere: defaultdict[tuple[frozenset[str] | None, bool], _Sum] = defaultdict(_Sum)
    for (alive, clauses), total in _merged(groups, terms).items():
        namespaces, requirements = clauses[0]
        if len(clauses) > 1 or not (len(requirements) < 2 or all(map(is_negative, requirements))):
            query = PodQuery(tuple(PodClause(names, Selector(every)) for names, every in clauses), alive)
            for group in groups.answering(query):
                weights[group].add(total.weight, total.number)
            continue
        # The groups that carry a label of a single requirement are those it means, or those it does not.
        weight, number = total.weight, total.number
        if all(map(is_negative, requirements)):
            everywhere[namespaces, alive].add(weight, number)
            weight, number = -weight, -number
        carrying = [group for each in requirements for groups_ in groups.carrying(each) for group in groups_]
        for group in carrying if len(requirements) < 2 else set(carrying):
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
    """Return how many requirements `weigh` compares with label groups for a selector, of whatever namespaces."""
    if selector.nothing:
        return 0
    positive = [groups.carriers(requirement) for requirement in selector.requirements if not is_negative(requirement)]
    if positive:
        return min(positive) * len(selector.requirements)
    return sum(map(groups.carriers, selector.requirements))


def _merged(groups: LabelGroups, terms: Iterable[WeightedQuery]) -> dict[tuple[bool, _Clauses], _Sum]:
    """Return the queries that any pod can answer, with what is true of every pod left out: most are alike then."""
    merged: defaultdict[tuple[bool, _Clauses], _Sum] = defaultdict(_Sum)
    for query, weight in terms:
        clauses = []
        for clause in query.clauses:
            requirements = _reduced(groups, clause.selector)
            if requirements is None:
                break
            clauses.append((clause.namespaces, requirements))
        else:
            merged[query.alive, tuple(clauses)].add(weight, 1)
    return merged


def _reduced(groups: LabelGroups, selector: Selector) -> _Requirements | None:
    """Return the requirements that not every pod there is satisfies; None where no pod satisfies one of them."""
    if selector.nothing:
        return None
    kept: list[Requirement] = []
    same = True
    for requirement in selector.requirements:
        values = groups.values_of(requirement.key).keys()
        if not is_negative(requirement):
            if not values or (requirement.operator is SelectorOperator.IN and values.isdisjoint(requirement.values)):
                return None
            kept.append(requirement)
        elif values and requirement.operator is SelectorOperator.NOT_IN:
            same = False
            if known := values & requirement.values:
                kept.append(Requirement(requirement.key, requirement.operator, frozenset(known)))
        elif values:
            kept.append(requirement)
        else:
            same = False
    if same:
        # Its hash is known already.
        return selector.requirements
    return frozenset(kept) if kept else _TRUE
