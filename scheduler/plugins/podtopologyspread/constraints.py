"""Which constraints hold for a pod: its own, or defaults with a selector deduced from what owns and serves it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from scheduler import framework as fw
from scheduler.catalog import KubernetesVersion
from scheduler.helpers import required_affinity_mask, untolerated_mask
from scheduler.helpers.scoring import floor_divide
from scheduler.kube.model import LabelSelector, compiled_selector
from scheduler.kube.primitives import Selector, SelectorError, selector_from_set

HOSTNAME = "kubernetes.io/hostname"
HONOR = "Honor"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
ACTIONS = (HARD, SOFT)
OwnerSelector = dict[str, str] | LabelSelector | None
"""A plain map of a ReplicationController, a LabelSelector of the others."""
_FEW_SERVICES = 256
_MAX_CACHED = 4096
_MAX_KEPT = 8
"""A pod with more constraints has them evaluated in each attempt, and nothing is kept: the counts of one pod must not
become a burden to all others. Manifests of real workloads have up to three."""
_OWNERS = {
    ("v1", "ReplicationController"): "ReplicationController",
    ("apps/v1", "ReplicaSet"): "ReplicaSet",
    ("apps/v1", "StatefulSet"): "StatefulSet",
}
_SELECTOR_KINDS = ("Service", *_OWNERS.values())


class SpreadConstraint(Struct, frozen=True):
    """One constraint with every default filled in; `empty_counts`: whether an empty selector counts all pods."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    empty_counts: bool = False

    def query(self, namespace: str) -> fw.PodQuery | None:
        """Return which pods count; None where none does."""
        if self.selector.nothing or (self.selector.everything and not self.empty_counts):
            return None
        return fw.PodQuery((fw.PodClause(frozenset((namespace,)), self.selector),), alive=True)


class ConstraintLike(Protocol):
    """A constraint as the API or the plugin's args have it."""

    @property
    def max_skew(self) -> int:
        """How far apart domains may be."""

    @property
    def topology_key(self) -> str:
        """The node label whose values are the domains."""

    @property
    def when_unsatisfiable(self) -> str:
        """HARD or SOFT."""

    @property
    def min_domains(self) -> int | None:
        """Domains below which the smallest counts as empty."""

    @property
    def node_affinity_policy(self) -> str | None:
        """Honor or Ignore; None is Honor."""

    @property
    def node_taints_policy(self) -> str | None:
        """Honor or Ignore; None is Ignore."""


def constraint(source: ConstraintLike, selector: Selector, kubernetes: KubernetesVersion) -> SpreadConstraint:
    """Fill in the API's defaults."""
    return SpreadConstraint(
        source.max_skew,
        source.topology_key,
        selector,
        1 if source.min_domains is None else source.min_domains,
        source.node_affinity_policy in (None, HONOR),
        source.node_taints_policy == HONOR,
        kubernetes.empty_selects_all,
    )


def lists_many(pod: fw.PodInfo) -> bool:
    """Tell whether a pod has more constraints, or longer ones, than are worth a count each that is kept up to date."""
    return len(pod.spec.topology_spread) > _MAX_KEPT or pod.spec.lists_much


