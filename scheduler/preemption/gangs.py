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
    Code,
    CycleState,
    Diagnosis,
    FilterRunner,
    GangAssignment,
    GangPostFilterResult,
    GangTrials,
    NodeView,
    OverBudgetError,
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
from scheduler.preemption.groups import GroupKey, PreemptionUnit, UnitsInView, unit_of_pod
from scheduler.preemption.trials import PDB, RUN_UNITS, Budgets
from scheduler.preemption.victims import Candidate, VictimRules, disruption, is_preempted

PREFIX: Final = "pod group preemption: "
WAITING_AS_GROUP: Final = "waiting for the preemption for this pod group to be finished"
NODE: Final = "cluster"
"""Where the victims of a group are preempted, as messages say it."""
_NEVER = "not eligible due to preemptionPolicy=Never."
_ONGOING = "ongoing preemption on nominated nodes"
_NO_VICTIMS = "No preemption victims found for incoming preemptor"
_MAX_REASONS = 1000
"""Gangs of which it is remembered why preemption did not help."""
_MAX_THRESHOLDS = 4
"""Priorities below which pods are taken away before all lower ones are."""
_ROUNDS = 4
"""So often who had to go is given another chance, as others are in the way who took its room."""
_HEADS = 32
"""Kinds of members of which it is asked whether a filter looks beyond the node."""
_PAIR_UNITS = 5
"""To count a pod that was taken away for such a member, measured."""
_UNIT_UNITS = 8
"""To compare what is preempted together with others, measured."""


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
        self._reasons: dict[str, str] = {}

    def post_filter(
        self, preemptor: Preemptor, view: NodeView, trials: GangTrials, work: Work
    ) -> tuple[GangPostFilterResult | None, Status]:
        """Nominate the members and start evicting, or say why preemption does not help."""
        result, status = self._post_filter(preemptor, view, trials, work)
        self._reasons.pop(preemptor.uid, None)
        if result is None:
            self._reasons[preemptor.uid] = status.message.removeprefix(PREFIX)
            if len(self._reasons) > _MAX_REASONS:
                del self._reasons[next(iter(self._reasons))]
        return result, status

    def said_of(self, preemptor: Preemptor) -> str:
        """Say which pods are evicted for a gang, or why that did not help when it was tried last."""
        if self._evictions is not None and (names := self._evictions.names(preemptor.uid)):
            return f"evicted for it: {names}"
        reason = self._reasons.get(preemptor.uid, "")
        return f"preemption did not help: {reason}" if reason else ""

    def _post_filter(
        self, preemptor: Preemptor, view: NodeView, trials: GangTrials, work: Work
    ) -> tuple[GangPostFilterResult | None, Status]:
        if not (preemptor.may_preempt and all(pod.spec.preemption_policy != "Never" for pod in preemptor.pods)):
            return None, unschedulable(PREFIX + _NEVER)
        if self._is_ongoing(preemptor, view):
            nominated = {pod.uid: view.nomination_of(pod.uid) for pod in preemptor.pods}
            return GangPostFilterResult(nominated), Status(Code.SUCCESS, (PREFIX + _ONGOING,))
        if self._filters is None:
            return None, failure(f"{PREFIX}there are no filters to ask")
        try:
            way = self._best_way(preemptor, view, trials, work)
        except PluginError as error:
            return None, failure(f"{PREFIX}{error}")
        if isinstance(way, Status):
            return None, way
        victims = way.victims
        nominated = {assignment.pod.uid: assignment.node for assignment in way.assignments}
        self._evict(preemptor, nominated, victims, view)
        text = f"found a placement for podgroup, preempting {len(victims)} victims"
        return GangPostFilterResult(nominated, victims, bool(victims)), Status(Code.SUCCESS, (PREFIX + text,))

    def _best_way(self, preemptor: Preemptor, view: NodeView, trials: GangTrials, work: Work) -> "_Way | Status":
        """Return the way to make room that hurts least, or why there is none.

        Raises:
            PluginError: a plugin failed.
            OverBudgetError: it is more work than the attempt may be, and no way has been found.
        """
        assert self._filters is not None
        # Of a gang that compares victims nothing is said where there are none: every gang would be told so.
        status = unresolvable() if preemptor.compares_victims else unresolvable(PREFIX + _NO_VICTIMS)
        unstarted = self._rules.start_of_unstarted(view.now)
        heads = {pod.local_key: pod for pod in preemptor.pods}
        prepared = [trials.prepare(view, pod) for pod in list(heads.values())[:_HEADS]]
        looks_further = any(each is None or each[1] for each in prepared)
        best: _Way | None = None
        try:
            for priority in self._thresholds(preemptor, view):
                room = _Room(preemptor, priority, view, self._filters, self._rules, work)
                if looks_further:
                    walked = len(preemptor.pods) * room.lower
                    work.charge(walked * _PAIR_UNITS, "members of the gang x lower pods")
                for trial in trials.place(room.bare, view) if room.lower else ():
                    if not trial.status.is_success:
                        status = Status(trial.status.code, (PREFIX + trial.status.message,))
                        continue
                    way = room.way(trial.assignments, trials)
                    if best is None or way.disruption(unstarted) < best.disruption(unstarted):
                        best = way
                if best is not None and not best.violations:
                    break
        except OverBudgetError:
            if best is None:
                raise
        return status if best is None else best

    @staticmethod
    def _thresholds(preemptor: Preemptor, view: NodeView) -> list[int]:
        """Return the priorities below which pods are taken away, in the order in which that is tried: who needs only
        the lowest ones to go does not get others evicted, wherever the scores would put it."""
        if not preemptor.compares_victims:
            return [preemptor.priority]
        lowest = np.unique(view.lowest_priority[view.rows])
        below = [int(priority) + 1 for priority in lowest[lowest < preemptor.priority - 1][:_MAX_THRESHOLDS]]
        return [*below, preemptor.priority]

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
    """What is preempted together, and where its pods are in a batch of lower ones."""

    unit: PreemptionUnit
    batch: PodBatch
    indices: list[int]

    @property
    def first(self) -> str:
        """UID of its first pod, by which it is known."""
        return self.unit.members[0].pod.uid


