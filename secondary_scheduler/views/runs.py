"""Decisions about all pending pods of a snapshot, as records that are small and outlive the state they were made on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.answers import DecisionDetail
from scheduler.config import Configuration
from scheduler.core import Placement, detail_of
from scheduler.engine import Assembly
from scheduler.framework import LoadReading, PodInfo
from secondary_scheduler.balance import NodeFigures, node_figures
from secondary_scheduler.simulation.cluster import SimulatedCluster
from secondary_scheduler.simulation.deciding import UNDECIDED, Outcome, result_of, waited
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


@dataclass(frozen=True, slots=True)
class PodDecision:
    """What became of one pending pod.

    Attributes:
        number: position in the order of decisions, from 1.
        result: one of `simulation.results.RESULTS`.
        message: why it has no node, as kube-scheduler words it.
        waiting: seconds since it was created; None where the object does not say.
        detail: scores and reasons; None where nothing was evaluated, or time was short.
        load_ages: seconds since each load source answered.
        time: of the decision, seconds since the epoch; 0: that of all decisions.
        attempt: how many attempts there were before and with it; 0: the only one.
    """

    number: int
    key: str
    scheduler_name: str
    result: str
    node: str | None
    message: str
    priority: int = 0
    waiting: float | None = None
    requests: Mapping[str, int] | None = None
    evaluated: int = 0
    feasible: int = 0
    total: int = 0
    victims: tuple[str, ...] = ()
    detail: DecisionDetail | None = None
    load_ages: Mapping[str, float] | None = None
    time: float = 0.0
    attempt: int = 0
    uid: str = ""

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return self.key.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Run:
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
) -> Run:
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
    return Run(
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
        decisions.append(record(len(decisions) + 1, pod.key, outcome, pod, ready.assembly, now, limit))
        if time.monotonic() - began > limits.total or stopped():
            break
    for pod in by_key.values():
        message = f"not decided: {limits.total:g} s were not enough for all pods"
        decisions.append(_undecided(len(decisions) + 1, pod, message, now))
    for broken in cluster.undecidable:
        number = len(decisions) + 1
        decisions.append(PodDecision(number, broken.key, broken.scheduler_name, UNDECIDED, None, broken.reason))
    return decisions, unexplained


def record(
    number: int, key: str, outcome: Outcome, pod: PodInfo, assembly: Assembly, now: float, limit: int
) -> PodDecision:
    """Return what became of a pod, while the outcome's matrix is valid; at most so many nodes have their scores."""
    runner = assembly.runners[pod.scheduler_name]
    placement, detail = outcome.placement, None
    if outcome.explanation is not None:
        # The pod is on its node by now. Scores and reasons are of the state before; what is lacking is asked of the
        # state as it is, which is the same for a pod that got no node.
        detail = detail_of(outcome.explanation, assembly.attempts.snapshot(), runner, outcome.node, limit)
    return PodDecision(
        number=number,
        key=key,
        scheduler_name=pod.scheduler_name,
        result=result_of(outcome, pod, runner, assembly.state),
        node=outcome.node,
        message=outcome.message or "",
        priority=pod.priority,
        waiting=waited(pod, now),
        requests=pod.requests,
        evaluated=placement.evaluated if placement is not None else 0,
        feasible=placement.feasible if placement is not None else 0,
        total=placement.total if placement is not None else 0,
        victims=outcome.victims,
        detail=detail,
        load_ages=placement.load_ages if placement is not None else None,
        uid=pod.uid,
    )


def _undecided(number: int, pod: PodInfo, message: str, now: float) -> PodDecision:
    return PodDecision(
        number, pod.key, pod.scheduler_name, UNDECIDED, None, message, pod.priority, waited(pod, now), pod.requests
    )
