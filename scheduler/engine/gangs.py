"""Gangs at run time: their members are decided together, hold nodes together, and are bound once all are ready.

A gang that does not fit holds nothing, and no time passes between looking and letting go: two gangs that want the same
nodes cannot block each other. One that fits holds its nodes for a bounded time: where members are not ready to be
bound by then (a volume that does not come), those that are not bound give theirs up.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog
from msgspec import Struct, field

from scheduler.core import (
    BUDGET_REJECTOR,
    GROUP_UNSCHEDULABLE,
    NOT_ASKED,
    GangDecision,
    GangPostFilterOutcome,
    Placement,
    gang_message,
    gang_plugins,
)
from scheduler.engine.attemptlog import AttemptLog
from scheduler.engine.attempts import AttemptPipeline, GangReservation
from scheduler.engine.failures import SCHEDULER_ERROR, UNSCHEDULABLE, AttemptFailure
from scheduler.engine.timing import STATUS
from scheduler.engine.waiting import WaitingPods
from scheduler.framework import (
    SUCCESS,
    Asking,
    Clocks,
    Code,
    Gang,
    GangPlugin,
    GangReporter,
    MemberTries,
    MonotonicSeconds,
    PodInfo,
    ProfileRunner,
    Status,
    Work,
    failure,
    unschedulable,
)
from scheduler.observe import Metrics
from scheduler.state import QueuedPod, Requeue, SchedulingQueue, Snapshot

_RETRIES_AT_ONCE: Final = 5
"""How often in a row a member comes back without back-off. During a back-off other pods may take its room, and the
members that are bound stay where they are; an API server that refuses everything must not be asked all the time."""
_VICTIMS_SHOWN: Final = 20
"""In the log."""
log = structlog.get_logger(component="gangs")


class ReservedGang(Struct, eq=False):
    """A gang that holds nodes and whose members are not all bound or rolled back.

    Attributes:
        minimum: members that must be ready before the first is bound.
        placed_before: members that had a node before this attempt.
        since, deadline: when it first reserved nodes, and until when its members may wait for each other.
        reserved: UIDs of members between their reservation and the end of their binding.
        ready: those of them that may be bound.
        bound: UIDs of members that were.
        binding: enough members are ready: Bindings may have been written.
        is_entity: none of them waits for the others.
    """

    name: str
    plugin: str
    minimum: int
    placed_before: int
    since: MonotonicSeconds
    deadline: MonotonicSeconds
    reserved: set[str] = field(default_factory=set)
    ready: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    binding: bool = False
    is_entity: bool = False

    @property
    def members_on_nodes(self) -> int:
        """How many members have a node now, reserved or for good."""
        return self.placed_before + len(self.bound) + len(self.reserved)


class BindingAttempt(Struct, eq=False):
    """An attempt at a pod that has been given a node: what its binding needs.

    Attributes:
        started: `time.perf_counter` at its beginning.
        waits: Permit plugins that hold it, and how long at most (seconds).
        gang: its gang, where it is placed as one of several.
    """

    queued: QueuedPod
    placement: Placement
    started: float
    waits: Mapping[str, float] = field(default_factory=dict)
    gang: ReservedGang | None = None

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        return self.queued.pod

    @property
    def node(self) -> str:
        """The node it was given."""
        assert self.placement.node is not None
        return self.placement.node


class GangOutcome(Struct, frozen=True):
    """What the cycle does with the members after an attempt, in this order.

    Attributes:
        rejected: members without a node, and why.
        untried: members beyond the minimum, which go back to the active queue as pods like any other.
        placed: members that hold a node and are to be bound.
    """

    rejected: Sequence[tuple[QueuedPod, AttemptFailure]]
    untried: Sequence[QueuedPod] = ()
    placed: Sequence[BindingAttempt] = ()


BeginWait = Callable[[BindingAttempt, ProfileRunner, asyncio.Future[Status]], Awaitable[None]]


class Gangs:
    """The gangs of all profiles. Methods run on the scheduling loop."""

    def __init__(
        self,
        attempts: AttemptPipeline,
        queue: SchedulingQueue,
        waiting: WaitingPods,
        metrics: Metrics,
        attempt_log: AttemptLog,
    ) -> None:
        self._attempts = attempts
        self._queue = queue
        self._waiting = waiting
        self._metrics = metrics
        self._log = attempt_log
        self._monotonic = attempts.clocks.monotonic
        runners = attempts.runners
        self._plugins = {name: plugins for name, runner in runners.items() if (plugins := gang_plugins(runner))}
        self._reserved: dict[str, ReservedGang] = {}
        # Outlives a ReservedGang: a gang that lost members goes on counting from its first reservation.
        self._since: dict[str, MonotonicSeconds] = {}
        self._given_up = GivenUpGangs(attempts.clocks)
        self._preemptions_given_up = GivenUpGangs(attempts.clocks)

    def gang_to_place(self, pod: PodInfo) -> Gang | None:
        """Return the gang of a pod if members of it have to be placed together now."""
        plugin = self._plugin_of(pod)
        gang = plugin.gang_of(pod) if plugin is not None else None
        if gang is None:
            return None
        reserved = self._reserved.get(gang.name)
        if reserved is not None and reserved.minimum != gang.minimum:
            reserved.minimum = gang.minimum
            self._bind_if_complete(reserved)
        if reserved is None and not gang.placed and gang.name in self._since:
            self._settle(gang.name, pod)
        return gang if gang.missing else None

    def forms_gang(self, pod: PodInfo) -> bool:
        """Tell whether a plugin of the pod's profile forms the gang that it names."""
        return self._plugin_of(pod) is not None

    def _plugin_of(self, pod: PodInfo) -> GangPlugin | None:
        for plugin in self._plugins.get(pod.scheduler_name, ()):
            if plugin.has_gang(pod):
                return plugin
        return None

    def _plugins_like(self, pod: PodInfo) -> Iterator[GangPlugin]:
        """Yield the plugins of all profiles that form the pod's gang: their queues and marks concern one gang."""
        own = self._plugin_of(pod)
        for plugins in self._plugins.values():
            yield from (plugin for plugin in plugins if own is not None and plugin.name == own.name)

    def change_of(self, gang: Gang, members: Sequence[QueuedPod], pending: Mapping[str, PodInfo]) -> str:
        """Return what became of a gang since an attempt at its members began; "" where all of them wait still, and it
        needs as many. Nodes that they hold do not count."""
        pod = members[0].pod
        plugin = self._plugin_of(pod)
        now = plugin.gang_of(pod) if plugin is not None else None
        held = sum(self._attempts.state.is_assumed(member.pod.uid) for member in members)
        is_unchanged = now is not None and (now.minimum, now.placed - held) == (gang.minimum, gang.placed)
        if is_unchanged and all(member.pod.uid in pending for member in members):
            return ""
        return "it changed while its members were decided"

    # Deciding -------------------------------------------------------------------------------------------------------

    def attempt(
        self,
        head: QueuedPod,
        members: Sequence[QueuedPod],
        gang: Gang,
        started: float,
        turn_is_over: Callable[[], bool] | None = None,
    ) -> Asking[GangOutcome]:
        """Reserve nodes for the gang of a pod that was popped, or for none of it.

        Args:
            head: the popped member.
            members: all that left the queue (`take_members`).
            gang: the gang as it is now.
            started: `time.perf_counter` when the attempt began.
            turn_is_over: tells when others are to be decided; None where the gang is decided in one go.
        """
        if (message := self._given_up.message(gang, len(members))) is not None:
            return GangOutcome(over_budget(members, message))
        by_uid = {queued.pod.uid: queued for queued in members}
        pods = [queued.pod for queued in members]
        if gang.problem_of is not None and (problem := gang.problem_of(pods)):
            self._publish(head.pod, failure(problem, plugin=self._plugin_name(head.pod)))
            return GangOutcome(_alike(members, AttemptFailure(problem, SCHEDULER_ERROR, entity_size=len(members))))
        if self._log.follows_beginnings:
            for queued in members:
                if queued is not head:
                    self._log.begin(queued, started)
        try:
            reservation = yield from self._attempts.reserve_gang(
                gang, pods, decide_now=self._decide, turn_is_over=turn_is_over
            )
        except Exception as error:
            # The members have left the queue: they must come back, each with its backoff.
            log.exception("an attempt failed unexpectedly", gang=gang.name)
            reason = AttemptFailure(f"the attempt raised {type(error).__name__}: {error}"[:500], SCHEDULER_ERROR)
            return GangOutcome(_alike(members, reason))
        decision = reservation.decision
        plugin_name = self._plugin_name(head.pod)
        if not reservation.reserved:
            outcome = self._post_filter(gang, pods, reservation)
            return self._rejected(head.pod, members, decision, outcome, started)
        reserved = self._reserve(head.pod, gang)
        placed = []
        for placement, permit in reservation.reserved:
            uid = placement.pod.uid
            placed.append(BindingAttempt(by_uid[uid], placement, started, permit.waits, reserved))
            reserved.reserved.add(uid)
        for plugin in self._plugins_like(head.pod):
            plugin.gang_placed(head.pod)
        self._report(head.pod, SUCCESS, started)
        if gang.tries is not MemberTries.UNTIL_ENOUGH:
            # The gang may run. What keeps the others off, and whether preemption helps, is for attempts of their own.
            return GangOutcome((), [queued for queued in members if queued.pod.uid not in reserved.reserved], placed)
        unplaced = {placement.pod.uid for placement in decision.unplaced}
        tried = {placement.pod.uid for placement in decision.placements}
        rejected = self._failures_of(
            plugin_name, [queued for queued in members if queued.pod.uid in unplaced], decision
        )
        if gang.is_entity:
            # What they lack may be made by preemption, for all of them together.
            rejected = [(queued, each._replace(requeue=Requeue.IMMEDIATELY)) for queued, each in rejected]
        return GangOutcome(rejected, [queued for queued in members if queued.pod.uid not in tried], placed)

    def _plugin_name(self, pod: PodInfo) -> str:
        plugin = self._plugin_of(pod)
        assert plugin is not None
        return plugin.name

    def _publish(self, pod: PodInfo, outcome: Status) -> bool:
        """Have the plugin publish what became of a gang; False where it does not."""
        plugin = self._plugin_of(pod)
        if not isinstance(plugin, GangReporter):
            return False
        plugin.report_gang(pod, outcome)
        return True

    def _report(self, pod: PodInfo, outcome: Status, started: float) -> None:
        if not self._publish(pod, outcome):
            return
        result = "scheduled" if outcome.is_success else "unschedulable" if outcome.is_rejection else "error"
        self._metrics.pod_group_tried(result, pod.scheduler_name, time.perf_counter() - started)

    def _post_filter(self, gang: Gang, pods: Sequence[PodInfo], reservation: GangReservation) -> GangPostFilterOutcome:
        """Look for pods to preempt for a gang that does not fit."""
        decision = reservation.decision
        alike = len({pod.scheduler_name for pod in pods}) == 1
        if gang.preemptor is None or decision.error or decision.over_budget or not alike:
            return NOT_ASKED
        if (message := self._preemptions_given_up.message(gang, len(pods))) is not None:
            return GangPostFilterOutcome(message)
        outcome = self._attempts.run_gang_post_filters(gang, pods, reservation.work)
        if outcome.over_budget:
            self._preemptions_given_up.note(gang, len(pods), outcome.message)
        elif outcome.result is not None and outcome.result.victims:
            victims = outcome.result.victims
            self._metrics.preemption_victims.observe(len(victims))
            shown = [victim.key for victim in victims[:_VICTIMS_SHOWN]]
            log.info("preempting", gang=gang.name, number=len(victims), victims=shown)
        return outcome

    def _rejected(
        self,
        pod: PodInfo,
        members: Sequence[QueuedPod],
        decision: GangDecision,
        outcome: GangPostFilterOutcome,
        started: float,
    ) -> GangOutcome:
        """Return the outcome where too few members fit: none of them holds a node."""
        gang = decision.gang
        for plugin in self._plugins_like(pod):
            plugin.gang_failed(pod)
        message = gang_message(decision, members=len(members))
        if outcome.message:
            message += f", {outcome.message}"
        self._report(pod, failure(message) if decision.error else unschedulable(message), started)
        self._metrics.gangs.labels("rejected").inc()
        message += self._overdue_note(gang)
        log.info("gang does not fit", gang=gang.name, members=len(members), err=message)
        if decision.over_budget:
            self._given_up.note(gang, len(members), message)
            return GangOutcome(over_budget(members, message))
        return GangOutcome(self._failures_of(self._plugin_name(pod), members, decision, outcome))

    def fail(self, gang: Gang, members: Sequence[QueuedPod], reason: str, started: float) -> GangOutcome:
        """End an attempt that was not finished: the gang goes behind others, and its members back off. `started` is
        `time.perf_counter` when it began."""
        for plugin in self._plugins_like(members[0].pod):
            plugin.gang_failed(members[0].pod)
        self._report(members[0].pod, failure(reason), started)
        self._metrics.gangs.labels("rejected").inc()
        return GangOutcome(_alike(members, AttemptFailure(f"{gang.name}: {reason}", SCHEDULER_ERROR)))

    def _decide(self, gang: Gang, pods: Sequence[PodInfo], enough: int, work: Work) -> Asking[GangDecision]:
        began = time.perf_counter()
        on_decision = self._log_decision if self._log.follows_decisions else None
        decision = yield from self._attempts.decide_gang(gang, pods, enough, work, on_decision)
        seconds = time.perf_counter() - began
        self._metrics.algorithm_duration.observe(seconds)
        if isinstance(self._plugin_of(pods[0]), GangReporter):
            self._metrics.pod_group_decided(pods[0].scheduler_name, seconds)
        for placement in decision.placements:
            self._metrics.count_observations(placement.counters)
        return decision

    def _log_decision(self, snapshot: Snapshot, placement: Placement) -> None:
        self._log.decided(snapshot, placement, self._attempts.runner_of(placement.pod))

    def take_members(self, head: QueuedPod, gang: Gang) -> list[QueuedPod]:
        """Take the waiting members out of whatever queue they are in; returns all in queue order."""
        members = [head]
        for pod in gang.waiting:
            if pod.uid != head.pod.uid and (queued := self._queue.take(pod.uid)) is not None:
                members.append(queued)
        return sorted(members, key=_UPSTREAM.get(gang.tries, self._queue.order))

    def _reserve(self, pod: PodInfo, gang: Gang) -> ReservedGang:
        reserved = self._reserved.get(gang.name)
        if reserved is None:
            now = self._monotonic()
            since = self._since.setdefault(gang.name, now)
            # A member that comes later than it should still needs some time to be bound.
            deadline = since + gang.timeout if now < since + gang.timeout else now + gang.timeout
            plugin = self._plugin_name(pod)
            reserved = ReservedGang(
                gang.name, plugin, gang.minimum, gang.placed, since, deadline, is_entity=gang.is_entity
            )
            self._reserved[gang.name] = reserved
        return reserved

    def _failures_of(
        self,
        plugin: str,
        members: Sequence[QueuedPod],
        decision: GangDecision,
        outcome: GangPostFilterOutcome = NOT_ASKED,
    ) -> list[tuple[QueuedPod, AttemptFailure]]:
        """Return why members have no node; those that would fit wait for the others."""
        if decision.gang.tries is not MemberTries.UNTIL_ENOUGH:
            return _upstream_failures(plugin, members, decision, outcome)
        unplaced = {placement.pod.uid: placement for placement in decision.unplaced}
        note = self._overdue_note(decision.gang)
        if outcome.message:
            note += f", {outcome.message}"
        rejected = []
        for queued in members:
            placement = unplaced.get(queued.pod.uid)
            rejectors = frozenset({plugin})
            if placement is not None:
                # Without rejectors the pod comes back after its backoff: no event tells when an error is over.
                rejectors = frozenset() if placement.code is Code.ERROR else rejectors | placement.rejectors
            own = placement.message if placement is not None else None
            reason = UNSCHEDULABLE if rejectors else SCHEDULER_ERROR
            failure = AttemptFailure(gang_message(decision, own) + note, reason, rejectors)
            rejected.append((queued, _nominated(failure, queued, outcome)))
        return rejected

    def _overdue_note(self, gang: Gang) -> str:
        """What to add where members have been holding nodes for longer than the gang may take."""
        since = self._since.get(gang.name)
        if since is None or self._monotonic() < since + gang.timeout:
            return ""
        return f" (not complete within {gang.timeout:g} s)"

    # Binding --------------------------------------------------------------------------------------------------------

    async def pre_bind(self, attempt: BindingAttempt, runner: ProfileRunner, begin_wait: BeginWait) -> Status:
        """Run PreBind for a member and wait until enough members are ready; a failure when time is up.

        `begin_wait` is called when the wait for the others begins, with what ends it.
        """
        gang = attempt.gang
        assert gang is not None
        try:
            async with asyncio.timeout(max(0.0, gang.deadline - self._monotonic())):
                status = await self._waiting.pre_bind(runner, attempt.placement.state, attempt.pod, attempt.node)
        except TimeoutError:
            return unschedulable("it was not ready to be bound in time", plugin=gang.plugin)
        if not status.is_success or gang.is_entity:
            return status
        uid = attempt.pod.uid
        gang.ready.add(uid)
        self._bind_if_complete(gang)
        if gang.binding:
            return SUCCESS
        left = max(0.0, gang.deadline - self._monotonic())
        began = self._monotonic()
        permission = self._waiting.add(attempt.pod, {gang.plugin: left})
        await begin_wait(attempt, runner, permission)
        status = await permission
        # Where upstream's Coscheduling holds members in Permit, these wait here.
        seconds = self._monotonic() - began
        self._metrics.permit_wait.labels(STATUS[status.code]).observe(seconds)
        self._log.waited(attempt.pod, seconds, status)
        return status

    def _bind_if_complete(self, gang: ReservedGang) -> None:
        """Let the ready members be bound as soon as they are enough."""
        if gang.binding or gang.placed_before + len(gang.bound) + len(gang.ready) < gang.minimum:
            return
        gang.binding = True
        for uid in gang.ready:
            self._waiting.allow(uid, gang.plugin)

    def member_bound(self, attempt: BindingAttempt) -> None:
        """Note that a pod has its Binding; nothing where it is no member of a gang."""
        gang = attempt.gang
        if gang is None:
            return
        gang.bound.add(attempt.pod.uid)
        gang.reserved.discard(attempt.pod.uid)
        if gang.placed_before + len(gang.bound) == gang.minimum:
            seconds = self._monotonic() - gang.since
            self._metrics.gangs.labels("placed").inc()
            self._metrics.gang_duration.observe(seconds)
            log.info("gang is bound", gang=gang.name, minMember=gang.minimum, seconds=round(seconds, 3))
        self._end_binding(gang, attempt.pod)

    def member_unreserved(self, attempt: BindingAttempt, reason: str) -> str:
        """Note that a pod gave up its node; returns the message for the pod."""
        gang = attempt.gang
        if gang is None:
            return reason
        gang.reserved.discard(attempt.pod.uid)
        count = gang.members_on_nodes
        self._end_binding(gang, attempt.pod)
        if gang.is_entity:
            return reason
        text = f"{gang.name}: {count} members hold nodes, minMember is {gang.minimum}, this one gave up its node"
        return f"{text}: {reason}"

    def may_retry_at_once(self, attempt: BindingAttempt) -> bool:
        """Tell whether the other members hold nodes that they would hold for nothing without this one."""
        gang = attempt.gang
        return (
            gang is not None
            and (gang.members_on_nodes > 0 or gang.is_entity)
            and self._monotonic() < gang.deadline
            and attempt.queued.consecutive_errors <= _RETRIES_AT_ONCE
        )

    def _end_binding(self, gang: ReservedGang, pod: PodInfo) -> None:
        gang.ready.discard(pod.uid)
        if gang.reserved:
            return
        del self._reserved[gang.name]
        if gang.members_on_nodes < gang.minimum:
            self._metrics.gangs.labels("incomplete").inc()
            log.warning("gang is not complete", gang=gang.name, bound=gang.members_on_nodes, minMember=gang.minimum)
        if not 0 < gang.members_on_nodes < gang.minimum:
            # Else the others hold their nodes for nothing until the missing ones come: these go first.
            self._settle(gang.name, pod)

    def _settle(self, name: str, pod: PodInfo) -> None:
        self._since.pop(name, None)
        for plugin in self._plugins_like(pod):
            plugin.gang_settled(pod)


