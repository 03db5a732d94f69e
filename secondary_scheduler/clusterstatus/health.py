"""Whether an instance is healthy, by what its document says."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from scheduler.kube.primitives import TimestampError, format_time, parse_time
from scheduler.operand import shortage_of

Json = Mapping[str, Any]
_CLOCK_SECONDS = 5.0
"""Beyond a Lease's duration, before a leader is said to be gone: this machine's clock and the cluster's may differ."""
_ANSWERING_SECONDS = 60.0
"""The same of a leader that answers: this machine's clock is the likelier fault."""


class State(enum.StrEnum):
    """How an instance is, or a cluster: the worst of its problems."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Problem(NamedTuple):
    """Something that is wrong.

    Attributes:
        subject: a condition, or the part of the installation that it is about.
        since: RFC 3339; None where that is not known.
    """

    severity: State
    subject: str
    message: str
    since: str | None = None


_EXPECTED = {
    "Available": "True",
    "Progressing": "False",
    "Degraded": "False",
    "Upgradeable": "True",
    "LoadDataFresh": "True",
    "NodesOvercommitted": "False",
    "KubernetesVersionCurrent": "True",
    "CacheCurrent": "True",
    "RebalancerReady": "True",
}
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


_REPORTED = frozenset({"LoadDataFresh", "NodesOvercommitted", "KubernetesVersionCurrent", "CacheCurrent"})
"""Conditions that repeat what the scheduler says of itself."""


def is_without_replica(ready: str) -> bool:
    """Whether none is ready, by what kubectl shows: `0/1`."""
    return ready.startswith("0/")


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


def current_conditions(instance: Json) -> list[Json]:
    """Return the conditions that can hold: the operator needs some seconds to see that a scheduler has ended, and a
    scheduler that has ended reports nothing."""
    deployment = instance["deployment"]
    without_replica = deployment is not None and not deployment["ready"]
    silent = without_replica or instance["alive"] is False
    return [
        each
        for each in instance["conditions"]
        if not (silent and each["type"] in _REPORTED)
        and not (without_replica and (each["type"], each["status"]) == ("Available", "True"))
    ]


def is_expected(condition: Json) -> bool:
    """Whether a condition is as it should be, so that it needs no line of its own."""
    kind, status = condition["type"], condition["status"]
    # Of a Deployment, Progressing stays True; of ours, Unknown means that nothing is reported.
    if kind == "Progressing" and condition["reason"] == "NewReplicaSetAvailable":
        return True
    if status == "Unknown" and condition["reason"] == "NotReported":
        return True
    return bool(status == _EXPECTED.get(kind, status))


def problems_of(instance: Json, *, lease_readable: bool, deployment_readable: bool, now: datetime) -> list[Problem]:
    """Return what is wrong with an instance, the worst first.

    Args:
        instance: its part of the document.
        lease_readable, deployment_readable: whether the caller would see its Lease and Deployment.
        now: to judge ages by.
    """
    if instance["managementState"] == "Removed":
        return []
    problems = [*_conditions(current_conditions(instance)), *_replicas(instance, deployment_readable)]
    if shortage := shortage_of(current_conditions(instance)):
        problems.append(Problem(State.WARNING, "replicas", shortage))
    if lease_readable:
        problems += _leader(instance, now)
    problems += _configuration(instance)
    problems += _reports(instance)
    return sorted(problems, key=lambda problem: problem.severity is not State.FAILED)


def worst(states: Iterable[State]) -> State:
    """Return the worst of these, `ok` of none."""
    order = list(State)
    return max(states, key=order.index, default=State.OK)


def _conditions(conditions: Iterable[Json]) -> Iterator[Problem]:
    for condition in conditions:
        severity = _SEVERITY.get((condition["type"], condition["status"]))
        if severity is not None:
            yield Problem(severity, condition["type"], _explained(condition), condition["since"])


def _explained(condition: Json) -> str:
    return ": ".join(filter(None, (condition["reason"], condition["message"])))


def _replicas(instance: Json, readable: bool) -> Iterator[Problem]:
    deployment = instance["deployment"]
    if deployment is None:
        if readable:
            yield Problem(State.FAILED, "Deployment", "there is none; does the operator run?")
        return
    ready, wanted = deployment["ready"], deployment["replicas"]
    if wanted == 0:
        yield Problem(State.FAILED, "Deployment", f"{deployment['name']} is scaled to 0 replicas")
    elif ready == 0 and not _is_reported(instance, "Available"):
        yield Problem(State.FAILED, "Deployment", f"none of {wanted} replicas of {deployment['name']} is ready")
    elif ready < wanted:
        yield Problem(State.WARNING, "Deployment", f"{ready} of {wanted} replicas of {deployment['name']} are ready")


def _is_reported(instance: Json, kind: str) -> bool:
    """Whether a condition says that something is wrong already."""
    return any(each["type"] == kind and not is_expected(each) for each in instance["conditions"])


def _leader(instance: Json, now: datetime) -> Iterator[Problem]:
    deployment, leader = instance["deployment"], instance["leader"]
    if not instance["leaderElection"] or (deployment is not None and not deployment["ready"]):
        return
    if leader is None:
        if instance["alive"] is False:
            yield Problem(State.FAILED, "Lease", "no replica leads: no pod is scheduled")
        return
    patience = _ANSWERING_SECONDS if instance["alive"] else _CLOCK_SECONDS
    if is_silent(leader["renewedAt"], leader["leaseDurationSeconds"], now, patience):
        reason = f"has not renewed it for {age_of(leader['renewedAt'], now)}"
    elif instance["alive"] is False:
        reason = "is gone"
    else:
        return
    after = f"no pod is scheduled until another one takes over{_takeover(leader, now)}"
    yield Problem(State.FAILED, "Lease", f"the leader {leader['pod']} {reason}: {after}")


def _takeover(leader: Json, now: datetime) -> str:
    """When a Lease that is not renewed ends; empty where it has ended, or that is not known."""
    age = seconds_since(leader["renewedAt"], now)
    left = leader["leaseDurationSeconds"] - age if age is not None else 0.0
    return f", at {format_time(now + timedelta(seconds=left))} at the earliest" if left > 0 else ""


def _configuration(instance: Json) -> Iterator[Problem]:
    wanted, running = instance["configuration"]["wanted"], instance["configuration"]["running"]
    changing = any(each["type"] == "Progressing" and not is_expected(each) for each in instance["conditions"])
    if wanted and running and wanted != running and not changing:
        yield Problem(State.FAILED, "configuration", f"{running} runs, and {wanted} is wanted")
    if isinstance(instance["profiles"], dict):
        yield Problem(State.WARNING, "configuration", f"cannot be read: {instance['profiles']['problem']}")


def _reports(instance: Json) -> Iterator[Problem]:
    versions = instance["versions"]
    if not _is_reported(instance, "LoadDataFresh"):
        yield from _stale_load(instance)
    if instance["unreadResources"]:
        yield Problem(State.WARNING, "resources", f"pods are placed without {instance['unreadResources']}")
    if versions["operatorReady"] and is_without_replica(versions["operatorReady"]):
        yield Problem(State.WARNING, "operator", "none of its replicas is ready: changes are not acted on")
    for message in versions["incompatibilities"]:
        yield Problem(State.WARNING, "versions", message)


def _stale_load(instance: Json) -> Iterator[Problem]:
    """What the scheduler says itself, which the condition shows some seconds later, or not at all."""
    load = instance["loadData"]
    stale = [source for source in instance["loadSources"] or () if not source["fresh"]]
    if load is not None and not load["fresh"]:
        yield Problem(State.FAILED, "load", load["message"] or "the load data are stale")
        return
    for source in stale:
        yield Problem(State.FAILED, "load", f"{source['source']} is stale: pods are placed without it")
    if load is not None and load["message"]:
        yield Problem(State.WARNING, "load", f"reads fail, and its samples are fresh still: {load['message']}")


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