class Constraints:
    """The constraints of pods, remembered per class of pods.

    Args:
        defaults: for pods without constraints of their own.
        kubernetes: the version to behave as.
    """

    def __init__(self, defaults: Sequence[ConstraintLike], kubernetes: KubernetesVersion) -> None:
        self._kubernetes = kubernetes
        self._defaults = {
            action: [default for default in defaults if default.when_unsatisfiable == action] for action in ACTIONS
        }
        self._own: dict[tuple[object, ...], tuple[SpreadConstraint, ...]] = {}
        # Until the last pod of the class is gone: 4,096 lists of thousands of constraints would be gigabytes.
        self._many: WeakKeyDictionary[fw.SpecInfo, dict[tuple[object, ...], tuple[SpreadConstraint, ...]]] = (
            WeakKeyDictionary()
        )
        self._selectors: dict[tuple[object, ...], _Deduced] = {}
        self._objects: fw.Objects | None = None

    def of(self, pod: fw.PodInfo, objects: fw.Objects | None, action: str) -> tuple[SpreadConstraint, ...]:
        """Return the constraints of a kind that hold for a pod.

        Raises:
            ValueError: a selector cannot be read.
        """
        if not pod.spec.topology_spread:
            return self._by_default(pod, objects, action)
        labels = pod.labels
        keys = [labels.get(key) for source in pod.spec.topology_spread for key in source.match_label_keys]
        token = (pod.spec.class_key, action, *keys)
        known = self._own
        if lists_many(pod):
            known = self._many.setdefault(pod.spec, {})
        own = known.get(token)
        if own is None:
            if len(known) >= _MAX_CACHED:
                known.clear()
            own = known[token] = own_constraints(pod, action, self._kubernetes)
        return own

    def has_defaults(self, action: str) -> bool:
        """Tell whether pods without constraints of their own may get some of a kind."""
        return bool(self._defaults[action])

    def _by_default(self, pod: fw.PodInfo, objects: fw.Objects | None, action: str) -> tuple[SpreadConstraint, ...]:
        """Return the profile's constraints, for a pod that something owns or serves; else none."""
        wanted = self._defaults[action]
        if not wanted or objects is None:
            return ()
        selector = self._deduced_selector(pod, objects)
        if selector.everything:
            return ()
        return tuple([constraint(source, selector, self._kubernetes) for source in wanted])

    def _deduced_selector(self, pod: fw.PodInfo, objects: fw.Objects) -> Selector:
        if objects is not self._objects:
            # Generations of two stores say nothing about each other.
            self._selectors.clear()
            self._objects = objects
        owner = pod.controller
        reference = None if owner is None else (owner.api_version, owner.kind, owner.name)
        token = (pod.namespace, frozenset(pod.labels.items()), reference)
        # Controllers change with every pod of theirs, their selectors hardly ever: those are compared.
        services, owners = objects.generation("Service"), owner_selector(pod, objects)
        deduced = self._selectors.get(token)
        if deduced is None or (deduced.services, deduced.owners) != (services, owners):
            if len(self._selectors) >= _MAX_CACHED:
                self._selectors.clear()
            deduced = self._selectors[token] = _Deduced(services, owners, default_selector(pod, objects))
        return deduced.selector


class _Deduced(NamedTuple):
    """A selector, and what it was deduced from, apart from the pod."""

    services: int
    owners: OwnerSelector
    selector: Selector


def own_constraints(pod: fw.PodInfo, action: str, kubernetes: KubernetesVersion) -> tuple[SpreadConstraint, ...]:
    """Return the pod's own constraints of a kind.

    Raises:
        ValueError: a selector cannot be read.
    """
    own = []
    for source in pod.spec.topology_spread:
        if source.when_unsatisfiable != action:
            continue
        try:
            selector = compiled_selector(source.label_selector)
        except SelectorError as error:
            kind = "hard" if action == HARD else "soft"
            raise ValueError(f"obtaining pod's {kind} topology spread constraints: {error}") from error
        if source.match_label_keys:
            labels = {key: pod.labels[key] for key in source.match_label_keys if key in pod.labels}
            selector &= selector_from_set(labels)
        own.append(constraint(source, selector, kubernetes))
    return tuple(own)


def has_selectors(objects: fw.Objects, namespace: str) -> bool:
    """Tell whether a namespace has anything that `default_selector` could find."""
    for kind in _SELECTOR_KINDS:  # noqa: SIM110 -- runs in every attempt, and a generator takes twice as long
        if objects.in_namespace(kind, namespace):
            return True
    return False


def owner_selector(pod: fw.PodInfo, objects: fw.Objects) -> OwnerSelector:
    """Return the selector of the pod's controller, if that is known and of a kind that has one."""
    owner = pod.controller
    kind = None if owner is None else _OWNERS.get((owner.api_version, owner.kind))
    owner_object = None if owner is None or kind is None else objects.get(kind, pod.namespace, owner.name)
    selector: OwnerSelector = None if owner_object is None else owner_object.spec.selector
    return selector


def default_selector(pod: fw.PodInfo, objects: fw.Objects) -> Selector:
    """Return what the Services that select a pod and its controller have in common (helper.DefaultSelector)."""
    labels: dict[str, str] = {}
    for service in objects.in_namespace("Service", pod.namespace):
        wanted: Mapping[str, str] = service.spec.selector
        if wanted and all(pod.labels.get(key) == value for key, value in wanted.items()):
            labels.update(wanted)
    owners = owner_selector(pod, objects)
    if isinstance(owners, dict):
        return selector_from_set({**labels, **owners})
    selector = selector_from_set(labels)
    if owners is None:
        return selector
    try:
        return selector & compiled_selector(owners)
    except SelectorError:
        return selector


