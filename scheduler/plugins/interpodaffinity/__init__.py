"""InterPodAffinity: pods near to, or far from, others; the terms of existing pods count as well
(plugins/interpodaffinity)."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, field

from scheduler import framework as fw
from scheduler.catalog import InterPodAffinityArgs
from scheduler.plugins.interpodaffinity.terms import (
    AffinityHints,
    OwnTerms,
    TermResolver,
    UpstreamAffinityHints,
    UpstreamTermResolver,
    by_topology_key,
    matches_all_terms,
    weighs_together,
)

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_REASONS = (REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING)
_CODES = np.array(
    [0, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, fw.Code.UNSCHEDULABLE, 0, fw.Code.UNSCHEDULABLE], dtype=np.int8
)


class DomainCounts:
    """Pods per domain for several topology keys (topologyToMatchedTermCount), changed for what-if runs without touching
    the state's own counts.

    By topology key: a count per domain code and, last, a 0 for nodes without the label.
    """

    __slots__ = ("_owned", "by_key")

    def __init__(self) -> None:
        self.by_key: dict[str, fw.IntArray] = {}
        self._owned: set[str] = set()

    @property
    def empty(self) -> bool:
        """Whether no domain has any."""
        return not any(counts.any() for counts in self.by_key.values())

    def take(self, key: str, counts: fw.IntArray) -> None:
        """Add counts of the state; the array is not changed."""
        known = self.by_key.get(key)
        if known is None:
            self.by_key[key] = counts
        else:
            self.by_key[key] = known + counts
            self._owned.add(key)

    def add(self, view: fw.NodeView, key: str, row: int, amount: int) -> None:
        """Add to the domain of a row; a node without the label is in none."""
        column = view.labels(key)
        code = column.codes[row]
        if code < 0:
            return
        if key not in self._owned:
            known = self.by_key.get(key)
            self.by_key[key] = np.zeros(len(column.values) + 1, dtype=np.int64) if known is None else known.copy()
            self._owned.add(key)
        self.by_key[key][code] += amount

    def rows_near_matches(self, view: fw.NodeView, rows: fw.RowArray) -> fw.BoolArray | None:
        """Return the rows with a domain that has some; None where there is none."""
        failed: fw.BoolArray | None = None
        for key, counts in self.by_key.items():
            occupied = counts > 0
            if not occupied.any():
                continue
            in_occupied = occupied.take(fw.gather_codes(view, view.labels(key).codes, rows), mode="wrap")
            failed = in_occupied if failed is None else failed | in_occupied
        return failed if failed is not None and failed.any() else None

    def clone(self) -> "DomainCounts":
        """Return an independent copy; arrays are copied when either side first changes them."""
        twin = DomainCounts()
        twin.by_key = dict(self.by_key)
        self._owned.clear()
        return twin


class _PreFilterState(Struct):
    """Matching pods per domain (preFilterState); AddPod and RemovePod change them for what-if runs."""

    own: OwnTerms
    affinity: DomainCounts
    anti_affinity: DomainCounts
    existing: DomainCounts

    def clone(self) -> "_PreFilterState":
        """Return an independent copy."""
        return _PreFilterState(self.own, self.affinity.clone(), self.anti_affinity.clone(), self.existing.clone())


class _PreScoreState(Struct):
    """Sums of weights per domain, by topology key."""

    weights: dict[str, fw.IntArray] = field(default_factory=dict)

    def add(self, key: str, counts: fw.IntArray, weight: int) -> bool:
        """Add a term; False where no pod matches it, which upstream takes as nothing to score by."""
        if not counts.any():
            return False
        self.add_weights(key, counts * weight)
        return True

    def add_weights(self, key: str, weights: fw.IntArray) -> None:
        """Add weights per domain."""
        known = self.weights.get(key)
        self.weights[key] = weights if known is None else known + weights


def _counts(own: OwnTerms, view: fw.NodeView) -> tuple[DomainCounts, DomainCounts]:
    """Return the pods that the required terms mean, of affinity and of anti-affinity."""
    affinity, anti_affinity = DomainCounts(), DomainCounts()
    for term in own.affinity:
        affinity.take(term.topology_key, view.pods_by_domain(own.all_affinity, term.topology_key))
    for term in own.anti_affinity:
        anti_affinity.take(term.topology_key, view.pods_by_domain(term.query, term.topology_key))
    return affinity, anti_affinity


def _counts_of_many(own: OwnTerms, view: fw.NodeView) -> tuple[DomainCounts, DomainCounts]:
    """Return the same, keeping none of the counts."""
    affinity, anti_affinity = DomainCounts(), DomainCounts()
    for key, number in Counter(term.topology_key for term in own.affinity).items():
        affinity.take(key, view.weigh_pods([(own.all_affinity, 1)], key).counts * number)
    for key, queries in by_topology_key(view, own.anti_affinity).items():
        anti_affinity.take(key, view.weigh_pods(queries, key).counts)
    return affinity, anti_affinity


class InterPodAffinity(
    fw.PreFilterPlugin,
    fw.FilterPlugin,
    fw.PreScorePlugin,
    fw.ScorePlugin,
    fw.PreFilterExtensions,
    fw.ScoreNormalizer,
    fw.EnqueueExtensions,
    fw.FilterRule,
):
    """Filter on required terms, score by preferred ones, in both directions."""

    name = "InterPodAffinity"

    def __init__(self, args: InterPodAffinityArgs, context: fw.PluginContext) -> None:
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods
        self._kubernetes = context.kubernetes
        repeats_selectors = context.upstream and not context.kubernetes.merges_namespaces
        self._resolver = UpstreamTermResolver() if repeats_selectors else TermResolver()
        self._hints = UpstreamAffinityHints if context.upstream else AffinityHints
        # Hints get no view; the store of other objects is the same one for every view of a daemon.
        self._objects: fw.Objects | None = None

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Look up the counts per domain; skip where no required term concerns the pod."""
        self._objects = view.objects
        if pod.spec.terms.error:
            return None, fw.unresolvable(f"parsing pod: {pod.spec.terms.error}")
        if bundled := view.bundled_terms:
            # What they mean is remembered by the pod's labels.
            labels = frozenset(pod.labels.items())
            state.work.charge_once((self.name, pod.namespace, labels), bundled, "terms of pods on nodes that have many")
        existing = DomainCounts()
        for meaning in view.terms_matching(pod, fw.TermKind.ANTI_AFFINITY):
            existing.take(meaning.term.topology_key, meaning.counts)
        self._charge(state, pod, view, pod.spec.terms.required)
        own = self._resolver.own(pod, view.objects)
        if not own.affinity and not own.anti_affinity and existing.empty:
            return None, fw.SKIP
        affinity, anti_affinity = _counts_of_many(own, view) if own.weighed_together else _counts(own, view)
        state.write(self.name, _PreFilterState(own, affinity, anti_affinity, existing))
        return None, fw.SUCCESS

    def _charge(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, terms: Iterable[fw.AffinityTerm]
    ) -> None:
        """Charge for a pod's own terms. Counts of few terms are kept, and cost next to nothing."""
        spec = pod.spec
        if spec.terms.selecting:
            units = spec.terms.selecting * view.objects.count("Namespace")
            state.work.charge_once((self.name, spec.class_key), units, "terms that select namespaces x namespaces")
        if weighs_together(spec):
            # Each term is also a pass over the nodes, or less. On a key that no node has it means nothing.
            units = spec.terms.number
            for term in terms:
                if view.labels(term.topology_key).values:
                    units += 20 + view.label_sets(term.selector) + (term.selector.size + len(term.namespaces)) // 10
            state.work.charge(units, "terms x sets of pod labels to compare")

    def add_pod(self, state: fw.CycleState, pod: fw.PodInfo, added: fw.PodInfo, view: fw.NodeView, row: int) -> None:
        """Count a pod put on a node."""
        self._update(state, pod, added, view, row, 1)

    def remove_pod(
        self, state: fw.CycleState, pod: fw.PodInfo, removed: fw.PodInfo, view: fw.NodeView, row: int
    ) -> None:
        """No longer count a pod taken from a node."""
        self._update(state, pod, removed, view, row, -1)

    def _update(
        self, state: fw.CycleState, pod: fw.PodInfo, other: fw.PodInfo, view: fw.NodeView, row: int, amount: int
    ) -> None:
        filter_state = state.read(self.name, _PreFilterState)
        if filter_state is None:
            return
        namespace = view.objects.get("Namespace", "", pod.namespace)
        labels = {} if namespace is None else namespace.metadata.labels
        for existing_term in other.spec.terms.anti_affinity:
            if existing_term.matches(pod.namespace, pod.labels, labels):
                filter_state.existing.add(view, existing_term.topology_key, row, amount)
        if matches_all_terms(filter_state.own.affinity, other):
            for term in filter_state.own.affinity:
                filter_state.affinity.add(view, term.topology_key, row, amount)
        for term in filter_state.own.anti_affinity:
            if term.clause.matches(other.namespace, other.labels):
                filter_state.anti_affinity.add(view, term.topology_key, row, amount)

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes that break the pod's affinity, its anti-affinity, or the anti-affinity of existing pods."""
        filter_state = state.read(self.name, _PreFilterState)
        if filter_state is None:
            return None
        bits: fw.IntArray | None = None
        masks = (
            self._unsatisfied_affinity(filter_state, pod, view, rows),
            filter_state.anti_affinity.rows_near_matches(view, rows),
            filter_state.existing.rows_near_matches(view, rows),
        )
        failures = [(1 << index, mask) for index, mask in enumerate(masks) if mask is not None]
        if len(failures) == 1:
            bit, failed = failures[0]
            return fw.Verdicts(failed.view(np.int8) * _CODES[bit], failed * np.int64(bit), _REASONS)
        for bit, failed in failures:
            bits = failed * np.int64(bit) if bits is None else np.where(bits != 0, bits, failed * np.int64(bit))
        if bits is None:
            return None
        return fw.Verdicts(_CODES[bits], bits, _REASONS)

    @staticmethod
    def _unsatisfied_affinity(
        filter_state: _PreFilterState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray
    ) -> fw.BoolArray | None:
        """Return the rows that do not satisfy the pod's affinity, or None."""
        if not filter_state.own.affinity:
            return None
        failed = np.zeros(len(rows), dtype=np.bool_)
        # The first pod of a series with affinity to itself may run on any node with all keys (satisfyPodAffinity).
        first = filter_state.affinity.empty and matches_all_terms(filter_state.own.affinity, pod)
        for key in {term.topology_key for term in filter_state.own.affinity}:
            codes = fw.gather_codes(view, view.labels(key).codes, rows)
            failed |= codes < 0 if first else (filter_state.affinity.by_key[key] <= 0)[codes]
            if failed.all():
                break
        return failed if failed.any() else None

    def pre_score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Status:
        """Sum the weights per domain; skip where no preference concerns the pod."""
        terms = pod.spec.terms
        if terms.error:
            return fw.failure(f"failed to parse pod: {terms.error}")
        self._charge(state, pod, view, terms.preferred)
        own = self._resolver.own(pod, view.objects)
        if self._ignore_existing and not own.preferred:
            return fw.SKIP
        score_state = _PreScoreState()
        anything = False
        if own.weighed_together:
            for key, queries in by_topology_key(view, own.preferred).items():
                sums = view.weigh_pods(queries, key)
                if sums.counts.any():
                    score_state.add_weights(key, sums.weights)
                    anything = True
        else:
            for term in own.preferred:
                counts = view.pods_by_domain(term.query, term.topology_key)
                anything |= score_state.add(term.topology_key, counts, term.weight)
        for kind, sign in (
            (fw.TermKind.AFFINITY, self._hard_weight),
            (fw.TermKind.PREFERRED_AFFINITY, 1),
            (fw.TermKind.PREFERRED_ANTI_AFFINITY, -1),
        ):
            if not sign:
                continue
            for meaning in view.terms_matching(pod, kind):
                weight = sign if kind is fw.TermKind.AFFINITY else sign * meaning.weight
                anything |= score_state.add(meaning.term.topology_key, meaning.counts, weight)
        if not anything:
            return fw.SKIP
        state.write(f"{self.name}/score", score_state)
        return fw.SUCCESS

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Return the sum of the weights of a node's domains."""
        score_state = state.read(f"{self.name}/score", _PreScoreState)
        if score_state is None:
            return None
        total: fw.IntArray = np.zeros(len(rows), dtype=np.int64)
        for key, weights in score_state.weights.items():
            total += weights[fw.gather_codes(view, view.labels(key).codes, rows)]
        return total

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Scale from the least to the most; all 0 where they are alike."""
        if not len(scores):
            return scores
        least, most = int(scores.min()), int(scores.max())
        if most == least:
            return np.zeros_like(scores)
        scaled = float(fw.MAX_SCORE) * ((scores - least) / float(most - least))
        return scaled.astype(np.int64)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods without terms pass while no other pod has one."""
        return fw.Reads.ANYTHING if spec.of(_has_terms) or nodes.value(_pods_have_terms) else fw.Reads.NOTHING

    score_rule = filter_rule

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register pods that terms match, pods with anti-affinity, and nodes with the keys."""
        return self._hints(self._resolver, lambda: self._objects, self._kubernetes).registrations()


def _has_terms(spec: fw.SpecInfo) -> bool:
    return spec.terms.any


def _pods_have_terms(view: fw.NodeView) -> bool:
    return view.pods_have_terms
