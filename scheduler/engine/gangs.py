"""Gangs at run time: their members are decided together, hold nodes together, and are bound once all are ready.

A gang that does not fit holds nothing, and no time passes between looking and letting go: two gangs that want the same
room cannot block each other. One that fits holds its nodes for a bounded time: where members are not ready to be bound
by then (a volume that does not come), those that are not bound give theirs up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from scheduler.core import GangDecision, Placement, gang_message, gang_plugin, place_gang
from scheduler.engine.waiting import WaitingPods
from scheduler.framework import SUCCESS, Code, Gang, PodInfo, ProfileRunner, Status, unschedulable
from scheduler.observe.metrics import Metrics
from scheduler.state import QueuedPod, SchedulingQueue

log = structlog.get_logger(component="gangs")


@dataclass(slots=True, eq=False)
class Group:
    """A gang that holds nodes and whose members are not all bound or given up.

    Attributes:
        minimum: members that must be ready before the first is bound.
        before: members that had a node when this began.
        since, deadline: seconds since the epoch.
        under_way: UIDs of members between their reservation and the end of their binding.
        ready: those of them that may be bound.
        bound: UIDs of members that were.
        opened: the first Binding may have been written.
    """

    name: str
    plugin: str
    minimum: int
    before: int
    since: float
    deadline: float
    under_way: set[str] = field(default_factory=set)
    ready: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    opened: bool = False

    @property
    def held(self) -> int:
        """Members that have a node now."""
        return self.before + len(self.bound) + len(self.under_way)


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt at one pod, which has been given a node.

    Attributes:
        started: `time.perf_counter` at its beginning.
        waits: Permit plugins that let it wait, and how long at most.
        group: its gang, where it is placed as one of several.
    """

    queued: QueuedPod
    placement: Placement
    started: float
    waits: Mapping[str, float] = field(default_factory=dict)
    group: Group | None = None

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        return self.queued.pod

    @property
    def node(self) -> str:
        """The node it was given."""
        assert self.placement.node is not None
        return self.placement.node


class Steps(Protocol):
    """What the scheduling cycle does with one pod, for gangs as for others."""

    def decide_gang(self, gang: Gang, pods: Sequence[PodInfo], enough: int) -> GangDecision:
        """Decide on the cluster as it is now, until so many have a place."""

    def take(self, attempt: Attempt) -> Status:
        """Assume, reserve, ask for permission; Success or Wait, else everything has been taken back."""

    def take_back(self, attempt: Attempt) -> None:
        """Unreserve and forget."""

    def start_binding(self, attempt: Attempt) -> None:
        """Bind beside the loop."""

    def turn_away(self, queued: QueuedPod, started: float, message: str, rejectors: frozenset[str]) -> None:
        """Put a pod back as unschedulable and say why; without rejectors it comes back after its back-off."""