def _by_first_attempt(queued: QueuedPod) -> tuple[int, float, str]:
    """Return what kube-scheduler 1.36 sorts the members of a PodGroup by; the last part settles what it leaves open."""
    first = queued.initial_attempt_at
    return (-queued.pod.priority, -math.inf if first is None else first, queued.pod.key)


def _by_attempts(queued: QueuedPod) -> tuple[int, int, float, str]:
    """Return what it sorts them by since 1.37."""
    return (-queued.pod.priority, -queued.attempts, queued.timestamp, queued.pod.name)


_UPSTREAM: Final[Mapping[MemberTries, Callable[[QueuedPod], Any]]] = {
    MemberTries.EACH_ONCE: _by_first_attempt,
    MemberTries.WHILE_POSSIBLE: _by_attempts,
}
"""The order in which members are tried, by how they are."""


def _alike(members: Sequence[QueuedPod], reason: AttemptFailure) -> list[tuple[QueuedPod, AttemptFailure]]:
    return [(queued, reason) for queued in members]


def _nominated(failure: AttemptFailure, queued: QueuedPod, outcome: GangPostFilterOutcome) -> AttemptFailure:
    """Return a member's failure with the node that it waits for. Where nobody has to go, no event tells when it may be
    tried again, and it comes back after its backoff."""
    if outcome.result is None:
        return failure
    rejectors = failure.rejectors if outcome.result.awaits_others else frozenset[str]()
    node = outcome.result.nominated.get(queued.pod.uid, "")
    return failure._replace(nominated_node=node, rejectors=rejectors)


