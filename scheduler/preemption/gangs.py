"""Making room for a gang: all lower pods are taken away, the gang is placed once, and whoever need not go comes back
(PodGroupEvaluator of kube-scheduler 1.37).

Upstream puts each lower pod of the cluster back by itself and asks the filters about every member. Here what is on
nodes that no member was given comes back at once, where filters look at nothing but the node; on the others, nodes
that have no pods to go together are tried at the same time. The answer is the same, as what is put back only takes
room away.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, field

from scheduler.framework import (
    BoolArray,
    Code,
    CycleState,
    Diagnosis,
    FilterRunner,
    GangAssignment,
    GangPostFilterResult,
    GangTrials,
    NodeView,
    PluginError,
    PodBatch,
    PodInfo,
    Preemptor,
    RowArray,
    Status,
    WhatIfView,
    Work,
    failure,
    unresolvable,
    unschedulable,
)
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.groups import PreemptionUnit, UnitsInView, unit_of_pod
from scheduler.preemption.trials import PDB, RUN_UNITS, Budgets
from scheduler.preemption.victims import VictimRules, is_preempted

PREFIX: Final = "pod group preemption: "
WAITING_AS_GROUP: Final = "waiting for the preemption for this pod group to be finished"
NODE: Final = "cluster"
"""Where the victims of a group are preempted, as messages say it."""
_NEVER = "not eligible due to preemptionPolicy=Never."
_ONGOING = "ongoing preemption on nominated nodes"
_NO_VICTIMS = "No preemption victims found for incoming preemptor"
_ROUNDS = 4
"""So often who had to go is given another chance, as others are in the way who took its room."""
_POD_UNITS, _UNIT_UNITS = 3, 8
"""To take a pod away, and to compare what is preempted together with others, measured."""


class GangEvaluator:
    """What the PodGroupPostFilter of a preempting plugin does."""

    def __init__(self, filters: FilterRunner | None, rules: VictimRules, evictions: Evictions | None) -> None:
        """Configure.

        Args:
            filters: of the profile.
            rules: who may be evicted.
            evictions: of the plugin; None where nobody is evicted (simulation).
        """
        self._filters = filters
        self._rules = rules
        self._evictions = evictions

    def post_filter(
        self, preemptor: Preemptor, view: NodeView, trials: GangTrials, work: Work
    ) -> tuple[GangPostFilterResult | None, Status]:
        """Nominate the members and start evicting, or say why preemption does not help."""
        if not (preemptor.may_preempt and all(pod.spec.preemption_policy != "Never" for pod in preemptor.pods)):
            return None, unschedulable(PREFIX + _NEVER)
        if self._is_ongoing(preemptor, view):
            nominated = {pod.uid: view.nomination_of(pod.uid) for pod in preemptor.pods}
            return GangPostFilterResult(nominated), Status(Code.SUCCESS, (PREFIX + _ONGOING,))
        if self._filters is None:
            return None, failure(f"{PREFIX}there are no filters to ask")
        room = _Room(preemptor, view, self._filters, self._rules, work)
        if not room.lower:
            return None, unresolvable(PREFIX + _NO_VICTIMS)
        trial = trials.place(room.view)
        if not trial.status.is_success:
            return None, Status(trial.status.code, (PREFIX + trial.status.message,))
        try:
            victims = room.victims_of(trial.assignments, trials)
        except PluginError as error:
            return None, failure(f"{PREFIX}{error}")
        nominated = {assignment.pod.uid: assignment.node for assignment in trial.assignments}
        self._evict(preemptor, nominated, victims, view)
        text = f"found a placement for podgroup, preempting {len(victims)} victims"
        return GangPostFilterResult(nominated, victims, bool(victims)), Status(Code.SUCCESS, (PREFIX + text,))

    def _is_ongoing(self, preemptor: Preemptor, view: NodeView) -> bool:
        """Tell whether pods go already where the members are nominated to."""
        evictions = self._evictions
        if evictions is not None and (
            evictions.is_running(preemptor.uid) or evictions.has_victims_left(preemptor.uid, view)
        ):
            return True
        rows = {view.row(node) for pod in preemptor.pods if (node := pod.nominated_node)} - {-1}
        return any(
            other.priority < preemptor.priority and is_preempted(other) for row in rows for other in view.pods_on(row)
        )

    def _evict(
        self, preemptor: Preemptor, nominated: Mapping[str, str], victims: Sequence[PodInfo], view: NodeView
    ) -> None:
        if self._evictions is None or not victims:
            return
        uids = {victim.uid for victim in victims}
        names = {victim.node_name for victim in victims if victim.node_name} | set(nominated.values())
        nodes = {
            other.uid: name
            for name in names
            if (row := view.row(name)) >= 0
            for other in view.pods_on(row)
            if other.uid in uids
        }
        self._evictions.start(preemptor, NODE, nominated, victims, nodes, (), view)


class _Unit(Struct, eq=False):
    """What is preempted together, and where its pods are in the batch of all lower ones."""

    unit: PreemptionUnit
    indices: list[int]
    violations: int = 0


class _Part(Struct, eq=False):
    """Nodes that can be judged without the others, and the lists of what has yet to be put back there; the next one at
    the end."""

    rows: set[int]
    lists: list[list[_Unit]] = field(default_factory=list)


class _Room:
    """The cluster without the pods that may be evicted for a gang.

    Attributes:
        lower: how many there are.
        view: the cluster without them; what need not go comes back.
    """

    def __init__(
        self,
        preemptor: Preemptor,
        view: NodeView,
        filters: FilterRunner,
        rules: VictimRules,
        work: Work,
    ) -> None:
        self._before = view
        self._filters = filters
        self._rules = rules
        self._work = work
        self._now = view.now
        self._objects = view.objects
        self._units = UnitsInView(rules.groups, view) if rules.groups.exist() else None
        self._batch = PodBatch(self._lower_pods(preemptor, view))
        self.lower = len(self._batch.pods)
        self.view = view.overlay()
        self.view.forget_nominations({pod.uid for pod in preemptor.pods})
        self.view.move_pods(self._batch, self._batch.all_indices(), -1)

    def _lower_pods(self, preemptor: Preemptor, view: NodeView) -> list[tuple[int, PodInfo]]:
        rows = view.rows[view.lowest_priority[view.rows] < preemptor.priority]
        self._work.charge(int(view.pod_count[rows].sum()) * _POD_UNITS, "pods on nodes")
        priority = preemptor.priority
        lower = [(row, pod) for row in rows.tolist() for pod in view.pods_on(row) if pod.priority < priority]
        return [each for each in lower if not preemptor.is_own(each[1])]

    def victims_of(self, assignments: Sequence[GangAssignment], trials: GangTrials) -> tuple[PodInfo, ...]:
        """Put back who need not go for members on their nodes; returns the others, the most important first."""
        members = _Members(assignments, self.view, self._before, trials)
        needed = np.isin(self._batch.rows, members.rows)
        units = self._in_order(needed)
        victims = self._put_back_by_node(units, members)
        together = [index for unit in units for index in unit.indices]
        apart = np.flatnonzero(~needed & ~np.isin(np.arange(self.lower), together))
        self.view.move_pods(self._batch, apart, 1)
        if members.look_further and not trials.still_fit(self.view, assignments):
            self.view.move_pods(self._batch, apart, -1)
            victims = self._without_those_in_the_way(units, victims, members, assignments, trials)
        ordered = self._rules.units_by_importance([unit.unit for unit in victims], self._now)
        return tuple(pod for unit in ordered for pod in unit.pods)

    def _without_those_in_the_way(
        self,
        units: Sequence[_Unit],
        victims: Sequence[_Unit],
        members: "_Members",
        assignments: Sequence[GangAssignment],
        trials: GangTrials,
    ) -> list[_Unit]:
        """Find who is in the members' way wherever they are, such as by an affinity; returns all that have to go.

        Args:
            units: what is on the members' nodes.
            victims: those of them for which there is no room; the others are back.
            members, assignments, trials: of the gang.
        """

        def fit(part: _Part) -> bool:
            return trials.still_fit(self.view, assignments)

        kept = _without(units, victims)
        self._move_all(kept, -1)
        chosen = np.ones(self.lower, dtype=np.bool_)
        chosen[[index for unit in victims for index in unit.indices]] = False
        in_the_way = self._put_back([_Part(set(), [self._in_order(chosen)])], fit)
        for _ in range(_ROUNDS):
            # Their room may be enough for some of those that had none, who may be in the way, too.
            units, kept = _without(units, in_the_way), _without(kept, in_the_way)
            self._move_all(kept, -1)
            victims = self._put_back_by_node(units, members)
            newly_kept = _without(units, [*victims, *kept])
            kept = _without(units, victims)
            if not newly_kept or fit(_Part(set())):
                break
            self._move_all(newly_kept, -1)
            in_the_way += self._put_back([_Part(set(), [newly_kept])], fit)
        return in_the_way + _without(victims, in_the_way)

    # What is preempted together -------------------------------------------------------------------------------------

    def _in_order(self, chosen: BoolArray) -> list[_Unit]:
        """Return what is preempted together of some pods, in the order in which it is given another chance: first what
        breaks a budget when everybody goes, the most important first."""
        by_first: dict[str, _Unit] = {}
        indices = self._indices_of_groups()
        for index in np.flatnonzero(chosen).tolist():
            unit = self._unit_of(index, indices)
            by_first.setdefault(unit.unit.members[0].pod.uid, unit)
        self._work.charge(len(by_first) * _UNIT_UNITS, "lower pods on nodes of members")
        violations = self._violations(indices)
        units = list(by_first.values())
        important = self._sorted(units)
        for unit in important:
            unit.violations = violations.get(unit.unit.members[0].pod.uid, 0)
        return [unit for unit in important if unit.violations] + [unit for unit in important if not unit.violations]

    def _sorted(self, units: Iterable[_Unit]) -> list[_Unit]:
        by_unit = {id(unit.unit): unit for unit in units}
        ordered = self._rules.units_by_importance([unit.unit for unit in by_unit.values()], self._now)
        return [by_unit[id(unit)] for unit in ordered]

    def _unit_of(self, index: int, of_groups: Mapping[str, int]) -> _Unit:
        row, pod = self._batch.pods[index]
        if self._units is None:
            return _Unit(unit_of_pod(row, pod, self._rules.groups.rank(pod)), [index])
        unit = self._units.unit_of(row, pod)
        if len(unit.members) == 1:
            return _Unit(unit, [index])
        return _Unit(unit, [of_groups[member.pod.uid] for member in unit.members if member.row >= 0])

    def _indices_of_groups(self) -> Mapping[str, int]:
        if self._units is None:
            return {}
        return {pod.uid: index for index, (_, pod) in enumerate(self._batch.pods) if pod.scheduling_group}

    def _violations(self, of_groups: Mapping[str, int]) -> Mapping[str, int]:
        """Return by the UID of its first pod how many pods of a unit break a budget when all lower pods go, the most
        important ones first."""
        every = list(self._objects.every(PDB))
        if not every:
            return {}
        self._work.charge_once(PDB, len(every), "PodDisruptionBudgets")
        budgets = Budgets(every, self._rules.kubernetes)
        covered = [index for index, (_, pod) in enumerate(self._batch.pods) if budgets.in_namespace(pod.namespace)]
        self._work.charge(
            sum(_UNIT_UNITS + budgets.in_namespace(self._batch.pods[index][1].namespace) for index in covered),
            "lower pods x PodDisruptionBudgets",
        )
        units = {unit.unit.members[0].pod.uid: unit for unit in [self._unit_of(index, of_groups) for index in covered]}
        ordered = self._sorted(units.values())
        counts = budgets.count([unit.unit for unit in ordered])
        return {unit.unit.members[0].pod.uid: count for unit, count in zip(ordered, counts, strict=True) if count}

    # Putting back ---------------------------------------------------------------------------------------------------

    def _put_back_by_node(self, units: Sequence[_Unit], members: "_Members") -> list[_Unit]:
        """Put back what the members' nodes have room for, each node by itself; returns the rest."""
        parts: dict[int, _Part] = {}
        for unit in units:
            rows = {self._batch.pods[index][0] for index in unit.indices} & members.by_row.keys()
            joined = {id(part): part for row in rows if (part := parts.get(row)) is not None}
            first, *others = joined.values() or [_Part(set(), [[]])]
            for other in others:
                first.rows |= other.rows
            first.rows |= rows
            parts.update(dict.fromkeys(first.rows, first))
        for unit in units:
            row = next(row for index in unit.indices if (row := self._batch.pods[index][0]) in parts)
            parts[row].lists[0].append(unit)
        distinct = list({id(part): part for part in parts.values()}.values())

        def fit(rows: set[int]) -> set[int]:
            return members.fitting(self._filters, self.view, rows, self._work)

        return self._put_back(distinct, None, fit)

    def _put_back(
        self,
        parts: Sequence[_Part],
        all_fit: Callable[[_Part], bool] | None,
        fitting: Callable[[set[int]], set[int]] | None = None,
    ) -> list[_Unit]:
        """Put units back part by part, as many at once as the members leave room for; returns those without room.

        A list that does not fit as a whole is halved. What comes of each unit is what would come of it if one after
        the other were tried, in their order.
        """
        left: list[_Unit] = []
        active = [part for part in parts if part.lists and part.lists[-1]]
        while active:
            turns = [(part, part.lists.pop()) for part in active]
            for _, units in turns:
                for unit in units:
                    self._move(unit, 1)
            fit = fitting(set().union(*(part.rows for part in active))) if fitting is not None else set()
            for part, units in turns:
                if all_fit(part) if all_fit is not None else part.rows <= fit:
                    continue
                for unit in units:
                    self._move(unit, -1)
                if len(units) == 1:
                    left += units
                else:
                    middle = len(units) // 2
                    part.lists += [units[middle:], units[:middle]]
            active = [part for part in active if part.lists]
        return left

    def _move_all(self, units: Iterable[_Unit], sign: int) -> None:
        for unit in units:
            self._move(unit, sign)

    def _move(self, unit: _Unit, sign: int) -> None:
        self.view.move_pods(self._batch, np.array(unit.indices, dtype=np.int64), sign)


