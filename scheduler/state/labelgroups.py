"""Pods on nodes by their labels, so that a selector is answered by looking at the few label sets it may mean.

A *label group* is the pods that agree in namespace, in whether they are being deleted, and in all labels. Groups are
listed by label. A selector that requires a label is compared with the groups of that label only; one that requires none
is true of pods without any label, so only the groups that carry one of its keys have to be compared. A key that
no pod carries costs nothing, and no question changes the groups: what a pod of a tenant asks for cannot make the next
pod of another one slower. (Classes by the keys that selectors mention were rebuilt from all pods for each new key, and
kept it for ever: 1,000 keys of one pod took minutes.)
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from scheduler.framework import NodeSet, PodClause, PodInfo, PodQuery, PodWeights, RowArray
from scheduler.kube.primitives import ANY_VALUE, Selector, Values
from scheduler.state.tallies import SumPool, Tally

LabelKey = tuple[str, str | None]
"""A label, or with None all labels of a key."""
_GroupKey = tuple[str, bool, frozenset[tuple[str, str]]]
_NO_VALUES: Mapping[str, Collection["LabelGroup"]] = {}
_MAX_LISTED = 32
"""Labels that one selector is listed under. A selector of a tenant may name tens of thousands, and each entry takes
300 bytes; one comparison with a pod that has any of them costs less than a microsecond."""


class QueryCount(Tally):
    """The count of the pods that a query asks for; `unasked`: pods counted since somebody last asked."""

    __slots__ = ("query", "unasked")

    def __init__(self, query: PodQuery, pool: SumPool) -> None:
        super().__init__(pool)
        self.query = query
        self.unasked = 0


class LabelGroup:
    """Pods that no selector tells apart, by row. `feeds` are the counts that each of them adds to."""

    __slots__ = ("alive", "feeds", "labels", "namespace", "rows", "total")

    def __init__(self, namespace: str, alive: bool, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.alive = alive
        self.labels = labels
        self.rows: dict[int, int] = {}
        self.total = 0
        self.feeds: dict[QueryCount, None] = {}

    def answers(self, query: PodQuery) -> bool:
        """Tell whether the pods of the group are among those asked for."""
        if query.alive and not self.alive:
            return False
        return all(clause.matches(self.namespace, self.labels) for clause in query.clauses)


class LabelGroups:
    """The groups of all pods on rows of one table."""

    def __init__(self) -> None:
        self._groups: dict[_GroupKey, LabelGroup] = {}
        self._by_label: dict[str, dict[str, set[LabelGroup]]] = {}
        self._carriers: dict[str, int] = {}
        self._by_namespace: dict[str, set[LabelGroup]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def find(self, pod: PodInfo) -> LabelGroup | None:
        """Return the group of pods like this one; None where there is none yet."""
        return self._groups.get((pod.namespace, pod.deleting, frozenset(pod.labels.items())))

    def make(self, pod: PodInfo) -> LabelGroup:
        """Make a pod's group."""
        key = (pod.namespace, pod.deleting, frozenset(pod.labels.items()))
        group = self._groups[key] = LabelGroup(pod.namespace, not pod.deleting, pod.labels)
        self._by_namespace.setdefault(pod.namespace, set()).add(group)
        for label, value in pod.labels.items():
            self._by_label.setdefault(label, {}).setdefault(value, set()).add(group)
            self._carriers[label] = self._carriers.get(label, 0) + 1
        return group

    def drop(self, group: LabelGroup) -> None:
        """Forget a group without pods."""
        del self._groups[group.namespace, not group.alive, frozenset(group.labels.items())]
        _discard(self._by_namespace, group.namespace, group)
        for label, value in group.labels.items():
            values = self._by_label[label]
            _discard(values, value, group)
            if values:
                self._carriers[label] -= 1
            else:
                del self._by_label[label], self._carriers[label]

    def values_of(self, key: str) -> Mapping[str, Collection[LabelGroup]]:
        """Return the groups that carry a key, by value."""
        return self._by_label.get(key, _NO_VALUES)

    def present(self, keys: Mapping[str, Values]) -> Collection[str]:
        """Return those of the keys that some group carries."""
        return keys.keys() & self._by_label.keys()

    def carrying(self, key: str, values: Values) -> list[set[LabelGroup]]:
        """Return the groups that carry a key with one of some values."""
        by_value = self._by_label.get(key)
        if by_value is None:
            return []
        if isinstance(values, frozenset) and len(values) <= len(by_value):
            return [by_value[value] for value in values if value in by_value]
        return [groups for value, groups in by_value.items() if value in values]

    def carriers(self, key: str, values: Values) -> int:
        """Return how many groups `carrying` returns."""
        if values == ANY_VALUE:
            return self._carriers.get(key, 0)
        return sum(map(len, self.carrying(key, values)))

    def of_namespaces(self, namespaces: frozenset[str] | None) -> Collection[LabelGroup]:
        """Return the groups of some namespaces; None: of all."""
        if namespaces is None:
            return self._groups.values()
        if len(namespaces) == 1:
            return self._by_namespace.get(next(iter(namespaces)), ())
        return [group for namespace in namespaces for group in self._by_namespace.get(namespace, ())]

    def count_in(self, namespaces: frozenset[str] | None) -> int:
        """Return how many groups `of_namespaces` returns."""
        if namespaces is None:
            return len(self._groups)
        return sum(len(self._by_namespace.get(namespace, ())) for namespace in namespaces)

    def candidates(self, query: PodQuery) -> Iterable[LabelGroup]:
        """Return groups among which are all that answer a query: the fewest that one look at each label gives."""
        if any(clause.selector.nothing for clause in query.clauses):
            return ()
        best: tuple[str, Values] | None = None
        namespaces = min((clause.namespaces for clause in query.clauses), key=self.count_in, default=None)
        fewest = self.count_in(namespaces)
        for clause in query.clauses:
            for required in clause.selector.required.items():
                number = self.carriers(*required)
                if number < fewest:
                    best, fewest = required, number
                if not number:
                    return ()
        if best is None:
            return self.of_namespaces(namespaces)
        return [group for groups in self.carrying(*best) for group in groups]

    def answering(self, query: PodQuery) -> Iterator[LabelGroup]:
        """Yield the groups whose pods are among those asked for."""
        for group in self.candidates(query):
            if group.answers(query):
                yield group


