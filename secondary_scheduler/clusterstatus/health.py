"""Whether an instance is healthy, by what its document says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from msgspec.structs import asdict

from scheduler.kube.primitives import TimestampError, format_time, parse_time
from scheduler.operand import shortage_of
from secondary_scheduler.clusterstatus.status import (
    SEVEREST_FIRST,
    InstanceStatus,
    LeaderStatus,
    ObservedCondition,
    State,
    StatusProblem,
    UnreadableConfiguration,
)

_CLOCK_SECONDS = 5.0
"""Beyond a Lease's duration, before a leader is said to be gone: this machine's clock and the cluster's may differ."""
_ANSWERING_SECONDS = 60.0
"""The same of a leader that answers: this machine's clock is the likelier fault."""


_SEVERITY = {
    ("Available", "False"): State.FAILED,
    ("Degraded", "True"): State.FAILED,
    ("LoadDataFresh", "False"): State.FAILED,
    ("NodesOvercommitted", "True"): State.WARNING,
    ("KubernetesVersionCurrent", "False"): State.WARNING,
    ("CacheCurrent", "False"): State.WARNING,
    ("RebalancerReady", "False"): State.WARNING,
    ("ReplicaFailure", "True"): State.FAILED,
}


def is_silent(renewed: object, duration_seconds: object, now: datetime, patience: float = _CLOCK_SECONDS) -> bool:
    """Whether a Lease was not renewed for longer than it lasts.

    Args:
        renewed: its `renewTime`.
        duration_seconds: its `leaseDurationSeconds`.
        now: this machine's time.
        patience: seconds beyond.
    """
    silent = seconds_since(renewed, now)
    lasts = duration_seconds if isinstance(duration_seconds, int) else 0
    return silent is not None and silent > patience + lasts


def problems_of(
    instance: InstanceStatus, *, lease_readable: bool, deployment_readable: bool, now: datetime
) -> list[StatusProblem]:
    """Return what is wrong with an instance, the worst first.

    Args:
        instance: its part of the document.
        lease_readable, deployment_readable: whether the caller would see its Lease and Deployment.
        now: to judge ages by.
    """
    if instance.management_state == "Removed":
        return []
    conditions = instance.current_conditions
    problems = [*_conditions(conditions), *_replicas(instance, deployment_readable)]
    if shortage := shortage_of(map(asdict, conditions)):
        problems.append(StatusProblem(State.WARNING, "replicas", shortage))
    if lease_readable:
        problems += _leader(instance, now)
    problems += _configuration(instance)
    problems += _reports(instance)
    return sorted(problems, key=lambda problem: problem.severity is not State.FAILED)


def worst(states: Iterable[State]) -> State:
    """Return the worst of these, `ok` of none."""
    return min(states, key=SEVEREST_FIRST.index, default=State.OK)


def _conditions(conditions: Iterable[ObservedCondition]) -> Iterator[StatusProblem]:
    for condition in conditions:
        severity = _SEVERITY.get((condition.type, condition.status))
        if severity is not None:
            message = ": ".join(filter(None, (condition.reason, condition.message)))
            yield StatusProblem(severity, condition.type, message, condition.since)


def _replicas(instance: InstanceStatus, readable: bool) -> Iterator[StatusProblem]:
    deployment = instance.deployment
    if deployment is None:
        if readable:
            yield StatusProblem(State.FAILED, "Deployment", "there is none; does the operator run?")
        return
    ready, replicas = deployment.ready, deployment.replicas
    if replicas == 0:
        yield StatusProblem(State.FAILED, "Deployment", f"{deployment.name} is scaled to 0 replicas")
    elif ready == 0 and not _is_reported(instance, "Available"):
        yield StatusProblem(State.FAILED, "Deployment", f"none of {replicas} replicas of {deployment.name} is ready")
    elif ready < replicas:
        yield StatusProblem(
            State.WARNING, "Deployment", f"{ready} of {replicas} replicas of {deployment.name} are ready"
        )


