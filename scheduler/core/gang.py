"""Choosing nodes for the pods of a gang, together and on one snapshot. Pure, as `decide` is.

Upstream's Coscheduling decides members one by one and holds them in Permit: two gangs that each hold half of the
cluster wait for each other until they time out. Members decided together hold nothing unless enough of them fit. They
are still decided one after the other, each on an overlay with the earlier ones: an optimal packing of all members at
once would be another problem (and NP-hard), and the plugins are written for one pod.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scheduler.answers import GangReport
from scheduler.core.decide import decide
from scheduler.core.domains import WHOLE_CLUSTER, Domain, DomainSearch, Level, level_of, levels_of
from scheduler.core.feasible import BUDGET_REJECTOR, too_much_work
from scheduler.core.placement import Placement, failed, load_ages, rejected
from scheduler.framework import (
    FIRST_OF_EQUALS,
    GANG_UNITS,
    Answered,
    Asking,
    Code,
    CycleState,
    Extender,
    ExtenderError,
    FilterAnswer,
    FilterQuestion,
    Gang,
    GangPlugin,
    GangPostFilter,
    GangSlice,
    GangTopology,
    MemberTries,
    OverBudgetError,
    PodInfo,
    PrioritizeAnswer,
    ProfileRunner,
    Question,
    RandomSource,
    RowArray,
    Status,
    TurnQuestion,
    Work,
    conclude,
)
from scheduler.state import Overlay, Snapshot

OnDecision = Callable[[Snapshot, Placement], None]
_MEMBER_UNITS, _NODES_PER_UNIT = 150, 50
"""A decision about an ordinary member on an overlay, measured: 0.17 ms at 1,000 nodes, 0.24 ms at 5,000."""
_DOMAIN_UNITS = 600
"""To begin with the cluster as it is, in another domain, measured."""
_NODES_PER_SLICE_UNIT = 2
"""To find the domains of a slice, measured: 2.5 ms at 5,000 nodes."""
_TIMES_ASKED = 2
"""In one attempt, extenders are asked about a member at most as often: a gang of thousands could be refused and tried
again as many times."""


_DOMAINS_ASKED_ABOUT = 8
"""In one attempt, extenders are asked about members in at most as many domains."""


_DOMAINS_TRIED = 64
"""In one attempt, of those that look large enough: so many in a row that are not show that what keeps members off is
not counted, and every one is as much work as a gang without a topology."""
_DOMAINS_COMPARED = 8
"""By the pods that would have to go for the gang in each."""
_DOMAINS_SHOWN = 5
"""Of each level, where somebody asks about a gang."""


class GangDecision(Struct, frozen=True):
    """What became of the members that were tried.

    Attributes:
        gang: who belongs together.
        placements: one per pod that was tried, in the order of the pods; where the gang has a topology, in the domain
            that has room for most of them.
        domain: that domain, and
        domains: how many there are at its level.
        obstacle: why there is no domain, and so nothing was tried; "" where there is one.
    """

    gang: Gang
    placements: tuple[Placement, ...]
    domain: Domain = WHOLE_CLUSTER
    domains: int = 0
    obstacle: str = ""

    @property
    def placed(self) -> tuple[Placement, ...]:
        """Return the placements that have a node."""
        return tuple(placement for placement in self.placements if placement.node is not None)

    @property
    def error(self) -> str:
        """Return the message of the first attempt that ended with an error, or ""."""
        return next((each.message or "" for each in self.placements if each.code is Code.ERROR), "")

    @property
    def over_budget(self) -> bool:
        """Whether the attempt was given up as too much work."""
        return any(BUDGET_REJECTOR in placement.rejectors for placement in self.placements)

    @property
    def unplaced(self) -> tuple[Placement, ...]:
        """Return the placements that have none."""
        return tuple(placement for placement in self.placements if placement.node is None)


class _Task(NamedTuple):
    """Whom to place, and how; as `decide_gang` is told."""

    pods: Sequence[PodInfo]
    runner_of: Callable[[PodInfo], ProfileRunner]
    rng: RandomSource
    enough: int
    extenders: Sequence[Extender]
    on_decision: OnDecision | None
    work: Work


def decide_gang(
    snapshot: Snapshot,
    gang: Gang,
    pods: Sequence[PodInfo],
    runner_of: Callable[[PodInfo], ProfileRunner],
    rng: RandomSource,
    enough: int,
    extenders: Sequence[Extender] = (),
    on_decision: OnDecision | None = None,
    work: Work | None = None,
) -> Asking[GangDecision]:
    """Place pods one after the other, each seeing the earlier ones, as `gang.tries` says and until there are `enough`.

    Those that do not fit are passed over; UNTIL_ENOUGH tries them once more when others found a place, as they may want
    to be next to one of these. It asks and is resumed as `decide`, with views without the members placed so far. Where
    its work has turns, it asks for the next one, so that a gang of thousands does not hold up everybody: the cluster
    goes on meanwhile, and what was decided in earlier turns is judged again at the end. It ends with the member at
    which it is more work than it may be.

    Small members may take the room of large ones. Where members that are tried UNTIL_ENOUGH do not fit in their order,
    they are tried once more, the largest of each priority first.

    Args:
        snapshot: the cluster.
        gang, pods: which pods belong together, and those to place, in queue order.
        runner_of: returns a pod's profile.
        rng: for ties.
        enough: how many to place.
        extenders: of the configuration, in calling order.
        on_decision: called with each decision and the view that it was made on.
        work: of the attempt that this is a part of; by default it is one of its own.
    """
    work = work or Work(GANG_UNITS)
    task = _Task(pods, runner_of, rng, enough, extenders, on_decision, work)
    decision = yield from _decide_in_order(snapshot, gang, task)
    if len(decision.placed) >= enough or not _may_try_again(gang, pods, decision, extenders):
        return decision
    if work.turn_is_over is not None:
        # The cluster as it is by now.
        answered = yield TurnQuestion(())
        assert isinstance(answered.view, Snapshot)
        snapshot = answered.view
    # Preemption has to be paid, too.
    limit, work.limit = work.limit, (work.done + work.limit) // 2
    try:
        second = yield from _decide_in_order(snapshot, gang, task._replace(pods=_largest_first(snapshot, pods)))
    finally:
        work.limit = limit
    return second if len(second.placed) >= enough else decision


def _may_try_again(gang: Gang, pods: Sequence[PodInfo], decision: GangDecision, extenders: Sequence[Extender]) -> bool:
    """Tell whether another order of members might fit. Extenders would be asked about each of them again."""
    if gang.tries is not MemberTries.UNTIL_ENOUGH or extenders or not decision.placed or decision.over_budget:
        return False
    first = pods[0].spec.requests
    return not decision.error and any(pod.spec.requests != first for pod in pods)


def _largest_first(view: Snapshot, pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Return pods by priority, then by the largest share of what the cluster has of a resource."""
    resources = {resource for pod in pods for resource in pod.spec.requests}
    total = {resource: float(view.allocatable(resource)[view.rows].sum()) for resource in resources}

    def share(pod: PodInfo) -> float:
        return max((amount / total[name] for name, amount in pod.spec.requests.items() if total[name]), default=0.0)

    return sorted(pods, key=lambda pod: (-pod.priority, -share(pod)))


