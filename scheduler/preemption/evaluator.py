"""PostFilter of plugins that preempt, and carrying a preemption out beside the scheduling loop (Evaluator.Preempt and
prepareCandidateAsync of kube-scheduler 1.34)."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from scheduler.framework import (
    PREEMPTION_ATTEMPTS,
    SUCCESS,
    Code,
    CycleState,
    Handle,
    NodeCodes,
    NodeView,
    PluginContext,
    PodInfo,
    PostFilterResult,
    Status,
    failure,
    unschedulable,
)
from scheduler.kube.primitives.timestamps import format_time
from scheduler.preemption.dryruns import DryRunCache
from scheduler.preemption.victims import (
    LEAVING,
    PREEMPTED_REASON,
    Candidate,
    VictimRules,
    ineligible,
)

WAITING = "waiting for the preemption for this pod to be finished"
PREEMPTIONS_AT_ONCE = 8
"""Preemptions under way at the API server at once; the others wait for their turn. All at once, each would take as long
as all of them, and requests would time out waiting for a connection: the preemptor would then look for other victims,
though some of its own are gone."""
VICTIMS_AT_ONCE = 16
"""Victims, of all preemptions, that are asked to go at once: a quarter of the client's connections, so that bindings
and Events find one."""
_FEWEST_KEPT = 64
"""So many preemptions may be remembered before those that are over are looked for."""


class _Asked(NamedTuple):
    """Who has been, or is being, asked to leave a node: UIDs."""

    node: str
    victims: frozenset[str]


class Evictions:
    """The preemptions of one plugin that are under way, by preemptor."""

    def __init__(self, plugin: str, handle: Handle) -> None:
        # Here, not above: `simulate`, which only asks who would be evicted, starts sooner without it.
        from asyncio import Semaphore, gather

        self._plugin = plugin
        self._handle = handle
        self._gather = gather
        self._turns = Semaphore(PREEMPTIONS_AT_ONCE)
        self._lanes = Semaphore(VICTIMS_AT_ONCE)
        self._running: set[str] = set()
        self._asked: dict[str, _Asked] = {}
        self._most_kept = _FEWEST_KEPT

    def __len__(self) -> int:
        """How many preemptions are remembered."""
        return len(self._asked)

    def running(self, pod: PodInfo) -> bool:
        """Tell whether there are victims of this pod that have yet to be asked to go."""
        return pod.uid in self._running

    def parked(self, pod: PodInfo) -> bool:
        """Tell whether trying a pod is of no use yet: the watch has still to show that its victims go, and each of them
        has yet to be asked, or has been a moment ago. The deletion of any pod is the time to ask again."""
        if pod.uid in self._running:
            return True
        asked = self._asked.get(pod.uid)
        if asked is None:
            return False
        # Thousands may be parked, and each deletion has all of them asked about.
        return any(not one.deleting and one.uid in asked.victims for one in self._handle.pods_on(asked.node))

    def leaving(self, pod: PodInfo, view: NodeView) -> bool:
        """Tell whether a victim of this pod is still there, be it that the watch has yet to show that it goes. One that
        another pod has taken the node from may look elsewhere at once."""
        asked = self._asked.get(pod.uid)
        if asked is None:
            return False
        nominated = any(one.uid == pod.uid for one in view.nominations.get(asked.node, ()))
        if nominated and _still_there(asked, view):
            return True
        del self._asked[pod.uid]
        return False

    def start(self, preemptor: PodInfo, candidate: Candidate, displaced: Sequence[PodInfo], view: NodeView) -> None:
        """Take the victims away; `displaced` are nominated pods that have to look for another node."""
        if len(self._asked) >= self._most_kept:
            # Not at each start, when thousands are under way.
            self._asked = {uid: former for uid, former in self._asked.items() if _still_there(former, view)}
            self._most_kept = max(_FEWEST_KEPT, 2 * len(self._asked))
        self._asked[preemptor.uid] = _Asked(candidate.node, frozenset([victim.uid for victim in candidate.victims]))
        self._running.add(preemptor.uid)
        self._handle.spawn(self._carry_out(preemptor, candidate, displaced), f"preemption for {preemptor.key}")

    async def _carry_out(self, preemptor: PodInfo, candidate: Candidate, displaced: Sequence[PodInfo]) -> None:
        complete, last = False, candidate.victims[-1].uid
        try:
            async with self._turns:
                complete = await self._evict(preemptor, candidate, displaced)
        finally:
            # Not earlier: whoever is tried while the last one has yet to be asked to go finds that nobody is leaving,
            # and preempts once more.
            self._running.discard(preemptor.uid)
            if not complete:
                self._asked.pop(preemptor.uid, None)
            if not complete or all(pod.uid != last for pod in self._handle.pods_on(candidate.node)):
                # Somebody is still there whose deletion nothing will announce, or it was announced already.
                self._handle.activate([preemptor])

    async def _evict(self, preemptor: PodInfo, candidate: Candidate, displaced: Sequence[PodInfo]) -> bool:
        """Ask everybody to go, the last victim when the others have been asked; returns whether all were."""
        *first, last = candidate.victims
        cleared = await self._gather(*(self._clear_nomination(pod) for pod in displaced))
        gone = await self._gather(*(self._preempt(victim, preemptor, candidate.node) for victim in first))
        return await self._preempt(last, preemptor, candidate.node) and all(cleared) and all(gone)

    async def _clear_nomination(self, pod: PodInfo) -> bool:
        status = await self._handle.patch_pod(pod, {"status": {"nominatedNodeName": None}}, "status")
        return status.is_success or status.is_skip

    async def _preempt(self, victim: PodInfo, preemptor: PodInfo, node: str) -> bool:
        async with self._lanes:
            return await self._ask_to_go(victim, preemptor, node)

    async def _ask_to_go(self, victim: PodInfo, preemptor: PodInfo, node: str) -> bool:
        if not self._handle.reject_waiting(victim, self._plugin, "preempted"):
            condition = self._condition(victim, preemptor)
            if condition is not None:
                status = await self._handle.patch_pod(victim, {"status": {"conditions": [condition]}}, "status")
                if status.is_skip:
                    return True
                if not status.is_success:
                    return False
            if not (await self._handle.delete_pod(victim)).is_success:
                return False
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        self._handle.event(victim, "Normal", "Preempted", "Preempting", note, preemptor)
        return True

    def _condition(self, victim: PodInfo, preemptor: PodInfo) -> dict[str, Any] | None:
        """Return the condition that says why the pod goes; None when it says so already."""
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTED_REASON,
            "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
        }
        former = next((one for one in victim.conditions if one.type == "DisruptionTarget"), None)
        if former is not None and former.status == "True":
            if (former.reason, former.message) == (condition["reason"], condition["message"]):
                return None
        else:
            condition["lastTransitionTime"] = format_time(datetime.fromtimestamp(self._handle.now(), UTC))
        if victim.generation:
            condition["observedGeneration"] = victim.generation
        return condition


def _still_there(asked: _Asked, view: NodeView) -> bool:
    row = view.row(asked.node)
    return row >= 0 and any(pod.uid in asked.victims for pod in view.pods_on(row))


def wanted_candidates(nodes: int, percentage: int, least: int) -> int:
    """Return after how many candidates among `nodes` the search may end (calculateNumCandidates)."""
    return min(nodes, max(nodes * percentage // 100, least))


class Preemption:
    """What the PostFilter of a preempting plugin does; the plugin brings its rules."""

    def __init__(
        self,
        plugin: str,
        context: PluginContext,
        rules: VictimRules,
        wanted: Callable[[int], int],
        *,
        prefix: str = "",
    ) -> None:
        """Without a handle (simulation) nobody is evicted.

        Args:
            plugin: its name.
            context: what the plugin was built with.
            rules: who may go.
            wanted: after how many candidates the search may end, given how many nodes there are to try.
            prefix: stands before every message.
        """
        self._filters = context.filters
        self._rules = rules
        self._dry_runs = DryRunCache()
        self._wanted = wanted
        self._prefix = prefix
        self._evictions = None if context.handle is None else Evictions(plugin, context.handle)

    def parked(self, pod: PodInfo) -> bool:
        """Tell whether victims of this pod are still being deleted, so that it need not be tried."""
        return self._evictions is not None and self._evictions.parked(pod)

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """Nominate the node where preemption hurts least and start evicting, or say why it does not help."""
        state.count(PREEMPTION_ATTEMPTS)
        reason = self._busy(pod, view) or ineligible(state, pod, view, codes, self._rules)
        if reason is not None:
            return None, unschedulable(self._prefix + reason)
        if self._filters is None:
            return None, failure(f"{self._prefix}there are no filters to ask")
        rng = state.rng or random.Random(0)
        rows = codes.rows(Code.UNSCHEDULABLE)
        rows = np.roll(rows, -int(rng.random() * len(rows)))
        found = self._dry_runs.search(state, pod, view, self._filters, rows, self._wanted(len(rows)), self._rules, rng)
        if isinstance(found, Candidate):
            self._evict(pod, found, view)
            return PostFilterResult(found.node, found.victims), SUCCESS
        if found.errors:
            return None, failure(self._prefix + found.error)
        return PostFilterResult(""), unschedulable(self._prefix + found.message(len(view.rows)))

    def _busy(self, pod: PodInfo, view: NodeView) -> str | None:
        """Why the pod must not preempt once more while an earlier preemption of its own is not over."""
        if self._evictions is None:
            return None
        if self._evictions.running(pod):
            return WAITING
        return LEAVING if self._evictions.leaving(pod, view) else None

    def _evict(self, pod: PodInfo, chosen: Candidate, view: NodeView) -> None:
        if self._evictions is None:
            return
        displaced = [
            one
            for one in view.nominations.get(chosen.node, ())
            # One whose nomination the API server does not show has nothing to be cleared there.
            if one.priority < pod.priority and one.nominated_node
        ]
        self._evictions.start(pod, chosen, displaced, view)