def _upstream_failures(
    plugin: str, members: Sequence[QueuedPod], decision: GangDecision, outcome: GangPostFilterOutcome
) -> list[tuple[QueuedPod, AttemptFailure]]:
    """Return why members have no node, in kube-scheduler's words.

    kube-scheduler tries such a gang again after each backoff, as is done here with one that is an entity of the queue.
    Any other waits for an event that may help: what helps one member may make room for another, so each waits for what
    any of them lacks.
    """
    requeue = Requeue.AFTER_BACKOFF if decision.gang.is_entity else Requeue.SKIP
    unplaced = {placement.pod.uid: placement for placement in decision.unplaced}
    rejectors = frozenset({plugin}).union(*(placement.rejectors for placement in decision.unplaced))
    failed = bool(decision.error)
    tried = {placement.pod.uid for placement in decision.placements}
    gives_up_early = decision.gang.tries is MemberTries.WHILE_POSSIBLE
    rejected = []
    for queued in members:
        placement = unplaced.get(queued.pod.uid)
        own = placement.message if placement is not None and (placement.code is Code.ERROR or not failed) else None
        if own is None and decision.gang.of_members is not None:
            message = decision.gang.of_members(failed)
        else:
            message = gang_message(decision, own, len(members))
            if placement is None and gives_up_early and (outcome.result is not None or queued.pod.uid not in tried):
                message = message.removeprefix(f"{GROUP_UNSCHEDULABLE}, ")
            if placement is None and outcome.message and queued.pod.uid in tried:
                message += f", {outcome.message}"
        # Without rejectors the pod comes back after its backoff: no event tells when an error is over.
        reason, woken_by = (SCHEDULER_ERROR, frozenset[str]()) if failed else (UNSCHEDULABLE, rejectors)
        size = len(members) if decision.gang.is_entity else 0
        failure_of_member = AttemptFailure(message, reason, woken_by, requeue=requeue, entity_size=size)
        rejected.append((queued, _nominated(failure_of_member, queued, outcome)))
    return rejected