def _decide_in_order(snapshot: Snapshot, gang: Gang, task: _Task) -> Asking[GangDecision]:
    if gang.topology is None:
        return (yield from _GangAttempt(snapshot, gang, WHOLE_CLUSTER, task).run())
    return (yield from _search_domains(snapshot, gang, gang.topology, task))


def _domains_of(snapshot: Snapshot, gang: Gang, topology: GangTopology, task: _Task) -> DomainSearch | GangDecision:
    """Return the domains in which a gang may be tried, or the decision where there is none."""
    pods, runner_of, rng, enough, _, _, work = task
    levels, slices = levels_of(snapshot, topology), None
    if topology.slices:
        level = level_of(snapshot, _slice_keys(topology), ())
        if not level.count:
            return GangDecision(gang, (), obstacle=f"no node has the label {topology.slice_label}")
        if not any(part.nodes for part in topology.slices):
            slices = level, max(len(part.uids) for part in topology.slices)
    try:
        domains = DomainSearch(
            snapshot, levels, topology.nodes, pods, enough, _equivalence_key, runner_of, rng, work, slices
        )
    except OverBudgetError as error:
        return GangDecision(gang, (_too_much(snapshot, pods[0], rng, work, error),))
    if obstacle := domains.obstacle():
        return GangDecision(gang, (), obstacle=obstacle)
    return domains


