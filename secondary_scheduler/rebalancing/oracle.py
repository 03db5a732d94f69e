"""Where the scheduler itself would put a pod that runs already: its own decision, on the cluster without the pod.

It decides twice. Once on the cluster as it will be: the pod is gone, and its share of the load with it; this gives the
gain. And once as the scheduler will see it at that moment: the load is still measured with the pod, the moves before of
the round are not in it and count as pods that were just placed, and most controllers make the replacement while the
first pod still holds its room. A target counts only if both agree.

It changes the state that it decides on, and puts everything back.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from scheduler.core import Explanation, decide, explain, gang_plugins
from scheduler.framework import Code, LoadReading, PodInfo, ProfileRunner, conclude
from scheduler.state import ClusterState, Snapshot
from secondary_scheduler.balance import lowered
from secondary_scheduler.rebalancing.loads import PodShare
from secondary_scheduler.rebalancing.objects import WAITING_FOR_THE_END

_NAME_LIMIT = 3
_FULL = 100
"""The most that a plugin gives a node, before its weight."""


class Chance(Protocol):
    """Chooses among equals; starts again for each pod, so that a plan does not depend on the pods before."""

    def begin(self, pod: str) -> None:
        """Start the numbers of a pod (`namespace/name`)."""

    def random(self) -> float:
        """Return the next number, uniform in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Gain:
    """By how many points of its total score the other node is better.

    Attributes:
        plugins: the same by plugin, with its weight; those that make no difference are left out.
        attainable: the most that any node could be better by: 100 points, times its weight, of each plugin that does
            not rate all nodes alike.
        refused_by: the filter that no longer lets the pod onto its node, "" if none; the gain is then the other
            node's whole score.
    """

    total: int
    plugins: Mapping[str, int] = field(default_factory=dict)
    attainable: int = 0
    refused_by: str = ""


@dataclass(frozen=True, slots=True)
class MoveVerdict:
    """What the scheduler would do with a pod.

    Attributes:
        node: where it would put it; its own node if that is as good as any; None if nowhere.
        best: all nodes that are equally good.
        message: why it fits nowhere.
        gain: None where the pod would stay, or fits nowhere.
        unsure: where it would put it at the moment of the move, if that is elsewhere; "" if it is not.
    """

    node: str | None
    best: tuple[str, ...] = ()
    message: str = ""
    gain: Gain | None = None
    unsure: str = ""