class Gangs:
    """The gangs of all profiles. Methods run on the scheduling loop."""

    def __init__(
        self,
        steps: Steps,
        runners: Mapping[str, ProfileRunner],
        queue: SchedulingQueue,
        waiting: WaitingPods,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._steps = steps
        self._queue = queue
        self._waiting = waiting
        self._metrics = metrics
        self._clock = clock
        self._plugins = {name: plugin for name, runner in runners.items() if (plugin := gang_plugin(runner))}
        self._groups: dict[str, Group] = {}
        self._since: dict[str, float] = {}

    def of(self, pod: PodInfo) -> Gang | None:
        """Return the gang of a pod if members of it have to be placed together now."""
        plugin = self._plugins.get(pod.scheduler_name)
        gang = plugin.gang_of(pod) if plugin is not None else None
        if gang is None:
            return None
        group = self._groups.get(gang.name)
        if group is not None and group.minimum != gang.minimum:
            group.minimum = gang.minimum
            self._open_if_complete(group)
        if group is None and not gang.placed and gang.name in self._since:
            self._settle(gang.name, pod)
        return gang if gang.missing else None

    # Deciding -------------------------------------------------------------------------------------------------------

    def attempt(self, head: QueuedPod, gang: Gang, started: float) -> None:
        """Place the gang of a pod that was popped, or turn all of it away."""
        members = self._assemble(head, gang)
        by_uid = {one.pod.uid: one for one in members}
        taken: list[Attempt] = []

        def take(placement: Placement) -> Status:
            attempt = Attempt(by_uid[placement.pod.uid], placement, started)
            status = self._steps.take(attempt)
            if status.is_success or attempt.waits:
                taken.append(attempt)
                return SUCCESS
            return status

        pods = [one.pod for one in members]
        decision = place_gang(gang, pods, lambda left, enough: self._steps.decide_gang(gang, left, enough), take)
        name = self._plugins[head.pod.scheduler_name].name
        if len(taken) < gang.missing:
            for attempt in reversed(taken):
                self._steps.take_back(attempt)
            for plugin in self._plugins.values():
                plugin.gang_failed(head.pod)
            self._turn_away(name, members, decision, started, whole=True)
            return
        group = self._begin(head.pod, gang)
        for attempt in taken:
            group.under_way.add(attempt.pod.uid)
            attempt.group = group
        for plugin in self._plugins.values():
            plugin.gang_placed(head.pod)
        unplaced = {one.pod.uid for one in decision.unplaced}
        self._turn_away(name, [one for one in members if one.pod.uid in unplaced], decision, started, whole=False)
        tried = {one.pod.uid for one in decision.placements}
        for queued in members:
            if queued.pod.uid not in tried:
                self._queue.give_back(queued)
        for attempt in taken:
            self._steps.start_binding(attempt)

    def _assemble(self, head: QueuedPod, gang: Gang) -> list[QueuedPod]:
        """Pop the waiting members along, from whatever queue they are in; returns all in queue order."""
        members = [head]
        for pod in gang.waiting:
            if pod.uid != head.pod.uid and (queued := self._queue.take(pod.uid)) is not None:
                members.append(queued)
        return sorted(members, key=self._queue.order)

    def _begin(self, pod: PodInfo, gang: Gang) -> Group:
        group = self._groups.get(gang.name)
        if group is None:
            now = self._clock()
            since = self._since.setdefault(gang.name, now)
            # A member that comes later than it should still needs some time to be bound.
            deadline = since + gang.timeout if now < since + gang.timeout else now + gang.timeout
            plugin = self._plugins[pod.scheduler_name].name
            group = Group(gang.name, plugin, gang.minimum, gang.placed, since, deadline)
            self._groups[gang.name] = group
        return group

    def _turn_away(
        self, plugin: str, members: list[QueuedPod], decision: GangDecision, started: float, *, whole: bool
    ) -> None:
        """Tell members that have no node why; those that would fit wait for the others."""
        gang, unplaced = decision.gang, {one.pod.uid: one for one in decision.unplaced}
        late = self._late(gang)
        for queued in members:
            placement = unplaced.get(queued.pod.uid)
            rejectors = frozenset({plugin})
            if placement is not None:
                rejectors = frozenset() if placement.code is Code.ERROR else rejectors | placement.rejectors
            own = placement.message if placement is not None else None
            self._steps.turn_away(queued, started, gang_message(decision, own) + late, rejectors)
        if whole:
            self._metrics.gangs.labels("rejected").inc()
            log.info("gang does not fit", gang=gang.name, members=len(members), err=gang_message(decision) + late)

    def _late(self, gang: Gang) -> str:
        """What to add where members have been holding nodes for longer than the gang may take."""
        since = self._since.get(gang.name)
        if since is None or self._clock() < since + gang.timeout:
            return ""
        return f" (not complete within {gang.timeout:g} s)"

    # Binding --------------------------------------------------------------------------------------------------------

    async def prepare(self, attempt: Attempt, runner: ProfileRunner) -> Status:
        """Run PreBind for a member and wait until enough members are ready; a rejection when time is up."""
        group = attempt.group
        assert group is not None
        try:
            async with asyncio.timeout(max(0.0, group.deadline - self._clock())):
                status = await runner.run_pre_bind(attempt.placement.state, attempt.pod, attempt.node)
        except TimeoutError:
            return unschedulable("it was not ready to be bound in time", plugin=group.plugin)
        if not status.is_success:
            return status
        uid = attempt.pod.uid
        group.ready.add(uid)
        self._open_if_complete(group)
        if group.opened:
            return SUCCESS
        left = max(0.0, group.deadline - self._clock())
        return await self._waiting.add(attempt.pod, {group.plugin: left})

    def _open_if_complete(self, group: Group) -> None:
        """Let the ready members be bound as soon as they are enough."""
        if group.opened or group.before + len(group.bound) + len(group.ready) < group.minimum:
            return
        group.opened = True
        for uid in group.ready:
            self._waiting.allow(uid, group.plugin)

    def bound(self, attempt: Attempt) -> None:
        """A member has its Binding."""
        group = attempt.group
        if group is None:
            return
        group.bound.add(attempt.pod.uid)
        group.under_way.discard(attempt.pod.uid)
        if group.before + len(group.bound) == group.minimum:
            seconds = self._clock() - group.since
            self._metrics.gangs.labels("placed").inc()
            self._metrics.gang_duration.observe(seconds)
            log.info("gang is bound", gang=group.name, minMember=group.minimum, seconds=round(seconds, 3))
        self._leave(group, attempt.pod)

    def lost(self, attempt: Attempt, reason: str) -> str:
        """A member gave its node up; returns what it is told."""
        group = attempt.group
        if group is None:
            return reason
        group.under_way.discard(attempt.pod.uid)
        held = group.held
        self._leave(group, attempt.pod)
        text = f"{group.name}: {held} members hold nodes, minMember is {group.minimum}, this one gave its node up"
        return f"{text}: {reason}"

    def _leave(self, group: Group, pod: PodInfo) -> None:
        group.ready.discard(pod.uid)
        if group.under_way:
            return
        del self._groups[group.name]
        if group.held < group.minimum:
            self._metrics.gangs.labels("incomplete").inc()
            log.warning("gang is not complete", gang=group.name, bound=group.held, minMember=group.minimum)
        if not 0 < group.held < group.minimum:
            # Else the others hold their nodes for nothing until the missing ones come: these go first.
            self._settle(group.name, pod)

    def _settle(self, name: str, pod: PodInfo) -> None:
        self._since.pop(name, None)
        for plugin in self._plugins.values():
            plugin.gang_settled(pod)