def _without(units: Iterable[_Unit], others: Iterable[_Unit]) -> list[_Unit]:
    """Return units but those that are among others."""
    uids = frozenset().union(*(unit.unit.uids for unit in others))
    return [unit for unit in units if uids.isdisjoint(unit.unit.uids)]


class _Kind(Struct, eq=False):
    """Members that filters do not tell apart.

    Attributes:
        pod, state: one of them, after PreFilter.
        before: by row, how many members were placed there before the last one of this kind.
    """

    pod: PodInfo
    state: CycleState
    before: dict[int, int] = field(default_factory=dict)


class _Members:
    """The members on the nodes that they were given.

    Attributes:
        rows: those nodes.
        by_row: the members there, in the order in which they were placed.
        look_further: whether a filter looks beyond the node for one of them.
    """

    def __init__(
        self, assignments: Sequence[GangAssignment], view: NodeView, before: NodeView, trials: GangTrials
    ) -> None:
        """`before`: the cluster with all pods."""
        self.by_row: dict[int, list[PodInfo]] = {}
        self._kinds: dict[object, _Kind] = {}
        self.look_further = False
        for pod, node in assignments:
            row = view.row(node)
            there = self.by_row.setdefault(row, [])
            kind = self._kinds.get(_key(pod))
            if kind is None and (prepared := trials.prepare(view, pod)) is not None:
                state, looks_further = prepared
                kind = self._kinds[_key(pod)] = _Kind(pod, state)
                # Some plugins say only beside the lower pods that they have anything to count.
                looked_further = trials.prepare(before, pod)
                self.look_further |= looks_further or looked_further is None or looked_further[1]
            if kind is None:
                # It wants to be next to others of the gang, maybe: trying it tells.
                self.look_further = True
            else:
                kind.before[row] = len(there)
            there.append(pod)
        self.rows: RowArray = np.array(list(self.by_row), dtype=np.intp)

    def fitting(self, filters: FilterRunner, view: WhatIfView, rows: set[int], work: Work) -> set[int]:
        """Return those of some rows where all members pass that are there, as far as filters look at the node alone."""
        left = set(rows)
        for kind in self._kinds.values():
            here = sorted(left & kind.before.keys())
            if not here:
                continue
            before = [(row, pod) for row in here for pod in self.by_row[row][: kind.before[row]]]
            work.charge(RUN_UNITS + len(here) + len(before), "members of the gang x lower pods")
            beside = view.overlay()
            batch = PodBatch(before)
            beside.move_pods(batch, batch.all_indices(), 1)
            asked: RowArray = np.array(here, dtype=np.intp)
            fit = filters.run_filters_with_nominated(kind.state, kind.pod, beside, asked, Diagnosis(len(here)))
            left -= set(here) - set(fit.tolist())
        return left


def _key(pod: PodInfo) -> object:
    """Return what the answer of filters that look at the node alone depends on."""
    return pod.spec.class_key, pod.priority, pod.nominated_node, pod.claim_names
