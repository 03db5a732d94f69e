"""Rules 3 and 8: whether a round may be made at all. Nothing lifts them.

3: fresh load on at least 80 % of the nodes, or nothing moves. (And on both nodes of a move: see `moves`.)
8: nothing moves while the scheduler is not available, rolls out or runs another configuration than the plan; while more
than 5 % of its pods are pending; while a node is not ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduler.framework import NodeInfo
from secondary_scheduler.rebalancing.loads import ClusterLoads
from secondary_scheduler.rebalancing.rules.reasons import MoveRefusal, Reason

MIN_COVERAGE = 0.8
MAX_PENDING = 0.05
_NAME_LIMIT = 3


@dataclass(frozen=True, slots=True)
class SchedulerHealth:
    """What is known of the scheduler that would place the replacements.

    Attributes:
        problem: why it is not available, or that it rolls out; "" if neither.
        running: hash of the configuration that it runs.
        planned: hash of the configuration that the plan is made with.
        load_problem: why its load is not fresh, by its own account; "" if it is.
    """

    problem: str = ""
    running: str = ""
    planned: str = ""
    load_problem: str = ""


def freshness(loads: ClusterLoads, health: SchedulerHealth | None = None) -> MoveRefusal | None:
    """Return what rule 3 says of a round."""
    if not loads.limits.resources:
        return MoveRefusal(Reason.NO_LOAD)
    if health is not None and health.load_problem:
        return MoveRefusal(Reason.LOAD_NOT_FRESH, health.load_problem)
    coverage = loads.coverage
    if coverage >= MIN_COVERAGE:
        return None
    missing = loads.unmeasured
    example = f"; {len(missing)} without, such as {missing[0]}" if missing else ""
    return MoveRefusal(
        Reason.LOAD_NOT_FRESH, f"on {coverage:.0%} of the nodes, and {MIN_COVERAGE:.0%} are needed{example}"
    )


def stability(
    health: SchedulerHealth | None, *, pods: int, pending: int, nodes: Iterable[NodeInfo]
) -> Iterator[MoveRefusal]:
    """Yield what rule 8 says of a round.

    Args:
        health: None where nothing is known of a running scheduler, as on a snapshot.
        pods: of our schedulers, on nodes and pending.
        pending: those of them that wait for a node.
        nodes: all.
    """
    if health is not None and health.problem:
        yield MoveRefusal(Reason.SCHEDULER_UNAVAILABLE, health.problem)
    if health is not None and health.running != health.planned:
        yield MoveRefusal(
            Reason.OTHER_CONFIGURATION, f"{health.running or 'none'}, the plan was made with {health.planned}"
        )
    if pending > MAX_PENDING * pods:
        yield MoveRefusal(Reason.PODS_PENDING, f"{pending} of {pods}, and {MAX_PENDING:.0%} is the most")
    # One that does not say is one in a file that somebody wrote.
    unready = sorted(node.name for node in nodes if node.conditions.get("Ready", "True") != "True")
    if unready:
        more = f" and {len(unready) - _NAME_LIMIT} more" if len(unready) > _NAME_LIMIT else ""
        yield MoveRefusal(Reason.NODE_NOT_READY, f"{', '.join(unready[:_NAME_LIMIT])}{more}")
