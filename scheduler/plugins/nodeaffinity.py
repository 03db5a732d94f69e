"""NodeAffinity: nodeSelector, required and preferred node affinity, and the profile's addedAffinity
(plugins/nodeaffinity)."""

from collections.abc import Sequence

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType, NodeAffinityArgs
from scheduler.helpers import default_normalize, node_matches, required_affinity_mask, selector_mask, term_mask
from scheduler.kube.primitives import (
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    WeightedTerm,
    node_selector,
    preferred_terms,
)

_VALUES_PER_PASS = 100
"""Values that are looked up in the time that a pass over the nodes takes."""
REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


class NodeAffinity(
    fw.PreFilterPlugin,
    fw.FilterPlugin,
    fw.PreScorePlugin,
    fw.ScorePlugin,
    fw.ScoreNormalizer,
    fw.EnqueueExtensions,
    fw.FilterRule,
    fw.ScoreRule,
):
    """Filter and score over node labels and names."""

    name = "NodeAffinity"

    def __init__(self, args: NodeAffinityArgs, context: fw.PluginContext) -> None:
        self._added_node_selector: CompiledNodeSelector | None = None
        self._added_preferred_terms: tuple[WeightedTerm, ...] = ()
        if args.added_affinity is not None:
            required = args.added_affinity.required_during_scheduling_ignored_during_execution
            if required is not None:
                self._added_node_selector = node_selector(required.node_selector_terms)
            preferred = args.added_affinity.preferred_during_scheduling_ignored_during_execution
            self._added_preferred_terms = preferred_terms(preferred)

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Skip without requirements; return the only nodes that can match where every term names some."""
        return self._narrow(pod.spec)

    def _narrow(self, spec: fw.SpecInfo) -> tuple[fw.PreFilterResult | None, fw.Status]:
        required = spec.required
        if required is None and spec.node_selector.everything and self._added_node_selector is None:
            return None, fw.SKIP
        if required is None or not required.terms:
            return None, fw.SUCCESS
        names: set[str] = set()
        for term in required.terms:
            named = term.names
            if named is None:
                return None, fw.SUCCESS
            names |= named
        if not names:
            return None, fw.unresolvable(REASON_CONFLICT)
        return fw.PreFilterResult(frozenset(names)), fw.SUCCESS

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes that the profile's or the pod's own requirements exclude."""
        if pod.spec.lists_much:
            terms = pod.spec.required.terms if pod.spec.required is not None else ()
            _charge(state, pod.spec.node_selector.size + sum(map(_expressions, terms)), rows)
        rejected: fw.BoolArray | None = None
        if self._added_node_selector is not None:
            rejected = ~selector_mask(view, rows, self._added_node_selector)
        mask = required_affinity_mask(view, rows, pod.spec)
        if mask is None and rejected is None:
            return None
        bits = np.zeros(len(rows), dtype=np.int64) if mask is None else (~mask).astype(np.int64) * 2
        if rejected is not None:
            bits = np.where(rejected, 1, bits)
        if not bits.any():
            return None
        codes = np.where(bits != 0, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 0).astype(np.int8)
        return fw.Verdicts(codes, bits, (REASON_ENFORCED, REASON_POD))

    def pre_score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Status:
        """Skip when no node is preferred; a preferred term that cannot be read is an error, as upstream."""
        if pod.spec.preferred_error:
            return fw.failure(pod.spec.preferred_error)
        return fw.SUCCESS if self._prefers(pod.spec) else fw.SKIP

    def _prefers(self, spec: fw.SpecInfo) -> bool:
        return spec.of(_prefers) or bool(self._added_preferred_terms)

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return the sum of the weights of matching preferred terms."""
        if pod.spec.lists_much:
            _charge(state, sum(_expressions(preferred.term) for preferred in pod.spec.preferred), rows)
        scores = np.zeros(len(rows), dtype=np.int64)
        for preferred in (*self._added_preferred_terms, *pod.spec.preferred):
            scores += term_mask(view, rows, preferred.term) * np.int64(preferred.weight)
        return scores

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Scale to 0..100."""
        return default_normalize(scores)

    by_range = True

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Verdicts follow from labels and names, unless PreFilter names the nodes itself."""
        result, status = self._narrow(spec)
        if result or status.is_rejection:
            return fw.Reads.ANYTHING
        return fw.Reads.NOTHING if status.is_skip else fw.Reads.NODE

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Scores follow from labels and names."""
        if spec.preferred_error:
            return fw.Reads.ANYTHING
        return fw.Reads.NODE if self._prefers(spec) else fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register nodes that are added or relabelled."""
        actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (fw.HintRegistration(fw.NODE, actions, self._node_changed),)

    def _node_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(new, fw.NodeInfo):
            return fw.Hint.QUEUE
        if self._added_node_selector is not None and not self._added_node_selector.matches(new.name, new.labels):
            return fw.Hint.SKIP
        if not node_matches(pod.spec, new):
            return fw.Hint.SKIP
        matched_before = (
            isinstance(old, fw.NodeInfo) and node_matches(pod.spec, old) and self._matches_added_affinity(old)
        )
        return fw.Hint.SKIP if matched_before else fw.Hint.QUEUE

    def _matches_added_affinity(self, node: fw.NodeInfo) -> bool:
        return self._added_node_selector is None or self._added_node_selector.matches(node.name, node.labels)


def _prefers(spec: fw.SpecInfo) -> bool:
    # Terms that prefer nothing (empty ones) are left out of `preferred`; upstream scores with them all the same.
    node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return node_affinity is not None and bool(node_affinity.preferred_during_scheduling_ignored_during_execution)


def _charge(state: fw.CycleState, expressions: int, rows: fw.RowArray) -> None:
    # A pass of numpy each, or two.
    state.work.charge(expressions * (10 + len(rows) // 200), "expressions of node affinity x nodes")


def _expressions(term: CompiledNodeSelectorTerm) -> int:
    labels = term.labels
    values = sum(len(values) for values in labels.required.values() if isinstance(values, frozenset))
    return 1 + labels.size + len(term.other_names) + values // _VALUES_PER_PASS