def required_labels(selectors: Iterable[Selector]) -> Sequence[LabelKey]:
    """Return the labels of which a pod must have one for all selectors to select it: the fewest that one key gives;
    none where they select a pod without labels."""
    required = [_listed(*requirement) for selector in selectors for requirement in selector.required.items()]
    return min(required, key=len, default=())


def deciding_labels(selector: Selector) -> Sequence[LabelKey | None]:
    """Return the labels of which a pod must have one for a selector's verdict to differ from that on a pod without
    labels; None stands for labels that are too many to be listed."""
    if selector.required:
        return required_labels((selector,))
    if len(selector.refused) > _MAX_LISTED:
        return (None,)
    return [label for refusal in selector.refused.items() for label in _listed(*refusal)]


def _listed(key: str, values: Values) -> Sequence[LabelKey]:
    if isinstance(values, frozenset) and len(values) <= _MAX_LISTED:
        return [(key, value) for value in values]
    return [(key, None)]


def labels_and_keys(labels: Mapping[str, str]) -> Iterator[LabelKey]:
    """Yield each label of a pod, and each of its keys."""
    for key, value in labels.items():
        yield key, value
        yield key, None


def _discard(sets: dict[str, set[LabelGroup]], key: str, group: LabelGroup) -> None:
    groups = sets[key]
    groups.discard(group)
    if not groups:
        del sets[key]


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

    For pods with more terms than are worth a count each: what is asked here is answered from the label groups and
    forgotten, so the work and the memory are those of one attempt.

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
        carrying = [group for label in keys.items() for carriers in groups.carrying(*label) for group in carriers]
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
    by_labels: dict[tuple[str, bool, frozenset[tuple[str, str]]], _Sum] = {}
    weights, counts = sums.weights.copy(), sums.counts.copy()
    for row, pod, sign in moves:
        if codes[row] < 0 or (nodes is not None and not nodes.mask[row]):
            continue
        # The members of a gang mostly have the same labels.
        key = (pod.namespace, pod.deleting, frozenset(pod.labels.items()))
        if key not in by_labels:
            by_labels[key] = _Sum()
            for query, weight in terms:
                if query.matches(pod):
                    by_labels[key].add(weight, 1)
        weights[codes[row]] += sign * by_labels[key].weight
        counts[codes[row]] += sign * by_labels[key].number
    return PodWeights(weights, counts)


def label_sets(groups: LabelGroups, selector: Selector) -> int:
    """Return with how many label groups `weigh` compares a selector, of whatever namespaces."""
    if selector.nothing:
        return 0
    if selector.required:
        return min(groups.carriers(*requirement) for requirement in selector.required.items())
    return sum(groups.carriers(key, selector.refused[key]) for key in groups.present(selector.refused))


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
        present = groups.values_of(key).keys()
        if not present or (isinstance(values, frozenset) and values.isdisjoint(present)):
            return None
    refused: dict[str, Values] = {}
    for key in groups.present(selector.refused):
        values = selector.refused[key]
        carried = values & groups.values_of(key).keys() if isinstance(values, frozenset) else values
        if carried:
            refused[key] = carried
    # Its hash is known already.
    return selector if refused == selector.refused else Selector(selector.required, refused)