def _is_reported(instance: InstanceStatus, kind: str) -> bool:
    """Whether a condition says that something is wrong already."""
    return any(condition.type == kind and not condition.is_expected for condition in instance.conditions)


def _leader(instance: InstanceStatus, now: datetime) -> Iterator[StatusProblem]:
    leader = instance.leader
    if not instance.leader_election or instance.is_without_replica:
        return
    if leader is None:
        if instance.alive is False:
            yield StatusProblem(State.FAILED, "Lease", "no replica leads: no pod is scheduled")
        return
    patience = _ANSWERING_SECONDS if instance.alive else _CLOCK_SECONDS
    if is_silent(leader.renewed_at, leader.lease_duration_seconds, now, patience):
        reason = f"has not renewed it for {age_of(leader.renewed_at, now)}"
    elif instance.alive is False:
        reason = "is gone"
    else:
        return
    after = f"no pod is scheduled until another one takes over{_takeover(leader, now)}"
    yield StatusProblem(State.FAILED, "Lease", f"the leader {leader.pod} {reason}: {after}")


def _takeover(leader: LeaderStatus, now: datetime) -> str:
    """When a Lease that is not renewed ends; empty where it has ended, or that is not known."""
    age = seconds_since(leader.renewed_at, now)
    left = leader.lease_duration_seconds - age if age is not None else 0.0
    return f", at {format_time(now + timedelta(seconds=left))} at the earliest" if left > 0 else ""


def _configuration(instance: InstanceStatus) -> Iterator[StatusProblem]:
    wanted, running = instance.configuration.wanted, instance.configuration.running
    if wanted and running and wanted != running and not _is_reported(instance, "Progressing"):
        yield StatusProblem(State.FAILED, "configuration", f"{running} runs, and {wanted} is wanted")
    if isinstance(instance.profiles, UnreadableConfiguration):
        yield StatusProblem(State.WARNING, "configuration", f"cannot be read: {instance.profiles.problem}")


def _reports(instance: InstanceStatus) -> Iterator[StatusProblem]:
    if not _is_reported(instance, "LoadDataFresh"):
        yield from _stale_load(instance)
    if instance.unread_resources:
        yield StatusProblem(State.WARNING, "resources", f"pods are placed without {instance.unread_resources}")
    if instance.is_operator_down:
        yield StatusProblem(State.WARNING, "operator", "none of its replicas is ready: changes are not acted on")
    for message in instance.versions.incompatibilities:
        yield StatusProblem(State.WARNING, "versions", message)


def _stale_load(instance: InstanceStatus) -> Iterator[StatusProblem]:
    """What the scheduler says itself, which the condition shows some seconds later, or not at all."""
    load = instance.load_data
    if load is not None and not load.fresh:
        yield StatusProblem(State.FAILED, "load", load.message or "the load data are stale")
        return
    for source in instance.load_sources or ():
        if not source.fresh:
            yield StatusProblem(State.FAILED, "load", f"{source.source} is stale: pods are placed without it")
    if load is not None and load.message:
        yield StatusProblem(State.WARNING, "load", f"reads fail, and its samples are fresh still: {load.message}")


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def seconds_since(time: object, now: datetime) -> float | None:
    """Return the seconds since an RFC 3339 time, at least 0; None where it is none."""
    try:
        return max(0.0, (now - parse_time(str(time))).total_seconds())
    except TimestampError:
        return None


def age_of(time: object, now: datetime) -> str:
    """Return the age of an RFC 3339 time, such as `4 min`; "?" where it is none."""
    seconds = seconds_since(time, now)
    return "?" if seconds is None else duration(seconds)


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that it has two of, rounded down: 90 s, 3 min, 47 h, 2 d."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), (1, "s"))
    return f"{int(seconds // size)} {unit}"
