"""The health of a running scheduler, from what the API server shows of it: Deployment, Lease, SecondaryScheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from scheduler.catalog import ANNOTATION_CONFIGURATION_HASH, ANNOTATION_LOAD_FRESH, ANNOTATION_LOAD_MESSAGE
from scheduler.framework import PodInfo
from scheduler.kube.primitives import TimestampError, epoch_seconds
from secondary_scheduler.kubeobjects import KubeObject, part, parts
from secondary_scheduler.rebalancing.history import MoveOutcome, PastMove
from secondary_scheduler.rebalancing.objects import revision_of
from secondary_scheduler.rebalancing.rules.evictions import EVACUATION_SECONDS
from secondary_scheduler.rebalancing.rules.health import SchedulerHealth

_PATIENCE_SECONDS = 60.0
"""Beyond the duration of its Lease: clocks of machines differ."""
_MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class ObservedScheduler:
    """What the API server shows of a scheduler; None where there is no such object.

    Attributes:
        name: how messages name it.
        elects: whether its replicas elect a leader; without a Lease nothing is known of configuration and load.
    """

    name: str
    deployment: KubeObject | None = None
    lease: KubeObject | None = None
    resource: KubeObject | None = None
    elects: bool = True


def scheduler_health(observed: ObservedScheduler, *, planned: str, now: float) -> SchedulerHealth:
    """Return what rule 8 and rule 3 have to know of a scheduler.

    Args:
        observed: the objects, whatever they hold.
        planned: hash of the configuration that a plan is made with.
        now: seconds since the epoch.
    """
    problem = next(_problems(observed, now), "")
    reported = part(observed.lease, "metadata", "annotations")
    running = str(reported.get(ANNOTATION_CONFIGURATION_HASH) or "")
    load_problem = ""
    fresh = reported.get(ANNOTATION_LOAD_FRESH)
    if fresh is not None and fresh != "true":
        load_problem = str(reported.get(ANNOTATION_LOAD_MESSAGE) or "it says so")[:_MAX_TEXT]
    # Of a scheduler that is not there, its configuration is no news.
    return SchedulerHealth(problem, planned if problem and not running else running, planned, load_problem)


def command_flag(deployment: KubeObject | None, name: str) -> str:
    """Return the value of a flag on the command line of a Deployment's containers; "" where it is not set there."""
    containers = part(deployment, "spec", "template", "spec").get("containers")
    words = [
        str(word)
        for container in (containers if isinstance(containers, list) else ())
        for key in ("command", "args")
        if isinstance(container, Mapping) and isinstance(container.get(key), list)
        for word in container[key]
    ]
    return next((word.partition("=")[2] for word in reversed(words) if word.partition("=")[0] == name), "")


def lease_of(deployment: KubeObject | None, namespace: str, name: str) -> tuple[str, str]:
    """Return namespace and name of the Lease of a scheduler, whose Deployment has this namespace and name."""
    return (
        command_flag(deployment, "--leader-elect-resource-namespace") or namespace,
        command_flag(deployment, "--leader-elect-resource-name") or name,
    )


def elects_leader(deployment: KubeObject | None) -> bool:
    """Tell whether the replicas of a scheduler elect a leader."""
    return command_flag(deployment, "--leader-elect") != "false"


def _problems(observed: ObservedScheduler, now: float) -> Iterator[str]:
    for kind, wrong, words in (("Available", "False", "is not available"), ("Progressing", "True", "rolls out")):
        for condition in parts(observed.resource, "status", "conditions"):
            if condition.get("type") == kind and condition.get("status") == wrong:
                message = str(condition.get("message") or condition.get("reason") or "")[:_MAX_TEXT]
                yield f"{observed.name} {words}: {message}" if message else f"{observed.name} {words}"
    yield from _of_deployment(observed)
    if not observed.elects:
        yield f"{observed.name} elects no leader, so nobody says which configuration it runs"
    elif observed.lease is None:
        yield f"{observed.name} has no Lease"
    else:
        yield from _of_lease(observed.name, observed.lease, now)


def _of_deployment(observed: ObservedScheduler) -> Iterator[str]:
    if observed.deployment is None:
        yield f"{observed.name} has no Deployment"
        return
    spec, status = part(observed.deployment, "spec"), part(observed.deployment, "status")
    replicas = _count(spec.get("replicas"), 1)
    if not _count(status.get("availableReplicas"), 0):
        yield f"none of {replicas} replicas of {observed.name} is available"
    generation = _count(part(observed.deployment, "metadata").get("generation"), 0)
    if _count(status.get("observedGeneration"), generation) < generation:
        yield f"{observed.name} rolls out: its newest version has not been seen yet"
    if _count(status.get("updatedReplicas"), 0) < replicas or _count(status.get("replicas"), replicas) > replicas:
        yield f"{observed.name} rolls out: {_count(status.get('updatedReplicas'), 0)} of {replicas} replicas are new"


def _of_lease(name: str, lease: KubeObject, now: float) -> Iterator[str]:
    spec = part(lease, "spec")
    if not spec.get("holderIdentity"):
        yield f"no replica of {name} leads"
        return
    try:
        silent = now - epoch_seconds(str(spec.get("renewTime") or ""))
    except (TimestampError, ValueError, OverflowError):
        yield f"the leader of {name} does not say when it renewed its Lease"
        return
    if silent > _count(spec.get("leaseDurationSeconds"), 15) + _PATIENCE_SECONDS:
        yield f"the leader of {name} has not renewed its Lease for {silent:.0f} s"


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


CLOCKS_SECONDS = 5.0
"""So much the clock of the API server, which dates pods to the second, may be behind ours."""


def outcome_of(
    move: PastMove, pod: Callable[[str], PodInfo | None], siblings: Iterable[PodInfo], now: float
) -> MoveOutcome | None:
    """Return how a move has ended; None while it is in flight, which is 10 minutes at most.

    Args:
        move: in flight.
        pod: returns the pod with a UID; None once it is gone.
        siblings: pods of the controller whose pod was evicted.
        now: seconds since the epoch.
    """
    too_late = now - move.begun_at >= EVACUATION_SECONDS
    evicted = pod(move.uid)
    if evicted is not None and not evicted.deleting and not evicted.terminal:
        # Somebody else carries it out, or nobody ever will.
        return MoveOutcome.EXPIRED if too_late else None
    placed = replacement_of(move, siblings)
    if placed is None or not placed.node_name:
        return MoveOutcome.EXPIRED if too_late else None
    if placed.node_name == move.source:
        return MoveOutcome.BACK
    if placed.node_name in (move.target, *move.targets) or not move.all_targets:
        return MoveOutcome.LANDED
    return MoveOutcome.ELSEWHERE


def replacement_of(move: PastMove, siblings: Iterable[PodInfo]) -> PodInfo | None:
    """Return the pod that was made in place of an evicted one; None while there is none.

    It has the same controller and the same revision of its template, and was made after the eviction. As a workload
    has one move at a time and does not scale meanwhile (rule 5), the first such pod is the one.
    """
    newer = (
        pod
        for pod in siblings
        if pod.uid != move.uid
        and pod.controller is not None
        and pod.controller.uid == move.controller
        and revision_of(pod) == move.revision
        and _was_made_after(pod, move.begun_at)
    )
    return min(newer, key=lambda pod: (pod.created_at, pod.key), default=None)


def _was_made_after(pod: PodInfo, begun_at: float) -> bool:
    return not math.isnan(pod.created_at) and pod.created_at >= begun_at - CLOCKS_SECONDS