def charge(state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, constraints: Sequence[SpreadConstraint]) -> None:
    """Charge for constraints of a kind. Counts of few constraints are kept, and cost next to nothing."""
    if not lists_many(pod):
        return
    keys = sum(1 for constraint in constraints if view.labels(constraint.topology_key).values)
    units = 10 * len(constraints) + keys * (50 + len(view.rows) // 20 + view.label_set_count)
    state.work.charge(units, "constraints x (nodes + sets of pod labels)")


def charge_for_services(state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView) -> None:
    """Charge for the Services of a namespace, among which default constraints look for those of the pod."""
    services = len(view.objects.in_namespace("Service", pod.namespace))
    if services > _FEW_SERVICES:
        state.work.charge_once(
            ("PodTopologySpread", pod.namespace, frozenset(pod.labels.items())), services, "Services of the namespace"
        )


# Which nodes count for a constraint, remembered while nodes keep their labels and taints.

_MAX_NODE_SETS = 512
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

    nodes: fw.NodeSet | None
    present: fw.BoolArray
    number: int


class NodeSets:
    """The memory; one per plugin instance."""

    def __init__(self) -> None:
        self._topology = -1
        self._counted: dict[tuple[object, ...], CountedNodes] = {}
        self._masks: dict[tuple[object, ...], fw.BoolArray] = {}

    def counted(
        self, view: fw.NodeView, pod: fw.PodInfo, constraint: SpreadConstraint, keys: Sequence[str]
    ) -> CountedNodes:
        """Return the nodes that have all `keys` and pass the constraint's policies for a pod."""
        if view.topology != self._topology or len(self._counted) >= _MAX_NODE_SETS:
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
    def _mask(
        view: fw.NodeView, pod: fw.PodInfo, affinity: bool, taints: bool, keys: Sequence[str]
    ) -> fw.BoolArray | None:
        """Return the rows of the table that count; None for all.

        Args:
            view: the nodes.
            pod: the pod whose requirements and tolerations apply.
            affinity: whether nodes must match the pod's nodeSelector and affinity (nodeAffinityPolicy Honor).
            taints: whether nodes must have no untolerated taint (nodeTaintsPolicy Honor).
            keys: labels that nodes must have.
        """
        rows = np.arange(view.size, dtype=np.intp)
        masks: list[fw.BoolArray] = [view.labels(key).codes >= 0 for key in keys]
        if affinity:
            matching = required_affinity_mask(view, rows, pod.spec)
            if matching is not None:
                masks.append(matching)
        if taints:
            untolerated = untolerated_mask(view, rows, pod.spec.tolerations)
            if untolerated is not None:
                masks.append(~untolerated)
        return np.logical_and.reduce(masks) if masks else None


def every_key(view: fw.NodeView, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that nodes must have, as a key for nodes that have all of them."""
    return tuple(sorted(set(keys))) if all(view.labels(key).values for key in keys) else (_NO_NODE,)


def _counted(view: fw.NodeView, key: str, token: tuple[object, ...], mask: fw.BoolArray | None) -> CountedNodes:
    column = view.labels(key)
    codes = column.codes[view.rows] if mask is None else column.codes[view.rows[mask[view.rows]]]
    present = np.zeros(len(column.values) + 1, dtype=np.bool_)
    present[codes] = True
    present[-1] = False
    nodes = None if mask is None else fw.NodeSet(token, mask)
    return CountedNodes(nodes, present, int(np.count_nonzero(present)))


def matching_pods(
    view: fw.NodeView, pod: fw.PodInfo, constraint: SpreadConstraint, counted: CountedNodes, *, kept: bool
) -> fw.IntArray:
    """Return the pods that match a constraint, by domain; `kept`: whether the count is kept for the next pod."""
    query = constraint.query(pod.namespace)
    if query is None:
        return np.zeros(len(counted.present), dtype=np.int64)
    if kept:
        return view.pods_by_domain(query, constraint.topology_key, counted.nodes)
    return view.weigh_pods([(query, 1)], constraint.topology_key, counted.nodes).counts


# What soft constraints score.


class PreScoreState(Struct):
    """What PreScore found for the feasible rows.

    Attributes:
        scores_by_constraint: per constraint, what it adds to each row.
        ignored: rows that lack a key; None where none does.
    """

    scores_by_constraint: list[fw.FloatArray]
    ignored: fw.BoolArray | None


def pre_score_state(
    view: fw.NodeView,
    pod: fw.PodInfo,
    rows: fw.RowArray,
    constraints: Sequence[SpreadConstraint],
    require_all: bool,
    sets: NodeSets,
) -> PreScoreState:
    """Compute every constraint's part of the score (initPreScoreState and processAllNode).

    Args:
        view: the nodes.
        pod: the pod to place.
        rows: the feasible nodes.
        constraints: the pod's soft constraints.
        require_all: whether nodes that lack one of the keys take no part at all.
        sets: remembers which nodes count for a constraint.
    """
    if require_all and not all(view.labels(constraint.topology_key).values for constraint in constraints):
        # No node has all keys.
        return PreScoreState([np.zeros(len(rows))], np.ones(len(rows), dtype=np.bool_))
    columns = [fw.gather_codes(view, view.labels(constraint.topology_key).codes, rows) for constraint in constraints]
    ignored: fw.BoolArray | None = None
    if require_all:
        lacking = np.logical_or.reduce([codes < 0 for codes in columns])
        ignored = lacking if lacking.any() else None
    keys = [constraint.topology_key for constraint in constraints] if require_all else ()
    scores_by_constraint = []
    for constraint, codes in zip(constraints, columns, strict=True):
        query = constraint.query(pod.namespace)
        if constraint.topology_key == HOSTNAME:
            size = len(rows) - (0 if ignored is None else int(np.count_nonzero(ignored)))
            counts = None if query is None else fw.gather_codes(view, view.pods_by_node(query), rows)
            scores_by_constraint.append(_host_scores(constraint, counts, codes, size))
            continue
        size = _count_domains(view, constraint, codes, ignored)
        counted = sets.counted(view, pod, constraint, keys)
        sums = np.zeros(len(counted.present), dtype=np.int64)
        if require_all and lists_many(pod):
            sums = matching_pods(view, pod, constraint, counted, kept=False)
        elif query is not None:
            sums = _counts_by_domain(view, constraint.topology_key, query, counted, require_all)
        table = _score_for_counts(constraint, sums, size)
        table[-1] = 0.0
        scores_by_constraint.append(table.take(codes, mode="wrap"))
    return PreScoreState(scores_by_constraint, ignored)


def _count_domains(
    view: fw.NodeView, constraint: SpreadConstraint, codes: fw.RowArray, ignored: fw.BoolArray | None
) -> int:
    """Return the number of domains of feasible nodes. A node without the label is in the domain ""."""
    column = view.labels(constraint.topology_key)
    seen = np.zeros(len(column.values) + 1, dtype=np.bool_)
    seen[codes if ignored is None else codes[~ignored]] = True
    empty = column.index.get("")
    if empty is not None and seen[-1]:
        seen[empty] = True
        seen[-1] = False
    return int(np.count_nonzero(seen))


def _counts_by_domain(
    view: fw.NodeView, key: str, query: fw.PodQuery, counted: CountedNodes, require_all: bool
) -> fw.IntArray:
    """Return matching pods by domain; those on nodes without the label count for the domain "".

    Args:
        view: the nodes.
        key: the constraint's topology key.
        query: the pods that match.
        counted: the nodes that count.
        require_all: whether nodes that lack a key take no part, so that none counts for the domain "".
    """
    counts = view.pods_by_domain(query, key, counted.nodes)
    column = view.labels(key)
    empty = column.index.get("")
    if empty is None or require_all:
        return counts
    unlabelled = column.codes < 0
    if counted.nodes is not None:
        unlabelled &= counted.nodes.mask
    if unlabelled.any():
        counts = counts.copy()
        counts[empty] += int(view.pods_by_node(query)[unlabelled].sum())
    return counts


def _host_scores(
    constraint: SpreadConstraint, counts: fw.IntArray | None, codes: fw.RowArray, size: int
) -> fw.FloatArray:
    """Return what a host name constraint adds: pods on the node itself count, whatever the policies."""
    part = _score_for_counts(constraint, np.zeros(len(codes), dtype=np.int64) if counts is None else counts, size)
    absent = codes < 0
    if absent.any():
        part[absent] = 0.0
    return part


def _score_for_counts(constraint: SpreadConstraint, counts: fw.IntArray, size: int) -> fw.FloatArray:
    # In upstream's order of operations: the product first, then the skew.
    part = counts.astype(np.float64)
    part *= math.log(size + 2)
    part += float(constraint.max_skew - 1)
    return part


def summed_scores(state: PreScoreState) -> fw.IntArray:
    """Return the sums, rounded half away from zero; 0 for ignored rows."""
    total = state.scores_by_constraint[0]
    for part in state.scores_by_constraint[1:]:
        total = total + part
    # Rounded half away from zero; nothing is negative here.
    whole = np.floor(total)
    scores: fw.IntArray = whole.astype(np.int64)
    scores += total - whole >= 0.5
    if state.ignored is not None:
        scores[state.ignored] = 0
    return scores


def normalize_scores(scores: fw.IntArray, ignored: fw.BoolArray | None) -> fw.IntArray:
    """Scale so that the least spread row gets the least: 100 * (max + min - score) / max; ignored rows get 0."""
    scored = scores if ignored is None else scores[~ignored]
    if not len(scored):
        return np.zeros_like(scores)
    lowest, highest = int(scored.min()), int(scored.max())
    if highest:
        result: fw.IntArray = floor_divide(fw.MAX_SCORE * (highest + lowest - scores), highest)
    else:
        result = np.full_like(scores, fw.MAX_SCORE)
    if ignored is not None:
        result[ignored] = 0
    return result