class _Way(Struct, eq=False):
    """One way to make room: where the members go, who has to go for them, the most important first, and how many of
    these break a PodDisruptionBudget."""

    assignments: Sequence[GangAssignment]
    victims: tuple[PodInfo, ...]
    violations: int

    def disruption(self, unstarted: float) -> tuple[float, ...]:
        """Return what ways are compared by, the one that hurts least first."""
        if not self.victims:
            return (-1.0,)
        return disruption(Candidate("", self.victims, self.violations), unstarted)


class _Part(Struct, eq=False):
    """Nodes that can be judged without the others, and the lists of what has yet to be put back there; the next one at
    the end."""

    rows: set[int]
    lists: list[list[_Unit]] = field(default_factory=list)


class _Room:
    """The cluster without the pods that may be evicted for a gang.

    Attributes:
        lower: how many there are.
        bare: the cluster without them.
        view: the same, to which comes back what need not go.
    """

    def __init__(
        self,
        preemptor: Preemptor,
        priority: int,
        view: NodeView,
        filters: FilterRunner,
        rules: VictimRules,
        work: Work,
    ) -> None:
        """`priority`: pods below it are taken away."""
        self._before = view
        self._filters = filters
        self._rules = rules
        self._work = work
        self._priority = priority
        self._broken: Mapping[str, int] | None = None
        self._units = UnitsInView(rules.groups, view) if rules.groups.exist() else None
        key = GroupKey(preemptor.group_label, preemptor.namespace, preemptor.name)
        own = rules.groups.placed(view, key)
        own_lower = [member for member in own if member.row >= 0 and member.pod.priority < priority]
        self._own = {member.pod.uid for member in own_lower}
        lower, self.bare = view.without_lower(priority)
        self.lower = lower - len(own_lower)
        for member in own_lower:
            self.bare.add_pod(member.pod, member.row)
        self.bare.forget_nominations({pod.uid for pod in preemptor.pods})
        self.view = self.bare

    def _lower_pods(self, rows: Iterable[int]) -> list[tuple[int, PodInfo]]:
        """Return the pods that were taken from some rows."""
        view, priority = self._before, self._priority
        lower = [(row, pod) for row in rows for pod in view.pods_on(row) if pod.priority < priority]
        self._work.charge(len(lower), "lower pods")
        return [each for each in lower if each[1].uid not in self._own] if self._own else lower

    def _lower_pods_of_all(self) -> list[tuple[int, PodInfo]]:
        view = self._before
        return self._lower_pods(view.rows[view.lowest_priority[view.rows] < self._priority].tolist())

    def way(self, assignments: Sequence[GangAssignment], trials: GangTrials) -> _Way:
        """Put back who need not go for members on their nodes; the others have to."""
        self.view = self.bare.branch()
        members = _Members(assignments, self.view, self._before, trials)
        units = self._in_order(self._units_of(self._lower_pods(members.by_row)))
        victims = self._put_back_by_node(units, members)
        if members.look_further:
            uids = frozenset().union(*(unit.unit.uids for unit in units))
            apart = PodBatch([each for each in self._lower_pods_of_all() if each[1].uid not in uids])
            self.view.move_pods(apart, apart.all_indices(), 1)
            if not trials.still_fit(self.view, assignments):
                self.view.move_pods(apart, apart.all_indices(), -1)
                victims = self._without_those_in_the_way(units, victims, members, assignments, trials)
        ordered = self._rules.units_by_importance([unit.unit for unit in victims], self._before.now)
        broken = self._violations()
        violations = sum(broken.get(unit.first, 0) for unit in victims)
        return _Way(assignments, tuple(pod for unit in ordered for pod in unit.pods), violations)

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
        self._move(kept, -1)
        others = _without(self._units_of(self._lower_pods_of_all()), victims)
        in_the_way = self._put_back([_Part(set(), [self._in_order(others)])], fit)
        for _ in range(_ROUNDS):
            # Their room may be enough for some of those that had none, who may be in the way, too.
            units, kept = _without(units, in_the_way), _without(kept, in_the_way)
            self._move(kept, -1)
            victims = self._put_back_by_node(units, members)
            newly_kept = _without(units, [*victims, *kept])
            kept = _without(units, victims)
            if not newly_kept or fit(_Part(set())):
                break
            self._move(newly_kept, -1)
            in_the_way += self._put_back([_Part(set(), [newly_kept])], fit)
        return in_the_way + _without(victims, in_the_way)

    # What is preempted together -------------------------------------------------------------------------------------

    def _units_of(self, pods: Iterable[tuple[int, PodInfo]]) -> list[_Unit]:
        """Return what goes with some pods, each unit once."""
        by_first: dict[str, PreemptionUnit] = {}
        for row, pod in pods:
            if self._units is None:
                unit = unit_of_pod(row, pod, self._rules.groups.rank(pod))
            else:
                unit = self._units.unit_of(row, pod)
            by_first.setdefault(unit.members[0].pod.uid, unit)
        members = [(member.row, member.pod) for unit in by_first.values() for member in unit.members if member.row >= 0]
        self._work.charge(len(members) * _UNIT_UNITS, "lower pods on nodes of members")
        batch, units, end = PodBatch(members), [], 0
        for unit in by_first.values():
            start, end = end, end + sum(member.row >= 0 for member in unit.members)
            units.append(_Unit(unit, batch, list(range(start, end))))
        return units

    def _in_order(self, units: Sequence[_Unit]) -> list[_Unit]:
        """Return units in the order in which they are given another chance: first what breaks a budget when everybody
        goes, the most important first."""
        violations = self._violations()
        important = self._sorted(units)
        return [unit for unit in important if unit.first in violations] + [
            unit for unit in important if unit.first not in violations
        ]

    def _sorted(self, units: Sequence[_Unit]) -> list[_Unit]:
        by_unit = {id(unit.unit): unit for unit in units}
        ordered = self._rules.units_by_importance([unit.unit for unit in units], self._before.now)
        return [by_unit[id(unit)] for unit in ordered]

    def _violations(self) -> Mapping[str, int]:
        """Return by first pod (UID) of those units that break a budget how many of their pods do, when all lower pods
        go, the most important ones first."""
        if self._broken is None:
            self._broken = self._find_violations()
        return self._broken

    def _find_violations(self) -> Mapping[str, int]:
        every = list(self._before.objects.every(PDB))
        if not every:
            return {}
        self._work.charge_once(PDB, len(every), "PodDisruptionBudgets")
        budgets = Budgets(every, self._rules.kubernetes)
        covered = [each for each in self._lower_pods_of_all() if budgets.in_namespace(each[1].namespace)]
        walked = sum(budgets.in_namespace(pod.namespace) for _, pod in covered)
        self._work.charge(walked, "lower pods x PodDisruptionBudgets")
        ordered = self._sorted(self._units_of(covered))
        counts = budgets.count([unit.unit for unit in ordered])
        return {unit.first: count for unit, count in zip(ordered, counts, strict=True) if count}

    # Putting back ---------------------------------------------------------------------------------------------------

    def _put_back_by_node(self, units: Sequence[_Unit], members: "_Members") -> list[_Unit]:
        """Put back what the members' nodes have room for, each node by itself; returns the rest."""
        parts: dict[int, _Part] = {}
        rows_of = [[member.row for member in unit.unit.members if member.row in members.by_row] for unit in units]
        for rows in rows_of:
            joined = {id(part): part for row in rows if (part := parts.get(row)) is not None}
            first, *others = joined.values() or [_Part(set(), [[]])]
            for other in others:
                first.rows |= other.rows
            first.rows |= set(rows)
            parts.update(dict.fromkeys(first.rows, first))
        for unit, rows in zip(units, rows_of, strict=True):
            parts[rows[0]].lists[0].append(unit)
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
            self._move([unit for _, units in turns for unit in units], 1)
            fit = fitting(set().union(*(part.rows for part in active))) if fitting is not None else set()
            refused: list[_Unit] = []
            for part, units in turns:
                if all_fit(part) if all_fit is not None else part.rows <= fit:
                    continue
                refused += units
                if len(units) == 1:
                    left += units
                else:
                    middle = len(units) // 2
                    part.lists += [units[middle:], units[:middle]]
            self._move(refused, -1)
            active = [part for part in active if part.lists]
        return left

    def _move(self, units: Iterable[_Unit], sign: int) -> None:
        indices: dict[int, list[int]] = {}
        batches: dict[int, PodBatch] = {}
        for unit in units:
            batches[id(unit.batch)] = unit.batch
            indices.setdefault(id(unit.batch), []).extend(unit.indices)
        for key, batch in batches.items():
            self.view.move_pods(batch, np.array(indices[key], dtype=np.int64), sign)


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
            members_of_row = self.by_row.setdefault(row, [])
            kind = self._kinds.get(pod.local_key)
            if kind is None and (prepared := trials.prepare(view, pod)) is not None:
                state, looks_further = prepared
                kind = self._kinds[pod.local_key] = _Kind(pod, state)
                # Some plugins say only beside the lower pods that they have anything to count.
                looked_further = trials.prepare(before, pod)
                self.look_further |= looks_further or looked_further is None or looked_further[1]
            if kind is None:
                # It wants to be next to others of the gang, maybe: trying it tells.
                self.look_further = True
            else:
                kind.before[row] = len(members_of_row)
            members_of_row.append(pod)

    def fitting(self, filters: FilterRunner, view: WhatIfView, rows: set[int], work: Work) -> set[int]:
        """Return those of some rows where all members pass that are there, as far as filters look at the node alone."""
        left = set(rows)
        for kind in self._kinds.values():
            asked_rows = sorted(left & kind.before.keys())
            if not asked_rows:
                continue
            before = [(row, pod) for row in asked_rows for pod in self.by_row[row][: kind.before[row]]]
            work.charge(RUN_UNITS + len(asked_rows) + len(before), "members of the gang x lower pods")
            beside = view.overlay()
            beside.add_pods(before)
            candidates: RowArray = np.array(asked_rows, dtype=np.intp)
            fit = filters.run_filters_with_nominated(
                kind.state, kind.pod, beside, candidates, Diagnosis(len(asked_rows))
            )
            left -= set(asked_rows) - set(fit.tolist())
        return left
