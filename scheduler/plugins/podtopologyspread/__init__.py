"""PodTopologySpread: pods of a kind spread evenly over zones, nodes or other domains (plugins/podtopologyspread)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from scheduler import framework as fw
from scheduler.catalog import ActionType, KubernetesVersion, PodTopologySpreadArgs
from scheduler.kube.model import TopologySpreadConstraint
from scheduler.plugins.podtopologyspread.constraints import (
    HARD,
    HOSTNAME,
    SOFT,
    ConstraintLike,
    Constraints,
    CountedNodes,
    NodeSets,
    PreScoreState,
    SpreadConstraint,
    charge,
    charge_for_services,
    has_selectors,
    lists_many,
    matching_pods,
    normalize_scores,
    pre_score_state,
    summed_scores,
)

# Which events may make room for a pod that was rejected for its spread.

ConstraintsOf = Callable[[fw.PodInfo], Sequence[SpreadConstraint]]
_A = ActionType


class SpreadHints:
    """The hints (isSchedulableAfterPodChange and isSchedulableAfterNodeChange of kube-scheduler)."""

    def __init__(self, constraints_of: ConstraintsOf, kubernetes: KubernetesVersion) -> None:
        self._constraints_of = constraints_of
        self._counts_nominated = kubernetes.nominated_pods_spread

    def registrations(self) -> tuple[fw.HintRegistration, ...]:
        """Return the events of interest with their hints."""
        pods = _A.ADD | _A.DELETE | _A.UPDATE_POD_LABEL | _A.UPDATE_POD_TOLERATION
        nodes = _A.ADD | _A.DELETE | _A.UPDATE_NODE_LABEL | _A.UPDATE_NODE_TAINT
        return (
            fw.HintRegistration(fw.POD, pods, self.pod_changed),
            fw.HintRegistration(fw.NODE, nodes, self.node_changed),
        )

    def pod_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """A matching pod came or went, or a pod began or ceased to match; or the pod itself tolerates more."""
        before = old if isinstance(old, fw.PodInfo) else None
        after = new if isinstance(new, fw.PodInfo) else None
        if any(other is not None and not self._concerns(other, pod) for other in (before, after)):
            return fw.Hint.SKIP
        constraints = self._constraints_of(pod)
        if before is None or after is None:
            labels = after.labels if after is not None else before.labels if before is not None else {}
            return _queue_if(any(constraint.selector.matches(labels) for constraint in constraints))
        if (
            after.uid == pod.uid
            and after.spec.tolerations != before.spec.tolerations
            and any(constraint.honor_taints for constraint in constraints)
        ):
            return fw.Hint.QUEUE
        return _queue_if(
            any(
                constraint.selector.matches(before.labels) != constraint.selector.matches(after.labels)
                for constraint in constraints
            )
        )

    def _concerns(self, other: fw.PodInfo, pod: fw.PodInfo) -> bool:
        placed = bool(other.node_name or (self._counts_nominated and other.nominated_node))
        return other.uid == pod.uid or (placed and other.namespace == pod.namespace)

    def node_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """A node that has all keys came or went, moved to another domain, or has other taints."""
        constraints = self._constraints_of(pod)
        before = old if isinstance(old, fw.NodeInfo) else None
        after = new if isinstance(new, fw.NodeInfo) else None
        had = before is not None and _has_keys(before.labels, constraints)
        has_keys = after is not None and _has_keys(after.labels, constraints)
        if before is None or after is None:
            return _queue_if(had or has_keys)
        if had != has_keys:
            return fw.Hint.QUEUE
        moved = any(
            before.labels.get(constraint.topology_key) != after.labels.get(constraint.topology_key)
            for constraint in constraints
        )
        return _queue_if(has_keys and (moved or before.taints != after.taints))


def _has_keys(labels: Mapping[str, str], constraints: Sequence[SpreadConstraint]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


def _queue_if(condition: bool) -> fw.Hint:
    return fw.Hint.QUEUE if condition else fw.Hint.SKIP


REASON_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
REASON_SKEW = "node(s) didn't match pod topology spread constraints"
_SYSTEM_DEFAULTS: tuple[ConstraintLike, ...] = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT),
)


class _ConstraintCounts(Struct):
    """A constraint in one attempt: matching pods per domain (TpValueToMatchNum), and the domains there are."""

    constraint: SpreadConstraint
    counts: fw.IntArray
    counted: CountedNodes
    matches_self: bool
    owned: bool = False

    def add(self, code: int, amount: int) -> None:
        """Change a domain's count. The array is the state's until it is first changed."""
        if not self.owned:
            self.counts = self.counts.copy()
            self.owned = True
        self.counts[code] += amount

    def max_count(self) -> int:
        """Return the largest count of a domain that can take the pod, so that matchNum + selfMatchNum - minMatchNum <=
        maxSkew (filtering.go, Filter)."""
        least = 0
        if self.counted.number and self.counted.number >= self.constraint.min_domains:
            least = int(np.min(self.counts, where=self.counted.present, initial=np.iinfo(np.int64).max))
        return self.constraint.max_skew - self.matches_self + least


class _PreFilterState(Struct):
    """What PreFilter computed (preFilterState); AddPod and RemovePod change it for what-if runs."""

    constraints: list[_ConstraintCounts] = field(default_factory=list)

    def clone(self) -> "_PreFilterState":
        """Return an independent copy; the counts are copied when either changes them."""
        copies = []
        for constraint in self.constraints:
            constraint.owned = False
            copies.append(
                _ConstraintCounts(constraint.constraint, constraint.counts, constraint.counted, constraint.matches_self)
            )
        return _PreFilterState(copies)


class PodTopologySpread(
    fw.PreFilterPlugin,
    fw.FilterPlugin,
    fw.PreScorePlugin,
    fw.ScorePlugin,
    fw.PreFilterExtensions,
    fw.ScoreNormalizer,
    fw.EnqueueExtensions,
    fw.FilterRule,
    fw.ScoreRule,
):
    """Filter on hard constraints, score by soft ones."""

    name = "PodTopologySpread"

    def __init__(self, args: PodTopologySpreadArgs, context: fw.PluginContext) -> None:
        self._uses_system_defaults = args.defaulting_type == "System"
        self._constraints = Constraints(
            _SYSTEM_DEFAULTS if self._uses_system_defaults else args.default_constraints, context.kubernetes
        )
        self._node_sets = NodeSets()
        self._kubernetes = context.kubernetes
        # Hints get no view; the store of other objects is the same one for every view of a daemon.
        self._objects: fw.Objects | None = None

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Look up the counts per domain; skip without a hard constraint."""
        self._objects = view.objects
        self._charge_for_services(state, pod, view, HARD)
        try:
            constraints = self._constraints.of(pod, view.objects, HARD)
        except ValueError as error:
            return None, fw.failure(str(error))
        if not constraints:
            return None, fw.SKIP
        charge(state, pod, view, constraints)
        keys = [constraint.topology_key for constraint in constraints]
        filter_state = _PreFilterState()
        for constraint in constraints:
            counted = self._node_sets.counted(view, pod, constraint, keys)
            counts = matching_pods(view, pod, constraint, counted, kept=not lists_many(pod))
            filter_state.constraints.append(
                _ConstraintCounts(constraint, counts, counted, constraint.selector.matches(pod.labels))
            )
            if not view.labels(constraint.topology_key).values:
                # Here every node is rejected, and the first constraint that rejects it is what counts.
                break
        state.write(self.name, filter_state)
        return None, fw.SUCCESS

    def _charge_for_services(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, action: str) -> None:
        if not pod.spec.topology_spread and self._constraints.has_defaults(action):
            charge_for_services(state, pod, view)

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
        if filter_state is None or other.namespace != pod.namespace:
            return
        for hard in filter_state.constraints:
            code = int(view.labels(hard.constraint.topology_key).codes[row])
            nodes = hard.counted.nodes
            # Unlike the counts of PreFilter, upstream's update also counts terminating pods, and all pods where the
            # selector is empty.
            if code >= 0 and (nodes is None or nodes.mask[row]) and hard.constraint.selector.matches(other.labels):
                hard.add(code, amount)

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes that lack a key, or whose domain would exceed the emptiest one by more than maxSkew."""
        filter_state = state.read(self.name, _PreFilterState)
        if filter_state is None:
            return None
        verdict: fw.IntArray | None = None
        for hard in filter_state.constraints:
            codes = fw.gather_codes(view, view.labels(hard.constraint.topology_key).codes, rows)
            full = hard.counts > hard.max_count()
            # Code -1 picks the last entry.
            full[-1] = False
            absent = codes < 0
            too_full = full.take(codes, mode="wrap") if full.any() else None
            if too_full is None and not absent.any():
                continue
            bits = absent.astype(np.int64)
            if too_full is not None:
                bits += too_full * np.int64(2)
            verdict = bits if verdict is None else np.where(verdict != 0, verdict, bits)
            if verdict.all():
                break
        if verdict is None or not verdict.any():
            return None
        codes_of = np.array([0, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, fw.Code.UNSCHEDULABLE], dtype=np.int8)
        return fw.Verdicts(codes_of[verdict], verdict, (REASON_LABEL, REASON_SKEW))

    def pre_score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Status:
        """Weigh the soft constraints by how many domains they have; skip without one."""
        self._charge_for_services(state, pod, view, SOFT)
        try:
            constraints = self._constraints.of(pod, view.objects, SOFT)
        except ValueError as error:
            return fw.failure(str(error))
        if not constraints:
            return fw.SKIP
        charge(state, pod, view, constraints)
        # With upstream's own defaults, nodes without a zone still spread by host name.
        require_all = bool(pod.spec.topology_spread) or not self._uses_system_defaults
        state.write(f"{self.name}/score", pre_score_state(view, pod, rows, constraints, require_all, self._node_sets))
        return fw.SUCCESS

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Return the weighted number of matching pods in a node's domains; 0 for a node that takes no part."""
        score_state = state.read(f"{self.name}/score", PreScoreState)
        return None if score_state is None else summed_scores(score_state)

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Turn few matching pods into a high score."""
        score_state = state.read(f"{self.name}/score", PreScoreState)
        return scores if score_state is None else normalize_scores(scores, score_state.ignored)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Only pods that have no constraint, and get none by default, pass."""
        return self._rule(spec, nodes, HARD)

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods that have no constraint, and get none by default, find all nodes equally good."""
        return self._rule(spec, nodes, SOFT)

    def _rule(self, spec: fw.SpecInfo, nodes: fw.Nodes, action: str) -> fw.Reads:
        if spec.topology_spread:
            return fw.Reads.ANYTHING
        if not self._constraints.has_defaults(action):
            return fw.Reads.NOTHING
        # Defaults hold for pods that something in their namespace selects.
        namespace = spec.namespace
        selected = nodes.value(lambda view: has_selectors(view.objects, namespace))
        return fw.Reads.ANYTHING if selected else fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register pods that match a constraint, and nodes that make or lose a domain."""
        return SpreadHints(lambda pod: self._constraints.of(pod, self._objects, HARD), self._kubernetes).registrations()