def decide_in_domains(
    view: Snapshot,
    before: Snapshot,
    gang: Gang,
    pods: Sequence[PodInfo],
    runner_of: Callable[[PodInfo], ProfileRunner],
    rng: RandomSource,
    enough: int,
    work: Work,
) -> Iterator[GangDecision]:
    """Yield what becomes of a gang in some of the domains that look large enough: first in those that had most room on
    a view `before` pods were taken away. Where there is nothing to choose from, what `decide_gang` decides."""
    task = _Task(pods, runner_of, rng, enough, (), None, work)
    topology = gang.topology
    tried = False
    if topology is not None and not topology.is_scored:
        domains, formerly = (_domains_of(each, gang, topology, task) for each in (view, before))
        if isinstance(domains, DomainSearch) and isinstance(formerly, DomainSearch):
            for domain in list(islice(domains.with_room(formerly), _DOMAINS_COMPARED)):
                tried = True
                decision = conclude(_GangAttempt(view, gang, domain, task).run())
                yield replace(decision, domains=domains.beside(domain))
    if not tried:
        yield conclude(decide_gang(view, gang, pods, runner_of, rng, enough, work=work))


def _search_domains(snapshot: Snapshot, gang: Gang, topology: GangTopology, task: _Task) -> Asking[GangDecision]:
    """Try the gang in one domain after the other, until enough members fit; else return what became of it in that where
    most did."""
    domains = _domains_of(snapshot, gang, topology, task)
    if isinstance(domains, GangDecision):
        return domains
    if topology.is_scored:
        return (yield from _best_scored(snapshot, gang, domains, task))
    best, cluster = GangDecision(gang, ()), snapshot
    # All at once: the search is of the cluster as it is before the first question.
    for tried, domain in enumerate(list(islice(domains, _DOMAINS_TRIED)), 1):
        attempt = _GangAttempt(cluster, gang, domain, task)
        decision = replace((yield from attempt.run()), domains=domains.beside(domain))
        if tried == 1 or len(decision.placed) > len(best.placed) or attempt.ended:
            best = decision
        if len(decision.placed) >= task.enough or attempt.ended or (attempt.asked and tried == _DOMAINS_ASKED_ABOUT):
            break
        cluster = attempt.cluster
    return best


def _too_much(view: Snapshot, pod: PodInfo, rng: RandomSource, work: Work, error: OverBudgetError) -> Placement:
    """Return the rejection of a member with which an attempt became too much work."""
    state = CycleState(rng, work=work)
    return rejected(view, pod, state, too_much_work(view, state, error), load_ages(view))


def _slice_keys(topology: GangTopology) -> tuple[str, ...]:
    """Return the label of slices and those of the levels: racks of two blocks may have one name."""
    return (topology.slice_label, *[label for label in topology.levels if label != topology.slice_label])


