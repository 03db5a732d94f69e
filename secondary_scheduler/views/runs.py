"""Decisions about all pending pods of a snapshot, as records that are small and outlive the state they were made on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import asdict, replace

from scheduler.answers import Decision
from scheduler.config import Configuration
from scheduler.core import Placement
from scheduler.engine import Assembly
from scheduler.framework import LoadReading, PodInfo
from secondary_scheduler.balance import NodeFigures, node_figures
from secondary_scheduler.simulation.cluster import SimulatedCluster
from secondary_scheduler.simulation.deciding import UNDECIDED, PodOutcome, decision_of, result_of, waited
from secondary_scheduler.simulation.settingup import Conditions, ReadyCluster, copy_cluster, make_ready
from secondary_scheduler.views.nodes import NodeColumns, node_columns

_SCORED_NODES = 20_000
"""Nodes with scores that are kept, of all decisions together: some 1.5 kB each."""
_MIN_SCORED, _MAX_SCORED = 20, 500
"""The same per decision."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a run may take, in seconds of the wall clock.

    Attributes:
        explained: after so long, decisions are made without scores and reasons per node. 0: none has them.
        total: after so long, the pods that are left are not decided.
    """

    explained: float
    total: float


class PodDecision(Decision, frozen=True, kw_only=True):
    """What became of one pending pod; `result` is one of `simulation.deciding.RESULTS`.

    Attributes:
        number: position in the order of decisions, from 1.
        waiting: seconds since it was created; None where the object does not say.
        moment: seconds since the epoch; 0: that of all decisions.
    """

    number: int
    priority: int = 0
    waiting: float | None = None
    requests: Mapping[str, int] | None = None
    moment: float = 0.0

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return self.pod.partition("/")[0]

    @property
    def name(self) -> str:
        """Its name there."""
        return self.pod.partition("/")[2]


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """All decisions of one configuration on one snapshot.

    Attributes:
        decisions: in the order in which they were made.
        load: by name of node; None where there is none.
        now: time of all decisions, seconds since the epoch.
        unexplained: decisions that would have scores, had time been left.
        before, after: the nodes without and with the pods that were placed; of a recording, as recorded and replayed.
        seconds: how long it took.
        figures: of the nodes with the pods that were placed, for a comparison.
        queue: the pods that wait; None: all that the decisions are about.
    """

    configuration: Configuration
    decisions: tuple[PodDecision, ...]
    load: LoadReading | None
    now: float
    unexplained: int
    before: NodeColumns
    after: NodeColumns
    seconds: float
    figures: NodeFigures
    queue: tuple[PodDecision, ...] | None = None


def run_simulation(
    cluster: SimulatedCluster,
    configuration: Configuration,
    conditions: Conditions,
    *,
    limits: Limits,
    stopped: Callable[[], bool] = lambda: False,
    by_creation: bool = False,
) -> SimulationRun:
    """Decide about all pending pods on a copy of the cluster, which stays as it is.

    Args:
        cluster: as read.
        configuration: whose profiles decide.
        conditions: what the decisions depend on beside these.
        limits: how long it may take.
        stopped: asked after each decision; once it says so, no more are made.

    Raises:
        CommandError: a plugin refuses its args.
    """
    began = time.monotonic()
    ready = make_ready(copy_cluster(cluster), configuration, conditions)
    before = _columns(ready)
    decisions, unexplained = _decide(ready, limits, began, stopped, by_creation=by_creation)
    seconds = time.monotonic() - began
    return SimulationRun(
        configuration,
        tuple(decisions),
        ready.load,
        ready.now,
        unexplained,
        before,
        _columns(ready),
        seconds,
        node_figures(ready.cluster.state, ready.load, ready.now),
    )


def scored_nodes(decisions: int) -> int:
    """Return how many nodes of each of so many decisions keep their scores."""
    return max(_MIN_SCORED, min(_MAX_SCORED, _SCORED_NODES // max(1, decisions)))


def _columns(ready: ReadyCluster) -> NodeColumns:
    return node_columns(ready.cluster.state, ready.configuration, ready.load, ready.now)


def _decide(
    ready: ReadyCluster, limits: Limits, began: float, stopped: Callable[[], bool], *, by_creation: bool
) -> tuple[list[PodDecision], int]:
    def is_explained(_placement: Placement) -> bool:
        return time.monotonic() - began < limits.explained

    cluster, now = ready.cluster, ready.now
    by_key = {pod.key: pod for pod in cluster.pending}
    limit = scored_nodes(len(by_key))
    decisions: list[PodDecision] = []
    unexplained = 0
    for outcome in ready.simulation(is_explained).run(cluster.pending, by_creation=by_creation):
        pod = by_key.pop(outcome.pod)
        if limits.explained and outcome.explanation is None and outcome.placement is not None:
            unexplained += 1
        decisions.append(record(len(decisions) + 1, outcome, pod, ready.assembly, now, limit))
        if time.monotonic() - began > limits.total or stopped():
            break
    for pod in by_key.values():
        message = f"not decided: {limits.total:g} s were not enough for all pods"
        undecided = _undecided(len(decisions) + 1, pod.key, pod.scheduler_name, message)
        waits = waited(pod, now)
        decisions.append(replace(undecided, priority=pod.priority, waiting=waits, requests=pod.requests))
    for broken in cluster.undecidable:
        decisions.append(_undecided(len(decisions) + 1, broken.key, broken.scheduler_name, broken.reason))
    return decisions, unexplained


def record(number: int, outcome: PodOutcome, pod: PodInfo, assembly: Assembly, now: float, limit: int) -> PodDecision:
    """Return what became of a pod, while the outcome's matrix is valid; at most so many nodes have their scores."""
    result = result_of(outcome, pod, assembly.runners[pod.scheduler_name], assembly.state)
    decision = decision_of(outcome, pod, result, assembly, limit)
    own = {"number": number, "priority": pod.priority, "waiting": waited(pod, now), "requests": pod.requests}
    return PodDecision(**{**asdict(decision), **own})


def _undecided(number: int, pod: str, scheduler_name: str, message: str) -> PodDecision:
    return PodDecision(
        number=number,
        pod=pod,
        scheduler_name=scheduler_name,
        result=UNDECIDED,
        message=message,
        time="",
        uid="",
        attempt=None,
        node=None,
        total=0,
        evaluated_nodes=0,
        feasible_nodes=0,
        load_age_seconds={},
        details=None,
    )