_SECONDS: Final = 240
"""Less than the five minutes after which members come back whom no event wakes."""


class _GivenUp(NamedTuple):
    until: MonotonicSeconds
    members: int
    minimum: int
    message: str


class GivenUpGangs:
    """Remembers them for a while, as long as they have as many members and the same minimum."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._gangs: dict[str, _GivenUp] = {}

    def note(self, gang: Gang, members: int, message: str) -> None:
        """An attempt at a gang was given up."""
        now = self._clocks.monotonic()
        self._gangs = {name: entry for name, entry in self._gangs.items() if entry.until > now}
        self._gangs[gang.name] = _GivenUp(now + _SECONDS, members, gang.minimum, message)

    def message(self, gang: Gang, members: int) -> str | None:
        """Return what to tell the members of a gang where an attempt would be given up again; None where it may be
        made."""
        given_up = self._gangs.get(gang.name)
        if given_up is None or self._clocks.monotonic() >= given_up.until:
            return None
        if members < given_up.members or gang.minimum != given_up.minimum:
            return None
        return given_up.message


def over_budget(members: Sequence[QueuedPod], message: str) -> list[tuple[QueuedPod, AttemptFailure]]:
    """Return the failures of the members of a gang that was given up. No event wakes them: each that wakes one would
    have all of them tried again."""
    return _alike(members, AttemptFailure(message, UNSCHEDULABLE, frozenset({BUDGET_REJECTOR})))
