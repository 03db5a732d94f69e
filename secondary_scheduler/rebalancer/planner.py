"""From a picture of the cluster to a plan: the scheduler's plugins on a state of their own, which it may change."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.config import Configuration, RebalanceSettings
from scheduler.engine import assemble
from scheduler.framework import STOPPED_CLOCKS, Clocks, LoadReading, PodInfo, WallSeconds, configured_extenders
from scheduler.helpers import UnreadablePod
from scheduler.load import window_seconds
from scheduler.state import ClusterState
from secondary_scheduler.rebalancer.cluster import Picture, closed
from secondary_scheduler.rebalancing import (
    ClusterFacts,
    History,
    Oracle,
    PlanInput,
    PodUsage,
    RebalancePlan,
    SchedulerHealth,
    make_plan,
)


@dataclass(frozen=True, slots=True)
class RoundInput:
    """What one plan is made from.

    Attributes:
        reading: the load by name of node.
        usage: what pods used, by `namespace/name`.
        now: seconds since the epoch.
        evicts: whether the moves are carried out.
    """

    picture: Picture
    reading: LoadReading
    usage: Mapping[str, PodUsage]
    history: History
    health: SchedulerHealth
    now: float
    evicts: bool


class Planner:
    """Makes plans with a configuration; may be used from any thread, one plan at a time.

    Args:
        configuration: of the scheduler.
        settings: what may be moved.
        source: the load source that the plugins read, by `ArgsModel.source_key`.
        own_namespaces: where the scheduler and the rebalancer run.
    """

    def __init__(
        self,
        configuration: Configuration,
        settings: RebalanceSettings,
        source: str,
        own_namespaces: frozenset[str],
    ) -> None:
        self._configuration = configuration
        self._settings = settings
        self._source = source
        self._own_namespaces = own_namespaces
        options = [profile.options.load for profile in configuration.profiles]
        self.max_age = float(min(load.max_age_seconds for load in options))
        self._window = max(window_seconds(load.window) for load in options)
        self._extenders = configured_extenders(configuration.model.extenders)

    def plan(self, round_: RoundInput) -> RebalancePlan:
        """Return the plan of one round."""
        chance = _Chance()
        clocks = Clocks(lambda: WallSeconds(round_.now), STOPPED_CLOCKS.monotonic)
        state = ClusterState()
        assembly = assemble(self._configuration, clocks=clocks, rng=chance, state=state)
        pending = self._fill(state, round_.picture)
        state.set_load(replace(round_.reading, source=self._source))
        oracle = Oracle(
            state,
            assembly.runners,
            (self._source,),
            replace(round_.reading, source=""),
            round_.now,
            chance,
            lambda pod: any(extender.is_interested(pod) for extender in self._extenders),
        )
        picture = round_.picture
        facts = ClusterFacts(
            {pod.info.key: pod.facts for pod in picture.pods if pod.facts is not None},
            picture.workloads,
            round_.usage,
            {node.info.name: node.created_at for node in picture.nodes if not math.isnan(node.created_at)},
        )
        situation = PlanInput(
            self._settings,
            facts,
            pending,
            tuple(self._configuration.scheduler_names),
            max_age=self.max_age,
            window=self._window,
            history=round_.history,
            health=round_.health,
            own_namespaces=self._own_namespaces,
            evicts=round_.evicts,
        )
        return make_plan(situation, oracle)

    def _fill(self, state: ClusterState, picture: Picture) -> list[PodInfo]:
        for kind, item in picture.objects:
            state.objects.upsert(kind, item)
        blind = {
            pod.info.node_name
            for pod in picture.pods
            if isinstance(pod.info, UnreadablePod) and not pod.info.requests_known
        }
        for node in picture.nodes:
            state.upsert_node(closed(node.info) if node.info.name in blind else node.info)
        pending = []
        names = set(self._configuration.scheduler_names)
        for pod in (entry.info for entry in picture.pods):
            if pod.terminal:
                continue
            if pod.node_name:
                # It was seen by everybody when it was bound, not just now.
                state.upsert_pod(pod, observed_at=pod.assigned_at)
            elif pod.scheduler_name in names:
                if pod.nominated_node:
                    state.nominator.set(pod, pod.nominated_node)
                pending.append(pod)
        return pending


class _Chance(random.Random):
    """Chooses among equally good nodes, all of which the plan has checked."""

    def begin(self, pod: str) -> None:
        """Start the numbers of a pod, from its name."""
        self.seed(pod)