def _best_scored(snapshot: Snapshot, gang: Gang, domains: DomainSearch, task: _Task) -> Asking[GangDecision]:
    """Try the gang in every domain, and return the decision with the best score among those with enough members
    (podGroupSchedulingPlacementAlgorithm of 1.37); chance decides among equals. A domain without need not be scored."""
    cluster, tried, feasible = snapshot, [], []
    for domain in list(domains.all()):
        attempt = _GangAttempt(cluster, gang, domain, task)
        decision = replace((yield from attempt.run()), domains=domains.beside(domain))
        if decision.error or decision.over_budget:
            return decision
        tried.append(decision)
        if len(decision.placed) >= gang.missing:
            feasible.append((decision, attempt.rate(task.runner_of(task.pods[0])), attempt.cluster))
        cluster = attempt.cluster
    best = tried[0]
    while feasible:
        most = max(gang.placed + len(decision.placed) for decision, _, _ in feasible)
        totals = [rate + (gang.placed + len(decision.placed)) * 100 // most for decision, rate, _ in feasible]
        highest = max(totals)
        ties = [index for index, total in enumerate(totals) if total == highest]
        chosen = ties[int(task.rng.random() * len(ties))] if len(feasible) > 1 else 0
        best, _, decided_on = feasible.pop(chosen)
        if decided_on is cluster:
            break
        best = _GangAttempt(cluster, gang, best.domain, task).judge(best)
        if len(best.placed) >= gang.missing:
            break
    return best


class _GangAttempt:
    """The members of one gang: which are placed in a domain, and the cluster with these.

    Attributes:
        cluster: as it is now.
        ended: whether there is no sense in going on, here or in another domain.
    """

    def __init__(self, snapshot: Snapshot, gang: Gang, domain: Domain, task: _Task) -> None:
        self._work = task.work
        self._gang = gang
        self._domain = domain
        self._tries_again = gang.tries is MemberTries.UNTIL_ENOUGH
        self.cluster = snapshot
        self._pods = task.pods
        self._uids = frozenset(pod.uid for pod in task.pods)
        self._overlay = self._without_members()
        self._runner_of = task.runner_of
        self._rng = task.rng
        self._enough = task.enough
        self._extenders = task.extenders
        self._on_decision = task.on_decision
        self._placements: dict[str, Placement] = {}
        self._placed_after: dict[str, int] = {}
        """UIDs of the placed members, in order, and the number of the view on which each was decided."""
        self._views = 0
        self._answers = 0
        self._times_asked: Counter[str] = Counter()
        self._silent: set[int] = set()
        self._slice_level: Level | None = None
        self._slice_ranks: dict[tuple[str, ...], RowArray] = {}
        self._slice_view = 0
        """Number of the view on which the domains of slices were looked up."""
        self.ended = False

    @property
    def asked(self) -> bool:
        """Whether an extender was."""
        return self._answers > 0

    def judge(self, decision: GangDecision) -> GangDecision:
        """Return what is left of a decision that was made on an earlier view."""
        self._placements = {placement.pod.uid: placement for placement in decision.placements}
        self._placed_after = {placement.pod.uid: -1 for placement in decision.placed}
        self._lose_changed_nodes()
        return replace(decision, placements=tuple(self._placements.values()))

    def rate(self, runner: ProfileRunner) -> int:
        """Return the weighted sum of what plugins say of the domain with the members that are placed."""
        pods = [self._placements[uid].pod for uid in self._placed_after]
        rows = self._overlay.candidates
        return sum(weight * scorer.score_domain(pods, self._overlay, rows) for scorer, weight in runner.domain_scorers)

    def _too_much(self, pod: PodInfo, error: OverBudgetError) -> Placement:
        return _too_much(self._overlay, pod, self._rng, self._work, error)

    def _without_members(self) -> Overlay:
        """Return the cluster as it is now, with the nodes of the domain as candidates."""
        overlay = self.cluster.branch(self._rows())
        overlay.forget_nominations(self._uids)
        return overlay

    def _rows(self) -> RowArray:
        return self._domain.rows(self.cluster)

    def run(self) -> Asking[GangDecision]:
        topology = self._gang.topology
        if topology is not None:
            try:
                self._work.charge(_DOMAIN_UNITS + self.cluster.node_count // _NODES_PER_UNIT, "domains x nodes")
            except OverBudgetError as error:
                self.ended = True
                given_up = _too_much(self.cluster, self._pods[0], self._rng, self._work, error)
                return GangDecision(self._gang, (given_up,))
        if topology is not None and topology.slices:
            yield from self._place_slices(topology)
        else:
            yield from self._place(self._pods)
        if self._lose_changed_nodes() and self._tries_again and (topology is None or not topology.slices):
            yield from self._place([pod for pod in self._pods if pod.uid not in self._placed_after])
            self._lose_changed_nodes()
        placements = self._placements
        members = tuple(placements[pod.uid] for pod in self._pods if pod.uid in placements)
        return GangDecision(self._gang, members, self._domain)

    def _place_slices(self, topology: GangTopology) -> Asking[None]:
        """Place one slice after the other, each as a whole in a domain of its own level; pass over one that fits in
        none."""
        enough = self._enough
        for part in topology.slices:
            pods = [pod for pod in self._pods if pod.uid in part.uids]
            if self._is_over():
                break
            if pods:
                self._enough = len(self._placed_after) + len(pods)
                yield from self._place_slice(topology, part, pods)
                self._enough = enough

    def _place_slice(self, topology: GangTopology, part: GangSlice, pods: Sequence[PodInfo]) -> Asking[None]:
        if self._slice_level is None or self._views != self._slice_view:
            level = level_of(self._overlay, _slice_keys(topology), ())
            self._slice_level, self._slice_ranks, self._slice_view = level, {}, self._views
        level = self._slice_level.with_nodes(self._overlay, part.nodes)
        rest = (_equivalence_key, self._runner_of, self._rng, self._work, None, self._slice_ranks)
        try:
            self._work.charge(len(self._overlay.candidates) // _NODES_PER_SLICE_UNIT, "slices x nodes")
            domains = DomainSearch(self._overlay, [level], part.nodes, pods, len(pods), *rest)
        except OverBudgetError as error:
            self._note(pods[0], self._too_much(pods[0], error))
            return
        outer = self._domain
        for tried, domain in enumerate(list(islice(domains, _DOMAINS_TRIED)), 1):
            self._domain = domain
            self._overlay.narrow(domain.rows(self._overlay))
            answers, before = self._answers, len(self._placed_after)
            yield from self._place(pods)
            if len(self._placed_after) == before + len(pods) or self.ended:
                break
            for pod in pods:
                if self._placed_after.pop(pod.uid, None) is not None:
                    self._overlay.remove_known_pod(pod, self._overlay.row(self._placements[pod.uid].node or ""))
                    self._placements[pod.uid] = replace(self._placements[pod.uid], node=None, code=Code.UNSCHEDULABLE)
            if self._answers > answers and tried == _DOMAINS_ASKED_ABOUT:
                break
        self._domain = outer
        self._overlay.narrow(self._rows())

    def _place(self, pods: Sequence[PodInfo]) -> Asking[None]:
        rejected: dict[tuple[object, ...], Placement] = {}
        refused: set[str] = set()
        unplaced, progress = list(pods), True
        while progress and unplaced and not self._is_over():
            progress, again = False, []
            for pod in unplaced:
                if self._is_over():
                    break
                if self._times_asked[pod.uid] == _TIMES_ASKED:
                    continue
                if self._work.turn_is_over is not None and self._work.turn_is_over():
                    generation = self.cluster.generation
                    yield from self._wait_for_turn()
                    if self.cluster.generation != generation:
                        rejected.clear()
                key = _equivalence_key(pod)
                equal = rejected.get(key)
                if equal is not None:
                    self._note(pod, replace(equal, pod=pod))
                    again.append(pod)
                    continue
                answers = self._answers
                placement = yield from self._decide(pod)
                self._note(pod, placement)
                if placement.node is not None:
                    rejected.clear()
                    refused.clear()
                    progress = True
                    continue
                again.append(pod)
                if self._answers == answers:
                    rejected[key] = placement
                else:
                    # Extenders answer about one pod: others that equal it may fare better.
                    refused.add(pod.uid)
            if not self._tries_again:
                return
            # A member rejected after the last one was placed would be rejected again: nothing has changed for it.
            unplaced = [pod for pod in again if _equivalence_key(pod) not in rejected and pod.uid not in refused]

    def _is_over(self) -> bool:
        if self.ended or len(self._placed_after) >= self._enough:
            return True
        if self._gang.tries is not MemberTries.WHILE_POSSIBLE:
            return False
        untried = len(self._pods) - len(self._placements)
        return self._gang.placed + len(self._placed_after) + untried < self._gang.minimum

    def _note(self, pod: PodInfo, placement: Placement) -> None:
        self._placements[pod.uid] = placement
        if self._on_decision is not None:
            self._on_decision(self._overlay, placement)
        if placement.node is not None:
            self._overlay.add_pod(pod, self._overlay.row(placement.node))
            self._placed_after[pod.uid] = self._views
        elif BUDGET_REJECTOR in placement.rejectors or (placement.code is Code.ERROR and not self._tries_again):
            self.ended = True

    # The cluster goes on --------------------------------------------------------------------------------------------

    def _wait_for_turn(self) -> Asking[None]:
        holds = ((self._placements[uid].pod, self._placements[uid].node) for uid in self._placed_after)
        answered = yield TurnQuestion(tuple((pod, node) for pod, node in holds if node is not None))
        self._take_over(answered)

    def _decide(self, pod: PodInfo) -> Asking[Placement]:
        runner = self._runner_of(pod)
        try:
            self._work.charge(
                _MEMBER_UNITS + len(self._overlay.candidates) // _NODES_PER_UNIT, "members of the gang x nodes"
            )
        except OverBudgetError as error:
            return self._too_much(pod, error)
        answers = self._answers
        asking = decide(self._overlay, pod, runner, self._rng, self._extenders_left(), work=self._work)
        try:
            question = next(asking)
            while True:
                try:
                    answered = yield question
                except ExtenderError as error:
                    self.ended = True
                    question = asking.throw(error)
                else:
                    self._resume(answered, question)
                    question = asking.send(Answered(answered.answer, self._overlay))
        except StopIteration as end:
            placement: Placement = end.value
            self._times_asked[pod.uid] += self._answers > answers
            return placement
        finally:
            asking.close()

    def _extenders_left(self) -> list[Extender]:
        """Return the extenders without those that left a question about another member unanswered: a dead one would
        cost its timeout for each of a thousand members."""
        extenders = []
        for extender in self._extenders:
            if extender.index not in self._silent:
                extenders.append(extender)
            elif not extender.ignorable:
                extenders.append(replace(extender, prioritize_verb=""))
        return extenders

    def _resume(self, answered: Answered, question: Question | TurnQuestion) -> None:
        """Take an extender's answer."""
        self._answers += 1
        answer = answered.answer
        if isinstance(answer, FilterAnswer) and isinstance(question, FilterQuestion) and answer.unanswered:
            self._silent.add(question.extender.index)
            self.ended = self.ended or not question.extender.ignorable
        elif isinstance(answer, PrioritizeAnswer):
            self._silent.update(extender.index for extender in answer.unanswered)
        self._take_over(answered)

    def _take_over(self, answered: Answered) -> None:
        """Take the cluster as it is now, with the members placed so far on it."""
        assert isinstance(answered.view, Snapshot)
        self._views += 1
        self.cluster = answered.view
        self._overlay = self._without_members()
        placed = [self._placements[uid] for uid in self._placed_after]
        held = [(self._overlay.row(placement.node or ""), placement.pod) for placement in placed]
        self._overlay.add_pods([(row, pod) for row, pod in held if row >= 0])

    def _lose_changed_nodes(self) -> bool:
        """Judge each placed member's node once more, as the cluster went on while later members were decided; true
        where some do not fit there any more, and have no node now."""
        if all(view == self._views for view in self._placed_after.values()):
            return False
        self._overlay = self._without_members()
        rows = self._overlay.candidates
        placed, self._placed_after = self._placed_after, {}
        for uid, view in placed.items():
            placement = self._placements[uid]
            current = placement if view == self._views else self._judged_again(placement, rows)
            self._placements[uid] = current
            if current.node is not None:
                self._overlay.add_pod(current.pod, self._overlay.row(current.node))
                self._placed_after[uid] = self._views
        self._overlay.narrow(rows)
        return len(self._placed_after) < len(placed)

    def _judged_again(self, placement: Placement, rows: RowArray) -> Placement:
        """Return a placement with what plugins prepare for Reserve from the cluster as it is now; `rows` are those of
        the domain."""
        pod, node = placement.pod, placement.node
        assert node is not None
        self._overlay.narrow(rows[rows == self._overlay.row(node)])
        asking = decide(self._overlay, pod, self._runner_of(pod), FIRST_OF_EQUALS, work=self._work)
        current = conclude(asking)
        if current.node is not None:
            return placement.prepared_by(current)
        if current.code is Code.ERROR or BUDGET_REJECTOR in current.rejectors:
            return current
        reason = f"node {node} changed while other members were decided"
        return failed(self._overlay, pod, current.state, reason, placement.load_ages)


def _equivalence_key(pod: PodInfo) -> tuple[object, ...]:
    """Return what the answer for a pod depends on, given one view: a member that equals a rejected one need not be
    tried. Claims made of one template are equal in what they ask for, not in what they have been given."""
    return pod.scheduler_name, tuple(sorted(pod.labels.items())), *pod.local_key


def place_gang(
    gang: Gang,
    pods: Sequence[PodInfo],
    decide_now: Callable[[Gang, Sequence[PodInfo], int], Asking[GangDecision]],
    reserve: Callable[[Placement], Status],
) -> Asking[GangDecision]:
    """Decide about as many members as are missing, and take their nodes; `placed` are then those that hold one.

    Where members are tried UNTIL_ENOUGH, those beyond are not: once the gang may run, they are pods like any other.
    Where each is tried, all that fit are taken, and an error of one ends the attempt for all.

    What is rejected when it is taken (two members counted on one volume) is decided again, now that the others' nodes
    are taken. When the result is not complete, the caller undoes every reservation.

    Args:
        gang: who belongs together.
        pods: the members to place, in queue order.
        decide_now: decides about some of them, until so many have a place, on the cluster as it is at that moment; it
            may ask extenders. It is given the gang with the nodes that members took meanwhile.
        reserve: reserves what was decided; anything but Success has been undone.
    """
    left, held = list(pods), 0
    placements: dict[str, Placement] = {}
    decision = GangDecision(gang, ())
    while held < gang.missing:
        all_are_tried = gang.tries is not MemberTries.UNTIL_ENOUGH
        decision = yield from decide_now(gang, left, len(left) if all_are_tried else gang.missing - held)
        placements.update((placement.pod.uid, placement) for placement in decision.placements)
        if held + len(decision.placed) < gang.missing or (all_are_tried and decision.error):
            break
        before, reserved = held, set()
        for placement in decision.placed:
            status = reserve(placement)
            if status.is_success:
                held += 1
                reserved.add(placement.pod.uid)
            else:
                placements[placement.pod.uid] = _rejected(placement, status)
        if held == before:
            break
        left = [pod for pod in left if pod.uid not in reserved]
        gang = _with_nodes(gang, [placements[uid] for uid in reserved])
    return replace(decision, gang=gang, placements=tuple(placements[pod.uid] for pod in pods if pod.uid in placements))


def _with_nodes(gang: Gang, reserved: Sequence[Placement]) -> Gang:
    """Return the gang whose topology, and each slice of it, holds the nodes that members took."""
    topology = gang.topology
    if topology is None:
        return gang
    nodes = {placement.pod.uid: placement.node for placement in reserved if placement.node is not None}
    slices = tuple(
        replace(part, nodes=(*part.nodes, *[node for uid, node in nodes.items() if uid in part.uids]))
        for part in topology.slices
    )
    return replace(gang, topology=replace(topology, nodes=(*topology.nodes, *nodes.values()), slices=slices))


def _rejected(placement: Placement, status: Status) -> Placement:
    """Return what a placement becomes that Reserve or Permit does not let happen."""
    if status.is_rejection:
        message = f"0/1 nodes are available: 1 {status.message}."
        rejectors = frozenset({status.plugin} - {""})
        return replace(placement, node=None, code=Code.UNSCHEDULABLE, message=message, rejectors=rejectors)
    return replace(placement, node=None, code=Code.ERROR, message=status.message)


def gang_plugins(runner: ProfileRunner) -> tuple[GangPlugin, ...]:
    """Return the plugins of a profile that form gangs; one that only orders the queue does not."""
    permitting = {plugin.name for plugin in runner.permit}
    return tuple(
        [plugin for plugin in runner.plugins.values() if isinstance(plugin, GangPlugin) and plugin.name in permitting]
    )


def gang_of(runner: ProfileRunner, pod: PodInfo) -> Gang | None:
    """Return the gang that has to be placed together with a pod; None where the pod is tried alone."""
    plugin = next((plugin for plugin in gang_plugins(runner) if plugin.has_gang(pod)), None)
    gang = plugin.gang_of(pod) if plugin is not None else None
    return gang if gang is not None and gang.missing else None


def _said_of_preemption(gang: Gang, runners: Mapping[str, ProfileRunner]) -> Iterator[str]:
    preemptor = gang.preemptor
    runner = None if preemptor is None else runners.get(preemptor.scheduler_name)
    if preemptor is None or runner is None:
        return
    for plugin in runner.post_filters:
        if isinstance(plugin, GangPostFilter) and (text := plugin.preemption_for_gang(preemptor)):
            yield text


def report_gang(snapshot: Snapshot, gang: Gang, runners: Mapping[str, ProfileRunner], rng: RandomSource) -> GangReport:
    """Return what a gang needs, and which domains would take how many of its members now; those of other schedulers are
    not counted there."""
    preemption = next(_said_of_preemption(gang, runners), "")
    report = GangReport(gang.name, gang.minimum, gang.placed, len(gang.waiting), preemption=preemption)
    topology = gang.topology
    if topology is None:
        return report
    pods = [pod for pod in gang.waiting if pod.scheduler_name in runners]
    work = Work(GANG_UNITS)
    try:
        search = DomainSearch(
            snapshot,
            levels_of(snapshot, topology),
            topology.nodes,
            pods,
            gang.missing,
            _equivalence_key,
            lambda pod: runners[pod.scheduler_name],
            rng,
            work,
        )
    except OverBudgetError as error:
        return replace(report, levels=topology.levels, anywhere=topology.anywhere, obstacle=str(error))
    return replace(
        report,
        levels=topology.levels,
        anywhere=topology.anywhere,
        domains=tuple(search.report(_DOMAINS_SHOWN)),
        domain_count=search.count,
        obstacle=search.obstacle(),
    )


GROUP_UNSCHEDULABLE: Final = "pod group is unschedulable"
"""kube-scheduler begins the messages of members with it that would fit, and no others."""


def gang_message(decision: GangDecision, own: str | None = None, members: int | None = None) -> str:
    """Return the message for a member of a gang that does not fit: how many members fit, and why the others do not.

    Args:
        decision: the attempt.
        own: what keeps this very member off; else the reason most others have is given.
        members: how many there were to try, where that is more than were tried.
    """
    gang = decision.gang
    if gang.held_back is not None:
        if decision.error:
            return own or f"failed to schedule other pod from a pod group: {decision.error}"
        untried = max(0, (members or 0) - len(decision.placements))
        fit, failed = gang.placed + len(decision.placed), len(decision.unplaced)
        return own or gang.held_back(fit, failed, untried, decision.domains)
    fit = gang.placed + len(decision.placed)
    members = gang.placed + len(decision.placements)
    if decision.obstacle:
        return f"{gang.name}: {decision.obstacle}"
    text = f"{gang.name}: {fit} of {members} members fit{_where(decision)}, minMember is {gang.minimum}"
    elsewhere = len(gang.waiting) - len(decision.placements)
    if elsewhere > 0:
        text += f", {elsewhere} cannot be tried by this scheduler now"
    reason = own or _common_reason(decision)
    return f"{text}: {reason}" if reason else text


def _where(decision: GangDecision) -> str:
    """Say in which domain so many fit."""
    if decision.gang.topology is None or not decision.domain.labels:
        return ""
    text = f" in {decision.domain}"
    return text if decision.domains < 2 else f"{text}, the best of {decision.domains} such domains"


def _common_reason(decision: GangDecision) -> str:
    """Return why most of the members without a node have none; the first of equals."""
    reasons = Counter(placement.message for placement in decision.unplaced if placement.message)
    return reasons.most_common(1)[0][0] if reasons else ""