class Oracle:
    """Asks the scheduler's plugins.

    Args:
        state: the cluster.
        runners: the plugins of each profile, by scheduler name.
        sources: of load, as `ArgsModel.source_key` names them.
        reading: the load by name of node.
        now: the time of all decisions, seconds since the epoch.
        chance: chooses among equally good nodes.
        asks_others: tells whether extenders are to be asked about a pod.
    """

    def __init__(
        self,
        state: ClusterState,
        runners: Mapping[str, ProfileRunner],
        sources: tuple[str, ...],
        reading: LoadReading,
        now: float,
        chance: Chance,
        asks_others: Callable[[PodInfo], bool] = lambda pod: False,
    ) -> None:
        self.state = state
        self.now = now
        self.reading = reading
        self._runners = runners
        self._sources = sources
        self._chance = chance
        self.asks_others = asks_others
        for pod in state.pods():
            state.directory.upsert(pod)
        self._measured = reading
        self._just_moved: dict[str, PodInfo] = {}

    def begin_round(self) -> None:
        """From now on the load shows the moves so far."""
        self._measured = self.reading
        self._just_moved.clear()

    def serves(self, pod: PodInfo) -> bool:
        """Tell whether a profile decides about a pod."""
        return pod.scheduler_name in self._runners

    def has_gang(self, pod: PodInfo) -> bool:
        """Tell whether a plugin places a pod together with others."""
        return any(plugin.has_gang(pod) for plugin in gang_plugins(self._runners[pod.scheduler_name]))

    def judge(self, pod: PodInfo, share: PodShare) -> MoveVerdict:
        """Return where the scheduler would put a pod, and what is better there.

        Args:
            pod: on a node that is known, of one of the profiles.
            share: what it uses.
        """
        replacement = _waiting(pod)
        runner = self._runners[pod.scheduler_name]
        with self._without(pod, self._without_share(pod.node_name, share)):
            snapshot = self.state.snapshot(self.now)
            verdict, explanation = self._decision(snapshot, replacement, runner)
            if verdict.node is None or pod.node_name in verdict.best:
                return replace(verdict, node=None if verdict.node is None else pod.node_name)
            verdict = replace(verdict, gain=_gain(explanation, pod.node_name, verdict.node))
        return self._confirmed(pod, replacement, runner, verdict)

    def move(self, pod: PodInfo, target: str, share: PodShare) -> None:
        """Let a pod be on another node from now on, and its load, too."""
        self.reading = self._with_share(self._without_share(pod.node_name, share), target, share)
        self._show(self.reading)
        # Its load is in the measurement of the other node now: it must not count as one that was just placed, too.
        moved = msgspec.structs.replace(pod, node_name=target, assigned_at=math.nan)
        self._put(moved)
        self.state.directory.upsert(moved)
        self._just_moved[moved.uid] = moved

    def _confirmed(
        self, pod: PodInfo, replacement: PodInfo, runner: ProfileRunner, verdict: MoveVerdict
    ) -> MoveVerdict:
        """Return the verdict with the node that the scheduler will choose at the moment of the move."""
        if pod.controller is not None and pod.controller.kind in WAITING_FOR_THE_END:
            at_once = self._without(pod, self._measured)
        else:
            at_once = self._ending(pod)
        with self._as_measured(), at_once:
            then, _ = self._decision(self.state.snapshot(self.now), replacement, runner)
        others = tuple(name for name in then.best if name not in verdict.best)
        if then.node is None or others:
            return replace(verdict, unsure=", ".join(others[:_NAME_LIMIT]) or "nowhere")
        return replace(verdict, node=then.node, best=then.best)

    def _decision(self, snapshot: Snapshot, pod: PodInfo, runner: ProfileRunner) -> tuple[MoveVerdict, Explanation]:
        self._chance.begin(pod.key)
        placement = conclude(decide(snapshot, pod, runner, self._chance, from_scratch=True))
        explanation = explain(snapshot, pod, runner)
        if placement.code is not Code.SUCCESS or placement.node is None:
            return MoveVerdict(None, message=placement.message or ""), explanation
        # A decision among a sample of the nodes may be for another than the best of all.
        best = explanation.best if placement.node in explanation.best else (placement.node,)
        return MoveVerdict(placement.node, best), explanation

    def _without_share(self, node: str, share: PodShare) -> LoadReading:
        return self._changed(self.reading, node, share, 1.0)

    def _with_share(self, reading: LoadReading, node: str, share: PodShare) -> LoadReading:
        return self._changed(reading, node, share, -1.0)

    def _changed(self, reading: LoadReading, node: str, share: PodShare, sign: float) -> LoadReading:
        info, load = self.state.node(node), reading.loads.get(node)
        if info is None or load is None:
            return reading
        part = {name: 0.0 if math.isnan(value) else sign * value for name, value in share.per_cent(info).items()}
        return replace(reading, loads={**reading.loads, node: lowered(load, part["cpu"], part["memory"])})

    def _show(self, reading: LoadReading) -> None:
        for source in self._sources:
            self.state.set_load(replace(reading, source=source))

    @contextlib.contextmanager
    def _without(self, pod: PodInfo, reading: LoadReading) -> Iterator[None]:
        """The cluster without a pod, and with this load."""
        self.state.remove_pod(pod.uid)
        self._show(reading)
        try:
            yield
        finally:
            self.state.upsert_pod(pod, observed_at=pod.assigned_at)
            self._show(self.reading)

    @contextlib.contextmanager
    def _as_measured(self) -> Iterator[None]:
        """The cluster with the load of before this round, and its moves as pods that were just placed."""
        if not self._just_moved:
            # That is what it is.
            yield
            return
        for pod in self._just_moved.values():
            self._put(msgspec.structs.replace(pod, assigned_at=self.now))
        self._show(self._measured)
        try:
            yield
        finally:
            for pod in self._just_moved.values():
                self._put(pod)
            self._show(self.reading)

    def _put(self, pod: PodInfo) -> None:
        """Let a pod be on its node from the time on that it says."""
        # Taken away first: a change of that time alone is no news.
        self.state.remove_pod(pod.uid)
        self.state.upsert_pod(pod, observed_at=pod.assigned_at)

    @contextlib.contextmanager
    def _ending(self, pod: PodInfo) -> Iterator[None]:
        """The cluster while a pod is being deleted."""
        self.state.upsert_pod(msgspec.structs.replace(pod, deleting=True))
        try:
            yield
        finally:
            self.state.upsert_pod(pod)


def _waiting(pod: PodInfo) -> PodInfo:
    """Return the pod that a controller makes in place of another."""
    return msgspec.structs.replace(
        pod,
        uid=f"{pod.uid}-replacement",
        node_name="",
        nominated_node="",
        requests=pod.spec.requests,
        nonzero_cpu=pod.spec.nonzero_cpu,
        nonzero_memory=pod.spec.nonzero_memory,
        assigned_at=math.nan,
        started_at=math.nan,
        conditions=(),
        phase="Pending",
    )


def _gain(explanation: Explanation, source: str, target: str) -> Gain:
    own, other = explanation.node(source), explanation.node(target)
    attainable = sum(
        _FULL * score.weight
        for score in explanation.scores
        if len(score.raw) and score.weighted.min() < score.weighted.max()
    )
    plugins = {name: score.weighted for name, score in other.scores.items()}
    if not own.feasible:
        refusal = own.rejection.plugin if own.rejection is not None else ""
        return Gain(other.total, plugins, attainable, refusal or "a filter")
    differences = {name: weighted - own.scores[name].weighted for name, weighted in plugins.items()}
    return Gain(other.total - own.total, {name: points for name, points in differences.items() if points}, attainable)
